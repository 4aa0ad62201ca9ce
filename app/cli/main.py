"""The `rooftree` command: its verbs, and how errors end it.

Exit codes: 0 done, 2 bad input, 3 infeasible. Verbs import what they need when they run, so that
`--help` stays fast.
"""

import io
import os
import shlex
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Annotated, Any

import typer

from app.cli.door import PanelledCommand, command_of
from app.questions.acceptance import (
    AcceptanceCompareQuestion,
    AcceptanceListQuestion,
    AcceptanceShowQuestion,
)
from app.questions.breakeven import BreakevenQuestion
from app.questions.calibrate import CalibrateQuestion
from app.questions.campaign import CampaignQuestion
from app.questions.capacity import CapacityQuestion
from app.questions.dashboard import DashboardQuestion
from app.questions.devices import DevicesQuestion
from app.questions.doctor import DoctorQuestion
from app.questions.export import ExportQuestion
from app.questions.field import Question
from app.questions.kernels import KernelsQuestion
from app.questions.load import LoadQuestion
from app.questions.methods import MethodsQuestion
from app.questions.models import ModelsQuestion
from app.questions.observe import ObserveQuestion
from app.questions.optimize import OptimizeQuestion
from app.questions.predict import PredictQuestion
from app.questions.record import RecordQuestion
from app.questions.recordings import (
    TracesCompareQuestion,
    TracesImportQuestion,
    TracesInspectQuestion,
    TracesListQuestion,
    TracesLossesQuestion,
)
from app.questions.replay import ReplayQuestion
from app.questions.reproduce import ReproduceQuestion
from app.questions.score import ScoreQuestion
from app.questions.simulate import SimulateQuestion
from app.questions.sweep import SweepQuestion
from app.questions.tree import TreeQuestion
from app.questions.validate import ValidateQuestion
from app.render.plain_letters import PLAIN_LETTERS, has_plain_letters_alone
from hardware_profiles.errors import CollectedError, RooftreeError

HELP_OPTIONS = ("-h", "--help")
cli = typer.Typer(
    name="rooftree",
    help="Which decoding configuration should I run, how fast will it be, and how sure are we?",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": list(HELP_OPTIONS)},
)
VERBS: Mapping[str, Callable[..., Question]] = {
    "optimize": OptimizeQuestion,
    "predict": PredictQuestion,
    "breakeven": BreakevenQuestion,
    "capacity": CapacityQuestion,
    "replay": ReplayQuestion,
    "reproduce": ReproduceQuestion,
    "score": ScoreQuestion,
    "simulate": SimulateQuestion,
    "sweep": SweepQuestion,
    "tree": TreeQuestion,
    "record": RecordQuestion,
    "kernels": KernelsQuestion,
    "campaign": CampaignQuestion,
    "calibrate": CalibrateQuestion,
    "validate": ValidateQuestion,
    "observe": ObserveQuestion,
    "load": LoadQuestion,
    "doctor": DoctorQuestion,
    "dashboard": DashboardQuestion,
    "traces list": TracesListQuestion,
    "traces import": TracesImportQuestion,
    "traces inspect": TracesInspectQuestion,
    "traces compare": TracesCompareQuestion,
    "traces losses": TracesLossesQuestion,
    "acceptance list": AcceptanceListQuestion,
    "acceptance show": AcceptanceShowQuestion,
    "acceptance compare": AcceptanceCompareQuestion,
    "export": ExportQuestion,
    "devices": DevicesQuestion,
    "models": ModelsQuestion,
    "methods": MethodsQuestion,
}
"""Every verb by its words; each door asks them by `app.cli.door.ask`."""
_FAMILIES = {
    "traces": "List, import, inspect and compare recorded traces.",
    "acceptance": "List and compare published acceptance of drafters.",
}


def _declare() -> None:
    """Make a command of every verb, in families where its name has two words."""
    families = {
        name: typer.Typer(help=words, no_args_is_help=True, rich_markup_mode=None)
        for name, words in _FAMILIES.items()
    }
    for words, verb in VERBS.items():
        family, _, name = words.rpartition(" ")
        place = families[family] if family else cli
        place.command(name, cls=PanelledCommand, context_settings={"obj": verb})(command_of(verb))
    for name, family_commands in families.items():
        cli.add_typer(family_commands, name=name)


