"""Up to which batch does drafting pay, and what does it lose to believe rooftree about it?

EAGLE-3 with five draft tokens on Llama-3.1-8B in vLLM on one A100, weights and cache in 16 and
fewer bits, by a study of concurrency (`tests/published/concurrency_study.csv`). Told the accepted length,
`rooftree.predict` answers with the speedup of throughput, which the study measured. `python -m
tests.golden.paying_batches FOLDER` prints the curves.
"""

import csv
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log2
from pathlib import Path
from statistics import mean

import rooftree

WEIGHTS = {"fp16": "fp16", "w4a16": "int4-g128"}
DRAFT_TOKENS, PROMPT_TOKENS, OUTPUT_TOKENS = 5, 717, 256
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


@dataclass(frozen=True)
class Curve:
    """Speedup of throughput by batch, for one format of weights and cache.

    Args:
        weights: format, as published.
        cache: format, as published.
        measured: by the batches that were run.
        predicted: by `BATCHES`.
    """

    weights: str
    cache: str
    measured: dict[int, float]
    predicted: dict[int, float]

    @property
    def losses(self) -> list[float]:
        """Share of the better throughput that is lost where drafting is switched as predicted, at
        every batch run."""
        ran = {
            batch: speedup if self.predicted[batch] > 1.0 else 1.0
            for batch, speedup in self.measured.items()
        }
        return [1.0 - ran[batch] / max(speedup, 1.0) for batch, speedup in self.measured.items()]


def curves(folder: Path) -> list[Curve]:
    """The curves of the study; `folder` holds what is published of it, means of repeated runs."""
    with (folder / "concurrency_study.csv").open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    found = []
    for weights, cache in sorted({(row["weights"], row["cache"]) for row in rows}):
        own = [row for row in rows if (row["weights"], row["cache"]) == (weights, cache)]
        kept = mean(float(row["tokens_per_step"]) for row in own)
        answer = rooftree.predict(
            model="llama-3.1-8b",
            device="a100-sxm-80",
            dtype=WEIGHTS[weights],
            draft_tokens=DRAFT_TOKENS,
            kv_dtype="fp8" if cache == "fp8" else None,
            drafter=f"eagle-3:length={kept}@{DRAFT_TOKENS}",
            prompt=PROMPT_TOKENS,
            output=OUTPUT_TOKENS,
            context=PROMPT_TOKENS + OUTPUT_TOKENS // 2,
            batch=list(BATCHES),
        )
        measured = {
            int(row["users"]): float(row["drafted_tokens_per_s"]) / float(row["plain_tokens_per_s"])
            for row in own
        }
        predicted = {
            row["batch"]: row["throughput_speedup"]
            for row in answer["predictions"]
            if row["feasible"]
        }
        found.append(Curve(weights, cache, measured, predicted))
    return found


def last_paying(speedups: dict[int, float]) -> float | None:
    """Batch at which a curve falls to 1, between its points in logarithms; None where it never pays
    or always does."""
    for (before, high), (after, low) in pairwise(sorted(speedups.items())):
        if high > 1.0 >= low:
            return float(before * 2.0 ** (log2(after / before) * (high - 1.0) / (high - low)))
    return None


def show(found: Sequence[Curve]) -> None:
    """Print the curves, their break-evens and what is lost."""
    for curve in found:
        print(
            f"{curve.weights} weights, {curve.cache} cache: drafting pays up to batch "
            f"{last_paying(curve.measured)} measured, {last_paying(curve.predicted)} predicted"
        )
        for (batch, measured), lost in zip(curve.measured.items(), curve.losses, strict=True):
            print(
                f"  batch {batch:3}: {measured:.2f} measured, {curve.predicted[batch]:.2f}"
                f" predicted, lost {lost:.1%}"
            )


if __name__ == "__main__":
    show(curves(Path(sys.argv[1])))
