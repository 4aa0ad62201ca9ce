"""What do the runs of a decode job say: tokens per second and speedup over plain decoding, and how
sure is it?

Medians over prompts of each prompt's own ratio, with bootstrap intervals over prompts. Runs that
something else held the processor during are left out and counted; every output is held against the
plain one. Leaves out making runs (`decode_runs`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import NDArray

from real_runs.campaigns.decode_table import DecodeRun, DecodeTable
from real_runs.trials.trials import PLAIN

ALL_KINDS = "all"
LEAST_PROCESS_SHARE = 0.9
RESAMPLES = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class Speed:
    """How fast one configuration is on one kind of prompts.

    Attributes:
        job: the decode job.
        configuration: its name.
        drafter: what drafts.
        draft_tokens: most tokens drafted in a step.
        kind: prompt kind, or "all".
        prompts: prompts with at least one undisturbed run of it and of plain decoding.
        runs: undisturbed runs.
        disturbed: runs left out because something else held the processor.
        differing: runs, disturbed ones too, whose output is not the plain one; where that is
            missing they count as equal.
        tokens_per_step: tokens after the first by steps, over all runs.
        tokens_per_s: after the first token, median over prompts; None where no prompt is left.
        draft_ratio: share of the time after the first token that drafting took, median over
            prompts.
        speedup: tokens per second after the first token over plain decoding's, median over prompts.
        speedup_interval: 80 % bootstrap interval over prompts, drawn kind by kind where each kind
            has several.
        request_speedup: the same with the prefill counted in.
    """

    job: str
    configuration: str
    drafter: str
    draft_tokens: int
    kind: str
    prompts: int
    runs: int
    disturbed: int
    differing: int
    tokens_per_step: float | None
    tokens_per_s: float | None
    draft_ratio: float | None
    speedup: float | None
    speedup_interval: tuple[float, float] | None
    request_speedup: float | None


@dataclass(frozen=True, slots=True)
class _PromptSpeed:
    kind: str
    tokens_per_s: float
    draft_ratio: float
    speedup: float
    request_speedup: float


def speeds(
    table: DecodeTable,
    *,
    generator: np.random.Generator,
    coverage: float = 0.8,
    resamples: int = RESAMPLES,
) -> list[Speed]:
    """Summarise every configuration of every job, per kind and over all.

    Args:
        table: runs, plain ones among them.
        generator: of the bootstrap.
        coverage: of the intervals, in (0, 1).
        resamples: of the bootstrap.
    """
    rows = []
    for job in dict.fromkeys(run.job for run in table.runs):
        runs = [run for run in table.runs if run.job == job]
        quiet = set(_undisturbed(runs, on_cpu=_on_cpu(table.provenance, job)))
        outputs = {
            run.prompt: run.output_sha256 for run in reversed(runs) if run.configuration == PLAIN
        }
        for configuration in dict.fromkeys(run.configuration for run in runs):
            own = [run for run in runs if run.configuration == configuration]
            by_prompt = _by_prompt(runs, own, quiet)
            kinds = list(dict.fromkeys(run.kind for run in own))
            for kind in (ALL_KINDS, *kinds):
                chosen = [run for run in own if kind in (ALL_KINDS, run.kind)]
                ratios = [ratio for ratio in by_prompt.values() if kind in (ALL_KINDS, ratio.kind)]
                rows.append(
                    _speed(chosen, kind, ratios, quiet, outputs, generator, coverage, resamples)
                )
    return rows


def _speed(
    runs: Sequence[DecodeRun],
    kind: str,
    prompts: Sequence[_PromptSpeed],
    quiet: set[DecodeRun],
    outputs: Mapping[str, str],
    generator: np.random.Generator,
    coverage: float,
    resamples: int,
) -> Speed:
    undisturbed = [run for run in runs if run in quiet]
    steps = sum(run.steps for run in runs)
    return Speed(
        job=runs[0].job,
        configuration=runs[0].configuration,
        drafter=runs[0].drafter,
        draft_tokens=runs[0].draft_tokens,
        kind=kind,
        prompts=len(prompts),
        runs=len(undisturbed),
        disturbed=len(runs) - len(undisturbed),
        differing=sum(
            run.output_sha256 != outputs.get(run.prompt, run.output_sha256) for run in runs
        ),
        tokens_per_step=sum(run.tokens - 1 for run in runs) / steps if steps else None,
        tokens_per_s=_median([prompt.tokens_per_s for prompt in prompts]),
        draft_ratio=_median([prompt.draft_ratio for prompt in prompts]),
        speedup=_median([prompt.speedup for prompt in prompts]),
        speedup_interval=_interval(prompts, generator, coverage, resamples),
        request_speedup=_median([prompt.request_speedup for prompt in prompts]),
    )


def _by_prompt(
    runs: Sequence[DecodeRun], own: Sequence[DecodeRun], quiet: set[DecodeRun]
) -> dict[str, _PromptSpeed]:
    """Each prompt's speed and ratio: the median over rounds of runs that stand side by side."""
    plain: dict[tuple[str, int], DecodeRun] = {
        (run.prompt, run.round): run for run in runs if run.configuration == PLAIN and run in quiet
    }
    pairs: dict[str, list[tuple[DecodeRun, DecodeRun]]] = defaultdict(list)
    for run in own:
        beside = plain.get((run.prompt, run.round))
        if run in quiet and beside is not None and min(run.tokens, beside.tokens) > 1:
            pairs[run.prompt].append((run, beside))
    return {
        prompt: _PromptSpeed(
            kind=couples[0][0].kind,
            tokens_per_s=median(_rate(run) for run, _ in couples),
            draft_ratio=median(run.draft_s / run.decode_s for run, _ in couples),
            speedup=median(_rate(run) / _rate(beside) for run, beside in couples),
            request_speedup=median(
                (run.tokens / run.wall_s) / (beside.tokens / beside.wall_s)
                for run, beside in couples
            ),
        )
        for prompt, couples in pairs.items()
    }


