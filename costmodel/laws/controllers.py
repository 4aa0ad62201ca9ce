"""How much is drafted and emitted where a controller sets the draft length while it decodes?

`ema`: every request drafts one token more than it recently had accepted. `goodput`: the batch
drafts what emits most tokens per second at the acceptance seen lately, which depends on the seconds
of a step, and so on batch and context. Both walk along the recording as a simulated request does.
Leaves out rules that look at the draft itself (`costmodel.laws.drafting`).

Reference: Liu et al. 2024, SmartSpec (arXiv:2406.14066), section 4, for goodput.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from costmodel.laws.acceptance import Acceptance, from_replay
from costmodel.laws.draft_lengths import DraftLengths, draft_lengths
from costmodel.method import Stop
from costmodel.passes.ops import Array
from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace
from traces.replay.bootstrap import RequestDraws
from traces.replay.walk import Replay

EMA_WEIGHT = 0.2  # of the latest step, where a stop rule names no other
_LAPS = 8  # times that a batch together walks along the recording
_LEAST_STEPS = 256

Whole = NDArray[np.int64]


def ema_chain(
    trace: AcceptanceTrace, draft_tokens: int, stop: Stop, draws: RequestDraws | None
) -> Acceptance:
    """What a chain emits whose every request drafts one token more than it recently had accepted,
    by matching.

    Args:
        trace: level 1 or more.
        draft_tokens: K, most draft tokens and those of a request's first step, >= 1.
        stop: `ema`; `at` is the weight of the latest step, 0 for 0.2.
        draws: of the requests; None: no samples.

    Raises:
        InputError: another rule, a weight above 1, or a recording of too low a level.
    """
    # numba takes half a second to load: only where it is needed
    from traces.replay.compiled_controllers import walk_ema

    weight = _weight(stop, "ema")
    emitted, drafted = _whole(trace, draft_tokens)
    first, most = trace.first_step_position, stop.most_tokens or draft_tokens
    step_tokens = walk_ema(
        emitted, drafted, trace.offsets, first, min(most, draft_tokens), stop.least_tokens, weight
    )
    starts = step_tokens >= 0
    request = np.repeat(np.arange(trace.requests), trace.output_tokens)

    def by_request(values: NDArray[np.generic]) -> Whole:
        return np.bincount(request[starts], values, minlength=trace.requests).astype(np.int64)

    drafts = step_tokens[starts]
    replay = Replay(
        draft_tokens=draft_tokens,
        tokens=np.maximum(trace.output_tokens - first, 0),
        steps=by_request(np.ones(drafts.size)),
        proposed_steps=by_request(drafts > 0),
        drafted_tokens=by_request(drafts),
    )
    return replace(from_replay(replay, draws), stop=stop, lengths=draft_lengths(drafts, drafts))


def goodput_chain(
    trace: AcceptanceTrace,
    draft_tokens: int,
    stop: Stop,
    draws: RequestDraws | None,
    *,
    seconds: Array,
    batch: int,
) -> Acceptance:
    """What chains of a batch emit that draft what seems to emit most tokens per second, by
    matching.

    Args:
        trace: level 1 or more.
        draft_tokens: K, most draft tokens, >= 1.
        stop: `goodput`; `at` is the weight of the latest step in the acceptance remembered, 0 for
            0.2.
        draws: of the requests; None: no samples.
        seconds: of a step in which every request drafts 0, 1, .. K tokens; shape [K + 1].
        batch: requests that decode together, >= 1.

    Returns:
        Of this batch and these seconds alone.

    Raises:
        InputError: another rule, a weight above 1, or a recording of too low a level.
    """
    from traces.replay.compiled_controllers import walk_goodput

    weight = _weight(stop, "goodput")
    emitted, drafted = _whole(trace, draft_tokens)
    index = np.arange(trace.positions) - np.repeat(trace.offsets[:-1], trace.output_tokens)
    open_ = index >= trace.first_step_position
    if not open_.any():
        raise InputError(
            "the trace has no decoding step to average over", file=trace.file, key="steps", value=0
        )
    left = np.repeat(trace.offsets[1:], trace.output_tokens) - np.arange(trace.positions)
    request = np.repeat(np.arange(trace.requests), trace.output_tokens)[open_]
    most = min(stop.most_tokens or draft_tokens, draft_tokens)
    places = np.linspace(0, open_.sum(), batch, endpoint=False).astype(np.int64)
    steps = max(_LEAST_STEPS, _LAPS * int(open_.sum()) // batch)
    counts, lengths = (
        np.zeros((4, trace.requests), dtype=np.int64),
        np.zeros(most + 1, dtype=np.int64),
    )
    chosen = walk_goodput(
        emitted[open_],
        drafted[open_],
        left[open_],
        request,
        places,
        steps,
        min(stop.least_tokens, most),
        weight,
        np.asarray(seconds[: most + 1], dtype=np.float64),
        counts,
        lengths,
    )
    replay = Replay(
        draft_tokens=draft_tokens,
        tokens=counts[0],
        steps=counts[1],
        proposed_steps=counts[2],
        drafted_tokens=counts[3],
    )
    shares = DraftLengths(
        tokens=lengths / lengths.sum(),
        passes=chosen / chosen.sum(),
        rows=np.ones(chosen.size - 1),
        shared=True,
    )
    return replace(from_replay(replay, draws), stop=stop, lengths=shares)


def _whole(trace: AcceptanceTrace, draft_tokens: int) -> tuple[Whole, Whole]:
    """Tokens that a step emits and that the drafter has at every position."""
    trace.require(1, "replaying a controller of draft lengths")
    assert trace.emitted is not None
    drafted = np.full(trace.positions, draft_tokens) if trace.drafted is None else trace.drafted
    return trace.emitted.astype(np.int64), np.minimum(drafted, draft_tokens).astype(np.int64)


def _weight(stop: Stop, rule: str) -> float:
    if stop.rule != rule or not 0.0 <= stop.at <= 1.0:
        raise InputError(
            f"must be {rule}, with a weight in 0..1", key="stop", value=(stop.rule, stop.at)
        )
    return stop.at or EMA_WEIGHT
