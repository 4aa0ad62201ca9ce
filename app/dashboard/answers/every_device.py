"""Which device is cheapest, every one of them with the layout that suits it best?

At a limit on the time per token every device takes the layout, batch and draft length with the
lowest price that meets it; without one, the fewest devices that hold the state's batch. For a load,
those that are cheapest per token are planned as `capacity` does. Leaves out changed devices
(`answers.hardware`).
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from app.answers.capacity.rows import CapacityPlans, Plan, PlanRow
from app.dashboard.answer import Card, Figure, setting_of
from app.dashboard.asking import Asked
from app.dashboard.changes import PRESS, asks
from app.dashboard.device_numbers import DEVICE_NUMBERS
from app.dashboard.question import draft_asked, drafter_asked, where_asked
from app.dashboard.state import State, milliseconds, sold_devices
from app.dashboard.wording import as_words, error_words
from app.questions.capacity import CapacityQuestion
from app.render.charts.charts import PALETTE, digits, framed
from app.render.charts.labels import label_places
from costmodel.answers.energy import step_draw, usd_per_million
from costmodel.answers.estimate import estimate
from costmodel.configuration import DecodingConfiguration
from costmodel.laws.acceptance import Acceptance
from costmodel.optimizers.layouts import (
    BATCHES,
    TENSOR,
    Layout,
    LayoutPoint,
    every_point,
    most_per_device,
)
from hardware_profiles.errors import InfeasibleError, InputError
from hardware_profiles.loader import load_device
from hardware_profiles.units import MILLI

Row = dict[str, Any]
MOST_PLANNED = 8
PLOT_PIXELS = (520.0, 220.0)  # of the chart on a narrow screen
_DATE = re.compile(r"(?:\d{1,2} [A-Z][a-z]+ )?\b20\d\d\b", re.ASCII)


def device_rows(
    configuration: DecodingConfiguration, chains: Sequence[Acceptance], state: State
) -> list[Row]:
    """Every device at its best layout, the cheapest first, then those without a price, then those
    without an answer.
    """
    rows = [_device_row(name, configuration, chains, state) for name in sold_devices()]
    return sorted(
        rows,
        key=lambda row: (
            row["tokens/s per device"] is None,
            row["$ per million tokens"] is None,
            row["$ per million tokens"] or 0.0,
            -(row["tokens/s per device"] or 0.0),
        ),
    )


def _device_row(
    name: str, configuration: DecodingConfiguration, chains: Sequence[Acceptance], state: State
) -> Row:
    device = load_device(name)
    question, limit = _sold(configuration, name), milliseconds(state.slo_tpot)
    row: Row = {
        "device": name,
        "layout": "",
        "batch": None,
        "K": "",
        "tokens/s per user": None,
        "tokens/s per device": None,
        "$ per million tokens": None,
        "J per token": None,
        "$ per hour": device.price_usd_per_hour,
        "price of": price_date(name),
        "limited by": "",
    }
    batches = (state.batch,) if limit is None else BATCHES
    # without a limit more devices never make a token cheaper: a step gains less than they cost
    try:
        points, left_out = every_point(
            question, chains, context=state.context, batches=batches, fewest=limit is None
        )
    except (InputError, InfeasibleError) as error:
        return row | {"limited by": error_words(error)}
    best = most_per_device(points, 0.0 if limit is None else 1.0 / limit)
    if best is None:
        reasons = ["misses the limit"] if points else list(dict.fromkeys(left_out.values()))
        return row | {"limited by": as_words(", ".join(reasons))}
    return row | _point_row(question, best, chains, state, device.price_usd_per_hour)


def _point_row(
    configuration: DecodingConfiguration,
    point: LayoutPoint,
    chains: Sequence[Acceptance],
    state: State,
    price: float | None,
) -> Row:
    setting = setting_of(point.layout.on(configuration))
    a = next(chain for chain in chains if chain.draft_tokens == point.draft_tokens)
    step = estimate(setting, a, batch=point.batch, context=state.context).step
    usd = usd_per_million(price, point.device_tokens_per_s)
    return {
        "layout": point.layout.name,
        "batch": point.batch,
        "K": point.draft_tokens or "off",
        "tokens/s per user": round(point.user_tokens_per_s, 1),
        "tokens/s per device": round(point.device_tokens_per_s, 1),
        "$ per million tokens": None if usd is None else round(usd, 3),
        "J per token": round(float(step_draw(setting, step).watts) / point.device_tokens_per_s, 4),
        "limited by": str(step.limit),
    }


@lru_cache(maxsize=256)
def price_date(device: str) -> str:
    """When a device's price was read, as its source says; empty where it has none."""
    origin = load_device(device).provenance.get("price_usd_per_hour")
    dates = _DATE.findall(origin.source) if origin is not None else []
    return dates[-1] if dates else ""


