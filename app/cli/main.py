"""The `rooftree` command: its verbs, and how errors end it.

Exit codes: 0 done, 2 bad input, 3 infeasible. Verbs import what they need when they run, so that `--help` stays
fast.
"""

import sys

import typer

from app.cli import catalogue, export, optimize, predict, record, replay, traces, tree

cli = typer.Typer(
    name="rooftree",
    help="Which decoding configuration should I run, how fast will it be, and how sure are we?",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
cli.command("optimize")(optimize.optimize)
cli.command("predict")(predict.predict)
cli.command("replay")(replay.replay)
cli.command("tree")(tree.tree)
cli.command("record")(record.record)
cli.add_typer(traces.cli, name="traces")
cli.command("export")(export.export)
cli.command("devices")(catalogue.devices)
cli.command("models")(catalogue.models)
cli.command("methods")(catalogue.methods)


def main() -> None:
    """Run the command line; errors of rooftree become one line on standard error and their exit code."""
    from hardware_profiles.errors import RooftreeError

    try:
        cli()
    except RooftreeError as error:
        sys.stderr.write(f"rooftree: {error}\n")
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
