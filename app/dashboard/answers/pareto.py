"""Which layouts are worth running: how fast is every user, and how much does every device bring?

Tensor groups, experts spread over data copies, batches and draft lengths of the page's drafter.
Leaves out prompts and arrivals (`answers.serving`).
"""

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

from app.dashboard.answer import Card, PageAnswer, Row, options, scenario, setting_of
from app.dashboard.answers.chains import chains_of
from app.dashboard.question import acceptance_words, drafter_options, drafters
from app.dashboard.state import State, command, milliseconds
from app.render.charts.charts import digits
from app.render.charts.pareto_figure import pareto_figure, point_words
from costmodel.answers.energy import usd_per_million
from costmodel.configuration import DecodingConfiguration
from costmodel.optimizers.layouts import (
    BATCHES,
    Layout,
    LayoutPoint,
    every_point,
    front_of,
    most_per_device,
)
from hardware_profiles.errors import InfeasibleError
from hardware_profiles.units import MILLI

MOST_ROWS = 14
LARGE_BATCHES = (1536, 2048, 3072, 4096, 6144, 8192)  # of layouts with many copies


def answer_pareto(state: State) -> PageAnswer:
    """Every layout of the model, and the state's own point among them.

    Raises:
        InputError: options that exclude each other, or a recording of too low a level.
        InfeasibleError: no layout holds one request.
    """
    configuration, (_, chains) = scenario(state), chains_of(state)
    batches = sorted({*BATCHES, *LARGE_BATCHES, state.batch})
    points, left_out = every_point(configuration, chains, context=state.context, batches=batches)
    if not points:
        reason = "one request fits no layout that was tried"
        raise InfeasibleError(f"{reason}: {_names(left_out)}", key="model", value=state.model)
    front, own = front_of(points), _own(points, state)
    limit = milliseconds(state.slo_tpot)
    least = None if limit is None else 1.0 / limit
    pace = least or (own.user_tokens_per_s if own is not None else 0.0)
    best = most_per_device(points, pace)
    price = setting_of(
        replace(configuration, deployment=replace(configuration.deployment, tensor_parallel=1))
    ).device.price_usd_per_hour
    as_command = _commands(state, configuration)
    figure = pareto_figure(points, front, own, least_user_tokens_per_s=least, command=as_command)
    return PageAnswer(
        headline=_headline(state, own, best, least),
        command=as_command(own or best or front[0]),
        numbers=_numbers(own or best, best, price),
        cards=[
            Card(
                title="Tokens per user against tokens per device",
                figure=figure,
                note=(
                    "Batch grows from right to left along every line; dotted lines do not draft."
                    " The wide line is the front: nothing is better in both. Press a point for its"
                    " command."
                ),
            )
        ],
        tables=[
            (
                "On the front, fastest for a user first",
                [_row(p, price, as_command(p)) for p in _spread(front)],
            )
        ],
        files={"pareto.csv": lambda: _table(points, set(front), price)},
        notes=_notes(state, left_out),
    )


def _own(points: Sequence[LayoutPoint], state: State) -> LayoutPoint | None:
    """The faster of drafting and not, with the state's devices and batch; None where it does not
    fit.
    """
    own_points = [
        p for p in points if p.layout == Layout(tensor=state.tp) and p.batch == state.batch
    ]
    return max(own_points, key=lambda p: p.user_tokens_per_s, default=None)


def _headline(
    state: State, own: LayoutPoint | None, best: LayoutPoint | None, least: float | None
) -> str:
    if own is None:
        first = f"Batch {state.batch:,} does not fit on tp {state.tp} at context {state.context:,}"
    else:
        first = (
            f"Your point ({point_words(own)}{_most(own, state)}) gives every user "
            f"{digits(own.user_tokens_per_s)} "
            f"tokens/s and every device {digits(own.device_tokens_per_s)}"
        )
    if best is None:
        return f"{first}; no layout that was tried gives users {digits(least)} tokens/s"
    pace = "in that time per token" if least is not None else "with users as fast"
    if best == own:
        return f"{first}; no other layout brings more per device {pace}"
    if own is None or least is not None:
        return (
            f"{first}; {pace} {point_words(best)} brings most per device:"
            f" {digits(best.device_tokens_per_s)} tokens/s"
        )
    more = best.device_tokens_per_s / own.device_tokens_per_s
    return f"{first}; {pace} {point_words(best)} brings {digits(more)}× as much per device"


def _most(own: LayoutPoint, state: State) -> str:
    """Of which draft lengths a point's is the fastest, where it is not the longest."""
    return (
        ""
        if own.draft_tokens == state.draft_tokens
        else f", the fastest K up to {state.draft_tokens}"
    )


def _numbers(
    own: LayoutPoint | None, best: LayoutPoint | None, price: float | None
) -> list[tuple[str, str]]:
    if own is None:
        return []
    numbers = [
        ("Per user", f"{digits(own.user_tokens_per_s)} tokens/s"),
        ("Per device", f"{digits(own.device_tokens_per_s)} tokens/s"),
        ("Price", _dollars(own, price)),
    ]
    if best is not None and best != own:
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


def _spread(front: Sequence[LayoutPoint]) -> Sequence[LayoutPoint]:
    """Both ends of the front, and as many between as a table shows."""
    if len(front) <= MOST_ROWS:
        return front
    return [front[round(place * (len(front) - 1) / (MOST_ROWS - 1))] for place in range(MOST_ROWS)]


def _table(points: Sequence[LayoutPoint], front: set[LayoutPoint], price: float | None) -> bytes:
    text = io.StringIO()
    rows = [
        {**_row(point, price), "on the front": "yes" if point in front else ""} for point in points
    ]
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def _commands(state: State, configuration: DecodingConfiguration) -> Callable[[LayoutPoint], str]:
    """Makes the command line of a point; what all points of a layout share is said once."""
    drafted = drafter_options(state, alone=True)
    rest = command([], {"context": state.context, "seed": state.seed or None}).removeprefix(
        "rooftree"
    )

    @cache
    def shared(layout: Layout) -> str:
        placed = layout.on(configuration)
        where = placed.deployment
        return command(
            ["predict"],
            options(placed)
            | drafted
            | {
                "dp": where.data_parallel if where.data_parallel > 1 else None,
                "ep": where.expert_parallel if where.expert_parallel > 1 else None,
            },
        )

    return lambda point: (
        f"{shared(point.layout)} --draft-tokens {point.draft_tokens} --batch {point.batch}{rest}"
    )


def _notes(state: State, left_out: dict[Layout, str]) -> list[str]:
    notes = [
        "A device's tokens are those of the whole batch over the devices of the layout; decode"
        " steps alone."
    ]
    notes.append(acceptance_words(drafters(state)[0], state.draft_tokens))
    if left_out:
        notes.append(f"Left out: {_names(left_out)}.")
    return notes


def _names(left_out: dict[Layout, str]) -> str:
    return ", ".join(f"{layout.name} ({reason})" for layout, reason in left_out.items())