_declare()


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        sys.stdout.write(f"rooftree {version('rooftree')}\n")
        raise typer.Exit


@cli.callback()
def _rooftree(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Which decoding configuration should I run, how fast will it be, and how sure are we?"""


INTERRUPTED = 130
# some releases of typer import click, others carry it inside; this is the base class of misuse in
# either
Misuse: type[Exception] = next(c for c in typer.BadParameter.mro() if c.__name__ == "UsageError")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; an error becomes one line on standard error, several mistakes of a file
    a line each.

    Args:
        arguments: words after the command's name; None takes them from the process.

    Returns:
        0 done, 2 bad input, 3 infeasible, 130 interrupted, 1 where the machine fails: no memory, a
        full disk.
    """
    words = sys.argv[1:] if arguments is None else arguments
    if arguments is None and not sys.warnoptions:
        # arithmetic at the edge of a range is dealt with where it happens, and is not for a screen
        warnings.filterwarnings("ignore", category=RuntimeWarning)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # a terminal without the sign µ still gets its answer
            plain = stream.isatty() and has_plain_letters_alone(os.environ)
            stream.reconfigure(encoding="ascii" if plain else None, errors=PLAIN_LETTERS)
    try:
        code = command()(arguments, prog_name="rooftree", standalone_mode=False)
        sys.stdout.flush()
    except RooftreeError as error:
        return _ended(str(error), error.exit_code, lines=isinstance(error, CollectedError))
    except Misuse as error:
        return _misused(error, words)
    except SystemExit as ended:  # completion, which ends the process by itself
        code = ended.code
    except MemoryError:
        return _ended("the memory does not suffice; ask for less at once", 1)
    except BrokenPipeError:
        # the reader has left, `| head` for one; without this the interpreter complains when it
        # flushes at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except OSError as error:
        return _ended(_failed(error), 1)
    if code == INTERRUPTED:
        return _ended(_stopped(words), INTERRUPTED)
    return code if isinstance(code, int) else 0


@lru_cache(maxsize=1)
def command() -> Any:
    """The parser of all verbs, made once in a process; it has neither types nor one home in all
    releases of typer.
    """
    return typer.main.get_command(cli)


def _failed(error: OSError) -> str:
    """What the operating system refused, and of which file."""
    places = [str(name) for name in (error.filename, error.filename2) if name is not None]
    return ": ".join([*places, error.strerror or str(error) or type(error).__name__])


def _stopped(words: Sequence[str]) -> str:
    """What Ctrl-C says: how to go on, where the verb keeps what it has finished."""
    verb = command()
    for word in words:
        verb = getattr(verb, "commands", {}).get(word, verb)
    if not any("--resume" in parameter.opts for parameter in verb.params):
        return "stopped"
    again = [word for word in words if word != "--resume"]
    return (
        "stopped; what is finished is kept, and this goes on:"
        f" {shlex.join(['rooftree', *again, '--resume'])}"
    )


def _misused(error: Any, words: Sequence[str]) -> int:
    """A verb or an option that does not exist, or a value of another type than the option's."""
    context = error.ctx
    parameter: Any = getattr(error, "param", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        sys.stderr.write(f"{context.get_help()}\n")
        return 2
    message = error.format_message().removesuffix(".")
    if (
        type(error).__name__ == "NoSuchOption"
        and context is not None
        and context.info_name == "simulate"
    ):
        message = _as_key(error.option_name) or message
    values = [b for a, b in pairwise(words) if parameter is not None and a in parameter.opts]
    if isinstance(error, typer.BadParameter) and values:
        message = f"{parameter.opts[-1]}: {error.message}, got {values[-1]!r}"
    return _ended(f"{message}; see `{context.command_path if context else 'rooftree'} --help`", 2)


def _as_key(option: str) -> str | None:
    """The key of `simulate` that replaces an option of an earlier version; None where there was no
    such option.
    """
    from app.questions.former_options import key_of_option

    key = key_of_option(option)
    return None if key is None else f"{option} is a key of the scenario: --set {key}=VALUE"


def _ended(message: str, code: int, *, lines: bool = False) -> int:
    """Say why, in one line unless `lines` holds, and hand on the exit code."""
    sys.stderr.write(f"rooftree: {message if lines else ' '.join(message.splitlines())}\n")
    return code
