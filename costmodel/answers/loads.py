"""What do requests see under a load, and how few replicas keep limits under theirs?

One replica is known at every batch; requests arrive independently of each other. Leaves out how the
curve of a replica comes about (`replicas`), percentiles, bursts and routing (see the simulator).
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.answers.first_token import Prompts, first_token_s
from costmodel.answers.workload import Limits, Load, Population, RequestTimes, mean_times
from costmodel.passes.ops import Array

_HALVINGS = 50  # of the batch, to a millionth of a request


class Loaded(NamedTuple):
    """A replica under a load: requests in flight on average, and mean times; arrays that
    broadcast.
    """

    in_flight: Array
    tpot_s: Array
    ttft_s: Array

    def times(self, output_tokens: float) -> RequestTimes[Array]:
        """Mean times of requests with so many output tokens on average."""
        return mean_times(ttft_s=self.ttft_s, tpot_s=self.tpot_s, output_tokens=output_tokens)


@dataclass(frozen=True, kw_only=True, eq=False)
class Curve:
    """One replica at every batch; arrays whose last axis is the batch.

    A request that arrives at a replica sees the requests that are in flight on average (arrival
    theorem): a load under which it is one of b keeps b - 1 in flight. No time under a load is less
    than under a lighter one.

    Args:
        batch: float64[n], requests in flight, rising.
        step_s: of a decode step.
        prompts: what prompts take of it.
        requests_per_s: that a busy replica finishes.
        tpot_s: mean time per output token, with the prompts of others in between.
        copies: schedulers that share the batch.
        parallel_prompts: prompts that are processed at the same time.
        composed_iterations: iterations that are composed already when a request arrives, beside the
            one that runs.

    Reference: Lavenberg and Reiser 1980, "Stationary state probabilities at arrival instants for
    closed queueing networks"; Sakasegawa 1977, "An approximation formula Lq = a·rho^b/(1-rho)".
    """

    batch: Array
    step_s: Array
    prompts: Prompts
    requests_per_s: Array
    tpot_s: Array
    copies: int
    parallel_prompts: float
    composed_iterations: int

    @cached_property
    def load_per_s(self) -> Array:
        """Requests per second that arrive where each of them makes the batch as large as it is."""
        stay = self.batch / self.requests_per_s
        return np.maximum.accumulate((self.batch - self.copies) / stay, axis=-1)

    @cached_property
    def received_s(self) -> Array:
        """Mean time to first token under those loads where no request waits for a place."""
        here = (self.batch - self.copies) / self.parallel_prompts
        busy = -np.expm1(
            -here
        )  # somebody is there: the number in flight is taken to follow Poisson's law
        others = np.where(here > 0.0, here / np.where(here > 0.0, busy, 1.0), 1.0)
        step = _along(self.batch, self.step_s, others * self.parallel_prompts)
        p, with_it = self.prompts, (1.0 + others) * self.parallel_prompts
        mean, square, iterations, filled = (
            _along(self.batch, np.broadcast_to(values, self.requests_per_s.shape), with_it)
            for values in (p.mean_s, p.square, p.iterations, p.filled)
        )
        beside = replace(p, mean_s=mean, square=square, iterations=iterations, filled=filled)
        arrivals = self.load_per_s / self.parallel_prompts
        among = first_token_s(
            beside, step, arrivals=arrivals, composed=self.composed_iterations, residual_ratio=0.5
        )
        seconds = (1.0 - busy) * p.alone_s + busy * np.maximum(among, p.alone_s)
        return np.maximum.accumulate(np.broadcast_to(seconds, self.load_per_s.shape), axis=-1)

    @cached_property
    def _slowest_tpot_s(self) -> Array:
        return np.maximum.accumulate(self.tpot_s, axis=-1)

    @cached_property
    def _highest_per_s(self) -> Array:
        return np.maximum.accumulate(self.requests_per_s, axis=-1)

    def highest_per_s(self, places: Array) -> Array:
        """Requests per second that a replica finishes at most, serving so many at once."""
        return _along(self.batch, self._highest_per_s, places)

    def under(self, requests_per_s: Array, places: Array) -> Loaded:
        """What requests see that arrive at a rate; times to first token are infinite where they are
        too many.

        Args:
            requests_per_s: at one replica; its last axis is that of the places.
            places: requests that are served at once at most, within the batches of the curve.
        """
        highest = self.highest_per_s(places)
        alone = _along(
            self.batch, self.load_per_s, places
        )  # from here on requests wait for places most of the time
        at = _places(self.load_per_s, np.minimum(requests_per_s, alone))
        in_flight = np.where(
            requests_per_s < alone,
            _between(self.batch - self.copies, at),
            requests_per_s / highest * places,
        )
        waits = np.minimum(in_flight / places, 1.0) ** (np.sqrt(2.0 * (places + 1.0)) - 1.0)
        spare = np.asarray(highest - requests_per_s)
        waiting = np.where(spare > 0.0, waits / np.where(spare > 0.0, spare, 1.0), np.inf)
        return Loaded(
            in_flight=np.minimum(in_flight, places),
            tpot_s=_between(self._slowest_tpot_s, at),
            ttft_s=_between(self.received_s, at) + waiting,
        )

    def of_users(
        self, population: Population, parts: Array, places: Array, output_tokens: float
    ) -> tuple[Array, Loaded]:
        """What users see who wait for their answers, and how many requests per second they send.

        A request meets what a replica with one user fewer has in flight (arrival theorem), taken as
        that much less of its own (Schweitzer's approximation). Who finds no place waits until the
        others have theirs, so that no time is infinite.

        Args:
            population: of all replicas together.
            parts: replicas that share it evenly; its last axis is that of the places.
            places: requests that are served at once at most, within the batches of the curve.
            output_tokens: of a request, on average.

        Reference: Reiser and Lavenberg 1980, "Mean-value analysis of closed multichain queueing
        networks"; Schweitzer 1979, "Approximate analysis of multiclass closed networks of queues".
        """
        users, think_s = population.users / parts, population.think_s
        others = np.maximum(users - self.copies, 0.0)
        stay_s = self.received_s + (output_tokens - 1.0) * self._slowest_tpot_s

        def stay(batch: Array) -> Array:
            return _along(self.batch, stay_s, batch)

        shape = np.broadcast_shapes(np.shape(users), np.shape(places), (*stay_s.shape[:-1], 1))
        low = np.full(shape, float(self.copies))
        high = np.broadcast_to(np.maximum(places, self.copies), shape).astype(np.float64)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2.0
            seconds = stay(middle)
            fewer = middle - self.copies > others * seconds / (think_s + seconds)
            low, high = np.where(fewer, low, middle), np.where(fewer, middle, high)
        rate = np.minimum(users / (think_s + stay(low)), self.highest_per_s(places))
        tpot = _along(self.batch, self._slowest_tpot_s, low)
        e2e = users / rate - think_s
        return rate, Loaded(
            in_flight=np.minimum(rate * e2e, places),
            tpot_s=tpot,
            ttft_s=e2e - (output_tokens - 1.0) * tpot,
        )

    def shared(self, load: Load, replicas: Array, places: Array) -> tuple[Array, Loaded]:
        """Requests per second of one of several replicas, and what they see.

        Args:
            load: of all replicas together.
            replicas: that share it evenly; its last axis is that of the places.
            places: requests that are served at once at most, within the batches of the curve.
        """
        if load.population is not None:
            return self.of_users(load.population, replicas, places, load.output_tokens)
        share = np.asarray(load.requests_per_s / replicas)
        return share, self.under(share, places)


def least_replicas(
    curve: Curve,
    load: Load,
    places: Array,
    slo: Limits,
    *,
    utilisation: float,
    most: int,
) -> Array:
    """The fewest replicas each of which keeps the limits under its share of a load; infinite where
    no number does.

    Where so many keep them, more do too: no time is less under a heavier load.

    Args:
        curve: one replica.
        load: of all replicas together.
        places: requests that a replica serves at once at most.
        slo: limits on means.
        utilisation: share of the requests that a busy replica finishes which one may be sent.
        most: replicas that there may be.
    """
    highest = curve.highest_per_s(places)

    def keeps(replicas: Array) -> Array:
        share, seen = curve.shared(load, replicas, places)
        carried = share <= utilisation * highest * (1.0 + 1e-9)
        return np.asarray(slo.met(seen.times(load.output_tokens)) & carried)

    low, high = np.ones(highest.shape), np.full(highest.shape, float(most))
    able = keeps(high)
    while np.any(low < high):
        middle = np.floor((low + high) / 2.0)
        enough = keeps(middle)
        high, low = (
            np.where(enough, middle, high),
            np.where(enough, low, np.minimum(middle + 1.0, high)),
        )
    return np.where(able, high, np.inf)


def _along(batch: Array, values: Array, batches: Array | float) -> Array:
    """Values at other batches, [..., batches], linear between those of the curve."""
    at = np.clip(np.searchsorted(batch, batches), 1, max(batch.size - 1, 1)).astype(np.int64)
    return _between(
        values,
        (at, _share(batch[at - 1], batch[np.minimum(at, batch.size - 1)], np.asarray(batches))),
    )


def _places(rising: Array, batches: Array) -> tuple[NDArray[np.int64], Array]:
    """Between which entries of the last axis values lie, and how far, both of the shape of
    `batches`.
    """
    last = rising.shape[-1] - 1
    at = np.clip((rising[..., None, :] < batches[..., :, None]).sum(axis=-1), min(1, last), last)
    rising = np.broadcast_to(rising, (*at.shape[:-1], last + 1))
    high, low = (
        np.take_along_axis(rising, np.maximum(place, 0), axis=-1) for place in (at, at - 1)
    )
    return at, _share(low, high, batches)


def _share(low: Array, high: Array, batches: Array) -> Array:
    gap = high - low
    return np.clip((batches - low) / np.where(gap > 0.0, gap, 1.0), 0.0, 1.0)


def _between(values: Array, at: tuple[NDArray[np.int64], Array]) -> Array:
    """Values at such places of the last axis."""
    places, share = at
    if values.shape[-1] == 1:
        return np.broadcast_to(values, np.broadcast_shapes(values.shape, places.shape)).copy()
    shape = np.broadcast_shapes(values.shape[:-1], places.shape[:-1])
    values = np.broadcast_to(values, (*shape, values.shape[-1]))
    places = np.broadcast_to(places, (*shape, places.shape[-1]))
    low, high = (np.take_along_axis(values, place, axis=-1) for place in (places - 1, places))
    return np.asarray(low + (high - low) * share)
