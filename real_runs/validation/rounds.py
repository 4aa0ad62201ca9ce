"""What does a run take while the machine is as it usually is, judged from several rounds of the
same work?

A machine shared with others is slower for seconds at a time. One fixed pass, the probe, is timed
beside every run: a run's times are divided by how much slower than usual its probe was. Of the same
pass in several rounds the median counts, and a run is the sum of its passes. Leaves out making the
rounds (`runs`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

import numpy as np

from real_runs.validation.runs import Run

_LEAST_REPEATS = 3
LEAST_PROCESS_SHARE = 0.95  # of a run's best: with less, something else held the processor


def undisturbed(runs: Sequence[Run], *, on_cpu: bool = True) -> list[Run]:
    """Runs that had the processor to themselves: process time over wall time near the best of the
    configuration.
    """
    if not on_cpu:
        return list(runs)
    best: dict[tuple[str, str], float] = {}
    for run in runs:
        key = (run.cell, run.configuration)
        best[key] = max(best.get(key, 1.0), run.process_share)
    return [
        run
        for run in runs
        if run.process_share >= LEAST_PROCESS_SHARE * best[run.cell, run.configuration]
    ]


def steadied(runs: Sequence[Run]) -> list[Run]:
    """Runs in the machine's usual state, in which the probe takes its median over the runs.

    Args:
        runs: each with its probe; any cells and configurations.
    """
    if not runs or not all(run.probe_s > 0.0 for run in runs):
        return list(runs)
    usual_s = median(run.probe_s for run in runs)
    return [_scaled(run, usual_s / run.probe_s) for run in runs]


def usual(runs: Sequence[Run], *, keep_disturbed: bool) -> list[Run]:
    """Runs of this machine's processor that count, in its usual state, their rounds pooled.

    Args:
        runs: all of them.
        keep_disturbed: those that other processes disturbed count as they are, too.
    """
    return pooled(runs if keep_disturbed else steadied(undisturbed(runs)))


def faster_half(runs: Sequence[Run]) -> list[Run]:
    """Of every work's rounds the faster half, the middle one of an odd number among them.

    What a calibration of the same machine counts, where no probe tells how a run's seconds were
    disturbed.
    """
    return [
        run
        for same in _groups(runs).values()
        for run in sorted(same, key=lambda run: run.decode_s)[: (len(same) + 1) // 2]
    ]


def probe_correlation(runs: Sequence[Run]) -> float:
    """Correlation of log times of runs and of their probes among rounds of the same work; NaN below
    three repeats.

    What says whether the probe tells a disturbance at all.
    """
    deviations: list[tuple[float, float]] = []
    for same in _groups(runs).values():
        logs = np.log([[run.probe_s, run.decode_s] for run in _alike(same) if run.probe_s > 0.0])
        if len(logs) > 1:
            deviations += [tuple(pair) for pair in (logs - logs.mean(axis=0)).tolist()]
    if len(deviations) < _LEAST_REPEATS:
        return float("nan")
    probes, times = np.array(deviations).T
    scale = float(np.sqrt((probes**2).sum() * (times**2).sum()))
    return float((probes * times).sum() / scale) if scale > 0.0 else float("nan")


def pooled(runs: Sequence[Run]) -> list[Run]:
    """One run for all rounds of the same work, every pass at its median.

    Args:
        runs: rounds of any cells, configurations and prompts. Rounds that took other passes than
            most of their like wrote another text, and are left out.

    Returns:
        A run per cell, configuration and prompts, in the order in which they first came.
    """
    return [_pooled(_alike(same)) for same in _groups(runs).values()]


def _groups(runs: Sequence[Run]) -> dict[tuple[str, str, tuple[str, ...]], list[Run]]:
    groups: dict[tuple[str, str, tuple[str, ...]], list[Run]] = defaultdict(list)
    for run in runs:
        groups[run.cell, run.configuration, run.prompts].append(run)
    return groups


def _alike(runs: Sequence[Run]) -> list[Run]:
    shapes: dict[tuple[tuple[int, int, int], ...], list[Run]] = defaultdict(list)
    for run in runs:
        shapes[tuple(timed_pass[:3] for timed_pass in run.passes)].append(run)
    return max(shapes.values(), key=len)


def _scaled(run: Run, ratio: float) -> Run:
    return replace(
        run,
        decode_s=ratio * run.decode_s,
        cpu_s=ratio * run.cpu_s,
        draft_s=ratio * run.draft_s,
        verify_s=ratio * run.verify_s,
        probe_s=ratio * run.probe_s,
        ttft_s=ratio * run.ttft_s,
        tpot_s=ratio * run.tpot_s,
        passes=tuple(
            timed_pass._replace(wall_s=ratio * timed_pass.wall_s) for timed_pass in run.passes
        ),
    )


def _pooled(runs: Sequence[Run]) -> Run:
    first = runs[0]
    passes = np.median(
        np.array([[timed_pass.wall_s for timed_pass in run.passes] for run in runs]), axis=0
    )
    draft_s, rest_s, probe_s, share = (
        median(getattr(run, name) for run in runs)
        for name in ("draft_s", "rest_s", "probe_s", "process_share")
    )
    decode_s = float(passes.sum()) + draft_s + rest_s
    return replace(
        first,
        rounds=len(runs),
        decode_s=decode_s,
        draft_s=draft_s,
        verify_s=float(passes.sum()),
        cpu_s=decode_s * share,
        probe_s=probe_s,
        passes=tuple(
            timed_pass._replace(wall_s=wall_s)
            for timed_pass, wall_s in zip(first.passes, passes.tolist(), strict=True)
        ),
    )
