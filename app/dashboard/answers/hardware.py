"""What would a device with other numbers do, and which device is best per dollar and per joule?

One configuration of the state's method, on the device with its modified numbers, beside a second
device; and every device that is shipped at its own best layout (`answers.every_device`). Leaves out
searching (`answers.run`).
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from app.answers.breakeven.curves import ACCEPTANCE, BANDWIDTH, TOKENS, CurveRow
from app.answers.breakeven.rows import BreakEvens
from app.answers.predict.rows import PredictionRow, Predictions
from app.dashboard.answer import Card, DeferredAnswer, PageAnswer, scenario
from app.dashboard.answers.chains import length_words, with_length
from app.dashboard.answers.every_device import (
    asked_plans,
    device_rows,
    limit_words,
    plan_rows,
    planned_devices,
    trade_card,
)
from app.dashboard.asking import Asked
from app.dashboard.device_numbers import DEVICE_NUMBERS
from app.dashboard.held import device_place, is_held_device, shown_device
from app.dashboard.question import (
    DRAFTED,
    acceptance_words,
    chain,
    draft_asked,
    drafter_asked,
    drafters,
    where_asked,
)
from app.dashboard.state import (
    State,
    as_sold,
    device_words,
    is_modified,
    milliseconds,
    with_values,
)
from app.dashboard.wording import error_words
from app.questions.breakeven import BreakevenQuestion
from app.questions.predict import PredictQuestion
from app.render.charts.charts import digits
from app.render.charts.gain_curve import gain_curve_figure
from app.render.charts.roofline_chart import roofline_figure, step_bar_figure
from hardware_profiles.errors import InfeasibleError, InputError
from hardware_profiles.units import GIB, MILLI

Row = dict[str, Any]
_GAINS = {
    ACCEPTANCE: "Gain over acceptance",
    TOKENS: "Gain over tokens per step",
    BANDWIDTH: "Gain over bandwidth",
}
CONFIGURED = (
    "model",
    "device",
    *DEVICE_NUMBERS,
    "engine",
    "dtype",
    "kv_dtype",
    "draft_dtype",
    "tp",
    *DRAFTED,
    "draft_tokens",
    "batch",
    "context",
    "seed",
)
LOADED = (
    *CONFIGURED,
    "other_device",
    "rate",
    "prompt_tokens",
    "output_tokens",
    "slo_ttft",
    "slo_tpot",
    "slo_e2e",
)


def answer_hardware(state: State) -> PageAnswer:
    """The changed device beside itself, the other device and all devices.

    Raises:
        InputError: options that exclude each other.
        InfeasibleError: the configuration does not fit the changed device.
    """
    resolved = with_length(state)
    length, state = length_words(state, resolved), resolved
    asked = asked_hardware(state)
    answer = asked.answer()
    assert isinstance(answer, Predictions)
    row = _only(answer)
    assert row.explain is not None
    curves = _curves(state)
    sold, title = as_sold(state), device_words(state)
    beside = [_shown(title, row)]
    if is_modified(state):
        name = f"{shown_device(state.device)}, as sold"
        beside.append(_shown(name, _described(_configured(sold))))
    other = _described(_configured(replace(sold, device=state.other_device)))
    return PageAnswer(
        headline=(
            f"{title}: {digits(row.tokens_per_s)} tokens/s at batch {state.batch:,} with K"
            f" {length}; limited by {row.limit}"
        ),
        command=asked.line,
        numbers=[
            ("Whole batch", f"{digits(row.tokens_per_s)} tokens/s"),
            ("Time per token", _time_words(row, milliseconds(state.slo_tpot))),
            ("Speedup of drafting", f"{digits(row.speedup)}×"),
            *((_GAINS[curve.over], curve.words) for curve in curves),
            ("Energy", f"{digits(row.joules_per_token)} J per token"),
            ("Price", _dollars(row.usd_per_million_tokens)),
        ],
        cards=[
            Card(
                title="Roofline of the step",
                note="Operations under the device's roofs; size: share of the step.",
                figure=roofline_figure(row.explain, answer.roofs),
            ),
            Card(
                title="Where the step's time goes",
                note="By operation; colour: what bounds it.",
                figure=step_bar_figure(row.explain),
            ),
            *map(_gain_card, curves),
        ],
        tables=[("Side by side", [*beside, _shown(state.other_device, other)])],
        notes=[
            row.explain.sentence,
            (
                f"{acceptance_words(drafters(state)[0], state.draft_tokens)} It is taken to be"
                " alike on every device."
            ),
            "Prices and power models are assumptions of the profiles; see rooftree devices.",
        ],
        deferred=lambda: DeferredAnswer(cards=[trade_card(_rows(as_sold(state)), state)]),
        behind=lambda: _behind(state, title),
        sure=answer.how_sure[0],
        command_answer=lambda: answer,
    )


def asked_hardware(state: State) -> Asked:
    """What `predict` is asked of a state."""
    return Asked(
        verb=PredictQuestion,
        values={
            **where_asked(state),
            **drafter_asked(state),
            **draft_asked(state),
            "batch": str(state.batch),
            "context": str(state.context),
            "slo_tpot": state.slo_tpot,
            "slo_ttft": state.slo_ttft,
            "explain": True,
            "seed": state.seed,
        },
    )


def asked_curves(state: State) -> Asked:
    """What `breakeven` is asked of a state; where nothing is drafted, of its usual draft."""
    return Asked(
        verb=BreakevenQuestion,
        values={
            **where_asked(state),
            **drafter_asked(state),
            **(draft_asked(state) if state.draft_tokens else {}),
            "batch": str(state.batch),
            "context": str(state.context),
            "curves": True,
            "seed": state.seed,
        },
    )


def _curves(state: State) -> Sequence[CurveRow]:
    """The gain over acceptance and over bandwidth; none where the drafts do not fit."""
    answer = asked_curves(state).answer()
    assert isinstance(answer, BreakEvens)
    return answer.curves or ()


def _gain_card(curve: CurveRow) -> Card:
    return Card(
        title=_GAINS[curve.over],
        note=f"K = {curve.draft_tokens}: {curve.words}.",
        figure=gain_curve_figure(curve),
    )


def _only(answer: Predictions) -> PredictionRow:
    """The one row of an answer.

    Raises:
        InfeasibleError: it is marked.
    """
    (row,) = answer.predictions
    if isinstance(row, PredictionRow):
        return row
    raise InfeasibleError(row.reason_words)


def _behind(state: State, title: str) -> DeferredAnswer:
    """Every device in rows, and the cheapest of them for the load."""
    # an answer from a session's own recording is not cached
    compared = _every_device.__wrapped__ if state.upload else _every_device
    loaded = with_values(State(), {name: getattr(state, name) for name in LOADED})
    rows, plans, line = compared(as_sold(loaded))
    load = (
        f"{digits(state.rate)} requests/s of {state.prompt_tokens:,} + {state.output_tokens:,}"
        " tokens"
    )
    own = [replaced | {"device": title} for replaced in _own_plan(state)]
    return DeferredAnswer(
        notes=_best(rows, plans, state),
        tables=[
            (f"Devices for {load}", [*plans, *own]),
            (f"Every device at its best layout {limit_words(state)}, cheapest token first", rows),
            ("What plans the devices for the load", [{"command": line}]),
            ("What says where drafting pays", [{"command": asked_curves(state).line}]),
        ],
    )


def _own_plan(state: State) -> list[Row]:
    """The plan of the state's device where it is none of those on sale; none otherwise."""
    if not is_modified(state) and not is_held_device(state.device):
        return []
    return plan_rows(asked_plans(state, [device_place(state.device)]))


