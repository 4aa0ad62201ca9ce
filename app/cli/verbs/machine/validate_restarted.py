"""`validate --server`: a server that somebody else runs, restarted with the files that are
named.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from real_runs.validation.servers.configurations import ServerConfiguration


def validate_running(
    url: str,
    asked: Mapping[str, Any],
    *,
    drafters: Sequence[str],
    deployment: Mapping[str, Any],
    draft_model: str | None,
    engine: str | None,
    wait: bool,
    json: bool,
    quiet: bool,
) -> None:
    """Measure a running server, name what to restart it with, and leave the report of what has been
    measured.

    Args:
        url: address of the server.
        asked: further options of `RestartOptions`.
        drafters: one `METHOD[:SOURCE]`.
        deployment: model, device, formats and fidelity, by name.
        draft_model: draft model or head, by name.
        engine: that predicts and that files are written for; None: the one that answers.
        wait: wait for the server to come back in place of ending.
        json: print the report as JSON.
        quiet: print nothing.

    Raises:
        InputError: not reachable, no drafter, or an engine that cannot run it.
    """
    from app.cli.progress import progress_lines
    from app.cli.verbs.machine.validate_report import leave_report
    from app.questions.places import require_folder
    from app.render.text import say
    from costmodel.configuration import DecodingConfiguration, DeploymentNames
    from costmodel.engine_library import load_engine
    from costmodel.optimizers.drafters.named_drafters import drafter_source
    from hardware_profiles.errors import InputError
    from real_runs.servers.address import Address
    from real_runs.servers.identify import identify
    from real_runs.validation.servers.restart import (
        RestartOptions,
        validate_restarted,
        wait_until_back,
    )

    require_folder(asked["out"])
    if len(drafters) != 1:
        rule = (
            "name the one drafter that the server is to be restarted with, METHOD:TRACE or"
            " METHOD:RATES"
        )
        raise InputError(rule, key="--drafter", value=", ".join(drafters) or None)
    address = Address.parse(url, "--server")
    named = load_engine(engine or identify(address).kind).name
    source = drafter_source(drafters[0], model=deployment["model"], lengths=asked["draft_tokens"])
    question = DecodingConfiguration(
        deployment=DeploymentNames(**deployment, engine=named),
        method=source.method,
        draft_model=draft_model,
        max_batch=max(asked["users"]),
    )
    tell = progress_lines(quiet)

    def name_files(served: "ServerConfiguration") -> str:
        return _written(served, named, asked["out"] / "restart" / served.name, quiet=quiet)

    def restarted(where: str) -> bool:
        if not quiet:
            say(
                f"restart the server with {where}"
                + ("" if wait else ", then add --resume to this command")
            )
        return wait and wait_until_back(address, pressed=_pressed, tell=tell)

    options = RestartOptions(**asked, address=address, question=question, source=source)
    found = validate_restarted(options, name_files, restarted=restarted, tell=tell)
    inputs = {
        key: str(value) if isinstance(value, Path) else value
        for key, value in asked.items()
        if key != "out"
    }
    inputs |= {"server": url, "engine": named, "drafter": drafters[0], **deployment}
    leave_report(found.to_json(), options.out, json=json, quiet=quiet, inputs=inputs)


def _written(served: "ServerConfiguration", engine: str, folder: Path, *, quiet: bool) -> str:
    """The first of the files that start a configuration; others lie beside it."""
    from app.exporters.registry import export, write_export
    from app.render.text import say

    result = export(served.chosen, engine, approximate=True)
    paths = write_export(result, folder)
    for note in result.notes if not quiet else ():
        say(note)
    return str(paths[0])


def _pressed() -> bool:
    """Whether somebody has pressed Enter since this was last asked; never where no terminal is
    there.
    """
    import select

    if not sys.stdin.isatty() or not select.select([sys.stdin], [], [], 0.0)[0]:
        return False
    sys.stdin.readline()
    return True
