"""What do many policies do on recorded prompts, as `walk.replay_policy` would say of each?

The entry for searches. Policies of one rule and block share what is prepared of the anchors and run
in one compiled loop (`compiled_grid`), thresholds side by side. Policies that were recorded, and
rules that commit by number, draft or need a whole canvas, are few or cheap and go to
`replay_policy`. A policy that the recordings cannot answer for has its error in its place. Leaves
out what passes cost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from traces.kinds.confidence import ConfidenceTrace
from traces.kinds.naming import naming
from traces.kinds.refine_policy import RefinePolicy
from traces.replay.confidence.agreement import lowered
from traces.replay.confidence.anchors import Anchors, pooled
from traces.replay.confidence.walk import (
    RefineReplay,
    boldest_anchor,
    check_answerable,
    log_odds_shift,
    replay_policy,
    static_run,
)

Counts = NDArray[np.int64]

_FAR = 1 << 23  # of a state without the cell that is asked for: more than any score
_NAMES = ("threshold", "factor", "capped", "neighbours", "entropy", "in_order", "entropy_bound")
"""Rules that are compiled, in the order of their numbers in `compiled_grid`."""


def _half(value: float) -> float:
    return float(np.float32(np.float16(value)))


_NUMBERS: Mapping[str, Callable[[Mapping[str, float]], tuple[float, ...]]] = {
    "threshold": lambda at: (_half(1.0 - at["confidence"]),),
    "factor": lambda at: (at["factor"],),
    "capped": lambda at: (_half(1.0 - at["confidence"]), at["tokens"]),
    "neighbours": lambda at: (
        _half(1.0 - at["confidence"]),
        _half(1.0 - at["near_confidence"]),
        at["tokens"],
    ),
    "entropy": lambda at: (_half(at["entropy"]),),
    "in_order": lambda at: (at["entropy"], at["per_token"]),
    "entropy_bound": lambda at: (at["bound"],),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Prompt:
    """States of one prompt by position: arrays of `compiled_grid.walk_prompt`."""

    final: NDArray[np.int32]
    shown: NDArray[np.int32]
    absent: NDArray[np.int32]
    cell: NDArray[np.int32]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Counted:
    """What T policies did on P prompts: passes and blocks [modes, P, T], tokens and agreement [P,
    T].
    """

    steps: Counts
    begun: Counts
    tokens: Counts
    same: NDArray[np.float64]


def replay_policies(
    anchors: Anchors | ConfidenceTrace | Sequence[ConfidenceTrace],
    policies: Sequence[RefinePolicy],
    *,
    interval: bool = True,
) -> list[RefineReplay | InputError]:
    """Decode recorded prompts again by every policy.

    Args:
        anchors: recordings, or what `pooled` made of them.
        policies: any; those that differ in thresholds alone are decoded together.
        interval: walk twice more, for `lower` and `upper`.

    Returns:
        One replay per policy, equal to that of `replay_policy`, or the error that it raises.

    Raises:
        InputError: recordings that do not go together.
    """
    states = anchors if isinstance(anchors, Anchors) else pooled(anchors)
    replays: dict[RefinePolicy, RefineReplay | InputError] = {}
    groups: dict[tuple[str, int, str], list[RefinePolicy]] = {}
    for policy in dict.fromkeys(policies):
        try:
            if not _compiles(policy) or states.run_of(policy) is not None:
                replays[policy] = replay_policy(states, policy, interval=interval)
                continue
            with naming(states.file):
                policy.check_canvas(states.canvas_tokens)
                check_answerable(states, policy, recorded=False)
            groups.setdefault((policy.commit, policy.block_tokens, policy.cache), []).append(policy)
        except InputError as error:
            replays[policy] = error
    for group in groups.values():
        try:
            with naming(states.file):
                replays.update(
                    zip(
                        group,
                        _replays(states, group, _counted(states, group, interval)),
                        strict=True,
                    )
                )
        except InputError as error:
            replays.update(dict.fromkeys(group, error))
    return [replays[policy] for policy in policies]


def _compiles(policy: RefinePolicy) -> bool:
    return policy.commit in _NAMES and policy.stop == "full" and not policy.delimiters


def _counted(states: Anchors, group: Sequence[RefinePolicy], interval: bool) -> _Counted:
    """Passes of policies that differ in thresholds alone, prompt by prompt."""
    # numba takes half a second to load: only where it is needed
    from traces.replay.confidence.compiled_grid import walk_prompt

    first, static = group[0], static_run(states, group[0])
    rule, at = _NAMES.index(first.commit), np.zeros((len(group), 3), dtype=np.float64)
    for row, policy in enumerate(group):
        numbers = _NUMBERS[first.commit](policy.at)
        at[row, : len(numbers)] = numbers
    entropies, doubts = np.zeros(0, dtype=np.float32), np.ascontiguousarray(states.values[:, 0])
    if "entropy" in first.rule.needs:
        entropies = np.ascontiguousarray(states.values[:, 1 + states.names.index("entropy")])
    shape = (3 if interval else 1, len(states.prompts), len(group))
    steps, begun = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    committed_tokens, same = np.zeros(shape[1:], dtype=np.int64), np.full(shape[1:], np.nan)
    tokens = np.empty((len(group), states.canvas_tokens), dtype=np.int32)
    for place in range(len(states.prompts)):
        p = _prompt(states, place)
        for mode in reversed(range(shape[0])):  # the nearest states last: `tokens` are theirs
            if not walk_prompt(
                rule,
                at,
                first.block_tokens,
                mode,
                p.final,
                p.shown,
                p.absent,
                states.top_ids,
                p.cell,
                doubts,
                entropies,
                tokens,
                steps[mode, place],
                begun[mode, place],
            ):
                raise InputError(
                    "no anchor computed all positions that this policy asks for",
                    key="block_tokens",
                    value=first.block_tokens,
                )
        committed_tokens[place] = (tokens != states.mask_id).sum(axis=1)
        if static is not None:
            same[place] = (tokens == states.final_ids[static[place]]).mean(axis=1)
    return _Counted(steps=steps, begun=begun, tokens=committed_tokens, same=same)


def _prompt(states: Anchors, prompt: int) -> _Prompt:
    rows, at = np.arange(*states.row_offsets[prompt : prompt + 2]), np.arange(states.canvas_tokens)
    cell = np.ascontiguousarray(states.cells(rows).T.astype(np.int32))
    is_revealed = (states.revealed[rows][:, at // 64] >> (at % 64).astype(np.uint64)) & np.uint64(
        1
    ) == 1
    ids = np.where(is_revealed, states.final_ids[states.run_of_row[rows]], -1)
    return _Prompt(
        final=np.ascontiguousarray(ids.T.astype(np.int32)),
        shown=is_revealed.sum(axis=1).astype(np.int32),
        absent=np.where(cell < 0, _FAR, 0).astype(np.int32),
        cell=cell,
    )


def _replays(
    states: Anchors, group: Sequence[RefinePolicy], counted: _Counted
) -> list[RefineReplay]:
    shift = log_odds_shift(states)
    boldest, lower, upper = (
        boldest_anchor(states),
        counted.steps.min(axis=0),
        counted.steps.max(axis=0),
    )
    return [
        RefineReplay(
            policy=policy,
            prompts=states.prompts,
            prompt_kinds=states.prompt_kinds,
            tokens=counted.tokens[:, row],
            steps=counted.steps[0, :, row],
            lower=lower[:, row],
            upper=upper[:, row],
            full_steps=(counted.begun if policy.cache != "none" else counted.steps)[0, :, row],
            agreement=lowered(counted.same[:, row], shift),
            how="nearest state",
            boldest=boldest,
        )
        for row, policy in enumerate(group)
    ]