def trade_card(rows: Sequence[Row], state: State) -> Card:
    """Price against energy of every device that has both, names where they cover nothing."""
    priced = [row for row in rows if row["$ per million tokens"] and row["J per token"]]
    # names are placed in this order, so that those of the two chosen devices are drawn
    priced.sort(key=lambda row: row["device"] not in (state.device, state.other_device))
    x, y = ([row[key] for row in priced] for key in ("$ per million tokens", "J per token"))
    names = [row["device"] for row in priced]
    hover = [
        f"<b>{row['device']}</b>: {row['layout']}, batch {row['batch']:,}, K"
        f" {row['K']}<br>${digits(row['$ per million tokens'])} per million"
        f" tokens<br>{digits(row['J per token'])} J per token<br>{digits(row['tokens/s per user'])}"
        f" tokens/s per user ({digits(1.0 / row['tokens/s per user'] / MILLI)} ms per token)"
        for row in priced
    ]
    own = [name == state.device for name in names]
    points: Figure = {
        "type": "scatter",
        "mode": "markers+text",
        "x": x,
        "y": y,
        "cliponaxis": False,
        "text": [
            name if place else ""
            for name, place in zip(names, label_places(x, y, names, size=PLOT_PIXELS), strict=True)
        ],
        "textposition": [
            place or "top center" for place in label_places(x, y, names, size=PLOT_PIXELS)
        ],
        "marker": {
            "color": [PALETTE[1] if is_own else PALETTE[0] for is_own in own],
            "symbol": ["star" if is_own else "circle" for is_own in own],
            "size": [15 if m else 10 for m in own],
        },
        "hoverinfo": "text",
        "hovertext": hover,
        "customdata": [_question(row) for row in priced],
    }
    figure = framed(
        [points],
        {"type": "log", "title": {"text": "$ per million tokens"}},
        {"type": "log", "title": {"text": "J per token"}},
        height=320,
    )
    return Card(
        title="Price and energy of every device",
        figure=figure,
        note="Each at its best layout; decode steps alone; lower left is better.",
        press=PRESS,
    )


def _question(row: Row) -> str:
    """What a device's point asks: the device as it is sold, at the layout and batch of its row."""
    groups = {Layout(tensor=count).name: count for count in TENSOR}
    if row["layout"] not in groups:
        return ""  # the controls know tensor groups alone
    where = {"device": row["device"], "tp": groups[row["layout"]], "batch": row["batch"]}
    return asks({**where, **dict.fromkeys(DEVICE_NUMBERS, 0.0)})


def limit_words(state: State) -> str:
    """What every device is compared at."""
    if state.slo_tpot:
        return f"within {state.slo_tpot:g} ms per token"
    return f"at batch {state.batch:,}"


def planned_devices(rows: Sequence[Row], state: State) -> list[str]:
    """The devices that are planned for a load: the cheapest per token, and the page's two where
    they have a price.
    """
    priced = [row["device"] for row in rows if row["$ per million tokens"] is not None]
    own = [name for name in (state.device, state.other_device) if name in priced]
    return list(dict.fromkeys([*priced[:MOST_PLANNED], *own]))


def asked_plans(state: State, devices: Sequence[str]) -> Asked:
    """What `capacity` is asked of a state: the load on some devices, over tensor groups."""
    return Asked(
        verb=CapacityQuestion,
        values={
            **where_asked(state),
            "device": ",".join(devices),
            "tp": ",".join(map(str, TENSOR)),
            **drafter_asked(state),
            **(draft_asked(state) if state.draft_tokens else {}),
            "rate": state.rate,
            "prompt": state.prompt_tokens,
            "output": state.output_tokens,
            "slo_ttft": state.slo_ttft,
            "slo_tpot": state.slo_tpot,
            "slo_e2e": state.slo_e2e,
            "seed": state.seed,
        },
    )


def plan_rows(asked: Asked) -> list[Row]:
    """The cheapest plan of every device, with and without drafting and over tensor groups, the
    cheapest first; what cannot serve the load last, with the reason.
    """
    answer = asked.answer()
    assert isinstance(answer, CapacityPlans)
    by_device: dict[str, list[Plan]] = {}
    for plan in answer.plans:
        by_device.setdefault(plan.device, []).append(plan)
    rows = [_plan_row(name, plans) for name, plans in by_device.items()]
    return sorted(rows, key=lambda row: (row["devices"] is None, row["$ per hour"] or 0.0))


def _plan_row(device: str, plans: Sequence[Plan]) -> Row:
    able = [plan for plan in plans if isinstance(plan, PlanRow)]
    if not able:
        return dict.fromkeys(PLAN_COLUMNS) | {
            "device": device,
            "layout": "",
            "K": "",
            "bound by": as_words(str(plans[0].reason)),
        }
    best = min(able, key=lambda plan: (plan.usd_per_hour or 0.0, plan.watts))
    return {
        "device": device,
        "layout": f"tp {best.tp}",
        "K": best.draft_tokens or "off",
        "devices": best.devices,
        "$ per hour": None if best.usd_per_hour is None else round(best.usd_per_hour, 2),
        "TTFT (ms)": round(best.ttft_s / MILLI, 1),
        "TPOT (ms)": round(best.tpot_s / MILLI, 2),
        "requests in flight": round(best.mean_batch, 1),
        "power (W)": round(best.watts),
        "bound by": best.binds,
    }


def _sold(configuration: DecodingConfiguration, name: str) -> DecodingConfiguration:
    """The question on a device as it is sold."""
    return replace(
        configuration, deployment=replace(configuration.deployment, device=name, overrides=())
    )


PLAN_COLUMNS = (
    "device",
    "layout",
    "K",
    "devices",
    "$ per hour",
    "TTFT (ms)",
    "TPOT (ms)",
    "requests in flight",
    "power (W)",
    "bound by",
)
