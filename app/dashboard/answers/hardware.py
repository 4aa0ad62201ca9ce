"""What would a device with other numbers do, and which device is best per dollar and per joule?

One configuration of the state's method, on the device with its factors applied, beside a second
device; and every device that is shipped at its own best layout (`answers.every_device`). Leaves out
searching (`answers.run`).
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from app.answers.explanations import explanation, roofs_of
from app.dashboard.answer import Card, DeferredAnswer, PageAnswer, options, scenario, setting_of
from app.dashboard.answers.every_device import (
    device_rows,
    limit_words,
    plan_command,
    plan_row,
    plan_rows,
    planned_devices,
    trade_card,
)
from app.dashboard.question import DRAFTED, acceptance_words, chain, drafter_options, drafters
from app.dashboard.state import FACTORS, State, command, with_values
from app.dashboard.wording import said
from app.render.charts.charts import digits
from app.render.charts.roofline_chart import roofline_figure, step_bar_figure
from costmodel.answers.energy import step_draw, usd_per_million
from costmodel.answers.estimate import Setting, estimate, footprint_of
from costmodel.answers.explain import Explanation, explain, operation_shares
from costmodel.answers.fit import require_fit
from costmodel.laws.acceptance import Acceptance
from hardware_profiles.errors import InfeasibleError, InputError
from hardware_profiles.units import GIB, MILLI

Row = dict[str, Any]
CONFIGURED = (
    "model",
    "engine",
    "dtype",
    "kv_dtype",
    "draft_dtype",
    "tp",
    *DRAFTED,
    "draft_tokens",
    "batch",
    "context",
)
LOADED = (
    "model",
    "engine",
    "dtype",
    "kv_dtype",
    "draft_dtype",
    "tp",
    *DRAFTED,
    "draft_tokens",
    "rate",
    "prompt_tokens",
    "output_tokens",
    "slo_ttft",
    "slo_tpot",
    "seed",
    "device",
)
PRICED = (*CONFIGURED, "slo_tpot", "seed", "device")


def answer_hardware(state: State) -> PageAnswer:
    """The changed device beside itself, the other device and all devices.

    Raises:
        InputError: options that exclude each other.
        InfeasibleError: the configuration does not fit the changed device.
    """
    configuration = scenario(state, changed=True)
    setting, a = setting_of(configuration), _acceptance(state)
    point = _point(setting, a, state)
    explained = explanation(_by_operation(setting, a, state))
    as_sold = _described(replace(_everywhere_state(state), device=state.device))
    changed = any(getattr(state, name) != 1.0 for name in FACTORS)
    title = f"{state.device}, changed" if changed else state.device
    beside = [_shown(title, point)]
    beside += (
        [_shown(f"{state.device}, as sold", as_sold)]
        if changed and isinstance(as_sold, dict)
        else []
    )
    other = _described(replace(_everywhere_state(state), device=state.other_device))
    beside += [_shown(state.other_device, other)]
    return PageAnswer(
        headline=(
            f"{title}: {digits(point['tokens_per_s'])} tokens/s at batch {state.batch:,}, "
            f"limited by {point['limit']}"
        ),
        command=command(
            ["predict"],
            options(configuration)
            | drafter_options(state, alone=True)
            | {
                "draft-tokens": state.draft_tokens,
                "batch": state.batch,
                "context": state.context,
                "explain": True,
                "seed": state.seed or None,
            },
        ),
        numbers=[
            ("Whole batch", f"{digits(point['tokens_per_s'])} tokens/s"),
            ("Speedup of drafting", f"{digits(point['speedup'])}×"),
            ("Energy", f"{digits(point['joules'])} J per token"),
            ("Price", _dollars(point["usd"])),
        ],
        cards=[
            Card(
                title="Roofline of the step",
                note="Operations under the device's roofs; size: share of the step.",
                figure=roofline_figure(explained, roofs_of(setting)),
            ),
            Card(
                title="Where the step's time goes",
                note="By operation; colour: what bounds it.",
                figure=step_bar_figure(explained),
            ),
        ],
        tables=[("Side by side", beside)],
        notes=[
            (
                f"{acceptance_words(drafters(state)[0], state.draft_tokens)} It is taken to be"
                " alike on every device."
            ),
            "Prices and power models are assumptions of the profiles; see rooftree devices.",
        ],
        deferred=lambda: _deferred(state, title),
    )


def _deferred(state: State, title: str) -> DeferredAnswer:
    """What would move the step, every device at its best layout, and the cheapest of them for the
    load.
    """
    setting, a = setting_of(scenario(state, changed=True)), _acceptance(state)
    explained = explain(
        setting,
        a,
        batch=state.batch,
        context=state.context,
        generator=np.random.default_rng(state.seed),
    ).sentence
    compared = (
        _every_device.__wrapped__ if state.upload else _every_device
    )  # a session's recording is not kept
    rows, plans, line = compared(_load_state(state))
    load = (
        f"{digits(state.rate)} requests/s of {state.prompt_tokens:,} + {state.output_tokens:,}"
        " tokens"
    )
    configuration = scenario(state, changed=True)
    changed = (
        [plan_row(title, configuration, _chains(state), state)]
        if configuration.deployment.overrides
        else []
    )
    return DeferredAnswer(
        notes=[explained, *_best(rows, plans, state)],
        cards=[trade_card(rows, state)],
        tables=[
            (f"Devices for {load}", [*plans, *changed]),
            (f"Every device at its best layout {limit_words(state)}, cheapest token first", rows),
            ("What plans the devices for the load", [{"command": line}]),
        ],
    )


def _by_operation(setting: Setting, a: Acceptance, state: State) -> Explanation:
    """The step by operation, without what would move it, which takes many more estimates."""
    result = estimate(setting, a, batch=state.batch, context=state.context)
    return Explanation(
        step_s=float(result.step_s),
        speedup=float(result.speedup),
        by_roof_s={},
        elasticities=[],
        variance=[],
        operations=operation_shares(
            setting, a, result.step, batch=state.batch, context=state.context
        ),
        sentence="",
    )


def _acceptance(state: State) -> Acceptance:
    return chain(drafters(state)[0], state.draft_tokens, seed=state.seed)


def _point(setting: Setting, a: Acceptance, state: State) -> Row:
    """Speed, price and energy at the state's batch and context."""
    needed = footprint_of(setting, a, batch=state.batch, context=state.context)
    require_fit(setting, needed, f"batch {state.batch}, context {state.context}")
    result = estimate(setting, a, batch=state.batch, context=state.context)
    rate, devices = float(result.tokens_per_s), setting.deployment.tensor_parallel
    price = setting.device.price_usd_per_hour
    return {
        "tokens_per_s": rate,
        "speedup": float(result.speedup),
        "step_s": float(result.step_s),
        "limit": str(result.step.limit),
        "memory_bytes": float(needed.total_bytes),
        "usd": None if price is None else usd_per_million(price * devices, rate),
        "joules": float(step_draw(setting, result.step).watts) * devices / rate,
    }


