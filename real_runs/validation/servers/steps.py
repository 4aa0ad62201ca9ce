"""Which passes does a server make for requests that begin together, step by step?

Every step each slot decodes one token and its draft; what drafts hold and what of them is accepted
is replayed from a recording, or drawn where rates are stated. A request that ends leaves its slot
empty. Leaves out what passes take (`predict`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from real_runs.validation.configurations import Configuration
from real_runs.validation.servers.batches import split_equally
from real_runs.validation.walk import request_path
from traces.kinds.acceptance import AcceptanceTrace

Counts = NDArray[np.int64]
_TRIES = 400


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Path:
    """One request alone, one entry per step after its first token.

    Attributes:
        drafted: draft tokens.
        emitted: tokens, the one after the accepted ones included.
        context: cached tokens before the step.
    """

    drafted: Counts
    emitted: Counts
    context: Counts


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Passes:
    """Passes of one model, one entry per pass.

    Attributes:
        step: that the pass belongs to, from 0.
        requests: in the pass.
        query_tokens: of each request.
        context: cached tokens of the longest request before the pass.
    """

    step: Counts
    requests: Counts
    query_tokens: Counts
    context: Counts


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class MeasuredSteps:
    """Steps of a group of requests.

    Attributes:
        served: requests of every step.
        verify: passes of the target.
        draft: passes of a draft model; none where nothing else drafts.
        ends: steps that each request took.
        tokens: that each request was given in them.
    """

    served: Counts
    verify: Passes
    draft: Passes
    ends: Counts
    tokens: Counts


def recorded_path(trace: AcceptanceTrace, request: int, draft_tokens: int) -> Path:
    """The steps of a recorded request; a draft never reaches beyond the end of the answer.

    Args:
        trace: of the drafter, greedy, its first step at output position 1.
        request: its place in the trace.
        draft_tokens: K; 0 decodes plainly.
    """
    named = Configuration(drafter="recorded" if draft_tokens else "", draft_tokens=draft_tokens)
    starts, drafted, emitted, context = request_path(trace, named, request)
    left = int(trace.output_tokens[request]) - starts
    return Path(drafted=np.minimum(drafted, left - 1), emitted=emitted, context=context)


def drawn_path(
    rates: Sequence[float], prompt_tokens: int, output_tokens: int, generator: np.random.Generator
) -> Path:
    """The steps of a request whose drafter always proposes as many tokens as there are rates.

    Args:
        rates: unconditional probability that the first 1..K tokens are accepted.
        prompt_tokens: of the request.
        output_tokens: of its answer, the first included.
        generator: source of randomness.
    """
    left, at = output_tokens - 1, prompt_tokens
    drafted, emitted, context = list[int](), list[int](), list[int]()
    falling = np.asarray(rates, dtype=np.float64)
    while left > 0:
        draft = min(len(rates), left - 1)
        accepted = int((generator.random() < falling[:draft]).sum())
        drafted.append(draft)
        emitted.append(accepted + 1)
        context.append(at)
        at += accepted + 1
        left -= accepted + 1
    return Path(drafted=_counts(drafted), emitted=_counts(emitted), context=_counts(context))


def counted_path(
    rates: Sequence[float],
    prompt_tokens: int,
    output_tokens: int,
    counted: tuple[int, int],
    generator: np.random.Generator,
) -> Path:
    """Of `_TRIES` drawn paths the one nearest to what a server counted, so that luck is on both
    sides the same.

    Args:
        rates: as of `drawn_path`.
        prompt_tokens: of the request.
        output_tokens: of its answer, the first included.
        counted: steps after the first token and draft tokens of the request.
        generator: source of randomness.
    """
    best, least = None, np.inf
    for _ in range(_TRIES):
        path = drawn_path(rates, prompt_tokens, output_tokens, generator)
        steps, drafted = len(path.drafted), int(path.drafted.sum())
        far = (max(len(rates), 1) + 1) * abs(steps - counted[0]) + abs(drafted - counted[1])
        if far < least:
            best, least = path, far
        if not least:
            break
    assert best is not None
    return best


def group_steps(paths: Sequence[Path], *, draft_model: bool = False) -> MeasuredSteps:
    """The steps of requests that begin together, one per slot.

    Args:
        paths: of the requests, in the order of their slots.
        draft_model: a model drafts: a pass for every draft token, and one over what the target
            verifies, which keeps its cache in step. Neither depends on the other's length, so its
            slots are taken to stay together.
    """
    ends = _counts([len(path.drafted) for path in paths])
    verify, draft = list[tuple[int, int, int, int]](), list[tuple[int, int, int, int]]()
    served = list[int]()
    for step in range(int(ends.max(initial=0))):
        here = [step < len(path.drafted) for path in paths]
        drafted = [
            int(path.drafted[step]) if on else 0 for path, on in zip(paths, here, strict=True)
        ]
        context = [
            int(path.context[step]) if on else 0 for path, on in zip(paths, here, strict=True)
        ]
        served.append(sum(here))
        for part in split_equally([tokens + on for tokens, on in zip(drafted, here, strict=True)]):
            longest = max(context[slot] for slot in part.slots) + part.before
            verify.append((step, len(part.slots), part.query_tokens, longest))
            if draft_model:
                draft.append((step, len(part.slots), part.query_tokens, longest))
        for depth in range(max(drafted, default=0) if draft_model else 0):
            deep = [slot for slot, tokens in enumerate(drafted) if tokens > depth]
            draft.append((step, len(deep), 1, max(context[slot] for slot in deep) + depth))
    return MeasuredSteps(
        served=_counts(served),
        verify=_passes(verify),
        draft=_passes(draft),
        ends=ends,
        tokens=_counts([int(path.emitted.sum()) for path in paths]),
    )


def _passes(rows: Sequence[tuple[int, int, int, int]]) -> Passes:
    table = np.array(rows, dtype=np.int64).reshape(-1, 4)
    return Passes(
        step=table[:, 0], requests=table[:, 1], query_tokens=table[:, 2], context=table[:, 3]
    )


def _counts(values: Sequence[int]) -> Counts:
    return np.array(values, dtype=np.int64)
