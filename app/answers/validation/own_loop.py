"""`validate` of rooftree's own loop: configurations that decode here, or passes that were timed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from app.answers.answer import Answer, Column, Row, Table
from app.answers.progress import progress_line
from app.answers.validation.against import Against, batches_of, torch_dtype
from app.answers.validation.rows import ValidationReport, report_inputs
from app.answers.validation.scored import report_of
from app.questions.field import inputs_of
from app.questions.validate import ValidateQuestion
from costmodel.configuration import DecodingConfiguration
from hardware_profiles.errors import InputError, UnknownNameError
from real_runs.validation.configurations import Configuration
from real_runs.validation.replayed import validate_replayed
from real_runs.validation.validate import DRAFTERS, ValidateOptions, validate

_BUDGET_S = 900.0
_MOST_BATCH = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedRun(Row):
    """What runs at a batch."""

    batch: Annotated[int, Column("Requests that run together.")]
    runs: Annotated[str, Column("Configuration of the loop.")]


@dataclass(frozen=True, kw_only=True)
class PlannedRuns(Answer):
    """The answer of `validate --dry-run`."""

    name: ClassVar[str] = ""
    is_written: ClassVar[bool] = True
    runs: Sequence[PlannedRun]

    @property
    def own_rows(self) -> Sequence[PlannedRun]:
        """What runs at every batch."""
        return self.runs

    def shown(self) -> Iterator[Table | str]:
        """A line for every batch."""
        for run in self.runs:
            yield f"batch {run.batch}: {run.runs}"


def planned_runs(question: ValidateQuestion, chosen: DecodingConfiguration | None) -> PlannedRuns:
    """Say which loop runs at every batch, and run nothing.

    Raises:
        InputError: no configuration, or one that no loop here runs.
    """
    batches = batches_of(question, most=_MOST_BATCH)
    if chosen is None:
        raise InputError("--dry-run needs a --config")
    return PlannedRuns(
        inputs=inputs_of(question, configuration=chosen.to_json()),
        runs=[
            PlannedRun(batch=batch, runs=Configuration.of(chosen, batch).name) for batch in batches
        ],
    )


def score_passes(question: ValidateQuestion, against: Against) -> ValidationReport:
    """Passes of random weights that a results folder holds, beside predictions.

    Raises:
        InputError: no passes to score, or a trace of too low a level.
    """
    assert question.replayed is not None
    validation = validate_replayed(question.replayed, profile=against.profile, trace=question.trace)
    inputs = report_inputs(question, replayed=str(question.replayed))
    return report_of(validation, out=question.out, inputs=inputs)


def validate_own_loop(question: ValidateQuestion, against: Against) -> ValidationReport:
    """Run what `optimize` chooses, or a configuration of a file, and a spread of what it does not.

    Raises:
        InputError: no such model, device or drafter, a folder that holds other runs, or a budget in
            which nothing could be scored.
    """
    dtype = torch_dtype(question.dtype)
    contexts, batches = question.context or (0, 512, 1024), batches_of(question, most=_MOST_BATCH)
    budget_s = question.budget_s or _BUDGET_S
    drafters = tuple(question.drafter or DRAFTERS)
    for name in drafters:
        if name not in DRAFTERS:
            raise UnknownNameError("drafter", name, DRAFTERS, key="--drafter")
    options = ValidateOptions(
        out=question.out,
        profile=against.profile,
        shipped_model=question.shape,
        model_file=question.model,
        prompts=question.prompts,
        device=question.device,
        threads=question.threads,
        dtype=dtype,
        fidelity=against.fidelity,
        drafters=drafters,
        contexts=contexts,
        fitted_contexts=question.fit_context,
        batches=batches,
        per_cell=question.per_cell,
        max_new_tokens=question.new_tokens or 32,
        rounds=question.rounds or 4,
        budget_s=budget_s,
        seed=question.seed,
        resume=question.resume,
        keep_disturbed=question.keep_disturbed,
        chosen=against.chosen,
    )
    with progress_line(question.quiet) as tell:
        validation = validate(options, tell=tell)
    inputs = report_inputs(
        question,
        fidelity=options.fidelity,
        dtype=dtype,
        drafter=drafters,
        context=contexts,
        fit_context=question.fit_context,
        batch=batches,
        new_tokens=options.max_new_tokens,
        rounds=options.rounds,
        budget_s=budget_s,
        chosen=None if against.chosen is None else against.chosen.to_json(),
    )
    return report_of(validation, out=question.out, inputs=inputs)
