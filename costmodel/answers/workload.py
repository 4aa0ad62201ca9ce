"""What load must a group of replicas carry, and within which limits?

Requests per second with their lengths, as means or from recorded requests. Leaves out bursts:
arrivals are taken as independent of each other (see the simulator for recorded arrivals).
"""

import math
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from costmodel.passes.ops import Array, Mask, Number
from hardware_profiles.errors import InputError
from hardware_profiles.units import MILLI
from traces.kinds.acceptance import RequestTrace

MOST_TOKENS = 10_000_000
MOST_USERS = 1_000_000
MOST_THINK_S = 86_400
_QUANTILES = 16  # prompts that stand for the recorded ones
_Seconds = TypeVar("_Seconds", float, Array)
_Seconds_co = TypeVar("_Seconds_co", bound=Number, covariant=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Population:
    """People who wait for their answers: a closed loop.

    Args:
        users: each with one request at a time; of a part of a service a mean, > 0.
        think_s: between an answer and the same user's next request, 0 to a day.

    Raises:
        InputError: a number out of range.
    """

    users: float
    think_s: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 < self.users <= MOST_USERS:
            raise InputError(f"must be 1 to {MOST_USERS:,}", key="users", value=self.users)
        if not 0.0 <= self.think_s <= MOST_THINK_S:
            rule = f"must be 0 to {MOST_THINK_S:,} seconds"
            raise InputError(rule, key="think_time", value=self.think_s)


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """Requests to serve.

    Args:
        requests_per_s: R, > 0; of a population it follows from how fast it is served, which a plan
            says: until then it does not count.
        prompt_tokens: lengths that stand for the prompts, equally often; each > 0.
        output_tokens: mean output length, >= 1.
        decode_context: cached tokens that a decoding request reads on average.
        longest_context: cached tokens at a request's end, averaged over the requests in flight.
        population: who sends them; None: they arrive independently of each other.

    Raises:
        InputError: a number outside its range.
    """

    requests_per_s: float
    prompt_tokens: tuple[float, ...]
    output_tokens: float
    decode_context: float
    longest_context: float
    population: Population | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.requests_per_s) and self.requests_per_s > 0.0):
            raise InputError(
                "must be a positive number of requests per second",
                key="rate",
                value=self.requests_per_s,
            )
        for key, values, least in (
            ("prompt", self.prompt_tokens, 1.0),
            ("output", (self.output_tokens,), 1.0),
        ):
            for value in values:
                if not least <= value <= MOST_TOKENS:
                    raise InputError(
                        f"must be {least:g} to {MOST_TOKENS} tokens", key=key, value=value
                    )

    @property
    def mean_prompt_tokens(self) -> float:
        """Mean of the prompts' lengths."""
        return sum(self.prompt_tokens) / len(self.prompt_tokens)

    def share(self, replicas: float) -> "Load":
        """What each of several replicas has of it."""
        people = self.population
        return replace(
            self,
            requests_per_s=self.requests_per_s / replicas,
            population=None if people is None else replace(people, users=people.users / replicas),
        )

    @property
    def tokens_per_s(self) -> float:
        """Output tokens per second."""
        return self.requests_per_s * self.output_tokens


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RequestTimes(Generic[_Seconds_co]):
    """Times of requests, or what is said of them, such as means; nan where there is none.

    Args:
        ttft_s: to the first token.
        tpot_s: per output token after the first.
        e2e_s: of the whole request, from its arrival to its last token.
    """

    ttft_s: _Seconds_co
    tpot_s: _Seconds_co
    e2e_s: _Seconds_co

    def of(self, chosen: Mask) -> "RequestTimes[Array]":
        """Those of some requests."""
        ttft_s, tpot_s, e2e_s = (
            np.asarray(seconds)[chosen] for seconds in (self.ttft_s, self.tpot_s, self.e2e_s)
        )
        return RequestTimes(ttft_s=ttft_s, tpot_s=tpot_s, e2e_s=e2e_s)


def mean_times(
    *, ttft_s: _Seconds, tpot_s: _Seconds, output_tokens: float
) -> RequestTimes[_Seconds]:
    """Mean times of requests whose lengths know nothing of their times per token: the whole request
    takes its first token's time and that of every later token.

    Args:
        ttft_s: mean time to the first token.
        tpot_s: mean time per output token.
        output_tokens: mean output length, >= 1.

    Example:
        >>> mean_times(ttft_s=0.5, tpot_s=0.02, output_tokens=101).e2e_s
        2.5
    """
    e2e_s = ttft_s + (output_tokens - 1.0) * tpot_s
    return RequestTimes(ttft_s=ttft_s, tpot_s=tpot_s, e2e_s=e2e_s)


