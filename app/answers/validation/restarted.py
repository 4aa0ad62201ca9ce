"""`validate --server`: a server that somebody else runs, restarted with the files that are
named.
"""

import select
import sys

from app.answers.progress import progress_lines
from app.answers.validation.against import Against
from app.answers.validation.rows import ValidationReport
from app.answers.validation.scored import bench_options, report_of
from app.exporters.registry import export, write_export
from app.questions.validate import ValidateQuestion
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.engine_library import load_engine
from costmodel.optimizers.drafters.named_drafters import drafter_source
from hardware_profiles.errors import InputError
from real_runs.servers.address import Address
from real_runs.servers.identify import identify
from real_runs.validation.servers.configurations import ServerConfiguration
from real_runs.validation.servers.restart import (
    RestartOptions,
    validate_restarted,
    wait_until_back,
)


def validate_running(question: ValidateQuestion, against: Against) -> ValidationReport:
    """Measure a running server, name what to restart it with, and report what has been measured.

    Raises:
        InputError: not reachable, no drafter, or an engine that cannot run it.
    """
    assert question.server is not None
    users, lengths = question.batch or (1, 4, 16), question.draft_tokens
    drafters = question.drafter or []
    if len(drafters) != 1:
        rule = (
            "name the one drafter that the server is to be restarted with, METHOD:TRACE or"
            " METHOD:RATES"
        )
        raise InputError(rule, key="--drafter", value=", ".join(drafters) or None)
    address = Address.parse(question.server, "--server")
    named = question.engine if question.engine_file is None else str(question.engine_file)
    engine = load_engine(named or identify(address).kind).name
    source = drafter_source(drafters[0], model=question.shape, lengths=lengths)
    options = RestartOptions(
        bench=bench_options(question, rounds=3),
        address=address,
        question=DecodingConfiguration(
            deployment=DeploymentNames(
                model=question.shape,
                device=against.profile,
                tensor_parallel=question.tp,
                dtype=question.dtype,
                fidelity=against.fidelity,
                engine=engine,
            ),
            method=source.method,
            draft_model=question.draft,
            max_batch=max(users),
        ),
        source=source,
        users=users,
        draft_tokens=lengths,
        max_new_tokens=question.new_tokens or 128,
        prompts=question.prompts,
        seed=question.seed,
    )
    tell = progress_lines(question.quiet)

    def name_files(served: ServerConfiguration) -> str:
        """The first of the files that start a configuration; others lie beside it."""
        files = export(served.chosen, engine, approximate=True)
        paths = write_export(files, question.out / "restart" / served.name)
        for note in files.notes:
            tell(note)
        return str(paths[0])

    def restarted(file: str) -> bool:
        later = "" if question.wait else ", then add --resume to this command"
        tell(f"restart the server with {file}{later}")
        return question.wait and wait_until_back(address, pressed=_pressed, tell=tell)

    validation = validate_restarted(options, name_files, restarted=restarted, tell=tell)
    return report_of(
        question,
        validation,
        bench=options.bench,
        engine=engine,
        fidelity=against.fidelity,
        batch=users,
        draft_tokens=lengths,
        new_tokens=options.max_new_tokens,
    )


def _pressed() -> bool:
    """Whether somebody has pressed Enter since this was last asked; never where no terminal is
    there.
    """
    if not sys.stdin.isatty() or not select.select([sys.stdin], [], [], 0.0)[0]:
        return False
    sys.stdin.readline()
    return True