def _rate(run: DecodeRun) -> float:
    """Tokens per second after the first one."""
    return (run.tokens - 1) / max(run.decode_s, 1e-9)


def _undisturbed(runs: Sequence[DecodeRun], *, on_cpu: bool) -> list[DecodeRun]:
    """Runs that had the processor to themselves: process time per wall time near their
    configuration's best.
    """
    if not on_cpu:
        return list(runs)
    best: dict[str, float] = {}
    for run in runs:
        best[run.configuration] = max(best.get(run.configuration, 1.0), run.cpu_s / run.wall_s)
    return [
        run
        for run in runs
        if run.cpu_s / run.wall_s >= LEAST_PROCESS_SHARE * best[run.configuration]
    ]


def _on_cpu(provenance: Mapping[str, object], job: str) -> bool:
    about = provenance.get(job, provenance)
    return not isinstance(about, Mapping) or about.get("device_type", "cpu") == "cpu"


def _interval(
    prompts: Sequence[_PromptSpeed], generator: np.random.Generator, coverage: float, resamples: int
) -> tuple[float, float] | None:
    """Quantiles of the median over resampled prompts; None with fewer than two prompts."""
    if len(prompts) < 2:
        return None
    groups = [
        [prompt for prompt in prompts if prompt.kind == kind]
        for kind in dict.fromkeys(p.kind for p in prompts)
    ]
    if min(map(len, groups)) < 2:  # a kind of one prompt cannot be resampled
        groups = [list(prompts)]
    drawn: list[NDArray[np.float64]] = []
    for group in groups:
        ratios = np.array([prompt.speedup for prompt in group])
        drawn.append(ratios[generator.integers(ratios.size, size=(resamples, ratios.size))])
    medians = np.median(np.concatenate(drawn, axis=1), axis=1)
    low, high = np.quantile(medians, [(1 - coverage) / 2, (1 + coverage) / 2])
    return float(low), float(high)


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None
