"""The compiled walks of draft lengths that a controller sets while it decodes.

Kernels only, over flat arrays. Leaves out checks and meaning: `costmodel.laws.controllers` passes
what it has verified.

Reference: Liu et al. 2024, SmartSpec (arXiv:2406.14066), section 4, for goodput.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.machine_code import cached_njit
from traces.replay.walk_loops import Counts

Lengths = NDArray[np.int64]
PROBE_EVERY = 64  # steps after which the goodput controller drafts although it seems not to pay


@cached_njit(__file__, nogil=True)
def walk_ema(
    emitted: Lengths,
    drafted: Lengths,
    offsets: Counts,
    first: int,
    most: int,
    least: int,
    weight: float,
) -> Lengths:
    """Draft tokens of the step that starts at each position, -1 where none does.

    A request drafts one token more than it recently had accepted, on average; it begins with
    `most`.

    Args:
        emitted: int16[n], tokens that a step emits where it starts, bonus included.
        drafted: int16[n], draft tokens that the drafter has there.
        offsets: int64[r + 1], where every request begins; the last is n.
        first: position at which the first step of a request starts.
        most: most draft tokens K, >= 1, and those of a request's first step.
        least: draft tokens in any case.
        weight: of the latest step in the average, in (0, 1].

    Returns:
        int64[n].
    """
    lengths = np.full(emitted.size, -1, dtype=np.int64)
    for r in range(offsets.size - 1):
        place, end, average = offsets[r] + first, offsets[r + 1], float(most)
        while place < end:
            length = min(most, max(int(average + 0.5) + 1, least))
            drafts = min(length, drafted[place])
            accepted = min(emitted[place], drafts + 1, end - place) - 1
            lengths[place] = drafts
            if drafts > 0:
                average += weight * (accepted - average)
            place += accepted + 1
    return lengths


@cached_njit(__file__, nogil=True)
def _take_step(
    emitted: Lengths,
    left: Lengths,
    request: Lengths,
    places: Lengths,
    w: int,
    drafts: int,
    counts: NDArray[np.int64],
    lengths: Lengths,
) -> int:
    """Move one request of a batch on by a step of so many draft tokens, and count it; the draft
    tokens that it accepts. Arguments as of `walk_goodput`.
    """
    place = places[w]
    accepted: int = min(emitted[place], drafts + 1, left[place]) - 1
    lengths[drafts] += 1
    counts[0, request[place]] += accepted + 1
    counts[1, request[place]] += 1
    counts[2, request[place]] += drafts > 0
    counts[3, request[place]] += drafts
    following = place + accepted + 1
    places[w] = following if following < emitted.size else 0
    return accepted


@cached_njit(__file__, nogil=True)
def walk_goodput(
    emitted: Lengths,
    drafted: Lengths,
    left: Lengths,
    request: Lengths,
    places: Lengths,
    steps: int,
    least: int,
    weight: float,
    seconds: NDArray[np.float64],
    counts: NDArray[np.int64],
    lengths: Lengths,
) -> Lengths:
    """A batch walks along a recording in step; all requests draft as many tokens as seem to emit
    most per second.

    Args:
        emitted: tokens that a step emits, whatever it drafts, at every place where one can start.
        drafted: draft tokens that the drafter has there.
        left: tokens to the end of the text.
        request: request that the place belongs to.
        places: where each request of the batch starts; moved on.
        steps: of the batch.
        least: draft tokens in any case.
        weight: of the latest step in the acceptance that is remembered.
        seconds: of a step that drafts 0, 1, .. tokens per request.
        counts: int64[4, requests], filled by recorded request with tokens, steps, steps with a
            proposal, draft tokens.
        lengths: int64[K + 1], filled with how often a request drafted 0, 1, .. K tokens.

    Returns:
        int64[K + 1], how often the batch chose each length.
    """
    chosen = np.zeros(seconds.size, dtype=np.int64)
    passed, tried = 0.0, 0.0
    for step in range(steps):
        rate = passed / tried if tried > 0.0 else 1.0
        best, best_rate, expected, power = 0, 0.0, 0.0, 1.0
        for k in range(seconds.size):
            expected += power
            power *= rate
            if expected / seconds[k] > best_rate:
                best, best_rate = k, expected / seconds[k]
        if best == 0 and step % PROBE_EVERY == 0:
            best = min(1, seconds.size - 1)
        best = max(best, least)
        chosen[best] += 1
        for w in range(places.size):
            drafts = min(best, drafted[places[w]])
            accepted = _take_step(emitted, left, request, places, w, drafts, counts, lengths)
            if drafts > 0:
                passed += accepted
                tried += accepted + (accepted < drafts)
        passed *= 1.0 - weight
        tried *= 1.0 - weight
    return chosen


@cached_njit(__file__, nogil=True)
def walk_cost(
    emitted: Lengths,
    drafted: Lengths,
    left: Lengths,
    request: Lengths,
    sure: NDArray[np.float64],
    places: Lengths,
    steps: int,
    most: int,
    weight: float,
    seconds: NDArray[np.float64],
    counts: NDArray[np.int64],
    lengths: Lengths,
) -> Lengths:
    """A batch walks along a recording in step; of the drafts it verifies the likeliest tokens, as
    many as are expected to emit most per second.

    Args:
        emitted: tokens that a step emits, whatever it drafts, at every place where one can start.
        drafted: draft tokens that the drafter has there.
        left: tokens to the end of the text.
        request: request that the place belongs to.
        sure: probability that a draft token for that place is accepted if those before it are.
        places: where each request of the batch starts; moved on.
        steps: of the batch.
        most: draft tokens K of a request.
        weight: of the latest step in the tokens per second remembered; 0: no step but this counts.
        seconds: of a step in which the batch verifies 0, 1, .. draft tokens together.
        counts: int64[4, requests], filled by recorded request with tokens, steps, steps with a
            verified token, verified tokens.
        lengths: int64[K + 1], filled with how often 0, 1, .. K tokens of a request were verified.

    Returns:
        int64[seconds], how often the batch verified so many tokens.
    """
    batch = places.size
    verified = np.zeros(seconds.size, dtype=np.int64)
    survival = np.zeros(most * batch)  # by depth, then by request: so ties go to the earlier token
    widths = np.zeros(batch, dtype=np.int64)
    earned, spent = 0.0, 0.0
    for _ in range(steps):
        for w in range(batch):
            place, value = places[w], 1.0
            tokens = min(most, drafted[place], left[place] - 1)
            for k in range(most):
                value = value * sure[place + k] if k < tokens else 0.0
                survival[k * batch + w] = -value
        order = np.argsort(survival, kind="mergesort")
        best, best_expected, best_worth = 0, 0.0, -np.inf
        expected = float(batch)
        for n in range(seconds.size):
            if n > 0:
                if survival[order[n - 1]] >= 0.0:
                    break
                expected -= survival[order[n - 1]]
            worth = (
                expected / seconds[n] if spent == 0.0 else expected - earned / spent * seconds[n]
            )
            if worth > best_worth:
                best, best_expected, best_worth = n, expected, worth
        if weight > 0.0:
            earned = (1.0 - weight) * earned + best_expected
            spent = (1.0 - weight) * spent + seconds[best]
        verified[best] += 1
        widths[:] = 0
        for n in range(best):
            widths[order[n] % batch] += 1
        for w in range(batch):
            _take_step(emitted, left, request, places, w, widths[w], counts, lengths)
    return verified
