"""What do an engine's counters say, at one moment and between two?

Reads the Prometheus text that vLLM, SGLang, TensorRT-LLM and llama.cpp publish. Leaves out
acceptance, which the importers of `traces.importers.engines` read out of the same text, and
fetching it.
"""

from __future__ import annotations

from dataclasses import dataclass

from traces.importers.prometheus import Series, samples

_CUMULATIVE = ("_total", "_sum", "_count", "_bucket")


@dataclass(frozen=True, kw_only=True, slots=True)
class Scrape:
    """An engine's counters at one moment.

    Attributes:
        at_s: on `time.monotonic`'s clock.
        text: as the engine published it.
    """

    at_s: float
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Observed:
    """What happened between two scrapes.

    Attributes:
        seconds: between them.
        gained: by name and labels, of counters and of sums, counts and buckets of histograms.
        levels: gauges at the end.
        before: every sample at the start.
        after: every sample at the end.
        fell: names of counters that fell or vanished: the engine was restarted in between.
    """

    seconds: float
    gained: Series
    levels: Series
    before: Series
    after: Series
    fell: tuple[str, ...]

    def total(self, name: str) -> float | None:
        """What a counter gained, over all of its labels; None where the engine has no such
        counter.
        """
        return _summed(self.gained, name)

    def level(self, name: str) -> float | None:
        """A gauge at the end, summed over its labels; None where the engine has no such gauge."""
        return _summed(self.levels, name)

    def highest(self, name: str) -> float | None:
        """A gauge at the end, the highest over its labels; None where the engine has no such
        gauge.
        """
        return max((value for (own, _), value in self.levels.items() if own == name), default=None)

    def mean(self, histogram: str) -> float | None:
        """The mean of what a histogram took in; None where that was nothing."""
        total, count = self.total(f"{histogram}_sum"), self.total(f"{histogram}_count")
        return total / count if total is not None and count else None

    def weighted_mean(self, gauge: str, count: str) -> float | None:
        """The mean between the scrapes of what an engine states as a mean since its start, over a
        count.

        Args:
            gauge: the mean since the start.
            count: what it is a mean over.
        """
        means = [_summed(series, gauge) for series in (self.before, self.after)]
        counts = [_summed(series, count) for series in (self.before, self.after)]
        start, end = ((m or 0.0) * (n or 0.0) for m, n in zip(means, counts, strict=True))
        gained = self.total(count)
        return (end - start) / gained if gained and means[1] is not None else None

    def quantile(self, histogram: str, share: float) -> float | None:
        """A quantile of what a histogram took in, linear within its bucket; None where that was
        nothing.

        In the last bucket, which has no end, it is that bucket's beginning: at least so much.

        Args:
            histogram: its name without `_bucket`.
            share: in (0, 1].
        """
        counts: dict[float, float] = {}
        for (name, labels), value in self.gained.items():
            if name == f"{histogram}_bucket":
                end = float(dict(labels).get("le", "nan").replace("+Inf", "inf"))
                counts[end] = counts.get(end, 0.0) + value
        below, start = 0.0, 0.0
        rank = share * max(counts.values(), default=0.0)
        for end, count in sorted(counts.items()):
            if count >= rank > 0.0:
                return (
                    start
                    if end == float("inf")
                    else start + (end - start) * (rank - below) / (count - below)
                )
            below, start = count, end
        return None


def observed(before: Scrape, after: Scrape, model: str | None = None) -> Observed:
    """What an engine did between two scrapes.

    Args:
        before: the earlier one.
        after: the one after it.
        model: samples of other models (label `model_name`) are left out; None: none are.
    """
    start = _of_model(samples(before.text)[0], model)
    series, kinds = samples(after.text)
    end = _of_model(series, model)
    counting = {key for key in start.keys() | end.keys() if _counts(key[0], kinds)}
    gained = {key: end.get(key, 0.0) - start.get(key, 0.0) for key in counting}
    return Observed(
        seconds=after.at_s - before.at_s,
        gained={key: value for key, value in gained.items() if value >= 0.0},
        levels={key: value for key, value in end.items() if key not in counting},
        before=start,
        after=end,
        fell=tuple(sorted({key[0] for key, value in gained.items() if value < 0.0})),
    )


def _of_model(series: Series, model: str | None) -> Series:
    return {
        key: value
        for key, value in series.items()
        if model is None or dict(key[1]).get("model_name", model) == model
    }


def _counts(name: str, kinds: dict[str, str]) -> bool:
    return kinds.get(name) == "counter" or (
        name.endswith(_CUMULATIVE) and kinds.get(name) != "gauge"
    )


def _summed(series: Series, name: str) -> float | None:
    values = [value for (own, _), value in series.items() if own in (name, f"{name}_total")]
    return sum(values) if values else None