class _Bound(NamedTuple):
    """The limit of one time: its name, the most seconds, and of which percentile."""

    name: str
    seconds: float | None
    percentile: float | None

    @property
    def words(self) -> str:
        """The limit of one request; empty where there is none."""
        return "" if self.seconds is None else f"{self.name} <= {self.seconds / MILLI:g} ms"


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Limits on the times of requests, and when they count as met; None where there is no limit.

    Args:
        ttft_s: time to first token.
        tpot_s: time per output token after the first.
        e2e_s: time of the whole request, from its arrival to its last token.
        share_ratio: share of the requests that must be within all limits, in (0, 1]; None: their
            means or percentiles must be.
        ttft_percentile: of the times to first token, 0 to 100, that must be within its limit; None:
            their mean.
        tpot_percentile: the same of the times per output token.
        e2e_percentile: the same of the times of whole requests.

    Raises:
        InputError: a share outside its range, or beside a percentile.
    """

    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None
    share_ratio: float | None = None
    ttft_percentile: float | None = None
    tpot_percentile: float | None = None
    e2e_percentile: float | None = None

    def __post_init__(self) -> None:
        if self.share_ratio is not None and self.highest_percentile is not None:
            rule = "is a share of the requests within all limits; leave out their percentiles"
            raise InputError(rule, key="good_share", value=self.share_ratio)
        if self.share_ratio is not None and not 0.0 < self.share_ratio <= 1.0:
            raise InputError(
                "must lie in 0..1, 0 excluded", key="good_share", value=self.share_ratio
            )

    @property
    def limited(self) -> bool:
        """Whether there is a limit."""
        return any(bound.seconds is not None for bound in self._bounds)

    @property
    def highest_percentile(self) -> float | None:
        """The percentile farthest out in the tail; None where means are limited."""
        stated = (bound.percentile for bound in self._bounds)
        return max((value for value in stated if value is not None), default=None)

    def held(self, times: RequestTimes[Array]) -> RequestTimes[float]:
        """The times that are held against the limits: a percentile, or the mean.

        Args:
            times: of requests, at least one; nan is left out, and where no request has a second
                token the time per output token is 0.

        Example:
            >>> seconds = np.array([0.1, 0.2, 0.6])
            >>> times = RequestTimes(ttft_s=seconds, tpot_s=seconds / 2, e2e_s=seconds)
            >>> held = Limits(ttft_s=0.3, ttft_percentile=50).held(times)
            >>> held.ttft_s, held.tpot_s
            (0.2, 0.15)
        """
        share = None if self.share_ratio is None else 100.0 * self.share_ratio

        def one(seconds: Array, percentile: float | None) -> float:
            at = percentile or share
            if np.isnan(seconds).all():
                return 0.0
            return float(np.nanmean(seconds) if at is None else np.nanpercentile(seconds, at))

        return RequestTimes(
            ttft_s=one(times.ttft_s, self.ttft_percentile),
            tpot_s=one(times.tpot_s, self.tpot_percentile),
            e2e_s=one(times.e2e_s, self.e2e_percentile),
        )

    def scaled(self, ratios: RequestTimes[float]) -> "Limits":
        """The limits times ratios."""

        def times(seconds: float | None, ratio: float) -> float | None:
            return None if seconds is None else seconds * ratio

        return replace(
            self,
            ttft_s=times(self.ttft_s, ratios.ttft_s),
            tpot_s=times(self.tpot_s, ratios.tpot_s),
            e2e_s=times(self.e2e_s, ratios.e2e_s),
        )

    def met(self, times: RequestTimes[Number]) -> Mask:
        """Where times are within the limits; what has no time meets them.

        Args:
            times: of requests, or their means; arrays broadcast.

        Example:
            >>> seconds = np.array([0.05, 0.2])
            >>> times = RequestTimes(ttft_s=seconds, tpot_s=9.0, e2e_s=9.0)
            >>> Limits(ttft_s=0.1).met(times).tolist()
            [True, False]
        """
        good = np.ones(_shape(times), dtype=np.bool_)
        for limit, seconds in self._against(times):
            good = good & ~(np.asarray(seconds) > limit)
        return good

    def excess(self, times: RequestTimes[Number]) -> Array:
        """By how much the limits would have to be multiplied to be met; 0 where there is none.

        Args:
            times: of requests, or their means; arrays broadcast.

        Example:
            >>> times = RequestTimes(ttft_s=0.3, tpot_s=0.02, e2e_s=9.0)
            >>> float(Limits(ttft_s=0.1, tpot_s=0.02).excess(times).round(6))
            3.0
        """
        ratio = np.zeros(_shape(times))
        for limit, seconds in self._against(times):
            ratio = np.maximum(ratio, np.asarray(seconds) / limit)
        return ratio

    @property
    def words(self) -> str:
        """The limits and when they are met; empty where there is none.

        Example:
            >>> Limits(ttft_s=0.045).words, Limits(ttft_s=0.045, e2e_s=2, share_ratio=0.9).words
            ('mean TTFT <= 45 ms', '90% of the requests have TTFT <= 45 ms and E2E <= 2000 ms')
        """
        if self.share_ratio is None:
            return " and ".join(
                f"{'mean' if bound.percentile is None else f'p{bound.percentile:g}'} {bound.words}"
                for bound in self._bounds
                if bound.words
            )
        return (
            f"{100 * self.share_ratio:g}% of the requests have {self.request_words}"
            if self.limited
            else ""
        )

    @property
    def request_words(self) -> str:
        """The limits of one request; empty where there is none.

        Example:
            >>> Limits(ttft_s=0.045, tpot_s=0.02).request_words
            'TTFT <= 45 ms and TPOT <= 20 ms'
        """
        return " and ".join(bound.words for bound in self._bounds if bound.words)

    @property
    def _bounds(self) -> tuple[_Bound, _Bound, _Bound]:
        """Of the time to first token, per output token and of the whole request."""
        return (
            _Bound("TTFT", self.ttft_s, self.ttft_percentile),
            _Bound("TPOT", self.tpot_s, self.tpot_percentile),
            _Bound("E2E", self.e2e_s, self.e2e_percentile),
        )

    def _against(self, times: RequestTimes[Number]) -> list[tuple[float, Number]]:
        """Every limit that there is, with the time that it holds for."""
        limits = (self.ttft_s, self.tpot_s, self.e2e_s)
        seconds = (times.ttft_s, times.tpot_s, times.e2e_s)
        pairs = zip(limits, seconds, strict=True)
        return [(limit, value) for limit, value in pairs if limit is not None]


NO_LIMITS = Limits()


def _shape(times: RequestTimes[Number]) -> tuple[int, ...]:
    parts = (times.ttft_s, times.tpot_s, times.e2e_s)
    return np.broadcast_shapes(*(np.shape(part) for part in parts))


def load_of_means(*, requests_per_s: float, prompt_tokens: float, output_tokens: float) -> Load:
    """A load whose requests all have the mean lengths.

    Args:
        requests_per_s: R.
        prompt_tokens: mean prompt length.
        output_tokens: mean output length.

    Raises:
        InputError: a number outside its range.
    """
    return Load(
        requests_per_s=requests_per_s,
        prompt_tokens=(prompt_tokens,),
        output_tokens=output_tokens,
        decode_context=prompt_tokens + output_tokens / 2.0,
        longest_context=prompt_tokens + output_tokens,
    )


def load_of_requests(
    trace: RequestTrace, *, requests_per_s: float | None = None, prompts: int = _QUANTILES
) -> Load:
    """The load of recorded requests: their lengths, and their mean rate unless another is asked
    about.

    Requests are in flight in proportion to their outputs, so contexts are weighted by output
    length.

    Args:
        trace: recorded requests.
        requests_per_s: R; None takes the recording's mean rate.
        prompts: lengths that stand for those of all prompts; one where all are equally long.

    Raises:
        InputError: a recording without requests, or one that spans no time where its rate is
            needed.
    """
    if not trace.requests:
        raise InputError("must hold at least one request", file=trace.file, key="requests", value=0)
    rate = requests_per_s
    if rate is None:
        span = float(trace.arrival_s[-1] - trace.arrival_s[0]) if trace.requests > 1 else 0.0
        if span <= 0.0:
            raise InputError(
                "the recorded requests span no time; state a rate", file=trace.file, key="arrival_s"
            )
        rate = (trace.requests - 1) / span
    prompt, output = trace.prompt_tokens.astype(np.float64), trace.output_tokens.astype(np.float64)
    prompts = 1 if prompt.min() == prompt.max() else prompts
    # every length stands for an equal share of the requests and is that share's mean
    below = np.concatenate(([0.0], np.cumsum(np.sort(prompt)))) / prompt.size
    shares = np.linspace(0.0, prompt.size, prompts + 1)
    lengths = prompts * np.diff(np.interp(shares, np.arange(prompt.size + 1), below))
    return Load(
        requests_per_s=rate,
        prompt_tokens=tuple(np.clip(lengths, prompt.min(), prompt.max()).tolist()),
        output_tokens=float(output.mean()),
        decode_context=float((output * (prompt + output / 2.0)).sum() / output.sum()),
        longest_context=float((output * (prompt + output)).sum() / output.sum()),
    )
