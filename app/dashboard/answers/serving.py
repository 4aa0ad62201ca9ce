"""Which latency and goodput does a load get, with speculation and without, and which load does the
service sustain?

What `simulate` answers of the same requests at the asked rate, and at those on the way to the highest
rate that is kept. Leaves out several replicas (`rooftree simulate`).
"""

from collections.abc import Callable, Mapping, Sequence

from app.answers.progress import listening
from app.answers.simulations.cases import LoadPoint
from app.answers.simulations.highest_rates import SHARE
from app.answers.simulations.rows import HighestRateRow, HighestRates
from app.answers.simulations.runs import AUTOREGRESSIVE
from app.dashboard.answer import Card, Figure, PageAnswer, Row
from app.dashboard.answers.chains import length_words, with_length
from app.dashboard.asking import Asked, Values
from app.dashboard.changes import asking_along
from app.dashboard.question import (
    acceptance_words,
    draft_asked,
    drafter_asked,
    drafters,
    limits_of,
    own_drafter_asked,
    where_asked,
)
from app.dashboard.state import State
from app.questions.simulate import SimulateQuestion
from app.render.charts.charts import DASHES, PALETTE, digits, framed
from app.render.charts.limit_lines import level_line
from costmodel.answers.workload import Limits
from hardware_profiles.units import MILLI

Report = Callable[[str, int, int], None]
PLAIN = "no speculation"
PARTS = ("p50", "p90", "p99")
LONG_S = 10.0  # from which a wait is said in seconds


def answer_serving(state: State, report: Report) -> PageAnswer:
    """Simulate the load with speculation and without, at the asked rate and up to the highest that
    is sustained.

    Args:
        state: the page's question.
        report: called with what runs, and how many requests of how many have ended; may raise to
            stop.

    Raises:
        InputError: options that exclude each other.
        InfeasibleError: the model does not fit.
    """
    resolved = with_length(state, state.trace)
    length, state = length_words(state, resolved), resolved
    asked = asked_serving(state)
    with listening(report):
        answer = asked.answer()
    assert isinstance(answer, HighestRates)
    own = "shape" in asked.values
    first, plain = answer.points
    highest, without = answer.highest_rates
    names = {first.name: "own tree" if own else f"K = {state.draft_tokens}", plain.name: PLAIN}
    drafting = "the drafter's own tree" if own else f"{state.draft_tokens} tokens"
    return PageAnswer(
        headline=(
            _headline(first, plain, highest, without, drafting)
            if state.draft_tokens
            else _plain_headline(plain, without)
        ),
        command=asked.line,
        numbers=_numbers(first, plain, highest, without),
        cards=_cards(answer, names, limits_of(state)),
        tables=[("With drafting, and without", _rows(answer.points, names))],
        notes=[
            (
                "Both cases serve the same requests. Good requests meet the limits; without limits"
                " all that finish are."
            ),
            _counted(answer),
            f"Draft tokens K: {length}.",
            _drafter_words(state),
        ],
        command_answer=lambda: answer,
    )


def _counted(answer: HighestRates) -> str:
    counts = sorted({point.metrics["requests"] for point in answer.points})
    limits = f"{answer.limits} and no backlog grows" if answer.limits else "no backlog grows"
    return (
        f"Numbers are of {' and '.join(f'{count:,}' for count in counts)} requests: as many as say"
        f" whether a rate lasts. A rate is sustained where {limits}."
    )


def asked_serving(state: State) -> Asked:
    """What `simulate` is asked of a state: the page's recording or the question's first drafter,
    beside no drafting.

    Args:
        state: of the page.
    """
    where = where_asked(state)
    overrides = where.pop("overrides")
    return Asked(
        verb=SimulateQuestion,
        values={
            **where,
            "assigned": overrides,
            "rate": state.rate,
            "count": state.count,
            "prompt_tokens": f"lognormal:{state.prompt_tokens}:1",
            "output_tokens": f"exponential:{state.output_tokens}",
            "slo_ttft": state.slo_ttft,
            "slo_tpot": state.slo_tpot,
            "slo_e2e": state.slo_e2e,
            "seed": state.seed,
            **_drafter(state),
            "compare": (AUTOREGRESSIVE,),
            "good_share": SHARE,
            "rates": f"{state.rate:.10g}",
        },
    )


