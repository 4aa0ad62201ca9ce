"""When do requests reach a service, and how long are they?

Recorded traces as they are, or their lengths under drawn arrivals: Poisson, bursty (gamma gaps, or
a service that switches between calm and burst), a closed loop of users. Everything is drawn from
the generator that is handed in; of a sampled fleet only the requests that stand at the places of the
sample are, whose gaps are sums of so many. Leaves out reading files (`traces.importers.formats`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from simulator.loop.request import MOST_REQUESTS, MOST_TOKENS, Workload
from traces.kinds.acceptance import RequestTrace
from traces.kinds.provenance import BLOCK_TOKENS_KEY

Seconds = NDArray[np.float64]
Counts = NDArray[np.int32]
Places = NDArray[np.int64]
LENGTH_FORMS = "N, uniform:LOW:HIGH, exponential:MEAN or lognormal:MEAN:VARIATION"
_USUAL_BLOCK_TOKENS = 16


def recorded(
    trace: RequestTrace,
    *,
    requests: int | None = None,
    speed: float = 1.0,
    places: Places | None = None,
) -> Workload:
    """The requests of a trace at their recorded times.

    Args:
        trace: at least one request.
        requests: only so many of its first; None: all.
        speed: arrivals this many times as fast, > 0.
        places: of those, the ones that are simulated, rising; None: all.

    Raises:
        InputError: an empty trace, more requests than it holds, a speed out of range.
    """
    _positive(speed, "speed")
    if not trace.requests:
        raise InputError("must hold at least one request", file=trace.file, key="requests", value=0)
    count = trace.requests if requests is None else requests
    if not 1 <= count <= trace.requests:
        raise InputError(
            f"must lie in 1..{trace.requests}", file=trace.file, key="requests", value=count
        )
    blocks = trace.prefix_blocks
    taken: slice | Places = slice(count) if places is None else places
    if blocks is not None:
        blocks = blocks[:count] if places is None else tuple(blocks[i] for i in places.tolist())
    return Workload(
        arrival_s=trace.arrival_s[taken] / speed,
        prompt_tokens=trace.prompt_tokens[taken],
        output_tokens=trace.output_tokens[taken],
        prefix_ids=blocks,
        prefix_block_tokens=block_tokens(trace),
        priority=None if trace.priority is None else trace.priority[taken],
    )


def repeated(trace: RequestTrace, requests: int, places: Places | None = None) -> RequestTrace:
    """So many requests of a trace in its order, from its start again after its end; arrivals are
    all 0.

    Lengths keep their order, which is correlated in real traffic. A second lap shares no prefix
    with the first.

    Args:
        trace: at least one request.
        requests: how many.
        places: int64[requests] of these, counted over all laps, rising; None: from the first on.

    Raises:
        InputError: an empty trace, or more requests than can be simulated.
    """
    if not trace.requests:
        raise InputError("must hold at least one request", file=trace.file, key="requests", value=0)
    _count(requests)
    places = np.arange(requests) if places is None else places
    rows = places % trace.requests
    blocks = trace.prefix_blocks
    if blocks is not None:
        lap = 1 + max((max(ids, default=0) for ids in blocks), default=0)
        laps = (places // trace.requests * lap).tolist()
        blocks = tuple(
            blocks[row] if not shift else tuple(i + shift for i in blocks[row])
            for row, shift in zip(rows.tolist(), laps, strict=True)
        )
    return replace(
        trace,
        arrival_s=np.zeros(requests),
        prompt_tokens=trace.prompt_tokens[rows],
        output_tokens=trace.output_tokens[rows],
        prefix_blocks=blocks,
        priority=None if trace.priority is None else trace.priority[rows],
    )


def drawn_lengths(
    prompt: str, output: str, requests: int, generator: np.random.Generator
) -> RequestTrace:
    """Requests of independent lengths, all at 0.

    Args:
        prompt: law of the prompt's tokens: `LENGTH_FORMS`.
        output: law of the output's tokens.
        requests: how many.
        generator: source of the draws.

    Raises:
        InputError: another form, or numbers out of range.
    """
    _count(requests)
    return RequestTrace(
        arrival_s=np.zeros(requests),
        prompt_tokens=_lengths(prompt, "prompt tokens", requests, generator),
        output_tokens=_lengths(output, "output tokens", requests, generator),
    )


def poisson(
    requests: int,
    rate_per_s: float,
    generator: np.random.Generator,
    places: Places | None = None,
) -> Seconds:
    """Arrivals that know nothing of each other.

    Args:
        requests: how many.
        rate_per_s: mean requests per second, > 0.
        generator: source of the draws.
        places: see `gamma`.

    Returns:
        float64[requests], seconds, sorted.

    Raises:
        InputError: a number out of range.

    >>> poisson(3, 10.0, np.random.default_rng(1)).round(3).tolist()
    [0.107, 0.138, 0.676]
    """
    return gamma(requests, rate_per_s, 1.0, generator, places)


def gamma(
    requests: int,
    rate_per_s: float,
    variation: float,
    generator: np.random.Generator,
    places: Places | None = None,
) -> Seconds:
    """Arrivals whose gaps follow a gamma law.

    Args:
        requests: how many.
        rate_per_s: mean requests per second, > 0.
        variation: standard deviation of a gap over its mean, > 0: 1 is Poisson, more comes in
            bursts.
        generator: source of the draws.
        places: int64[requests] of these requests among all that arrive at that rate, rising; a sum
            of gamma gaps follows a gamma law too. None: they are all that arrive.

    Returns:
        float64[requests], seconds, sorted.

    Raises:
        InputError: a number out of range.
    """
    _count(requests)
    _positive(rate_per_s, "rate")
    _positive(variation, "variation")
    shape = 1.0 / variation**2
    gaps = generator.gamma(shape * _steps(places), 1.0 / (shape * rate_per_s), requests)
    return np.asarray(np.cumsum(gaps))


def modulated(
    requests: int,
    rate_per_s: float,
    generator: np.random.Generator,
    *,
    burst_ratio: float,
    calm_s: float,
    burst_s: float,
    places: Places | None = None,
) -> Seconds:
    """Arrivals of a service that switches between calm and burst, Poisson within each.

    Args:
        requests: how many.
        rate_per_s: mean requests per second over both, > 0.
        generator: source of the draws.
        burst_ratio: rate in a burst over that in calm, >= 1.
        calm_s: mean seconds of calm; exponential, as are bursts.
        burst_s: mean seconds of a burst.
        places: see `gamma`.

    Returns:
        float64[requests], seconds, sorted.

    Raises:
        InputError: a number out of range.
    """
    _count(requests)
    for key, value in (("rate", rate_per_s), ("calm_s", calm_s), ("burst_s", burst_s)):
        _positive(value, key)
    if not 1.0 <= burst_ratio < math.inf:
        raise InputError("must be >= 1 and finite", key="burst_ratio", value=burst_ratio)
    calm_rate = rate_per_s * (calm_s + burst_s) / (calm_s + burst_ratio * burst_s)
    # in the time scale in which arrivals are Poisson of rate 1, phases are stretched by their rates
    wanted = np.cumsum(generator.gamma(_steps(places), 1.0, requests))
    ends_s, ends_scaled = [0.0], [0.0]
    calm = bool(generator.random() < calm_s / (calm_s + burst_s))
    while ends_scaled[-1] < wanted[-1]:
        # many phases at a time, so that short phases under many requests stay quick
        lengths = generator.exponential(1.0, 1024)
        is_calm = (np.arange(1024) % 2 == 0) == calm
        seconds = lengths * np.where(is_calm, calm_s, burst_s)
        scaled = seconds * np.where(is_calm, calm_rate, calm_rate * burst_ratio)
        ends_s.extend((ends_s[-1] + np.cumsum(seconds)).tolist())
        ends_scaled.extend((ends_scaled[-1] + np.cumsum(scaled)).tolist())
    return np.asarray(np.interp(wanted, ends_scaled, ends_s))


def open_loop(trace: RequestTrace, arrival_s: Seconds) -> Workload:
    """The requests of a trace at other times.

    Args:
        trace: as many requests as there are arrivals, or more; see `repeated`.
        arrival_s: sorted.

    Raises:
        InputError: fewer requests than arrivals, or arrivals that are not sorted.
    """
    if trace.requests < arrival_s.size:
        wanted = f"must hold {arrival_s.size} requests"
        raise InputError(wanted, file=trace.file, key="requests", value=trace.requests)
    return replace(
        recorded(replace(trace, arrival_s=np.zeros(trace.requests)), requests=arrival_s.size),
        arrival_s=arrival_s,
    )


def closed_loop(
    trace: RequestTrace,
    users: int,
    generator: np.random.Generator,
    *,
    think_s: float = 0.0,
    variation: float = 1.0,
) -> Workload:
    """The requests of a trace, sent by users who wait for their answers.

    Users who think begin in the middle of it, at random.

    Args:
        trace: requests in the order in which they are sent.
        users: at most so many requests are under way, >= 1.
        generator: of beginnings and of times to think.
        think_s: mean time between an answer and the user's next request.
        variation: standard deviation of these times over their mean.

    Raises:
        InputError: a number out of range.
    """
    if not think_s > 0.0:
        first = replace(trace, arrival_s=np.zeros(trace.requests))
        return replace(recorded(first), users=users, think_s=think_s)
    # later requests wait for answers alone
    starts_s = np.sort(generator.uniform(0.0, think_s, min(users, trace.requests)))
    arrival_s = np.full(trace.requests, starts_s[-1])
    arrival_s[: starts_s.size] = starts_s
    times = np.full(trace.requests, think_s)
    if variation:
        times = generator.gamma(1.0 / variation**2, think_s * variation**2, trace.requests)
    return replace(recorded(replace(trace, arrival_s=arrival_s)), users=users, think_s=times)


def sharing(workload: Workload, prefix_tokens: int, block_tokens: int) -> Workload:
    """The same requests, whose prompts all begin with the same tokens.

    Args:
        workload: the requests.
        prefix_tokens: that they share, > 0; of shorter prompts all.
        block_tokens: of a cache block, which is shared whole or not at all.

    Raises:
        InputError: requests with prefixes of their own.
    """
    if workload.prefix_ids is not None:
        rule = "the requests have prefixes of their own"
        raise InputError(rule, key="deployment.shared_prefix_tokens", value=prefix_tokens)
    blocks = np.minimum(workload.prompt_tokens, prefix_tokens) // block_tokens
    ids = tuple(tuple(range(count)) for count in blocks.tolist())
    return replace(workload, prefix_ids=ids, prefix_block_tokens=block_tokens)


def with_priorities(
    workload: Workload, shares: Mapping[int, float], generator: np.random.Generator
) -> Workload:
    """The workload with priorities drawn independently, unless it has some.

    Args:
        workload: the requests.
        shares: of requests by priority, which is lower for those who are served first; they sum to
            1.
        generator: source of the draws.

    Raises:
        InputError: shares that do not sum to 1.
    """
    if workload.priority is not None:
        return workload
    ranks, parts = (
        np.array(list(shares), dtype=np.int32),
        np.array(list(shares.values()), dtype=np.float64),
    )
    if not parts.size or np.any(parts < 0) or abs(parts.sum() - 1.0) > 1e-6:
        raise InputError(
            "shares must be >= 0 and sum to 1", key="priorities", value=float(parts.sum())
        )
    return replace(
        workload, priority=generator.choice(ranks, workload.requests, p=parts / parts.sum())
    )


def block_tokens(trace: RequestTrace) -> int:
    """Tokens of one prefix block of a trace; 16 where it does not say.

    Raises:
        InputError: it says something else than a whole number above 0.
    """
    stated = trace.provenance.extra.get(BLOCK_TOKENS_KEY, _USUAL_BLOCK_TOKENS)
    if type(stated) is not int or not 1 <= stated <= MOST_TOKENS:
        raise InputError(
            "must be a whole number >= 1", file=trace.file, key=BLOCK_TOKENS_KEY, value=stated
        )
    return stated


def _lengths(law: str, key: str, requests: int, generator: np.random.Generator) -> Counts:
    name, *numbers = law.split(":")
    draws: dict[tuple[str, int], Callable[..., NDArray[np.float64]]] = {
        ("fixed", 1): lambda value: np.full(requests, value),
        ("uniform", 2): lambda low, high: np.floor(generator.uniform(low, high + 1.0, requests)),
        ("exponential", 1): lambda mean: generator.exponential(mean, requests),
        ("lognormal", 2): lambda mean, variation: _lognormal(mean, variation, requests, generator),
    }
    if not numbers:
        name, numbers = "fixed", [name]
    try:
        values = [float(number) for number in numbers]
    except ValueError:
        values = []
    draw = draws.get((name, len(values)))
    if draw is None or not all(0.0 < value <= MOST_TOKENS for value in values):
        raise InputError(
            f"must be {LENGTH_FORMS}, with numbers in 0..{MOST_TOKENS}", key=key, value=law
        )
    if name == "uniform" and values[1] < values[0]:
        raise InputError("must not end before it begins", key=key, value=law)
    return np.clip(np.rint(draw(*values)), 1, MOST_TOKENS).astype(np.int32)


def _lognormal(
    mean: float, variation: float, requests: int, generator: np.random.Generator
) -> NDArray[np.float64]:
    sigma = math.sqrt(math.log1p(variation**2))
    return generator.lognormal(math.log(mean) - sigma**2 / 2.0, sigma, requests)


def _steps(places: Places | None) -> Seconds | float:
    """How many arrivals lie between one of these places and the last, itself included."""
    return 1.0 if places is None else np.diff(places, prepend=-1).astype(np.float64)


def _count(requests: int) -> None:
    if not 1 <= requests <= MOST_REQUESTS:
        raise InputError(f"must lie in 1..{MOST_REQUESTS}", key="requests", value=requests)


def _positive(value: float, key: str) -> None:
    if not 0.0 < value < math.inf:
        raise InputError("must be positive and finite", key=key, value=value)
