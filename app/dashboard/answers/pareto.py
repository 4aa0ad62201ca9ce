"""Which layouts are worth running: how fast is every user, and how much does every device bring?

Tensor groups, experts spread over data copies, batches and draft lengths of the page's drafter.
Leaves out prompts and arrivals (`answers.serving`).
"""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from app.answers.deployables import first_deployable
from app.answers.predict.rows import PredictionRow, Predictions
from app.dashboard.answer import Card, Change, EngineStart, PageAnswer, Row
from app.dashboard.answers.chains import chains_of
from app.dashboard.answers.run.engines import start
from app.dashboard.asking import Asked
from app.dashboard.changes import asks
from app.dashboard.question import acceptance_words, drafter_asked, drafters, where_asked
from app.dashboard.state import State, milliseconds
from app.exporters.registry import ENGINES
from app.questions.predict import PredictQuestion
from app.render.charts.charts import digits
from app.render.charts.pareto_figure import pareto_figure, point_words
from costmodel.answers.energy import usd_per_million
from costmodel.configuration import DecodingConfiguration
from costmodel.laws.acceptance import Acceptance
from costmodel.optimizers.layouts import (
    BATCHES,
    Layout,
    LayoutPoint,
    MostUsers,
    every_point,
    front_of,
    most_per_device,
    most_users,
)
from hardware_profiles.errors import InfeasibleError
from hardware_profiles.units import MILLI

MOST_CHANGES = 6
LARGE_BATCHES = (1536, 2048, 3072, 4096, 6144, 8192)  # of layouts with many copies


def answer_pareto(state: State) -> PageAnswer:
    """Every layout of the model, and the state's own point among them.

    Raises:
        InputError: options that exclude each other, or a recording of too low a level.
        InfeasibleError: no layout holds one request.
    """
    contender = chains_of(state)
    batches = sorted({*BATCHES, *LARGE_BATCHES, state.batch})
    chains = [a for a in contender.candidates if a.topology in ("off", "chain")]
    points, left_out = every_point(
        contender.configuration, chains, context=state.context, batches=batches
    )
    if not points:
        reason = "one request fits no layout that was tried"
        raise InfeasibleError(f"{reason}: {_names(left_out)}", key="model", value=state.model)
    asked = asked_pareto(state)
    limit = milliseconds(state.slo_tpot)
    least = None if limit is None else 1.0 / limit
    within = _within(contender.configuration, chains, points, state)
    points = sorted({*points, *(most.point for most in within.values())}, key=_place)
    front, own, marked = front_of(points), _own(points, state), "your point"
    if (most := within.get(Layout(tensor=state.tp))) is not None:
        own, marked = most.point, f"most users of tp {state.tp}"
    pace = least or (own.user_tokens_per_s if own is not None else 0.0)
    best = most_per_device(points, pace)
    own, best = (point and predicted(asked, point) for point in (own, best))
    shown = (own or best) if best is not None or least is None else None
    shown = shown or predicted(asked, front[0])  # nothing is as fast: the fastest that there is
    price = contender.setting.device.price_usd_per_hour
    line = cache(lambda point: asked_at(asked, point).line)
    answered = {point: asks(values) for point, values in _questions(points).items()}
    figure = pareto_figure(
        points,
        front,
        own,
        marked=marked,
        least_user_tokens_per_s=least,
        carried=lambda point: (point != own and answered.get(point)) or line(point),
        usd_per_hour=price,
    )
    return PageAnswer(
        headline=(
            _headline(own, best, state)
            if least is None
            else f"{_limited(state, within, price)}; {_most(best, shown)}"
        ),
        command=line(shown),
        engines=_starts(contender.configuration, shown, state),
        changes=_changes([point for point in front if answered.get(point)], own),
        numbers=_numbers(shown, best, price),
        cards=[
            Card(
                title="Tokens per user against tokens per device",
                figure=figure,
                note=(
                    "Batch grows from right to left along every line; dotted lines do not draft."
                    " The wide line is the front: nothing is better in both."
                ),
                press=(
                    "Press a point to ask about it, or for its command where no control asks for it."
                ),
            )
        ],
        tables=[
            (
                "On the front, fastest for a user first",
                [_row(p, price, line(p)) for p in front],
            )
        ],
        files={"pareto.csv": lambda: _table(points, set(front), price)},
        command_answer=lambda: asked_at(asked, shown).answer(),
        notes=[*_lifted(state, within), *_notes(state, chains[-1].draft_tokens, left_out)],
    )


def _place(point: LayoutPoint) -> tuple[int, int, int, int, int]:
    layout = point.layout
    return layout.data, layout.tensor, layout.expert, point.batch, point.draft_tokens