@lru_cache(maxsize=64)
def _described(state: State) -> PredictionRow | str:
    """A point of a device as it is sold, or why there is none."""
    try:
        answer = asked_hardware(state).changed(explain=None).answer()
        assert isinstance(answer, Predictions)
        return _only(answer)
    except (InfeasibleError, InputError) as error:
        return error_words(error)


def _configured(state: State) -> State:
    """The state without what the speed of one device does not depend on."""
    return with_values(State(), {name: getattr(state, name) for name in CONFIGURED})


@lru_cache(maxsize=64)
def _every_device(state: State) -> tuple[list[Row], list[Row], str]:
    """Every device at its best layout, plans of the cheapest for the load, and the command of these
    plans.
    """
    rows = _rows(state)
    asked = asked_plans(state, planned_devices(rows, state))
    return rows, plan_rows(asked), asked.line


def _rows(state: State) -> list[Row]:
    """Every device at its best layout, of a device as it is sold."""
    compared = _best_layouts.__wrapped__ if state.upload else _best_layouts
    return compared(replace(_configured(state), slo_tpot=state.slo_tpot))


@lru_cache(maxsize=64)
def _best_layouts(state: State) -> list[Row]:
    """Every device at its best layout, of which a load changes nothing."""
    source = drafters(state)[0]
    chains = [
        chain(source, k, most=state.draft_tokens, seed=state.seed) for k in (0, state.draft_tokens)
    ]
    return device_rows(scenario(state), chains, state)


def _shown(name: str, row: PredictionRow | str) -> Row:
    """A line of the table; of a device that has no prediction, why."""
    known = row if isinstance(row, PredictionRow) else None
    usd = None if known is None else known.usd_per_million_tokens
    return {
        "device": name,
        "tokens/s": None if known is None else round(known.tokens_per_s, 1),
        "speedup (×)": None if known is None else round(known.speedup, 3),
        "step (ms)": None if known is None else round(known.step_s / MILLI, 3),
        "$ per million tokens": None if usd is None else round(usd, 3),
        "J per token": None if known is None else round(known.joules_per_token, 4),
        "memory (GiB)": None if known is None else round(known.memory_bytes / GIB, 1),
        "limited by": row if isinstance(row, str) else row.limit,
    }


def _time_words(row: PredictionRow, limit_s: float | None) -> str:
    """The time per token, and whether it keeps its limit."""
    words = f"{digits(row.tpot_s / MILLI)} ms"
    if limit_s is None:
        return words
    kept = "within" if row.tpot_s <= limit_s else "misses"
    return f"{words}, {kept} {limit_s / MILLI:g} ms"


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