@lru_cache(maxsize=64)
def _described(state: State) -> Row | str:
    """A point of a device as it is sold, or why there is none."""
    try:
        return _point(setting_of(scenario(state)), _acceptance(state), state)
    except (InfeasibleError, InputError) as error:
        return said(error)


def _everywhere_state(state: State) -> State:
    """The state without what the comparison of all devices does not depend on."""
    return with_values(State(), {name: getattr(state, name) for name in CONFIGURED})


def _load_state(state: State) -> State:
    """The state without what the comparison of devices as they are sold does not depend on."""
    return with_values(
        State(), {name: getattr(state, name) for name in (*CONFIGURED, *LOADED, "other_device")}
    )


@lru_cache(maxsize=64)
def _every_device(state: State) -> tuple[list[Row], list[Row], str]:
    """Every device at its best layout, plans of the cheapest for the load, and the command of these
    plans.
    """
    configuration, chains = scenario(state), _chains(state)
    compared = _best_layouts.__wrapped__ if state.upload else _best_layouts
    rows = compared(with_values(State(), {name: getattr(state, name) for name in PRICED}))
    devices = planned_devices(rows, state)
    line = plan_command(configuration, chains, devices, state, drafter_options(state, alone=True))
    return rows, plan_rows(configuration, chains, devices, state), line


@lru_cache(maxsize=64)
def _best_layouts(state: State) -> list[Row]:
    """Every device at its best layout, of which a load changes nothing."""
    return device_rows(scenario(state), _chains(state), state)


def _chains(state: State) -> list[Acceptance]:
    """No drafting, and the state's draft length."""
    source = drafters(state)[0]
    return [
        chain(source, k, most=state.draft_tokens, seed=state.seed) for k in (0, state.draft_tokens)
    ]


def _shown(name: str, row: Row | str) -> Row:
    empty = "–"
    if isinstance(row, str):
        row = {"limit": row}
    return {
        "device": name,
        "tokens/s": _rounded(row.get("tokens_per_s"), 1),
        "speedup (×)": _rounded(row.get("speedup"), 3),
        "step (ms)": _rounded(row["step_s"] / MILLI if "step_s" in row else None, 3),
        "$ per million tokens": _rounded(row.get("usd"), 3),
        "J per token": _rounded(row.get("joules"), 4),
        "memory (GiB)": _rounded(row["memory_bytes"] / GIB if "memory_bytes" in row else None, 1),
        "limited by": row.get("limit", empty),
    }


def _rounded(value: float | None, decimals: int) -> float | None:
    return None if value is None else round(value, decimals)


def _dollars(value: float | None) -> str:
    return "no price known" if value is None else f"${digits(value)} per million tokens"


def _best(rows: Sequence[Row], plans: Sequence[Row], state: State) -> list[str]:
    """Which device is best by price, by energy, and for the load."""
    able = [row for row in rows if row["tokens/s per device"] is not None]
    if not able:
        return []
    least = min(able, key=lambda row: float(row["J per token"]))["device"]
    first, notes = able[0], [f"Least energy per token {limit_words(state)} takes {least}."]
    if first["$ per million tokens"] is not None:
        notes.append(
            f"Cheapest token {limit_words(state)}: {first['device']} ({first['layout']}), "
            f"${digits(first['$ per million tokens'])} per million, priced {first['price of']}."
        )
    if plans and plans[0]["devices"] is not None:
        best = plans[0]
        notes.append(
            f"Cheapest of {len(plans)} devices for {digits(state.rate)} requests/s:"
            f" {best['devices']} × {best['device']} ({best['layout']}, K {best['K']}),"
            f" ${digits(best['$ per hour'])} per hour."
        )
    return notes
