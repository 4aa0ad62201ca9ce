"""What does `capacity` answer? A plan for every cell and method, or for the best designs of a search."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar

from app.answers.answer import Answer, Column, Row, Table
from app.answers.capacity.day import DayPlan
from app.answers.capacity.fleet import SampledFleet
from app.answers.cells import LISTED, MarkedCell, reason_lines
from app.answers.deployment_words import deployment_words
from app.answers.estimates import KnownAcceptance
from app.answers.numbers import digits, plain
from app.answers.placements import MarkedPlacement, placed_words
from app.answers.sentences import folded
from app.answers.sizing.pools import PooledPlan
from app.answers.sizing.replicas import SimulatedTimes
from costmodel.answers.capacity import CapacityPlan
from costmodel.answers.energy import power_model, usd_per_million
from costmodel.draft_shape import shape_of
from hardware_profiles.profile import Device
from hardware_profiles.units import HOUR_S, MILLI

Interval = tuple[float, float]
UNKNOWN = "–"
_HELD_BY = {
    "tpot": "TPOT",
    "ttft": "TTFT",
    "throughput": "no gain",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceMemory(Row):
    """What one device of a replica holds."""

    usable_bytes: Annotated[float, Column("For weights and cache.", unit="bytes")]
    weight_bytes: Annotated[float, Column("Weights of the target.", unit="bytes")]
    drafter_bytes: Annotated[float, Column("Weights of the drafter.", unit="bytes")]
    reserve_bytes: Annotated[
        float, Column("Driver, buffers, and what the engine leaves alone.", unit="bytes")
    ]
    request_bytes: Annotated[float, Column("Cache of a request of the target.", unit="bytes")]
    block_waste_bytes: Annotated[float, Column("Of it, the half block.", unit="bytes")]
    drafter_request_bytes: Annotated[
        float, Column("Cache of a request of the drafter.", unit="bytes")
    ]
    largest_batch: Annotated[int, Column("Requests that fit.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedDesign(Row):
    """What is planned with; the layout, the formats and the scheduler's limits where they were
    searched for.
    """

    model: Annotated[str, Column("Target model.")]
    device: Annotated[str, Column("Device.")]
    engine: Annotated[str, Column("Serving engine.")]
    tp: Annotated[int, Column("Devices that share every layer.")]
    method: Annotated[str, Column("Decoding method.")]
    layout: Annotated[str | None, Column("How a replica's devices share the model.")] = None
    dtype: Annotated[str | None, Column("Weight format.")] = None
    kv_dtype: Annotated[str | None, Column("Cache format.")] = None
    batch_cap: Annotated[int | None, Column("Most requests in flight of a scheduler.")] = None
    token_budget: Annotated[int | None, Column("Most query tokens of an iteration.")] = None
    draft: Annotated[str, Column("Shape of the drafts, as `--shape` reads it.")]
    draft_tokens: Annotated[int, Column("Draft tokens per request and step.")]
    devices: Annotated[int, Column("Devices of all replicas.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class SimulatedLoad(Row):
    """What the requests of one replica saw in simulation under its share of the load."""

    ttft_s: Annotated[
        float, Column("Time to first token, as its limit takes it: a percentile, or the mean.")
    ]
    tpot_s: Annotated[float, Column("Time per output token, alike.")]
    e2e_s: Annotated[float, Column("Time of a whole request, alike.")]
    good_ratio: Annotated[float, Column("Requests within all limits.", unit="ratio")]
    keeps_limits: Annotated[bool, Column("Whether the limits are kept and no backlog grows.")]
    requests_per_s: Annotated[float, Column("Requests that it finished.")]
    requests: Annotated[int, Column("That were simulated.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class PricedDesign(PlannedDesign):
    """A design that serves the load, at its price."""

    feasible: Annotated[bool, Column("Whether it can be run.")] = True
    reason: Annotated[None, Column("Nothing: it can be run.")]
    requests_per_s: Annotated[float, Column("Of all replicas.", "requests/s")]
    utilisation_ratio: Annotated[
        float, Column("What is sent, of what a busy replica finishes.", unit="ratio")
    ]
    calibrated: Annotated[bool, Column("Whether the device's kernels were measured.")]
    constants_from: Annotated[str, Column("Device whose kernels stand for its own.")]
    usd_per_hour: Annotated[float | None, Column("Price of all devices; None: unknown.")]
    usd_per_million_tokens: Annotated[float | None, Column("Price of the output tokens.")]
    goodput_per_s: Annotated[
        float | None, Column("Requests a second within the limits; None: nothing simulated them.")
    ]
    goodput_per_usd: Annotated[
        float | None,
        Column("Requests within the limits by dollar; None: one is unknown.", "requests/$"),
    ]
    carried_over_from: Annotated[
        str | None, Column("Device whose kernels stand for its own; None: none does.")
    ]
    price_source: Annotated[str | None, Column("Source of the price; None: it is unknown.")]
    simulated: Annotated[
        SimulatedLoad | None, Column("What a replica showed in simulation; None: it was not run.")
    ] = None

    @property
    def placed(self) -> Annotated[str, Column("Layout, format.", "layout", of=("layout", "dtype"))]:
        """The placement of a search in a cell: `tp2 fp8`."""
        return placed_words(self.layout or "", self.dtype)

    @property
    def hourly(
        self,
    ) -> Annotated[float | str, Column("Price.", "$/h", decimals=2, of=("usd_per_hour",))]:
        """The price of an hour, or that it is unknown."""
        return UNKNOWN if self.usd_per_hour is None else self.usd_per_hour

    @property
    def by_token(
        self,
    ) -> Annotated[
        float | str, Column("Price.", "$/Mtoken", decimals=3, of=("usd_per_million_tokens",))
    ]:
        """The price of a million tokens, or that it is unknown."""
        return UNKNOWN if self.usd_per_million_tokens is None else self.usd_per_million_tokens

    @property
    def good_by_dollar(
        self,
    ) -> Annotated[float | str, Column("Goodput.", "requests/$", of=("goodput_per_usd",))]:
        """The goodput of a dollar, or that it is unknown."""
        return UNKNOWN if self.goodput_per_usd is None else self.goodput_per_usd


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanRow(PricedDesign):
    """The replicas that serve the load."""

    tokens_per_step: Annotated[float, Column("Tokens emitted per step.", decimals=2)]
    batch: Annotated[int, Column("Requests in flight under a replica's highest load.")]
    binds: Annotated[
        str, Column("What keeps the batch from growing: a limit, memory, engine or throughput.")
    ]
    replicas: Annotated[int, Column("Replicas that are needed.")]
    replicas_interval: Annotated[tuple[int, int], Column("Its interval.")]
    requests_per_s_per_replica: Annotated[float, Column("Finished at that batch.")]
    headroom_ratio: Annotated[float, Column("The rest of it.", unit="ratio")]
    mean_batch: Annotated[float, Column("Requests in flight at the load.")]
    ttft_s: Annotated[float, Column("Mean time to the first token.", "TTFT", "s")]
    tpot_s: Annotated[float, Column("Mean time per output token.", "TPOT", "s")]
    e2e_s: Annotated[float, Column("Mean time of a whole request.", "E2E", "s")]
    watts: Annotated[float, Column("Mean power of all devices.", "W", alone=True)]
    watts_interval: Annotated[Interval, Column("Its interval.")]
    joules_per_token: Annotated[float, Column("All energy over the output tokens.")]
    joules_per_token_interval: Annotated[Interval, Column("Its interval.")]
    decode_joules_per_token: Annotated[float, Column("Of decode steps, by output token.")]
    prefill_joules_per_token: Annotated[float, Column("Of prompts, by prompt token.")]
    memory: Annotated[DeviceMemory, Column("What one device holds.")]

    @property
    def held_ttft_s(self) -> Annotated[float, Column("Time held against its limit.", "TTFT", "s")]:
        """Of a simulation, where there is one."""
        return self.ttft_s if self.simulated is None else self.simulated.ttft_s

    @property
    def held_tpot_s(self) -> Annotated[float, Column("Time held against its limit.", "TPOT", "s")]:
        """Of a simulation, where there is one."""
        return self.tpot_s if self.simulated is None else self.simulated.tpot_s

    @property
    def held_e2e_s(self) -> Annotated[float, Column("Time held against its limit.", "E2E", "s")]:
        """Of a simulation, where there is one."""
        return self.e2e_s if self.simulated is None else self.simulated.e2e_s

    @property
    def bound(
        self,
    ) -> Annotated[str, Column("Batch, limit.", "batch, held by", of=("batch", "binds"))]:
        """The batch and what keeps it from growing."""
        return f"{plain(self.batch)}, {_HELD_BY.get(self.binds, self.binds)}"

    @property
    def needed(self) -> Annotated[str, Column("Replicas.", "replicas", of=("replicas",))]:
        """The replicas and their interval, where it is more than one number."""
        low, high = self.replicas_interval
        span = f" [{plain(low)}–{plain(high)}]" if high > low else ""
        return f"{plain(self.replicas)}{span}"


@dataclass(frozen=True, kw_only=True, slots=True)
class PooledRow(PricedDesign):
    """Workers that compute prompts and workers that decode, which serve the load together."""

    prompt_workers: Annotated[int, Column("That compute prompts alone.")]
    decode_workers: Annotated[int, Column("That decode.")]

    @property
    def replicas(self) -> int:
        """Workers of both pools."""
        return self.prompt_workers + self.decode_workers

    @property
    def held_ttft_s(self) -> float | None:
        """Time to first token of the simulation."""
        return None if self.simulated is None else self.simulated.ttft_s

    @property
    def held_tpot_s(self) -> float | None:
        """Time per output token of the simulation."""
        return None if self.simulated is None else self.simulated.tpot_s

    @property
    def held_e2e_s(self) -> float | None:
        """Time of a whole request in the simulation."""
        return None if self.simulated is None else self.simulated.e2e_s

    @property
    def ttft_s(self) -> float | None:
        """The same, as tables of means call it."""
        return self.held_ttft_s

    @property
    def tpot_s(self) -> float | None:
        """The same, as tables of means call it."""
        return self.held_tpot_s

    @property
    def e2e_s(self) -> float | None:
        """The same, as tables of means call it."""
        return self.held_e2e_s

    @property
    def bound(self) -> str:
        """Which workers `needed` counts."""
        return "prompts + decode"

    @property
    def needed(self) -> str:
        """The workers of both pools."""
        return f"{plain(self.prompt_workers)} + {plain(self.decode_workers)}"


ServedRow = PlanRow | PooledRow
Plan = ServedRow | MarkedPlacement


def plan_row(
    plan: CapacityPlan, simulated: SimulatedTimes | None, *, limited: bool, **names: Any
) -> PlanRow:
    """A plan as a row.

    Args:
        plan: what a load needs.
        simulated: what its replicas showed; None: nothing was simulated.
        limited: whether there are limits, outside of which a request does not count.
        names: attributes that say of which design.
    """
    memory, device = plan.room, plan.setting.device
    spread = power_model(device).spread_ratio

    def around(value: float) -> Interval:
        return value * (1 - spread), value * (1 + spread)

    return PlanRow(
        **names,
        **_priced(plan, plan.devices, simulated, limited=limited),
        tokens_per_step=plan.acceptance.tokens_per_step,
        batch=plan.batch,
        binds=plan.binds,
        replicas=plan.replicas,
        replicas_interval=plan.replicas_bounds,
        requests_per_s_per_replica=float(
            plan.curve.requests_per_s[plan.curve.batch == plan.batch][0]
        ),
        utilisation_ratio=plan.utilisation_ratio,
        headroom_ratio=1.0 - plan.utilisation_ratio,
        mean_batch=plan.mean_batch,
        ttft_s=plan.ttft_s,
        tpot_s=plan.tpot_s,
        e2e_s=plan.e2e_s,
        watts=plan.watts,
        watts_interval=around(plan.watts),
        joules_per_token=plan.joules_per_token,
        joules_per_token_interval=around(plan.joules_per_token),
        decode_joules_per_token=plan.decode_joules_per_token,
        prefill_joules_per_token=plan.prefill_joules_per_token,
        memory=DeviceMemory(
            usable_bytes=memory.usable_bytes,
            weight_bytes=memory.weight_bytes,
            drafter_bytes=memory.drafter_bytes,
            reserve_bytes=memory.reserve_bytes,
            request_bytes=memory.request_bytes,
            block_waste_bytes=memory.waste_bytes,
            drafter_request_bytes=memory.drafter_request_bytes,
            largest_batch=memory.largest_batch,
        ),
    )


def pooled_row(plan: PooledPlan, **names: Any) -> PooledRow:
    """Pools of workers as a row.

    Args:
        plan: workers of both pools.
        names: attributes that say of which design.
    """
    devices = plan.workers * plan.by_rate.setting.devices
    return PooledRow(
        **names,
        **_priced(plan.by_rate, devices, plan.times, limited=True),
        utilisation_ratio=plan.utilisation_ratio,
        prompt_workers=plan.prompts,
        decode_workers=plan.decoding,
    )


def _priced(
    plan: CapacityPlan, devices: int, simulated: SimulatedTimes | None, *, limited: bool
) -> dict[str, Any]:
    """What all designs say of their draft, devices, price and simulation, by attribute."""
    device, rate = plan.setting.device, plan.load.requests_per_s
    good = None if limited else rate
    if simulated is not None:
        good = rate * simulated.good_ratio
    price = device.price_usd_per_hour
    hourly = None if price is None else price * devices
    borrowed = not device.calibrated and device.constants_from != device.name
    return {
        "reason": None,
        "requests_per_s": rate,
        "draft": str(shape_of(plan.acceptance)),
        "draft_tokens": plan.acceptance.draft_tokens,
        "devices": devices,
        "calibrated": device.calibrated,
        "constants_from": device.constants_from,
        "usd_per_hour": hourly,
        "usd_per_million_tokens": usd_per_million(hourly, plan.load.tokens_per_s),
        "goodput_per_s": good,
        "goodput_per_usd": good * HOUR_S / hourly if good is not None and hourly else None,
        "carried_over_from": device.constants_from if borrowed else None,
        "price_source": price_words(device),
        "simulated": None
        if simulated is None
        else SimulatedLoad(
            ttft_s=simulated.held.ttft_s,
            tpot_s=simulated.held.tpot_s,
            e2e_s=simulated.held.e2e_s,
            good_ratio=simulated.good_ratio,
            keeps_limits=simulated.keeps_limits,
            requests_per_s=simulated.requests_per_s,
            requests=simulated.requests,
        ),
    }


def price_words(device: Device) -> str | None:
    """Where the price of a device comes from; None where it is unknown."""
    if device.price_usd_per_hour is None:
        return None
    origin = device.provenance["price_usd_per_hour"]
    return f"{origin.source} ({origin.kind})"


@dataclass(frozen=True, kw_only=True, slots=True)
class BestPlan(PlannedDesign):
    """The plan to take, by its names."""

    by: Annotated[str, Column("What it has least of: `usd_per_hour`, or `watts`.")]


def best_row(rows: Sequence[Plan], *, ranked: bool) -> ServedRow | None:
    """The cheapest plan; None where there is none.

    Args:
        rows: the plans and the cells that cannot be.
        ranked: of plans of one price the first is the best, as a search has them; else that of the
            shortest time per token, then of the fewest watts. Where no price is known, of the
            fewest watts.
    """
    plans = [row for row in rows if isinstance(row, PlanRow | PooledRow)]
    if not plans:
        return None
    priced = [row for row in plans if row.usd_per_hour is not None]

    def cost(row: ServedRow) -> tuple[float, ...]:
        watts = row.watts if isinstance(row, PlanRow) else math.inf  # unknown of pools
        if row.usd_per_hour is None or not priced:
            return (watts,)
        tpot_s = math.inf if row.tpot_s is None else row.tpot_s
        return (row.usd_per_hour,) if ranked else (row.usd_per_hour, tpot_s, watts)

    return min(priced or plans, key=cost)


def _prices(row: PricedDesign) -> tuple[float | None, float | None]:
    """What a plan costs an hour and a million tokens, as far as tables tell."""
    by_token = row.usd_per_million_tokens
    return row.usd_per_hour, None if by_token is None else round(by_token, 3)


def best_plan(row: PricedDesign) -> BestPlan:
    """The names of the plan to take."""
    names = {part.name: getattr(row, part.name) for part in fields(PlannedDesign)}
    return BestPlan(**names, by="watts" if row.usd_per_hour is None else "usd_per_hour")


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanAssumptions(Row):
    """What plans rest on beside the cost model."""

    memory: Annotated[str, Column("How engines divide memory, with its source.")]
    power: Annotated[Mapping[str, str], Column("Source of the power model, by kind of device.")]


@dataclass(frozen=True, kw_only=True)
class CapacityPlans(Answer):
    """Replicas for a load.

    Attributes:
        plans: of every cell, number of tensor devices and method; or of the best designs of a
            search, then the placements that cannot run.
        best: the plan to take.
        day: the hours of a profile under the plan to take, where there is a profile.
        fleet: some replicas of the plan to take, simulated behind its router, where it has many
            and there are limits.
        assumptions: what plans rest on.
        acceptance: where tokens per step come from, where anything is drafted.
        remarks: sentences about the acceptance.
    """

    name: ClassVar[str] = "capacity"
    unwritten: ClassVar[tuple[str, ...]] = ("remarks",)
    plans: Sequence[Plan]
    best: BestPlan | None
    assumptions: PlanAssumptions
    day: DayPlan | None = None
    fleet: SampledFleet | None = None
    acceptance: KnownAcceptance | None = None
    remarks: Sequence[str]

    @property
    def own_rows(self) -> Sequence[Plan]:
        """The plans."""
        return self.plans

    @property
    def _tied_words(self) -> str:
        """Plans as cheap as the best one by hour and by token, with what their users see; empty
        where there are none.

        Users who wait for an answer ask more of what is faster, which then costs less a token.
        """
        plans = [row for row in self.plans if isinstance(row, PlanRow) and row.usd_per_hour]
        best = next((row for row in plans if best_plan(row) == self.best), None)
        tied = [] if best is None else [row for row in plans if _prices(row) == _prices(best)]
        if best is None or len(tied) < 2:
            return ""
        others = ", ".join(
            f"{row.method} {row.draft} at {digits(row.tpot_s / MILLI)} ms a token"
            for row in tied
            if row is not best
        )
        own = f"{digits(best.tpot_s / MILLI)} ms a token"
        return f", at {own}; as cheap: {others}"

    def shown(self) -> Iterator[Table | str]:
        """The plans, why others cannot be, and the one to take."""
        inputs = self.inputs
        heads = _heads(inputs)
        # whole requests where they are limited, beside the times that make them up
        times = ["ttft_s", "tpot_s", *(["e2e_s"] if inputs["slo_e2e"] else [])]
        names = [name for name in LISTED if "," in inputs[name]]
        yield Table(
            title=_title(inputs),
            rows=self.plans,
            columns=[
                *names,
                "placed",
                "method",
                "draft",
                "bound",
                "needed",
                *([] if names else ["devices"]),
                *(["requests_per_s"] if inputs["users"] else []),
                *([f"held_{name}" for name in times] if heads else times),
                *([] if names else ["watts"]),
                "hourly",
                "by_token",
                "good_by_dollar",
            ],
            heads=heads,
            caption=_caption(inputs, self.plans, by_percentile=bool(heads)),
            once=["placed"],
            mark="bound",
            kind=PlanRow,
        )
        places = ["layout"] if "," in inputs["tp"] else []
        if "," in (inputs["dtype"] or ""):
            places.append("dtype")
        if inputs["search"] == "full":
            places = ["layout", "dtype", "kv_dtype"]
        marked = [row for row in self.plans if isinstance(row, MarkedCell)]
        yield from reason_lines(marked, [*names, *places, "method"])
        if self.best is not None:
            yield _best_words(self.best, names) + self._tied_words
        if inputs["users"] and self.best is not None:
            (row,) = [
                row
                for row in self.plans
                if isinstance(row, PlanRow) and best_plan(row) == self.best
            ]
            yield folded(_users_words(inputs, row))
        if self.fleet is not None:
            yield folded(self.fleet.words)
        if self.day is not None:
            own_heads = {name.removeprefix("held_"): head for name, head in heads.items()}
            yield self.day.table(times, own_heads)
        if self.acceptance is not None and (remark := self.acceptance.remark):
            yield remark
        yield from self.remarks
        missed = [
            f"{row.device} {row.placed} {row.method}"
            for row in self.plans
            if isinstance(row, PlanRow | PooledRow)
            and row.simulated is not None
            and not row.simulated.keeps_limits
        ]
        if missed:
            yield folded(
                f"in simulation {', '.join(missed)} misses the limits on means; p50:MS or a higher"
                " percentile is planned by simulation"
            )
        yield from _device_lines(
            [row for row in self.plans if isinstance(row, PlanRow | PooledRow)]
        )


def _device_lines(plans: Sequence[PricedDesign]) -> Iterator[str]:
    """Where the price and the kernel times of every device come from."""
    for device, row in {row.device: row for row in plans}.items():
        price = row.price_source or "unknown; state one with --set device.price_usd_per_hour=2.5"
        origin = row.carried_over_from
        kernels = f"; kernel times are carried over from {origin}" if origin else ""
        yield folded(f"{device}: price: {price}{kernels}")


def _title(inputs: Mapping[str, Any]) -> str:
    """The load, and what all plans share."""
    if inputs["users"]:
        asks = (
            f"{plain(inputs['think_time'])} s after an answer"
            if inputs["think_time"]
            else "at once"
        )
        who = f"{plain(inputs['users'])} users, each of whom asks again {asks}, requests"
    else:
        who = f"{plain(inputs['rate'])} requests/s"
    load = f"{who} of {plain(inputs['prompt_tokens'])} + {plain(inputs['output_tokens'])} tokens"
    searched = {"dtype": None, "kv_dtype": None, "tp": 1} if inputs["search"] == "full" else {}
    return f"{load}: {deployment_words({**inputs, **searched})}"


def _heads(inputs: Mapping[str, Any]) -> dict[str, str]:
    """Heads of the times that are percentiles: `p99 TTFT`."""
    stated = {f"held_{name}_s": (name, inputs[f"slo_{name}"]) for name in ("ttft", "tpot", "e2e")}
    return {
        column: f"{limit.partition(':')[0]} {name.upper()}"
        for column, (name, limit) in stated.items()
        if isinstance(limit, str)
    }


def _caption(inputs: Mapping[str, Any], plans: Sequence[Plan], *, by_percentile: bool) -> str:
    limits = f", limits: {inputs['limits']}" if inputs["limits"] else ""
    counts = [
        row.simulated.requests
        for row in plans
        if isinstance(row, PlanRow | PooledRow) and row.simulated
    ]
    times = "means at the load"
    lengths = "of the mean lengths" if inputs["requests"] is None else "of the recorded lengths"
    arrivals = f"{'requests' if inputs['users'] else 'Poisson arrivals'} {lengths}"
    if counts and not by_percentile:
        times += (
            f"; requests/$: those within the limits by dollar, of a simulation of up to"
            f" {max(counts):,} {arrivals}, seed {inputs['seed']}"
        )
    if counts and by_percentile:
        times = (
            f"times of one replica at its share of the load, by a simulation of up to"
            f" {max(counts):,} {arrivals}, seed {inputs['seed']}"
        )
    if any(isinstance(row, PooledRow) for row in plans):
        times += "; prompts + decode: times of the whole service, simulated"
    return (
        f"{times}{limits}; a replica is sent at most {100 * inputs['utilisation']:.0f} %"
        f" of what it could finish; brackets: 80 % intervals; {UNKNOWN}: price unknown"
    )


def _users_words(inputs: Mapping[str, Any], row: PlanRow) -> str:
    """The rate that users make of a plan, and that of its simulation."""
    think = f"{plain(inputs['think_time'])} s of thinking and " if inputs["think_time"] else ""
    sentence = (
        f"{plain(inputs['users'])} users make {plain(row.requests_per_s)} requests/s: one each in"
        f" {think}{plain(row.e2e_s)} s of waiting (Little's law)"
    )
    if (run := row.simulated) is not None:
        simulated = run.requests_per_s * row.replicas
        sentence += f"; a closed loop of them, simulated, makes {plain(simulated)}"
    return sentence


def _best_words(best: BestPlan, names: Sequence[str]) -> str:
    """The plan to take, after the names that tell cells apart."""
    word = "cheapest" if best.by == "usd_per_hour" else "fewest watts (no price is known)"
    which = [getattr(best, name) for name in names if name != "device"]
    placed = placed_words(best.layout or "", best.dtype)
    what = [f"{best.devices} x {best.device}", placed, best.method, best.draft]
    return f"{word}: {', '.join([*which, *what])}"
