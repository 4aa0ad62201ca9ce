"""What would a device with other numbers do, and which device is best per dollar and per joule?

One configuration of the state's method, on the device with its factors applied, beside a second device and all that
are shipped. Leaves out searching configurations (`answers.run`).
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from app.answers.explanations import explanation, roofs_of
from app.dashboard.answer import Answer, Card, DeferredAnswer, Figure, options, scenario, setting_of
from app.dashboard.question import DRAFTED, acceptance_words, chain, drafter_options, drafters
from app.dashboard.state import FACTORS, State, command, milliseconds, sold_devices, with_values
from app.dashboard.wording import said
from app.figures.charts import PALETTE, digits, framed
from app.figures.roofline_chart import roofline_figure, step_bar_figure
from costmodel.answers.capacity import plan
from costmodel.answers.energy import step_draw, usd_per_million
from costmodel.answers.estimate import Setting, estimate, footprint_of
from costmodel.answers.explain import Explanation, explain, operation_shares
from costmodel.answers.fit import require_fit
from costmodel.answers.workload import Slo, load_of_means
from costmodel.laws.acceptance import Acceptance
from hardware_profiles.errors import InfeasibleError, InputError
from hardware_profiles.units import GIB, MILLI

Row = dict[str, Any]
CONFIGURED = (
    "model", "engine", "dtype", "kv_dtype", "tp", *DRAFTED, "draft_tokens", "batch", "context",
)  # fmt: skip
LOADED = (
    "model", "engine", "dtype", "kv_dtype", "tp", *DRAFTED, "draft_tokens", "rate", "prompt_tokens", "output_tokens",
    "slo_ttft_ms", "slo_tpot_ms", "seed", "device",
)  # fmt: skip
PLANNED = (
    "devices", "80 % interval", "requests in flight", "utilisation (%)", "TTFT (ms)", "TPOT (ms)", "power (W)",
    "$ per hour",
)  # fmt: skip


def answer_hardware(state: State) -> Answer:
    """The changed device beside itself, the other device and all devices.

    Raises:
        InputError: options that exclude each other.
        InfeasibleError: the configuration does not fit the changed device.
    """
    asked = scenario(state, changed=True)
    setting, a = setting_of(asked), _acceptance(state)
    here = _point(setting, a, state)
    explained = explanation(_by_operation(setting, a, state))
    as_sold = _described(replace(_everywhere_state(state), device=state.device))
    changed = any(getattr(state, name) != 1.0 for name in FACTORS)
    title = f"{state.device}, changed" if changed else state.device
    beside = [_shown(title, here)]
    beside += [_shown(f"{state.device}, as sold", as_sold)] if changed and isinstance(as_sold, dict) else []
    other = _described(replace(_everywhere_state(state), device=state.other_device))
    beside += [_shown(state.other_device, other)]
    return Answer(
        headline=f"{title}: {digits(here['tokens_per_s'])} tokens/s at batch {state.batch:,}, "
                 f"limited by {here['limit']}",
        command=command(["predict"], options(asked) | drafter_options(state, alone=True) | {
            "draft-tokens": state.draft_tokens, "batch": state.batch,
            "context": state.context, "explain": True, "seed": state.seed or None}),
        numbers=[
            ("Whole batch", f"{digits(here['tokens_per_s'])} tokens/s"),
            ("Speedup of drafting", f"{digits(here['speedup'])}×"),
            ("Energy", f"{digits(here['joules'])} J per token"),
            ("Price", _dollars(here["usd"])),
        ],
        cards=[
            Card(title="Roofline of the step", note="Operations under the device's roofs; size: share of the step.",
                 figure=roofline_figure(explained, roofs_of(setting))),
            Card(title="Where the step's time goes", note="By operation; colour: what bounds it.",
                 figure=step_bar_figure(explained)),
        ],
        tables=[("Side by side", beside)],
        notes=[f"{acceptance_words(drafters(state)[0])} It is taken to be the same on every device.",
               "Prices and power models are assumptions of the profiles; see rooftree devices."],
        deferred=lambda: _deferred(state, title, here),
    )  # fmt: skip


def _deferred(state: State, title: str, here: Row) -> DeferredAnswer:
    """What would move the step, every device, and the capacity plan."""
    setting, a = setting_of(scenario(state, changed=True)), _acceptance(state)
    explained = explain(
        setting, a, batch=state.batch, context=state.context, generator=np.random.default_rng(state.seed)
    ).sentence  # fmt: skip
    everywhere = _everywhere(_everywhere_state(state))
    load = f"{digits(state.rate)} requests/s of {state.prompt_tokens:,} + {state.output_tokens:,} tokens"
    return DeferredAnswer(
        notes=[explained, *_best(everywhere)],
        cards=[Card(title="Price and energy of every device", note="Decode steps alone; lower left is better.",
                    figure=_trade_figure(everywhere, (title, here)))],
        tables=[
            (f"Devices for {load}", _capacity(state, title)),
            ("Every device", [_shown(name, row) for name, row in everywhere]),
        ],
    )  # fmt: skip


def _by_operation(setting: Setting, a: Acceptance, state: State) -> Explanation:
    """The step by operation, without what would move it, which takes many more estimates."""
    result = estimate(setting, a, batch=state.batch, context=state.context)
    return Explanation(
        step_s=float(result.step_s), speedup=float(result.speedup), by_roof_s={}, elasticities=[], variance=[],
        operations=operation_shares(setting, a, result.step, batch=state.batch, context=state.context), sentence="",
    )  # fmt: skip


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
        "tokens_per_s": rate, "speedup": float(result.speedup), "step_s": float(result.step_s),
        "limit": str(result.step.limit), "memory_bytes": float(needed.total_bytes),
        "usd": None if price is None else usd_per_million(price * devices, rate),
        "joules": float(step_draw(setting, result.step).watts) * devices / rate,
    }  # fmt: skip


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


@lru_cache(maxsize=64)
def _everywhere(state: State) -> tuple[tuple[str, Row | str], ...]:
    return tuple((name, _described(replace(state, device=name))) for name in sold_devices())


def _shown(name: str, row: Row | str) -> Row:
    empty = "–"
    if isinstance(row, str):
        row = {"limit": row}
    return {
        "device": name, "tokens/s": _rounded(row.get("tokens_per_s"), 1),
        "speedup (×)": _rounded(row.get("speedup"), 3),
        "step (ms)": _rounded(row["step_s"] / MILLI if "step_s" in row else None, 3),
        "$ per million tokens": _rounded(row.get("usd"), 3), "J per token": _rounded(row.get("joules"), 4),
        "memory (GiB)": _rounded(row["memory_bytes"] / GIB if "memory_bytes" in row else None, 1),
        "limited by": row.get("limit", empty),
    }  # fmt: skip


def _rounded(value: float | None, decimals: int) -> float | None:
    return None if value is None else round(value, decimals)


def _dollars(value: float | None) -> str:
    return "no price known" if value is None else f"${digits(value)} per million tokens"


def _best(everywhere: Sequence[tuple[str, Row | str]]) -> list[str]:
    """Which device is best for this configuration, by price and by energy."""
    known = [(name, row) for name, row in everywhere if isinstance(row, dict)]
    priced = [(name, row) for name, row in known if row["usd"] is not None]
    if not known:
        return []
    text = f"Least energy per token takes {min(known, key=lambda each: float(each[1]['joules']))[0]}"
    if priced:
        text += f"; cheapest per token is {min(priced, key=lambda each: float(each[1]['usd']))[0]}"
    return [f"{text}, of every device as it is sold."]


def _capacity(state: State, title: str) -> list[Row]:
    """Replicas for the load, on the changed device and on the other one."""
    load = with_values(State(), {name: getattr(state, name) for name in LOADED})
    changed = with_values(load, {name: getattr(state, name) for name in FACTORS})
    return [
        {"device": title, **_planned(changed)},
        {"device": state.other_device, **_planned(replace(load, device=state.other_device))},
    ]


@lru_cache(maxsize=64)
def _planned(state: State) -> Row:
    """What the load needs on the state's device with its factors applied."""
    load = load_of_means(
        requests_per_s=state.rate, prompt_tokens=state.prompt_tokens, output_tokens=state.output_tokens
    )
    slo = Slo(ttft_s=milliseconds(state.slo_ttft_ms), tpot_s=milliseconds(state.slo_tpot_ms))
    try:
        made = plan(
            setting_of(scenario(state, changed=True)), [_acceptance(state)], load, slo,
            generator=np.random.default_rng(state.seed),
        )  # fmt: skip
    except (InfeasibleError, InputError) as error:
        return dict.fromkeys(PLANNED) | {"bound by": said(error)}
    low, high = made.replicas_bounds
    values = (
        made.devices, f"{low * state.tp}–{high * state.tp}", round(made.mean_batch, 1),
        round(100 * made.utilisation_ratio, 1), round(made.ttft_s / MILLI, 1), round(made.tpot_s / MILLI, 2),
        round(made.watts), _rounded(made.usd_per_hour, 2),
    )  # fmt: skip
    return dict(zip(PLANNED, values, strict=True)) | {"bound by": made.binds}


def _trade_figure(everywhere: Sequence[tuple[str, Row | str]], here: tuple[str, Row]) -> Figure:
    known = [(name, row) for name, row in everywhere if isinstance(row, dict) and row["usd"] is not None]
    data: list[Figure] = [_points([*known], PALETTE[0], "circle", "as sold")]
    if here[1]["usd"] is not None:
        data.append(_points([here], PALETTE[1], "star", here[0]))
    bottom = {"type": "log", "title": {"text": "$ per million tokens"}}
    return framed(data, bottom, {"type": "log", "title": {"text": "J per token"}}, height=380)


def _points(rows: Sequence[tuple[str, Row]], color: str, symbol: str, name: str) -> Figure:
    return {
        "type": "scatter", "mode": "markers+text", "name": name, "text": [each for each, _ in rows],
        "textposition": "top center", "x": [row["usd"] for _, row in rows], "y": [row["joules"] for _, row in rows],
        "marker": {"color": color, "symbol": symbol, "size": 12},
        "hovertemplate": "%{text}<br>$%{x:.3g} per million tokens<br>%{y:.3g} J per token<extra></extra>",
    }  # fmt: skip