def _within(
    configuration: DecodingConfiguration,
    chains: Sequence[Acceptance],
    points: Sequence[LayoutPoint],
    state: State,
) -> dict[Layout, MostUsers]:
    """The most users that every layout serves within the limit of the time per token; layouts that
    serve none are left out.
    """
    limit = milliseconds(state.slo_tpot)
    if limit is None:
        return {}
    most = {
        layout: most_users(
            configuration,
            chains,
            [point for point in points if point.layout == layout],
            context=state.context,
            user_tokens_per_s=1.0 / limit,
        )
        for layout in dict.fromkeys(point.layout for point in points)
    }
    return {layout: found for layout, found in most.items() if found is not None}


def _starts(
    configuration: DecodingConfiguration, point: LayoutPoint | None, state: State
) -> list[EngineStart]:
    """What starts the state's engine with a point, where it can."""
    if point is None or state.engine not in ENGINES:
        return []
    chosen = replace(point.layout.on(configuration), draft_tokens=point.draft_tokens)
    entry = first_deployable([chosen], state.engine)
    words = f"{point.layout.name}, batch {point.batch:,}: {entry.content}"
    return [] if entry.result is None else [start(words, entry.result)]


def _questions(points: Sequence[LayoutPoint]) -> dict[LayoutPoint, Mapping[str, int]]:
    """What the points of tensor groups ask, of which the page answers the fastest at every batch:
    the others have no question of their own.
    """
    fastest: dict[tuple[Layout, int], LayoutPoint] = {}
    for point in sorted(points, key=lambda p: p.user_tokens_per_s):
        if point.layout == Layout(tensor=point.layout.tensor):
            fastest[point.layout, point.batch] = point
    return {point: _values(point) for point in fastest.values()}


def _values(point: LayoutPoint) -> Mapping[str, int]:
    drafted = {"draft_tokens": point.draft_tokens} if point.draft_tokens else {}
    return {"tp": point.layout.tensor, "batch": point.batch, **drafted}


def _changes(able: Sequence[LayoutPoint], own: LayoutPoint | None) -> list[Change]:
    """Points of the front that become the question by a press, spread over it.

    Args:
        able: those that the controls can ask for.
        own: which is asked about already.
    """
    able = [
        point
        for point in able
        if own is None or (point.layout, point.batch) != (own.layout, own.batch)
    ]
    places = np.unique(np.linspace(0, len(able) - 1, min(len(able), MOST_CHANGES)).round())
    return [
        Change(
            label=f"{point.layout.name}, batch {point.batch:,}:"
            f" {digits(point.user_tokens_per_s)} tokens/s per user",
            values=_values(point),
        )
        for point in (able[int(place)] for place in places)
    ]


def asked_pareto(state: State) -> Asked:
    """What `predict` is asked of every point, which says itself the devices, the batch and K."""
    return Asked(
        verb=PredictQuestion,
        values={
            **where_asked(state),
            "tp": None,
            "dp": None,
            "ep": None,
            **drafter_asked(state),
            "batch": None,
            "context": str(state.context),
            "draft_tokens": None,
            "seed": state.seed,
        },
    )


def asked_at(asked: Asked, point: LayoutPoint) -> Asked:
    """What `predict` is asked of a point."""
    layout = point.layout
    return asked.changed(
        tp=layout.tensor if layout.tensor > 1 else None,
        dp=layout.data if layout.data > 1 else None,
        ep=layout.expert if layout.expert > 1 else None,
        batch=str(point.batch),
        draft_tokens=str(point.draft_tokens),
    )


def predicted(asked: Asked, point: LayoutPoint) -> LayoutPoint:
    """A point with the speed that `predict` answers."""
    answer = asked_at(asked, point).answer()
    assert isinstance(answer, Predictions)
    (row,) = answer.predictions
    assert isinstance(row, PredictionRow)
    return replace(
        point,
        user_tokens_per_s=row.tokens_per_s / point.batch,
        device_tokens_per_s=row.tokens_per_s / point.layout.devices,
    )


def _own(points: Sequence[LayoutPoint], state: State) -> LayoutPoint | None:
    """The faster of drafting and not, with the state's devices and batch; None where it does not
    fit.
    """
    own_points = [
        p for p in points if p.layout == Layout(tensor=state.tp) and p.batch == state.batch
    ]
    return max(own_points, key=lambda p: p.user_tokens_per_s, default=None)


