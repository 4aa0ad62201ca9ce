"""How much is drafted, verified and emitted where a controller decides it while it decodes?

`ema`: every request drafts one token more than it recently had accepted. `goodput`: the batch
drafts what emits most tokens per second at the acceptance seen lately. `cost`: the batch drafts
whole, and verifies the likeliest tokens of all drafts as far as they pay. The last two depend on
the seconds of a step, and so on batch and context. All walk along the recording as a simulated
request does. Leaves out rules that end a draft by itself (`costmodel.laws.drafting`), and what
seconds are (`costmodel.answers.verify_widths`).

Reference: Liu et al. 2024, SmartSpec (arXiv:2406.14066), section 4, for goodput; Cheng et al. 2026,
DSpark (arXiv:2607.05147), for cost.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from costmodel.laws.acceptance import MATCHING, Acceptance, Law, drawn_lengths, from_replay
from costmodel.laws.draft_lengths import DraftLengths, draft_lengths
from costmodel.method import Stop
from costmodel.passes.ops import Array
from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace
from traces.replay.bootstrap import RequestDraws
from traces.replay.calibration import Calibration
from traces.replay.walk import Replay

EMA_WEIGHT = 0.2  # of the latest step, where a stop rule names no other
_LAPS = 8  # times that a batch together walks along the recording
_LEAST_STEPS = 256
_BUDGETS = 8  # of a batch that divides its tokens, in the mean of its passes

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
    walk = _batch_walk(trace, draft_tokens, batch)
    most = min(stop.most_tokens or draft_tokens, draft_tokens)
    lengths = np.zeros(most + 1, dtype=np.int64)
    chosen = walk_goodput(
        walk.emitted,
        walk.drafted,
        walk.left,
        walk.request,
        walk.places,
        walk.steps,
        min(stop.least_tokens, most),
        weight,
        np.asarray(seconds[: most + 1], dtype=np.float64),
        walk.counts,
        lengths,
    )
    shares = DraftLengths(
        tokens=lengths / lengths.sum(),
        passes=chosen / chosen.sum(),
        rows=np.ones(chosen.size - 1),
        shared=True,
    )
    replay = walk.replay(draft_tokens, trace.requests)
    return replace(from_replay(replay, draws), stop=stop, lengths=shares)


def cost_chain(
    trace: AcceptanceTrace,
    draft_tokens: int,
    stop: Stop,
    draws: RequestDraws | None,
    *,
    seconds: Array,
    batch: int,
    calibration: Calibration | None = None,
    law: Law = MATCHING,
) -> Acceptance:
    """What chains of a batch emit that are drafted whole, and verified as far as that seems to pay.

    A draft token survives with the product of the probabilities up to it, as if everything before
    it had been accepted. The likeliest tokens of the whole batch are verified, so many that most
    tokens are expected per second.

    Args:
        trace: level 3 (probabilities).
        draft_tokens: K, draft tokens of a request, >= 1.
        stop: `cost`.
        draws: of the requests; None: no samples.
        seconds: of a step that verifies 0, 1, .. batch * K draft tokens together; shape
            [batch * K + 1].
        batch: requests that decode together, >= 1.
        calibration: of the drafter's probabilities; None: they are taken as they are.
        law: how drafts are verified: by matching, or as one chain of draws.

    Returns:
        Of this batch and these seconds alone; draft tokens are those that were verified.

    Raises:
        InputError: another rule, a lossy law, a weight above 1, seconds of another shape, or a
            recording of too low a level.
    """
    from traces.replay.compiled_controllers import walk_cost

    if stop.rule != "cost" or not 0.0 <= stop.at <= 1.0:
        raise InputError(
            "must be cost, with a weight in 0..1", key="stop", value=(stop.rule, stop.at)
        )
    trace.require(3, "verifying as much of a draft as pays")
    most = min(stop.most_tokens or draft_tokens, draft_tokens)
    if seconds.ndim != 1 or seconds.size <= batch * most or not np.all(seconds > 0.0):
        rule = f"must be {batch * most + 1} numbers > 0, one per verified draft token"
        raise InputError(rule, key="seconds", value=list(seconds.shape))
    if law.lossy:
        raise InputError("is not known for a part of a draft", key="rule", value=law.rule)
    recorded = trace.requests
    if law.by_matching:
        walk = _batch_walk(trace, draft_tokens, batch)
    else:  # every lap has draws of its own
        trace = trace.select(np.tile(np.arange(recorded), _LAPS))
        emitted = drawn_lengths(trace, law, draft_tokens, np.random.default_rng(0))
        walk = _batch_walk(trace, draft_tokens, batch, emitted.astype(np.int64), laps=1)
    assert trace.draft_probs is not None
    sure = trace.draft_probs[walk.starts, 0].astype(np.float64)
    lengths = np.zeros(most + 1, dtype=np.int64)
    verified = walk_cost(
        walk.emitted,
        walk.drafted,
        walk.left,
        walk.request,
        sure if calibration is None else calibration.accepted(sure),
        walk.places,
        walk.steps,
        most,
        stop.at,
        np.ascontiguousarray(seconds[: batch * most + 1], dtype=np.float64),
        walk.counts,
        lengths,
    )
    shares = DraftLengths(
        tokens=lengths / lengths.sum(),
        passes=np.eye(most + 1)[most],
        rows=np.ones(most),
        of_batch=_budgets(verified, batch),
    )
    replay = walk.replay(draft_tokens, recorded)
    accepted = from_replay(replay, draws, rule=law.rule, note=law.note)
    return replace(accepted, stop=stop, lengths=shares)


def _budgets(verified: Whole, batch: int) -> tuple[tuple[float, float], ...]:
    """Shares of steps and draft tokens per request of a batch, of neighbouring budgets together
    where there are many.
    """
    used = np.flatnonzero(verified)
    often = verified[used]
    groups = np.arange(used.size)
    if used.size > _BUDGETS:
        groups = np.minimum(np.cumsum(often) * _BUDGETS // (often.sum() + 1), _BUDGETS - 1)
    pairs = []
    for group in np.unique(groups):
        part = groups == group
        share = often[part].sum()
        pairs.append((float(share / often.sum()), float(used[part] @ often[part] / share / batch)))
    return tuple(pairs)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _BatchWalk:
    """What a batch that walks along a recording in step reads, and counts.

    Args:
        starts: positions at which a step can start, a mask [positions]; the following are of these.
        emitted: tokens that a step emits, whatever it drafts.
        drafted: draft tokens that the drafter has there.
        left: tokens to the end of the text.
        request: recorded request.
        places: where the requests of the batch start, [batch].
        steps: of the batch.
        counts: int64[4, recorded requests]: tokens, steps, steps with a proposal, draft tokens.
    """

    starts: NDArray[np.bool_]
    emitted: Whole
    drafted: Whole
    left: Whole
    request: Whole
    places: Whole
    steps: int
    counts: Whole

    def replay(self, draft_tokens: int, requests: int) -> Replay:
        """The counts as those of a replay of chains of K draft tokens; of so many recorded requests,
        which may stand there several times.
        """
        tokens, steps, proposed, drafted = self.counts.reshape(4, -1, requests).sum(axis=1)
        return Replay(
            draft_tokens=draft_tokens,
            tokens=tokens,
            steps=steps,
            proposed_steps=proposed,
            drafted_tokens=drafted,
        )


def _batch_walk(
    trace: AcceptanceTrace,
    draft_tokens: int,
    batch: int,
    drawn: Whole | None = None,
    *,
    laps: int = _LAPS,
) -> _BatchWalk:
    """A batch whose requests begin at equal distances along the recording, which emits what is
    matched there or what was drawn, [positions].

    Raises:
        InputError: a recording without a step.
    """
    emitted, drafted = _whole(trace, draft_tokens)
    place, lengths = np.arange(trace.positions), trace.output_tokens
    starts = place - np.repeat(trace.offsets[:-1], lengths) >= trace.first_step_position
    if not starts.any():
        raise InputError(
            "the trace has no decoding step to average over", file=trace.file, key="steps", value=0
        )
    count = int(starts.sum())
    return _BatchWalk(
        starts=starts,
        emitted=(emitted if drawn is None else drawn)[starts],
        drafted=drafted[starts],
        left=(np.repeat(trace.offsets[1:], lengths) - place)[starts],
        request=np.repeat(np.arange(trace.requests), lengths)[starts],
        places=np.linspace(0, count, batch, endpoint=False).astype(np.int64),
        steps=max(_LEAST_STEPS, laps * count // batch),
        counts=np.zeros((4, trace.requests), dtype=np.int64),
    )


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
