"""What load must a group of replicas carry, and within which limits?

Requests per second with their lengths, as means or from recorded requests. Leaves out bursts:
arrivals are taken as independent of each other (see the simulator for recorded arrivals).
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from costmodel.passes.ops import Array, Mask
from hardware_profiles.errors import InputError
from hardware_profiles.units import MILLI
from traces.kinds.acceptance import RequestTrace

MOST_TOKENS = 10_000_000
_QUANTILES = 16  # prompts that stand for the recorded ones


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """Requests to serve.

    Args:
        requests_per_s: R, > 0.
        prompt_tokens: lengths that stand for the prompts, equally often; each > 0.
        output_tokens: mean output length, >= 1.
        decode_context: cached tokens that a decoding request reads on average.
        longest_context: cached tokens at a request's end, averaged over the requests in flight.

    Raises:
        InputError: a number outside its range.
    """

    requests_per_s: float
    prompt_tokens: tuple[float, ...]
    output_tokens: float
    decode_context: float
    longest_context: float

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

    @property
    def tokens_per_s(self) -> float:
        """Output tokens per second."""
        return self.requests_per_s * self.output_tokens


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Limits on the times of requests, and when they count as met; None where there is no limit.

    Args:
        ttft_s: time to first token.
        tpot_s: time per output token after the first.
        share_ratio: share of the requests that must be within both limits, in (0, 1]; None: their
            means or percentiles must be.
        ttft_percentile: of the times to first token, 0 to 100, that must be within its limit; None:
            their mean.
        tpot_percentile: the same of the times per output token.

    Raises:
        InputError: a share outside its range, or beside a percentile.
    """

    ttft_s: float | None = None
    tpot_s: float | None = None
    share_ratio: float | None = None
    ttft_percentile: float | None = None
    tpot_percentile: float | None = None

    def __post_init__(self) -> None:
        if self.share_ratio is not None and self.highest_percentile is not None:
            rule = "is a share of the requests within both limits; leave out their percentiles"
            raise InputError(rule, key="good_share", value=self.share_ratio)
        if self.share_ratio is not None and not 0.0 < self.share_ratio <= 1.0:
            raise InputError(
                "must lie in 0..1, 0 excluded", key="good_share", value=self.share_ratio
            )

    @property
    def limited(self) -> bool:
        """Whether there is a limit."""
        return self.ttft_s is not None or self.tpot_s is not None

    @property
    def highest_percentile(self) -> float | None:
        """The percentile farthest out in the tail; None where means are limited."""
        stated = (self.ttft_percentile, self.tpot_percentile)
        return max((value for value in stated if value is not None), default=None)

    def held(self, *, ttft_s: Array, tpot_s: Array) -> tuple[float, float]:
        """The times that are held against the limits: a percentile, or the mean.

        Args:
            ttft_s: times to first token of requests, at least one; nan is left out.
            tpot_s: times per output token of requests; nan is left out, and where no request has
                a second token the time is 0.

        Example:
            >>> times = np.array([0.1, 0.2, 0.6])
            >>> Limits(ttft_s=0.3, ttft_percentile=50).held(ttft_s=times, tpot_s=times / 2)
            (0.2, 0.15)
        """
        share = None if self.share_ratio is None else 100.0 * self.share_ratio
        ttft, tpot = (
            0.0
            if np.isnan(seconds).all()
            else float(np.nanmean(seconds) if at is None else np.nanpercentile(seconds, at))
            for seconds, at in (
                (ttft_s, self.ttft_percentile or share),
                (tpot_s, self.tpot_percentile or share),
            )
        )
        return ttft, tpot

    def scaled(self, *, ttft_ratio: float, tpot_ratio: float) -> "Limits":
        """The limits times ratios."""
        ttft, tpot = self.ttft_s, self.tpot_s
        return replace(
            self,
            ttft_s=None if ttft is None else ttft * ttft_ratio,
            tpot_s=None if tpot is None else tpot * tpot_ratio,
        )

    def met(self, *, ttft_s: Array, tpot_s: Array) -> Mask:
        """Where times are within the limits; what has no time meets them.

        Args:
            ttft_s: times to first token, of requests or their means.
            tpot_s: times per output token; broadcasts.

        Example:
            >>> Limits(ttft_s=0.1).met(ttft_s=np.array([0.05, 0.2]), tpot_s=np.array([9.0, 9.0])).tolist()
            [True, False]
        """
        good = np.ones(np.broadcast_shapes(np.shape(ttft_s), np.shape(tpot_s)), dtype=np.bool_)
        for limit, seconds in ((self.ttft_s, ttft_s), (self.tpot_s, tpot_s)):
            if limit is not None:
                good = good & ~(np.asarray(seconds) > limit)
        return good

    @property
    def words(self) -> str:
        """The limits and when they are met; empty where there is none.

        Example:
            >>> Limits(ttft_s=0.045).words, Limits(ttft_s=0.045, tpot_s=0.02, share_ratio=0.9).words
            ('mean TTFT <= 45 ms', '90% of the requests have TTFT <= 45 ms and TPOT <= 20 ms')
        """
        if self.share_ratio is None:
            kinds = zip((self.ttft_percentile, self.tpot_percentile), self._bounds, strict=True)
            return " and ".join(
                f"{'mean' if at is None else f'p{at:g}'} {bound}" for at, bound in kinds if bound
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
        return " and ".join(filter(None, self._bounds))

    @property
    def _bounds(self) -> list[str]:
        """Of each limit, empty where there is none."""
        limits = (("TTFT", self.ttft_s), ("TPOT", self.tpot_s))
        return [
            "" if limit is None else f"{name} <= {limit / MILLI:g} ms" for name, limit in limits
        ]


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
