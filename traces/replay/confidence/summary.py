"""What did the recorded policies do, one beside the other?

Passes, tokens per pass with an interval over prompts, agreement with one token a pass, and how sure
the model was of what it committed. Leaves out policies that were not recorded (`walk`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traces.kinds.confidence import FORWARDS, ConfidenceTrace
from traces.kinds.refine_policy import RefinePolicy
from traces.replay.bootstrap import drawn_ratios, request_draws

Counts = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedPolicy:
    """One recorded policy over its runs.

    Attributes:
        policy: which.
        runs: prompts that it decoded.
        tokens: positions committed.
        steps: passes.
        tokens_per_step: pooled over runs.
        interval: of the same, 80 %, by a bootstrap over prompts.
        commit_doubt: mean of 1 - probability of a token when it was committed.
        agreement: share of positions with the token of the prompt's one-token-a-pass run; None:
            none is there.
        pass_s: mean seconds of a pass by what it computed; empty where no time was recorded.
    """

    policy: RefinePolicy
    runs: int
    tokens: int
    steps: int
    tokens_per_step: float
    interval: tuple[float, float]
    commit_doubt: float
    agreement: float | None
    pass_s: Mapping[str, float]


def recorded_policies(trace: ConfidenceTrace, *, seed: int = 0) -> tuple[RecordedPolicy, ...]:
    """Every policy of a trace that took a pass, in the trace's order.

    Args:
        trace: to look into.
        seed: of the bootstrap.
    """
    doubt, static = _commit_doubt(trace), _static_ids(trace)
    chosen = (np.flatnonzero(trace.policy_of_run == at) for at in range(len(trace.policies)))
    return tuple(
        _row(trace, trace.policies[trace.policy_of_run[runs[0]]], runs, doubt, static, seed)
        for runs in chosen
        if runs.size and trace.steps[runs].sum()
    )


def _row(
    trace: ConfidenceTrace,
    policy: RefinePolicy,
    runs: Counts,
    doubt: NDArray[np.float64],
    static: Mapping[str, NDArray[np.int32]],
    seed: int,
) -> RecordedPolicy:
    tokens, steps = trace.committed_tokens[runs], trace.steps[runs]
    kinds = [trace.prompt_kinds[run] for run in runs]
    draws = request_draws(kinds, generator=np.random.default_rng(seed))
    ratios = drawn_ratios(tokens, steps, draws, bounds=(0.0, float(trace.final_ids.shape[1])))
    low, high = np.quantile(ratios, [0.1, 0.9])
    same = [
        float((trace.final_ids[run] == static[name]).mean())
        for run in runs
        if (name := trace.request_ids[run]) in static
    ]
    committed = trace.committed_at[runs] < steps[:, None]
    return RecordedPolicy(
        policy=policy,
        runs=len(runs),
        tokens=int(tokens.sum()),
        steps=int(steps.sum()),
        tokens_per_step=float(tokens.sum() / steps.sum()),
        interval=(float(low), float(high)),
        commit_doubt=float(doubt[runs][committed].mean()) if committed.any() else 0.0,
        agreement=float(np.mean(same)) if same else None,
        pass_s=_pass_s(trace, runs),
    )


def _commit_doubt(trace: ConfidenceTrace) -> NDArray[np.float64]:
    """1 - probability of every position's token when it was committed, float64[r, L]; 0 where none
    was.
    """
    run, step, position = trace.cells()
    is_commit = trace.committed_at[run, position] == step - trace.step_offsets[run]
    doubt = np.zeros(trace.final_ids.shape, dtype=np.float64)
    doubt[run[is_commit], position[is_commit]] = trace.doubt[is_commit]
    return doubt


def _static_ids(trace: ConfidenceTrace) -> dict[str, NDArray[np.int32]]:
    """What every prompt's run of one token a pass wrote."""
    ids: dict[str, NDArray[np.int32]] = {}
    for run, name in enumerate(trace.request_ids):
        policy = trace.policies[trace.policy_of_run[run]]
        if policy.commit == "static" and policy.at["tokens"] == 1:
            ids.setdefault(name, trace.final_ids[run])
    return ids


def _pass_s(trace: ConfidenceTrace, runs: Counts) -> dict[str, float]:
    if trace.wall_s is None:
        return {}
    of_run = np.repeat(np.arange(trace.runs), trace.steps)
    mine = np.isin(of_run, runs)
    return {
        name: float(trace.wall_s[chosen].mean(dtype=np.float64))
        for at, name in enumerate(FORWARDS)
        if (chosen := mine & (trace.forward == at)).any()
    }
