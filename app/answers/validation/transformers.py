"""`validate --engine transformers`: the exported config in the engine itself, beside what was
predicted.
"""

import json

from app.answers.progress import progress_line
from app.answers.validation.against import Against, torch_dtype
from app.answers.validation.rows import ValidationReport
from app.answers.validation.scored import bench_options, report_of
from app.exporters.registry import export
from app.exporters.transformers import TARGET_FILE
from app.questions.validate import ValidateQuestion
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from real_runs.validation.engines.validate import TransformersOptions, validate_transformers


def validate_exported(question: ValidateQuestion, against: Against) -> ValidationReport:
    """Export prompt lookup for Transformers and run it there.

    Raises:
        InputError: a model that Transformers' Llama does not run, or options that do not fit.
    """
    draft_tokens = max(question.draft_tokens)
    dtype = torch_dtype(question.dtype)
    chosen = DecodingConfiguration(
        deployment=DeploymentNames(model=question.shape),
        method="n-gram",
        draft_tokens=draft_tokens,
        ngram_max=3,
    )
    options = TransformersOptions(
        bench=bench_options(question, rounds=4, budget_s=900.0),
        profile=against.profile,
        config=json.loads(export(chosen, "transformers").files[TARGET_FILE]),
        model_file=question.model,
        prompts=question.prompts,
        shipped_model=question.shape,
        dtype=dtype,
        threads=question.threads,
        fidelity=against.fidelity,
        max_new_tokens=question.new_tokens or 32,
    )
    with progress_line(question.quiet) as tell:
        validation = validate_transformers(options, tell=tell)
    return report_of(
        question,
        validation,
        bench=options.bench,
        dtype=dtype,
        fidelity=against.fidelity,
        draft_tokens=draft_tokens,
        new_tokens=options.max_new_tokens,
    )
