"""`validate --from-bench`: an engine's own benchmark beside predictions; runs nothing."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from app.answers.answer import Answer, Column, Row, Table
from app.questions.field import inputs_of
from app.questions.validate import ValidateQuestion
from hardware_profiles.errors import InputError
from hardware_profiles.units import MILLI
from real_runs.validation.engines.bench_results import BenchComparison, compare, read_bench

_MOST_BYTES = 64 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparedRun(Row):
    """A run of a benchmark beside the nearest prediction."""

    run: Annotated[str, Column("File, and the format that it is in.")]
    batch: Annotated[str, Column("Requests in flight.")]
    context: Annotated[float, Column("Cached tokens per request.", decimals=0)]
    tpot_ms: Annotated[float, Column("Time per output token.", "ms/token", decimals=2)]
    predicted_tpot_ms: Annotated[float, Column("What was predicted.", "predicted", decimals=2)]
    error: Annotated[str, Column("Predicted / measured - 1.")]
    tokens_per_step: Annotated[float | None, Column("Emitted per step.", "tokens/step", decimals=2)]
    predicted_tokens_per_step: Annotated[
        float, Column("What was predicted.", "predicted", decimals=2)
    ]
    covered: Annotated[bool | None, Column("Whether the interval holds the measured time.")]


@dataclass(frozen=True, kw_only=True)
class BenchmarkRuns(Answer):
    """The answer of `validate --from-bench`.

    Attributes:
        runs: beside their predictions.
        median_tpot_error_ratio: error of the time per token; None where no run tells.
    """

    name: ClassVar[str] = ""
    is_written: ClassVar[bool] = True
    runs: Sequence[BenchComparison]
    median_tpot_error_ratio: float | None

    @property
    def own_rows(self) -> Sequence[BenchComparison]:
        """The runs."""
        return self.runs

    def shown(self) -> Iterator[Table | str]:
        """The runs, a line each."""
        yield Table(
            title="benchmark beside predictions",
            rows=[_compared(comparison) for comparison in self.runs],
            columns=[
                "run",
                "batch",
                "context",
                "tpot_ms",
                "predicted_tpot_ms",
                "error",
                "tokens_per_step",
                "predicted_tokens_per_step",
                "covered",
            ],
        )


def compare_benchmarks(question: ValidateQuestion) -> BenchmarkRuns:
    """Read benchmark files and a prediction, and put them side by side.

    Raises:
        InputError: files that cannot be read, or no prediction.
    """
    if question.scenario is None:
        raise InputError(
            "--from-bench needs a prediction: `rooftree predict ... --json > FILE`", key="--predict"
        )
    files = question.from_bench or []
    runs = [run for file in files for run in read_bench(file)]
    comparisons = compare(runs, _prediction(Path(question.scenario)), file=question.scenario)
    errors = sorted(
        abs(run.tpot_error_ratio) for run in comparisons if run.tpot_error_ratio is not None
    )
    return BenchmarkRuns(
        inputs=inputs_of(question),
        runs=comparisons,
        median_tpot_error_ratio=errors[len(errors) // 2] if errors else None,
    )


def _compared(comparison: BenchComparison) -> ComparedRun:
    run = comparison.run
    assert run.tpot_s is not None
    error = comparison.tpot_error_ratio
    return ComparedRun(
        run=f"{run.file} ({run.source})",
        batch=f"{run.batch or comparison.batch:g}",
        context=run.context or comparison.context,
        tpot_ms=run.tpot_s / MILLI,
        predicted_tpot_ms=comparison.predicted_tpot_s / MILLI,
        error="" if error is None else f"{error:+.1%}",
        tokens_per_step=run.tokens_per_step,
        predicted_tokens_per_step=comparison.predicted_tokens_per_step,
        covered=comparison.covered,
    )


def _prediction(path: Path) -> Mapping[str, Any]:
    """The JSON answer of `predict` that a file holds."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise InputError(f"must not exceed {_MOST_BYTES} bytes", file=path)
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"must be a JSON answer of predict ({error})", file=path) from None
    if not isinstance(value, dict):
        raise InputError("must be a JSON answer of predict", file=path)
    return value
