"""`validate` of rooftree's own loop: configurations that decode here, or passes that were timed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from app.answers.answer import Answer, Column, Row, Table
from app.answers.progress import progress_line
from app.answers.validation.against import Against, torch_dtype
from app.answers.validation.rows import ValidationReport
from app.answers.validation.scored import bench_options, report_of
from app.questions.field import inputs_of
from app.questions.validate import ValidateQuestion
from app.questions.values import whole_numbers
from costmodel.configuration import DecodingConfiguration
from hardware_profiles.errors import InputError, UnknownNameError
from real_runs.drafters.registry import validated_names
from real_runs.validation.configurations import Configuration
from real_runs.validation.own_loop.validate import OwnLoopOptions, validate_own_loop
from real_runs.validation.replayed import validate_replayed

_MOST_CONTEXT = 1 << 20


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
    batches = _batches(question)
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
    return report_of(question, validation, replayed=str(question.replayed))


def validate_here(question: ValidateQuestion, against: Against) -> ValidationReport:
    """Run what `optimize` chooses, or a configuration of a file, and a spread of what it does not.

    Raises:
        InputError: no such model, device or drafter, a folder that holds other runs, or a budget in
            which nothing could be scored.
    """
    dtype = torch_dtype(question.dtype)
    contexts = whole_numbers(
        question.context or "0,512,1024", "--context", least=0, most=_MOST_CONTEXT
    )
    fitted_contexts = whole_numbers(
        question.fit_context, "--fit-context", least=1, most=_MOST_CONTEXT
    )
    batches = _batches(question)
    bench = bench_options(question, rounds=4, budget="15m")
    drafters = tuple(question.drafter or validated_names())
    for name in drafters:
        if name not in validated_names():
            raise UnknownNameError("drafter", name, validated_names(), key="--drafter")
    options = OwnLoopOptions(
        bench=bench,
        profile=against.profile,
        shipped_model=question.shape,
        model_file=question.model,
        prompts=question.prompts,
        device=question.device,
        threads=question.threads,
        dtype=dtype,
        fidelity=against.fidelity,
        drafters=drafters,
        contexts=tuple(contexts),
        fitted_contexts=tuple(fitted_contexts),
        batches=tuple(batches),
        per_cell=question.per_cell,
        max_new_tokens=question.new_tokens or 32,
        seed=question.seed,
        chosen=against.chosen,
    )
    with progress_line(question.quiet) as tell:
        validation = validate_own_loop(options, tell=tell)
    return report_of(
        question,
        validation,
        bench=bench,
        fidelity=options.fidelity,
        dtype=dtype,
        drafter=drafters,
        context=contexts,
        fit_context=fitted_contexts,
        batch=batches,
        new_tokens=options.max_new_tokens,
        chosen=None if against.chosen is None else against.chosen.to_json(),
    )


def _batches(question: ValidateQuestion) -> list[int]:
    return whole_numbers(question.batch or "1,4", "--batch", least=1, most=64)