def _headline(own: LayoutPoint | None, best: LayoutPoint | None, state: State) -> str:
    """The own point and the best with users as fast, where no limit is stated."""
    if own is None or best is None:
        return f"Batch {state.batch:,} does not fit on tp {state.tp} at context {state.context:,}"
    first = (
        f"Your point ({point_words(own)}) gives every user {digits(own.user_tokens_per_s)} tokens/s"
        f" and every device {digits(own.device_tokens_per_s)}"
    )
    if best == own:
        return f"{first}; no other layout brings more per device with users as fast"
    more = best.device_tokens_per_s / own.device_tokens_per_s
    return (
        f"{first}; with users as fast {point_words(best)} brings {digits(more)}× as much per device"
    )


def _limited(state: State, within: Mapping[Layout, MostUsers], price: float | None) -> str:
    """How many users the state's devices serve within the limit."""
    limit = f"Within {state.slo_tpot:g} ms a token"
    found = within.get(Layout(tensor=state.tp))
    if found is None:
        return f"{limit} tp {state.tp} serves nobody at context {state.context:,}"
    point = found.point
    usd = usd_per_million(price, point.device_tokens_per_s)
    return (
        f"{limit} tp {state.tp} serves up to {point.batch:,} user{'s' * (point.batch != 1)} decoding at once with"
        f" {digits(point.device_tokens_per_s * point.layout.devices)} tokens/s"
        f"{'' if usd is None else f', ${digits(usd)} per million'}"
    )


def _most(best: LayoutPoint | None, fastest: LayoutPoint) -> str:
    """The layout with most tokens a device within the limit; where none is, the fastest for a
    user.
    """
    if best is None:
        return (
            f"no layout that was tried is as fast: the fastest ({point_words(fastest)}) gives every"
            f" user {digits(fastest.user_tokens_per_s)} tokens/s"
        )
    return (
        f"{point_words(best)} brings most per device: {digits(best.device_tokens_per_s)} tokens/s"
    )


def _lifted(state: State, within: Mapping[Layout, MostUsers]) -> list[str]:
    """What stops the state's devices from serving more within the limit, and what would lift it."""
    if not state.slo_tpot:
        return []
    own = within.get(Layout(tensor=state.tp))
    stops = (
        []
        if own is None
        else [
            "One user more would miss the limit."
            if own.more_fit
            else "Memory is full: fewer cached tokens or a narrower cache hold more users."
        ]
    )
    served = own.point.batch if own is not None else 0
    larger = [
        f"{layout.name} up to {found.point.batch:,}"
        for layout, found in within.items()
        if found.point.batch > served
    ]
    return [*stops, *([f"More users within the limit: {', '.join(larger)}."] if larger else [])]


def _numbers(
    shown: LayoutPoint, best: LayoutPoint | None, price: float | None
) -> list[tuple[str, str]]:
    numbers = [
        ("Per user", f"{digits(shown.user_tokens_per_s)} tokens/s"),
        ("Per device", f"{digits(shown.device_tokens_per_s)} tokens/s"),
        ("Price", _dollars(shown, price)),
    ]
    if best is not None:
        numbers.append(
            ("Most per device at that pace", f"{digits(best.device_tokens_per_s)} tokens/s")
        )
    return numbers


def _dollars(point: LayoutPoint, price: float | None) -> str:
    usd = usd_per_million(price, point.device_tokens_per_s)
    return "no price known" if usd is None else f"${digits(usd)} per million tokens"


def _row(point: LayoutPoint, price: float | None, line: str | None = None) -> Row:
    usd = usd_per_million(price, point.device_tokens_per_s)
    row: dict[str, object] = {
        "layout": point.layout.name,
        "devices": point.layout.devices,
        "batch": point.batch,
        "K": point.draft_tokens or "off",
        "tokens/s per user": round(point.user_tokens_per_s, 1),
        "tokens/s per device": round(point.device_tokens_per_s, 1),
        "time per token (ms)": round(1.0 / point.user_tokens_per_s / MILLI, 2),
        "$ per million tokens": None if usd is None else round(usd, 3),
    }
    return row if line is None else {**row, "command": line}


def _table(points: Sequence[LayoutPoint], front: set[LayoutPoint], price: float | None) -> bytes:
    text = io.StringIO()
    rows = [
        {**_row(point, price), "on the front": "yes" if point in front else ""} for point in points
    ]
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def _notes(state: State, draft_tokens: int, left_out: dict[Layout, str]) -> list[str]:
    notes = [
        "A device's tokens are those of the whole batch over the devices of the layout; decode"
        " steps alone."
    ]
    notes.append(acceptance_words(drafters(state)[0], draft_tokens))
    if left_out:
        notes.append(f"Left out: {_names(left_out)}.")
    return notes


def _names(left_out: dict[Layout, str]) -> str:
    return ", ".join(f"{layout.name} ({reason})" for layout, reason in left_out.items())
