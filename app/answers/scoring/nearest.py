"""Which measured runs are nearest to a question, and how far off were predictions on them?

Errors of groups of runs by engine, device and model, of families whose own runs no constant had seen,
of drafts, and of our own machines. `tests/validation_page/summaries.py` writes the table from the
results that VALIDATION.md shows. Leaves out what that says of one answer (`certainty`).
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated

from app.answers.answer import Column, Row
from app.answers.scoring.names import shape
from costmodel.architectures.architecture import Architecture
from hardware_profiles.errors import InputError

FILE = Path(__file__).with_name("nearest_runs.csv")
LEAST_RUNS = 5  # fewer say little of the next one
NAMED = ("engine", "device", "model", "method")
WORDS = {  # what it is called, and what a prediction that errs upwards is
    "speedup": ("speedup", "too high", "too low"),
    "tpot": ("time per output token", "too long", "too short"),
    "ttft": ("time to first token", "too long", "too short"),
    "tokens_per_s": ("tokens/s", "too high", "too low"),
}
LEAST_BIAS_RATIO = 0.7  # of the median error, from which errors have a side


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredRuns(Row):
    """Errors, |predicted / measured - 1|, on runs that share what is named."""

    engine: Annotated[str, Column("By name; empty: any.")]
    device: Annotated[str, Column("Shipped name; empty: any.")]
    model: Annotated[str, Column("Shipped name; empty: any.")]
    method: Annotated[str, Column("What drafts; empty: nothing, or whatever did.")]
    quantity: Annotated[str, Column("`speedup`, `tpot`, `ttft` or `tokens_per_s`.")]
    measurements: Annotated[int, Column("Runs that were measured.")]
    runs: Annotated[int, Column("Those that were answered.")]
    median_error_ratio: Annotated[float, Column("Median error.", unit="ratio")]
    p90_error_ratio: Annotated[float | None, Column("90th percentile.", unit="ratio")]
    bias_ratio: Annotated[float, Column("Median of predicted / measured - 1.", unit="ratio")]
    source: Annotated[str, Column("Where they were published or are kept.")]

    @property
    def words(self) -> Annotated[str, Column("In words.")]:
        """The runs, and how far off predictions were on them."""
        parts = (
            ("of", self.method),
            ("with", self.model),
            ("on", self.device),
            ("in", self.engine),
        )
        about = "".join(f" {word} {name}" for word, name in parts if name not in ("", "none"))
        return f"{self.runs:,} runs{about}{self.error_words}"

    @property
    def error_words(self) -> str:
        """How far off predictions were, and to which side where they have one."""
        name, above, below = WORDS[self.quantity]
        side = ""
        if abs(self.bias_ratio) >= LEAST_BIAS_RATIO * self.median_error_ratio:
            side = f", mostly {above if self.bias_ratio > 0 else below}"
        return (
            f", {name} predicted {100 * self.median_error_ratio:.1f} % off in the median{side}"
            f" ({self.source})"
        )

    def differing(self, names: Mapping[str, str]) -> list[str]:
        """Which of the named parts are others than those of a question."""
        return [
            part
            for part in NAMED
            if (own := getattr(self, part)) and not _same(part, own, names.get(part, ""))
        ]

    @property
    def named(self) -> int:
        """How many parts are named."""
        return sum(bool(getattr(self, part)) for part in NAMED)


@lru_cache(maxsize=1)
def measured_runs() -> tuple[MeasuredRuns, ...]:
    """All groups, those of all runs first.

    Raises:
        InputError: a damaged installation.
    """
    try:
        with FILE.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        return tuple(_read(row) for row in rows)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"is damaged ({type(error).__name__}); reinstall", file=FILE) from None


def _read(row: Mapping[str, str]) -> MeasuredRuns:
    names = {name: row[name] for name in (*NAMED, "quantity", "source")}
    return MeasuredRuns(
        **names,
        measurements=int(row["measurements"]),
        runs=int(row["runs"]),
        median_error_ratio=float(row["median_error_ratio"]),
        p90_error_ratio=float(row["p90_error_ratio"]) if row["p90_error_ratio"] else None,
        bias_ratio=float(row["bias_ratio"]),
    )


def nearest_steps(names: Mapping[str, str]) -> MeasuredRuns:
    """The narrowest group of enough runs, whatever drafted, that has nothing else than a question.

    Args:
        names: engine, device and model that are asked about.
    """
    able = [
        group
        for group in measured_runs()
        if not group.method
        and group.quantity != "ttft"
        and not group.differing(names)
        and group.runs >= LEAST_RUNS
    ]
    return max(able, key=lambda group: (group.named, group.runs))


def nearest_drafts(names: Mapping[str, str]) -> list[MeasuredRuns]:
    """The groups of runs with drafts that have least else than a question, the largest first.

    Args:
        names: engine, device, model and method that are asked about.
    """
    groups = [group for group in measured_runs() if group.method]
    fewest = min((group.differing(names) for group in groups), key=len)
    return sorted(
        (group for group in groups if group.differing(names) == fewest),
        key=lambda group: -group.runs,
    )


def drafts_of_target(names: Mapping[str, str]) -> list[MeasuredRuns]:
    """The groups of runs with a method's drafts on a target, wherever they ran, those nearest to a
    question first; none where nobody measured the two together.

    Args:
        names: engine, device, model and method that are asked about.
    """
    groups = [
        group
        for group in measured_runs()
        if group.method == names["method"] and group.model and "model" not in group.differing(names)
    ]
    return sorted(groups, key=lambda group: (len(group.differing(names)), -group.runs))


def _same(part: str, own: str, other: str) -> bool:
    if part == "device":
        return own == other.partition("--")[0] or own == other
    if part == "model":
        return own == other or (_layers(own) is not None and _layers(own) == _layers(other))
    return own == other


def _layers(name: str) -> Architecture | None:
    """A model's architecture whatever format its weights are stored in; None: unknown."""
    model = shape(name)
    return None if model is None else replace(model, dtype="", read_as="")
