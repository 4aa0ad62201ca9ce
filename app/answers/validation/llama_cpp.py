"""`validate --engine llama.cpp`: exported command lines, started here, beside what was
predicted.
"""

import shlex
from collections.abc import Sequence
from pathlib import Path

from app.answers.progress import progress_line
from app.answers.validation.against import Against, batches_of
from app.answers.validation.rows import ValidationReport, report_inputs
from app.answers.validation.scored import report_of
from app.exporters.registry import export
from app.questions.validate import ValidateQuestion
from hardware_profiles.errors import InputError
from real_runs.models.loading.weights import find_model
from real_runs.validation.servers.configurations import ServerConfiguration
from real_runs.validation.servers.options import ServerOptions
from real_runs.validation.servers.validate import validate_server

_BUDGET_S = 2400.0


def validate_llama_cpp(question: ValidateQuestion, against: Against) -> ValidationReport:
    """Start what `optimize` chose and some that it did not, with the exported flags.

    Raises:
        InputError: as of `validate_server`, or a model that is no GGUF file.
    """
    slots = batches_of(question, usual=(1, 2, 4), most=64)
    contexts = question.context or (256, 1024, 2048)
    if 0 in contexts:
        raise InputError("must be at least 1 with a server", key="--context", value=0)
    model = find_model(question.model).path
    if model.suffix != ".gguf":
        raise InputError("llama.cpp loads .gguf files", key="--model", value=str(model))
    draft = None if question.draft is None else Path(question.draft).resolve()
    options = ServerOptions(
        out=question.out,
        profile=against.profile,
        model=model.resolve(),
        engine="llama.cpp" if question.engine_file is None else str(question.engine_file),
        fidelity=against.fidelity,
        prompts=question.prompts,
        slots=slots,
        contexts=contexts,
        per_slots=question.per_cell,
        draft=draft,
        synthetic=question.synthetic,
        max_new_tokens=question.new_tokens or 64,
        rounds=question.rounds or 3,
        budget_s=question.budget_s or _BUDGET_S,
        threads=question.threads,
        seed=question.seed,
        resume=question.resume,
        keep_disturbed=question.keep_disturbed,
    )
    with progress_line(question.quiet) as tell:
        validation = validate_server(options, command_words, tell=tell)
    inputs = report_inputs(
        question,
        fidelity=options.fidelity,
        model=model,
        draft=draft,
        batch=slots,
        context=contexts,
        new_tokens=options.max_new_tokens,
        rounds=options.rounds,
        budget_s=options.budget_s,
    )
    return report_of(validation, out=question.out, inputs=inputs)


def command_words(served: ServerConfiguration) -> Sequence[str]:
    """The command line that `export` writes for a configuration, without the program's name."""
    return shlex.split(export(served.chosen, "llama.cpp", synthetic=served.synthetic).command)[1:]