def _drafter(state: State) -> Values:
    drafter = (
        {"trace": state.trace, **own_drafter_asked(state)} if state.trace else drafter_asked(state)
    )
    drafted = {"draft_tokens": str(state.draft_tokens)} if state.trace else draft_asked(state)
    return {**drafter, **drafted}


def _drafter_words(state: State) -> str:
    """What is said of the drafter."""
    if state.trace:
        return f"Requests draft as recorded in {state.trace}."
    return acceptance_words(drafters(state)[0], state.draft_tokens)


def _headline(
    first: LoadPoint,
    plain: LoadPoint,
    highest: HighestRateRow,
    without: HighestRateRow,
    drafting: str,
) -> str:
    rate = f"{digits(first.rate_per_s)} requests/s"
    sustains = f"sustains {_rate(highest)}, and {_rate(without)} without"
    if first.metrics["is_growing"]:
        return f"Overloaded at {rate}: drafting {drafting} the service {sustains}"
    tpot, other = first.metrics["tpot_s"]["mean"], plain.metrics["tpot_s"]["mean"]
    if not tpot or not other:
        return f"At {rate} drafting {drafting} leaves no finished request to compare"
    if plain.metrics["is_growing"]:
        return (
            f"At {rate} drafting {drafting} keeps up, with {_ms(tpot)} per output token, where"
            f" without it the service is overloaded; it {sustains}"
        )
    moved = "shortens" if tpot < other else "lengthens"
    return (
        f"At {rate} drafting {drafting} {moved} the mean time per output token from {_ms(other)} to"
        f" {_ms(tpot)}; the service {sustains}"
    )


def _plain_headline(plain: LoadPoint, without: HighestRateRow) -> str:
    """What the load gets where no drafting is recommended."""
    rate = f"{digits(plain.rate_per_s)} requests/s"
    return (
        f"At {rate} drafting is off, as recommended at this batch:"
        f" {_ms(plain.metrics['tpot_s']['mean'])} per output token; the service sustains"
        f" {_rate(without)}"
    )


def _rate(row: HighestRateRow) -> str:
    """The highest rate that is sustained, in words; no rate where none was found."""
    return "no rate" if row.rate_per_s is None else f"{digits(row.rate_per_s)}/s"


def _numbers(
    first: LoadPoint, plain: LoadPoint, highest: HighestRateRow, without: HighestRateRow
) -> list[tuple[str, str]]:
    m, other = first.metrics, plain.metrics
    return [
        ("Sustains", f"{_rate(highest)} ({_rate(without)} without)"),
        ("TTFT p99", f"{_ms(m['ttft_s']['p99'])} ({_ms(other['ttft_s']['p99'])} without)"),
        ("TPOT p99", f"{_ms(m['tpot_s']['p99'])} ({_ms(other['tpot_s']['p99'])} without)"),
        (
            "Output",
            f"{digits(m['tokens_per_s'])} tokens/s ({digits(other['tokens_per_s'])} without)",
        ),
        (
            "Goodput",
            f"{digits(m['goodput_per_s'])} requests/s ({digits(other['goodput_per_s'])} without)",
        ),
    ]


def _ms(seconds: float | None) -> str:
    if seconds is None:
        return "none finished"
    return f"{digits(seconds)} s" if seconds >= LONG_S else f"{digits(seconds / MILLI)} ms"


def _rows(points: Sequence[LoadPoint], names: Mapping[str, str]) -> Sequence[Row]:
    """Every number of the first case beside that of the second, which is the baseline."""
    rows: list[Row] = []
    for title, key in (
        ("time to first token", "ttft_s"),
        ("time per output token", "tpot_s"),
        ("time between deliveries", "itl_s"),
    ):
        for part in ("mean", *PARTS):
            first, plain = values = [point.metrics[key][part] for point in points]
            rows.append(
                {"time": title, "statistic": part}
                | {
                    f"{names[point.name]} (ms)": None if value is None else round(value / MILLI, 3)
                    for point, value in zip(points, values, strict=True)
                }
                | {"change (%)": round(100 * (first / plain - 1.0), 1) if first and plain else None}
            )
    return rows


