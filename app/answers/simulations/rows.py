"""What does `simulate` answer? Cases and loads, highest rates, policies, or measured loads beside
their simulations.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from app.answers.answer import Answer, Column, Row, Table
from app.answers.numbers import plain, time_unit
from app.answers.simulations.cases import LoadPoint, SimulationCase
from app.answers.simulations.highest_rates import MOST_REQUESTS, HighestRate
from costmodel.answers.workload import Limits
from real_runs.validation.load_replay import LoadReplay, write_replays
from simulator.scenario.schema import Key

Interval = tuple[float, float]
_RARE = ("rejected", "failed", "preemptions")
_TIMES = ("ttft_mean_s", "ttft_p99_s", "tpot_mean_s", "tpot_p99_s", "itl_p99_s")
_LIMITED = ("ttft_s", "tpot_s", "e2e_s")
_MEASURED = {"ttft_s": "TTFT", "tpot_s": "TPOT", "itl_s": "ITL", "e2e_s": "whole answer"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Simulated(Row):
    """A case, or a case at a load, with the summary of its steady part."""

    name: Annotated[str, Column("Of the case.")]
    rate_per_s: Annotated[float | None, Column("Requests that arrive per second.")] = None
    metrics: Annotated[
        Mapping[str, Any],
        Column("Times and rates of the steady part, totals of the whole run; in SI units."),
    ]

    @property
    def case(self) -> Annotated[str, Column("The case, and its load.")]:
        """The name, with the load where there is one."""
        return (
            self.name if self.rate_per_s is None else f"{self.name} at {plain(self.rate_per_s)}/s"
        )

    @property
    def ttft_mean_s(self) -> Annotated[float, Column("Time to first token.", "TTFT mean", "s")]:
        """Mean time to the first token."""
        return float(self.metrics["ttft_s"]["mean"])

    @property
    def ttft_p99_s(self) -> Annotated[float, Column("Time to first token.", "TTFT p99", "s")]:
        """Time to the first token that 99 % of requests stay within."""
        return float(self.metrics["ttft_s"]["p99"])

    @property
    def tpot_mean_s(self) -> Annotated[float, Column("Time per token.", "TPOT mean", "s")]:
        """Mean time per output token."""
        return float(self.metrics["tpot_s"]["mean"])

    @property
    def tpot_p99_s(self) -> Annotated[float, Column("Time per token.", "TPOT p99", "s")]:
        """Time per output token that 99 % of requests stay within."""
        return float(self.metrics["tpot_s"]["p99"])

    @property
    def itl_p99_s(self) -> Annotated[float, Column("Between tokens.", "ITL p99", "s")]:
        """Time between two tokens that 99 % of them stay within."""
        return float(self.metrics["itl_s"]["p99"])

    @property
    def tokens_per_s(self) -> Annotated[float, Column("Output tokens.", "tokens/s")]:
        """Output tokens per second of the steady part."""
        return float(self.metrics["tokens_per_s"])

    @property
    def goodput_per_s(self) -> Annotated[float | None, Column("Within limits.", "goodput/s")]:
        """Requests within the limits per second."""
        return _optional(self.metrics.get("goodput_per_s"))

    @property
    def good_ratio(
        self,
    ) -> Annotated[float | None, Column("Share.", "within limits", "ratio", decimals=1)]:
        """Share of requests within the limits."""
        return _optional(self.metrics.get("good_ratio"))

    @property
    def counted(self) -> Annotated[int, Column("Requests of the steady part, or all.")]:
        """Requests whose times count."""
        return int(self.metrics["window"]["requests"])

    @property
    def no_steady_part(self) -> Annotated[str | None, Column("Why all requests count.")]:
        """Why there is no steady part, and everything is of the whole run; None where there is
        one.
        """
        reason: str | None = self.metrics["window"]["reason"]
        return reason

    @property
    def finished(self) -> Annotated[int, Column("Requests that ended.")]:
        """Requests that ended."""
        return int(self.metrics["finished"])

    @property
    def rejected(self) -> Annotated[int | None, Column("Requests that were refused.")]:
        """Requests that were refused; None where none was."""
        return self.metrics.get("rejected") or None

    @property
    def failed(self) -> Annotated[int | None, Column("Requests that failed.")]:
        """Requests that failed; None where none did."""
        return self.metrics.get("failed") or None

    @property
    def preempted(self) -> Annotated[int | None, Column("Times that a request was put off.")]:
        """Times that a request was put off; None where none was."""
        return self.metrics.get("preemptions") or None

    @property
    def iterations(self) -> Annotated[int | None, Column("Of the engine.")]:
        """Iterations of the engine; left to what went wrong, where anything did."""
        return int(self.metrics["iterations"])

    @property
    def backlog(self) -> Annotated[str, Column("Whether it grows.")]:
        """Whether more requests wait at the end than the run can say to last."""
        return "grows" if self.metrics.get("is_growing") else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rank(Row):
    """What one data-parallel rank did."""

    rank: Annotated[str, Column("Its number.")]
    requests: Annotated[int, Column("That it served.")]
    ttft_mean_s: Annotated[float, Column("Time to first token.", "TTFT mean", "s")]
    tpot_mean_s: Annotated[float, Column("Time per token.", "TPOT mean", "s")]
    tokens_per_s: Annotated[float, Column("Output tokens.", "tokens/s")]
    busy_ratio: Annotated[float | None, Column("Time with work.", "busy", "ratio", decimals=0)]


@dataclass(frozen=True, kw_only=True)
class Simulation(Answer):
    """The scenario, its variants, and what happens at other loads.

    Attributes:
        metrics: summary of the scenario as asked.
        scheduler: limits and order of the scheduler.
        metrics_interval: 80 % of every number over seeds.
        seeds: where there are several.
        cases: the scenario and its variants, where there are any.
        load: every case at every load that was asked for.
        notes: what was assumed.
        title: of the table.
        simulated: cases with all that happened, for figures.
        points: the loads, for figures.
    """

    name: ClassVar[str] = "simulation"
    unwritten: ClassVar[tuple[str, ...]] = ("title", "simulated", "points")
    metrics: Mapping[str, Any]
    scheduler: Mapping[str, Any]
    metrics_interval: Mapping[str, Any] | None = None
    seeds: Sequence[int] | None = None
    cases: Sequence[Simulated] | None = None
    load: Sequence[Simulated] | None = None
    notes: Sequence[str]
    title: str
    simulated: Sequence[SimulationCase]
    points: Sequence[LoadPoint]

    @property
    def own_rows(self) -> Sequence[Simulated]:
        """The cases, then the loads."""
        return [*_cases(self.simulated), *(self.load or ())]

    def shown(self) -> Iterator[Table | str]:
        """Cases, loads, intervals over seeds, the use of devices and what was assumed."""
        yield _simulated_table(self.title, _cases(self.simulated))
        if self.load:
            yield _simulated_table("over load", self.load)
        first = self.simulated[0]
        if first.result.idle_passes is not None:
            yield Table(
                title="by rank",
                rows=[_rank(rank, m) for rank, m in first.metrics["by_replica"].items()],
                columns=[part.name for part in Rank.__dataclass_fields__.values()],
            )
        if (sampled := first.metrics.get("sampled")) is not None:
            yield _sampled(sampled)
        if self.metrics_interval is not None:
            yield _over_seeds(self.metrics_interval, len(self.seeds or ()))
        slo = self.inputs["slo"]
        if limits := Limits(**{name: slo[name] for name in _LIMITED}).request_words:
            yield f"goodput: requests with {limits}, each by itself"
        m = first.metrics
        if m["joules_per_token"] is not None:
            price = m["usd_per_million_tokens"]
            dollars = "" if price is None else f", $ {plain(price)} per million tokens"
            whose = f"{first.name}: " if len(self.simulated) > 1 else ""
            yield (
                f"{whose}{m['bandwidth_ratio']:.0%} of the bandwidth and {m['compute_ratio']:.0%} of the"
                f" peak in use, {plain(m['joules_per_token'])} J per token{dollars}"
            )
        yield from self.notes


def _cases(simulated: Sequence[SimulationCase]) -> list[Simulated]:
    return [Simulated(name=case.name, metrics=case.metrics) for case in simulated]


@dataclass(frozen=True, kw_only=True, slots=True)
class SimulatedAtRate(Simulated):
    """A setting at a rate, beside the highest rate that it carries."""

    highest_per_s: Annotated[
        float | None, Column("Highest rate that keeps the limits.", "up to requests/s")
    ]


def served(points: Sequence[LoadPoint], highest: Sequence[HighestRate]) -> list[SimulatedAtRate]:
    """Settings at rates as rows, each with its highest rate."""
    most = {rate.name: None if rate.point is None else rate.point.rate_per_s for rate in highest}
    return [
        SimulatedAtRate(
            name=p.name, rate_per_s=p.rate_per_s, metrics=p.metrics, highest_per_s=most[p.name]
        )
        for p in points
    ]


def loaded(points: Sequence[LoadPoint]) -> list[Simulated]:
    """Cases at loads as rows."""
    return [Simulated(name=p.name, rate_per_s=p.rate_per_s, metrics=p.metrics) for p in points]


def _simulated_table(title: str, rows: Sequence[Simulated]) -> Table:
    """What never happened is left out, and iterations make room for what did."""
    happened = any(row.metrics.get(key) for row in rows for key in _RARE)
    columns = ["case", *_TIMES, "tokens_per_s", "goodput_per_s", "finished"]
    last = ["rejected", "failed", "preempted"] if happened else ["iterations"]
    return Table(title=title, rows=rows, columns=[*columns, *last], caption=_counted_words(rows))


def _counted_words(rows: Sequence[Simulated]) -> str:
    """What the times and rates of rows leave out, and what the whole run of the first says."""
    words = []
    reasons = dict.fromkeys(row.no_steady_part for row in rows if row.no_steady_part is not None)
    for reason in reasons:
        which = ", ".join(row.case for row in rows if row.no_steady_part == reason)
        whose = f"{which}: " if len(rows) > 1 else ""
        words.append(
            f"{whose}no steady part ({reason}): the whole run counts, which begins with an empty service"
            " and drains"
        )
    steady = next((row for row in rows if row.no_steady_part is None), None)
    if steady is not None:
        window, run = steady.metrics["window"], steady.metrics["whole_run"]
        ttft, tpot = run["ttft_s"], run["tpot_s"]["mean"]
        unit = time_unit([ttft["mean"], ttft["p99"], tpot])
        whose = f"{steady.case}: " if len(rows) > 1 else ""
        words.append(
            f"{whose}{window['requests']:,} requests count; the first {window['warm_up']:,}, which warm up, and the"
            f" last {window['draining']:,}, which drain, do not. All of them, as a benchmark that begins so"
            f" reports: TTFT mean {unit.show(ttft['mean'])}, p99 {unit.show(ttft['p99'])} {unit.name}, TPOT mean"
            f" {unit.show(tpot)} {unit.name}, {plain(run['tokens_per_s'])} tokens/s"
        )
    return "; ".join(words)


def _rank(rank: str, m: Mapping[str, Any]) -> Rank:
    return Rank(
        rank=rank,
        requests=m["requests"],
        ttft_mean_s=m["ttft_s"]["mean"],
        tpot_mean_s=m["tpot_s"]["mean"],
        tokens_per_s=m["tokens_per_s"],
        busy_ratio=m["busy_ratio"],
    )


def _over_seeds(spread: Mapping[str, Any], seeds: int) -> str:
    return f"80 % over {seeds} seeds: {_times(spread, 'mean')}"


def _sampled(sampled: Mapping[str, Any]) -> str:
    """What was simulated of a fleet, and how surely it tells of all."""
    interval = sampled["interval"]
    good = interval["goodput_per_s"]
    words = [_times(interval, "mean"), _times(interval, "p99")]
    if good is not None:
        words.append(f"goodput {plain(good[0])} to {plain(good[1])}/s")
    return (
        f"{len(sampled['replicas'])} of {plain(sampled['of'])} replicas were simulated;"
        f" {sampled['level']:.0%} of such samples have the fleet's own within: {', '.join(words)}"
    )


def _times(spread: Mapping[str, Any], which: str) -> str:
    """Bounds of the times to the first token and per output token, in words."""
    times = {key: spread[key][which] or (0.0, 0.0) for key in ("ttft_s", "tpot_s")}
    unit = time_unit([bound for bounds in times.values() for bound in bounds])
    return ", ".join(
        f"{key[:-2].upper()} {which} {unit.show(low)} to {unit.show(high)} {unit.name}"
        for key, (low, high) in times.items()
    )


def _optional(value: float | None) -> float | None:
    return None if value is None else float(value)


@dataclass(frozen=True, kw_only=True, slots=True)
class HighestRateRow(Row):
    """The highest load of a setting that keeps the limits, with what happens there."""

    name: Annotated[str, Column("Of the setting.", "setting")]
    feasible: Annotated[bool, Column("Whether there is a rate.")]
    reason: Annotated[str | None, Column("Why there is none.", "no rate")]
    rate_per_s: Annotated[float | None, Column("Requests per second.", "up to requests/s")]
    rate_per_s_interval: Annotated[Interval | None, Column("Over seeds.")]
    above_per_s: Annotated[float | None, Column("Lowest rate tried that loses.", "no more at")]
    good_ratio: Annotated[
        float | None, Column("Share of requests.", "within limits", "ratio", decimals=1)
    ]
    good_ratio_interval: Annotated[Interval | None, Column("From means of batches.")]
    goodput_per_s: Annotated[float | None, Column("Within limits.", "goodput/s")]
    tokens_per_s: Annotated[float | None, Column("Output tokens.", "tokens/s")]
    is_growing: Annotated[bool | None, Column("Whether the backlog grows.")]
    requests: Annotated[int | None, Column("Of the run at that rate.")]
    clock_s: Annotated[float | None, Column("Of the run at that rate.", "seconds")]

    @property
    def backlog(self) -> Annotated[str, Column("Whether it grows.")]:
        """Whether the backlog grows, in words."""
        return "grows" if self.is_growing else ""


@dataclass(frozen=True, kw_only=True)
class HighestRates(Answer):
    """The highest rates at which a share of the requests is within the limits.

    Attributes:
        good_share: share of requests, 0..1.
        limits: in words.
        highest_rates: a row for every setting.
        load: what happens at stated rates.
        is_one_rate: they are the one rate of the scenario.
        seeds: of all draws.
        notes: what was assumed.
        title: of the table.
        points: the loads, for figures.
        tried: every load that was simulated, for figures.
    """

    name: ClassVar[str] = "simulation"
    unwritten: ClassVar[tuple[str, ...]] = ("title", "is_one_rate", "points", "tried")
    good_share: float
    limits: str
    highest_rates: Sequence[HighestRateRow]
    load: Sequence[SimulatedAtRate]
    is_one_rate: bool
    seeds: Sequence[int]
    notes: Sequence[str]
    title: str
    points: Sequence[LoadPoint]
    tried: Sequence[LoadPoint]

    @property
    def own_rows(self) -> Sequence[HighestRateRow | Simulated]:
        """The highest rates, then the loads; at one rate what happens there, beside the highest."""
        return self.load if self.is_one_rate else [*self.highest_rates, *self.load]

    def shown(self) -> Iterator[Table | str]:
        """The highest rate of every setting, and what happens at stated rates."""
        caption = (
            f"{self.limits or 'all that finish'}, of those that arrive after the warm-up, and no"
            " backlog grows; requests and seconds: of the run at that rate, which is lengthened until it says so, to"
            f" {MOST_REQUESTS:,} requests at most; in brackets behind the share: 80 % from means of"
            " batches"
        )
        if len(self.seeds) > 1:
            caption += f", behind the rate: 80 % of {len(self.seeds)} seeds"
        if self.is_one_rate:
            yield Table(
                title=self.title,
                rows=self.load,
                heads={"name": "setting"},
                columns=[
                    "name",
                    *_TIMES[:4],
                    "tokens_per_s",
                    *(["good_ratio"] if self.limits else []),
                    "backlog",
                    "highest_per_s",
                ],
            )
        yield Table(
            title="up to which rate" if self.is_one_rate else self.title,
            rows=self.highest_rates,
            columns=[
                "name",
                "rate_per_s",
                "above_per_s",
                "good_ratio",
                "goodput_per_s",
                "tokens_per_s",
                "requests",
                "clock_s",
                "backlog",
                "reason",
            ],
            caption=caption,
        )
        if self.load and not self.is_one_rate:
            yield Table(
                title="over load",
                rows=self.load,
                columns=[
                    "case",
                    "good_ratio",
                    "goodput_per_s",
                    *_TIMES[:4],
                    "tokens_per_s",
                    "backlog",
                ],
            )
        if any(row.is_growing for row in self.highest_rates):
            yield (
                "where the backlog grows, the recorded requests are too few to tell a rate that"
                " lasts"
            )
        yield from self.notes


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyRow(Row):
    """A policy that sets the draft length: means over seeds."""

    name: Annotated[str, Column("Of the policy.", "policy")]
    meaning: Annotated[str, Column("What it does.")]
    score: Annotated[float, Column("By which policies are ranked, tokens/s.")]
    tokens_per_s: Annotated[float | None, Column("Output tokens.", "tokens/s")]
    goodput_per_s: Annotated[float | None, Column("Within limits.", "goodput/s")]
    tokens_per_step: Annotated[float | None, Column("Emitted.", "tokens/step")]
    tpot_s: Annotated[float | None, Column("Time per output token.", "TPOT", "s")]
    ttft_s: Annotated[float | None, Column("Time to the first token.", "TTFT", "s")]
    drafted_per_step: Annotated[float, Column("Draft tokens.", "drafted/step")]
    length_changes: Annotated[float | None, Column("Of the draft length.", "changes")]
    score_interval: Annotated[Interval | None, Column("Over seeds.")]
    regret_ratio: Annotated[
        float | None, Column("Lost against the best.", "regret", "ratio", decimals=1)
    ]
    to_ours: Annotated[Mapping[str, Any] | None, Column("Ratio to ours.")] = None
    to_expected: Annotated[Mapping[str, Any] | None, Column("Ratio to a bound.")] = None
    to_oracle: Annotated[Mapping[str, Any] | None, Column("Ratio to a bound.")] = None

    @property
    def of_expected(self) -> Annotated[str, Column("Of the bound.", of=("to_expected",))]:
        """Share of what the bound of means reaches."""
        return _share(self.to_expected)

    @property
    def of_oracle(self) -> Annotated[str, Column("Of the bound.", of=("to_oracle",))]:
        """Share of what the bound that knows every request reaches."""
        return _share(self.to_oracle)


@dataclass(frozen=True, kw_only=True)
class ComparedPolicies(Answer):
    """Policies of draft lengths on the same requests.

    Attributes:
        policies: a row for each, in the order asked for.
        schedule: ranges [first batch, last batch, K] of ours.
        by: what ranks them.
        seeds: of arrivals and places in the recording.
        notes: what was assumed.
        title: of the table.
    """

    name: ClassVar[str] = "policies"
    unwritten: ClassVar[tuple[str, ...]] = ("title",)
    policies: Sequence[PolicyRow]
    schedule: Sequence[Sequence[int]]
    by: str
    seeds: Sequence[int]
    notes: Sequence[str]
    title: str

    @property
    def own_rows(self) -> Sequence[PolicyRow]:
        """The policies."""
        return self.policies

    def shown(self) -> Iterator[Table | str]:
        """The policies, what the two bounds leave to win, and our schedule."""
        caption = f"ranked by {self.by}"
        if len(self.seeds) > 1:
            caption += f"; means over {len(self.seeds)} seeds, in brackets 80 % of them"
        yield Table(
            title=self.title,
            rows=self.policies,
            columns=[
                "name",
                "tokens_per_s",
                "tpot_s",
                "goodput_per_s",
                "tokens_per_step",
                "drafted_per_step",
                "length_changes",
                "regret_ratio",
                "of_expected",
                "of_oracle",
            ],
            caption=caption,
        )
        ranges = ", ".join(f"{first}-{last}: {k}" for first, last, k in self.schedule)
        yield f"ours, draft tokens by batch: {ranges}"
        yield from self.notes


def _share(ratio: Mapping[str, Any] | None) -> str:
    if ratio is None:
        return ""
    words = f"{ratio['ratio']:.1%}"
    return (
        words
        if ratio["interval"] is None
        else words + " [{:.1%}, {:.1%}]".format(*ratio["interval"])
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadBeside(Row):
    """A measured load beside its simulation."""

    name: Annotated[str, Column("Of the load.")]
    requests: Annotated[int, Column("That were sent.")]
    rate_per_s: Annotated[float | None, Column("Requests that arrived per second.")]
    metrics: Annotated[Mapping[str, Any], Column("Measured and simulated times.")]
    notes: Annotated[Sequence[str], Column("What was assumed of it.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeBeside(Row):
    """A measured time beside its simulation."""

    time: Annotated[str, Column("Which time.", " ")]
    measured_s: Annotated[float | None, Column("By users.", "measured", "s")]
    simulated_s: Annotated[float | None, Column("Of the same requests.", "simulated", "s")]
    error: Annotated[str, Column("Of the simulation.")]


@dataclass(frozen=True, kw_only=True)
class LoadsBeside(Answer):
    """Measured loads and their simulations.

    Attributes:
        loads: a row for each, without the times of single requests.
        notes: what was assumed of all.
        replays: the loads with the times of their requests, which files keep.
    """

    name: ClassVar[str] = ""
    unwritten: ClassVar[tuple[str, ...]] = ("replays",)
    loads: Sequence[LoadBeside]
    notes: Sequence[str]
    replays: Sequence[LoadReplay]

    @property
    def own_rows(self) -> Sequence[LoadBeside]:
        """The loads."""
        return self.loads

    def shown(self) -> Iterator[Table | str]:
        """A table of every load, and what was assumed."""
        for load in self.loads:
            rate = "" if load.rate_per_s is None else f" at {plain(load.rate_per_s)}/s"
            yield Table(
                title=f"{load.name}: {load.requests} requests{rate}",
                rows=[
                    TimeBeside(
                        time=f"{title} {part}",
                        measured_s=times["measured"],
                        simulated_s=times["simulated"],
                        error=_percent(times["error_ratio"]),
                    )
                    for key, title in _MEASURED.items()
                    for part, times in load.metrics[key].items()
                ],
                columns=["time", "measured_s", "simulated_s", "error"],
            )
            yield from load.notes
        yield from self.notes

    def writers(self) -> Sequence[Callable[[Path, Path], object]]:
        """What keeps the loads in `replay.json` and `replay.parquet`, beside earlier ones."""

        def write(folder: Path, earlier: Path) -> object:
            return write_replays(folder, self.replays, inputs=self.inputs, earlier=earlier)

        return [write]


def _percent(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:+.1%}"


@dataclass(frozen=True, kw_only=True)
class ScenarioKeys(Answer):
    """Every key of a scenario.

    Attributes:
        keys: with type, range, default and meaning.
    """

    name: ClassVar[str] = "schema"
    keys: Sequence[Key]

    @property
    def own_rows(self) -> Sequence[Mapping[str, Any]]:
        """The keys."""
        return [asdict(key) for key in self.keys]

    def shown(self) -> Iterator[Table | str]:
        """A paragraph for every key."""
        yield "Keys of a scenario, for --set KEY=VALUE or as `section: {key: value}` in a file."
        for key in self.keys:
            default = "" if key.default in (None, "") else f"default {json.dumps(key.default)}"
            usual = "needed" if key.required else default
            about = ", ".join(part for part in (f"{key.type} {key.range}".strip(), usual) if part)
            yield f"\n{key.key}  ({about})\n    {key.meaning}"
