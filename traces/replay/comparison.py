"""How do several recordings compare: acceptance by drafter, prompt kind and depth?

One row per recording and prompt kind, on the steps that a chain of K draft tokens really takes.
Leaves out speed: a drafter that is accepted more may still cost more than it saves
(`costmodel.answers.estimate`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.provenance import POLICY_KEY
from traces.replay.bootstrap import bootstrap_tokens_per_step
from traces.replay.statistics import acceptance_by_depth
from traces.replay.walk import replay_chain

ALL = "all"


class ComparisonRow(NamedTuple):
    """One recording on one kind of prompt.

    Args:
        drafter: as the recording names it.
        temperature: of sampling; None where it is not stated.
        kind: of prompt, or "all".
        requests: prompts.
        tokens: positions.
        draft_tokens: K of the chain; of a recording made under one policy, that policy's.
        acceptance: float64[depth]: share of steps whose first d draft tokens are all accepted; None
            without a step.
        tokens_per_step: pooled; None without a step.
        interval: 80 %, bootstrapped over requests.
    """

    drafter: str
    temperature: float | None
    kind: str
    requests: int
    tokens: int
    draft_tokens: int
    acceptance: NDArray[np.float64] | None
    tokens_per_step: float | None
    interval: tuple[float, float] | None


def compare(
    traces: Sequence[AcceptanceTrace], *, draft_tokens: int, seed: int = 0
) -> list[ComparisonRow]:
    """Acceptance by depth and tokens per step of every recording, by prompt kind and over all.

    Args:
        traces: level 1 or more.
        draft_tokens: K >= 1 of the chains, and the depth shown.
        seed: of the bootstrap; every row draws from a generator of its own.

    Raises:
        InputError: a recording of level 0, or K < 1.
    """
    rows = []
    for trace in traces:
        trace.require(1, "a comparison")
        kinds = np.asarray(trace.prompt_kinds)
        groups = {
            kind or "unknown": np.flatnonzero(kinds == kind)
            for kind in sorted(set(trace.prompt_kinds))
        }
        if len(groups) != 1:
            groups[ALL] = np.arange(trace.requests)
        rows += [_row(trace, kind, members, draft_tokens, seed) for kind, members in groups.items()]
    return rows


def _row(
    trace: AcceptanceTrace, kind: str, members: NDArray[np.int64], depth: int, seed: int
) -> ComparisonRow:
    about, part = trace.provenance, trace.select(members)
    length = int(about.extra.get(POLICY_KEY, depth))
    replay = replay_chain(part, length)
    has_steps = bool(replay.steps.any())
    interval = None
    if has_steps:
        generator = np.random.default_rng(seed)
        interval = bootstrap_tokens_per_step(
            replay, part.prompt_kinds, generator=generator, coverage=0.8
        )
    temperature = about.sampling.get("temperature")
    return ComparisonRow(
        drafter=about.drafter,
        temperature=None if temperature is None else float(temperature),
        kind=kind,
        requests=part.requests,
        tokens=int(part.positions),
        draft_tokens=length,
        acceptance=acceptance_by_depth(part, length)[:depth] if has_steps else None,
        tokens_per_step=replay.tokens_per_step if has_steps else None,
        interval=interval,
    )
