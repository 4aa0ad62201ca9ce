"""Which requests arrive in a scenario, and when, as they are written?

Drawn or recorded lengths and times, at the written rate or another. Leaves out the laws themselves
(`simulator.scenario.arrivals`).
"""

import numpy as np

from hardware_profiles.errors import InputError
from simulator.loop.request import Workload
from simulator.scenario.arrivals import (
    Places,
    closed_loop,
    drawn_lengths,
    gamma,
    modulated,
    open_loop,
    poisson,
    recorded,
    repeated,
    with_priorities,
)
from simulator.scenario.file import Requests
from traces.kinds.acceptance import RequestTrace


def workload(
    requests: Requests,
    source: RequestTrace | None,
    generator: np.random.Generator,
    places: Places | None = None,
) -> Workload:
    """The requests of a scenario.

    Args:
        requests: as written.
        source: their recording; None: lengths are drawn.
        generator: of all draws.
        places: of the requests of a sample among all, of which no others are made; None: all.

    Raises:
        InputError: laws or numbers out of range, more recorded requests than there are.
    """
    taken = _arriving(requests, source, generator, places)
    return with_priorities(taken, requests.priorities, generator) if requests.priorities else taken


def _arriving(
    requests: Requests,
    source: RequestTrace | None,
    generator: np.random.Generator,
    places: Places | None,
) -> Workload:
    r = requests
    if r.arrivals == "recorded":
        assert source is not None
        return recorded(source, requests=r.count, speed=r.speed, places=places)
    count = requests_of(r, source) if places is None else places.size
    if source is None:
        taken = drawn_lengths(str(r.prompt_tokens), str(r.output_tokens), count, generator)
    else:
        taken = repeated(source, count, places)
    if r.arrivals == "closed":
        return closed_loop(
            taken,
            r.users or 1,
            generator,
            think_s=r.think_s,
            variation=r.think_variation,
        )
    rate = r.rate_per_s or 0.0
    if r.arrivals == "poisson":
        return open_loop(taken, poisson(count, rate, generator, places))
    if r.arrivals == "gamma":
        return open_loop(taken, gamma(count, rate, r.variation, generator, places))
    times = modulated(
        count,
        rate,
        generator,
        burst_ratio=r.burst_ratio,
        calm_s=r.calm_s,
        burst_s=r.burst_s,
        places=places,
    )
    return open_loop(taken, times)


def requests_of(requests: Requests, source: RequestTrace | None) -> int:
    """How many requests a scenario has."""
    return requests.count or (source.requests if source is not None else 0)


def at_rate(requests: Requests, rate_per_s: float, source: RequestTrace | None) -> Requests:
    """The same requests at another mean rate.

    Raises:
        InputError: a closed loop, whose rate follows from its users, or recorded arrivals that span
            no time.
    """
    if requests.arrivals == "closed":
        raise InputError("a closed loop has no rate of its own", key="rate_per_s", value=rate_per_s)
    if requests.arrivals != "recorded":
        return requests.model_copy(update={"rate_per_s": rate_per_s})
    assert source is not None
    count = requests.count or source.requests
    span = float(source.arrival_s[min(count, source.requests) - 1])
    if span <= 0.0:
        raise InputError(
            "recorded arrivals span no time; draw them", file=source.file, key="arrivals"
        )
    return requests.model_copy(update={"speed": rate_per_s * span / count})