def _cards(answer: HighestRates, names: Mapping[str, str], limits: Limits) -> list[Card]:
    points = {
        label: [point for point in answer.tried if point.name == name]
        for name, label in names.items()
    }
    knees = [row.rate_per_s for row in answer.highest_rates]
    band = "Band: median to the slowest in a hundred; line: nine in ten; dotted: sustained."
    drawn = [
        ("Time per output token against load", band, _bands(points, "tpot_s", limits.tpot_s)),
        (
            "Goodput against load",
            "Requests a second that finish within the limits; dotted: sustained.",
            _goodput(points),
        ),
        ("Time to first token against load", band, _bands(points, "ttft_s", limits.ttft_s)),
    ]
    return [
        asking_along(Card(title=title, note=note, figure=_with_knees(figure, knees)), "rate")
        for title, note, figure in drawn
    ]


def _bands(points: Mapping[str, Sequence[LoadPoint]], key: str, limit_s: float | None) -> Figure:
    """Percentiles of a time over the rates, a band from p50 to p99 and the line of p90, and its
    limit.
    """
    data: list[Figure] = []
    for place, (label, own) in enumerate(points.items()):
        drawn = [point for point in own if point.metrics[key]["p50"] is not None]
        lines = {part: [p.metrics[key][part] / MILLI for p in drawn] for part in PARTS}
        words = [
            f"{label} at {digits(point.rate_per_s)} requests/s<br>"
            + "<br>".join(f"{part} {digits(lines[part][at])} ms" for part in PARTS)
            for at, point in enumerate(drawn)
        ]
        shaded = {"fill": "tonexty", "fillcolor": f"{PALETTE[place]}33"}
        data += [
            _line(place, drawn, lines["p50"]) | _EDGE,
            _line(place, drawn, lines["p99"]) | _EDGE | shaded,
            _line(place, drawn, lines["p90"])
            | {"name": label, "hoverinfo": "text", "hovertext": words},
        ]
    rates = [point.rate_per_s for own in points.values() for point in own]
    what = "to the first token" if key == "ttft_s" else "a token"
    limit = level_line([min(rates), max(rates)], limit_s, what)
    return _over_load([*data, *limit], "ms", log=True)


_EDGE = {"line": {"width": 0}, "mode": "lines", "showlegend": False, "hoverinfo": "skip"}


def _goodput(points: Mapping[str, Sequence[LoadPoint]]) -> Figure:
    return _over_load(
        [
            _line(place, own, [point.metrics["goodput_per_s"] for point in own]) | {"name": label}
            for place, (label, own) in enumerate(points.items())
        ],
        "good requests/s",
    )


def _line(place: int, points: Sequence[LoadPoint], values: Sequence[float]) -> Figure:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "x": [point.rate_per_s for point in points],
        "y": list(values),
        "line": {"color": PALETTE[place], "dash": DASHES[place], "width": 2.5},
    }


def _over_load(data: list[Figure], side: str, *, log: bool = False) -> Figure:
    up: Figure = {"title": {"text": side}}
    up |= {"type": "log", "dtick": "D2"} if log else {"rangemode": "tozero"}
    bottom = {"title": {"text": "requests/s that arrive"}}
    return framed(data, bottom, up, height=320, showlegend=True)


def _with_knees(figure: Figure, rates: Sequence[float | None]) -> Figure:
    """A figure over the load with a line at every case's highest rate that is sustained."""
    figure["layout"]["shapes"] = [
        {
            "type": "line",
            "yref": "paper",
            "x0": rate,
            "x1": rate,
            "y0": 0,
            "y1": 1,
            "line": {"color": PALETTE[place], "dash": "dot", "width": 1.5},
        }
        for place, rate in enumerate(rates)
        if rate is not None
    ]
    return figure
