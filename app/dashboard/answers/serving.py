"""Which latency and goodput does a load get, with speculation and without?

Two simulations of the same requests, and goodput over loads, between warm-up and last arrival.
Leaves out several replicas (`rooftree simulate`).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from app.answers.simulations.cases import SimulationCase
from app.answers.simulations.runs import prepared_of, run_cases
from app.answers.simulations.simulate import scenario_of
from app.dashboard.answer import Card, Figure, PageAnswer, Row
from app.dashboard.asking import Asked, Values
from app.dashboard.question import (
    acceptance_words,
    draft_asked,
    drafter_asked,
    drafters,
    where_asked,
)
from app.dashboard.state import State
from app.questions.simulate import SimulateQuestion
from app.render.charts.charts import DASHES, PALETTE, digits, framed
from app.render.html.simulation_page import shares
from hardware_profiles.units import MILLI
from simulator.results.steady import SteadyWindow, steady_window
from simulator.scenario.build import Prepared
from simulator.scenario.file import LimitsSection

Report = Callable[[str, int, int], None]
LOADS = (0.5, 1.0, 2.0)  # of the asked rate
MOST_POINTS = 400


def answer_serving(state: State, report: Report) -> PageAnswer:
    """Simulate the load with speculation and without, at half, once and twice the rate.

    Args:
        state: the page's question.
        report: called with the case, and how many requests of how many have ended; may raise to
            stop.

    Raises:
        InputError: options that exclude each other.
        InfeasibleError: the model does not fit.
    """
    asked = asked_serving(state)
    cases: list[SimulationCase] = []
    windows: list[SteadyWindow] = []
    load: dict[str, list[tuple[float, float | None]]] = {}
    done, whole = 0, 2 * len(LOADS)

    def report_progress(name: str, ended: int, requests: int) -> None:
        report(name, done * state.count + ended, whole * state.count)

    own = "shape" in asked.values
    drafting = "own tree" if own else f"K = {state.draft_tokens}"
    for label, drafted in ((drafting, True), ("no speculation", False)):
        prepared = _prepared(asked if drafted else asked_serving(state, drafts=False))
        load[label] = []
        for share in LOADS:
            report_progress(f"{label} at {state.rate * share:g}/s", 0, state.count)
            (case,) = run_cases(
                prepared, [(label, {"rate_per_s": state.rate * share})], state.seed, report_progress
            )
            window = _window(prepared.written.slo, case)
            if share == 1.0:
                cases.append(case)
                windows.append(window)
            load[label].append((state.rate * share, window.goodput_per_s))
            done += 1
    first, plain = windows
    return PageAnswer(
        headline=_headline(state, first, plain, own=own),
        command=asked.changed(rates=",".join(f"{state.rate * share:g}" for share in LOADS)).line,
        numbers=[
            ("TTFT p99", f"{_ms(first.ttft_s['p99'])} ({_ms(plain.ttft_s['p99'])} without)"),
            ("TPOT p99", f"{_ms(first.tpot_s['p99'])} ({_ms(plain.tpot_s['p99'])} without)"),
            (
                "Output",
                f"{digits(first.tokens_per_s)} tokens/s ({digits(plain.tokens_per_s)} without)",
            ),
            (
                "Goodput",
                f"{digits(first.goodput_per_s)} requests/s ({digits(plain.goodput_per_s)} without)",
            ),
        ],
        cards=_cards(cases, windows, load),
        tables=[("With drafting, and without", _rows(cases, windows))],
        notes=[
            (
                "Both cases serve the same requests. Good requests meet the limits; without limits"
                " all that finish are."
            ),
            _counted(first),
            *_growing(cases, windows),
            _drafter_words(state),
        ],
    )


def _window(limits: LimitsSection, case: SimulationCase) -> SteadyWindow:
    return steady_window(case.result, slo_ttft_s=limits.ttft_s, slo_tpot_s=limits.tpot_s)


def _counted(window: SteadyWindow) -> str:
    return (
        f"Numbers are of the {window.arrived:,} requests that arrive from {digits(window.begin_s)}"
        f" to {digits(window.end_s)} s, after the warm-up, and rates of those that end in that"
        " time."
    )


def _growing(cases: Sequence[SimulationCase], windows: Sequence[SteadyWindow]) -> list[str]:
    """What is not sustained: with more requests these would wait longer."""
    return [
        f"{case.name}: requests in flight grow from {window.in_flight[0]:,} to"
        f" {window.in_flight[1]:,} while it is counted. The load is not sustained, and with more"
        " requests they would wait longer."
        for case, window in zip(cases, windows, strict=True)
        if window.is_growing
    ]


def asked_serving(state: State, *, drafts: bool = True) -> Asked:
    """What `simulate` is asked of a state.

    Args:
        state: of the page.
        drafts: with the drafter: the page's recording, else the question's first.
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
            "seed": state.seed,
            **(_drafter(state) if drafts else {}),
        },
    )


def _drafter(state: State) -> Values:
    drafter = {"trace": state.trace} if state.trace else drafter_asked(state)
    drafted = {"draft_tokens": str(state.draft_tokens)} if state.trace else draft_asked(state)
    return {**drafter, **drafted}


def _prepared(asked: Asked) -> Prepared:
    """The scenario of a question of `simulate`."""
    question = asked.question()
    assert isinstance(question, SimulateQuestion)
    written, _ = scenario_of(question, max(question.draft_tokens or (), default=None))
    return prepared_of(written)


def _drafter_words(state: State) -> str:
    """What is said of the drafter."""
    if state.trace:
        return f"Requests draft as recorded in {state.trace}."
    return acceptance_words(drafters(state)[0], state.draft_tokens)


def _headline(state: State, first: SteadyWindow, plain: SteadyWindow, *, own: bool) -> str:
    drafted = "the drafter's own tree" if own else f"{state.draft_tokens} tokens"
    sentence = f"At {digits(state.rate)} requests/s drafting {drafted} "
    with_it, without = first.tpot_s["mean"], plain.tpot_s["mean"]
    if not with_it or not without:
        return sentence + "leaves no finished request to compare"
    moved = "shortens" if with_it < without else "lengthens"
    return (
        sentence + f"{moved} the mean time per output token from {_ms(without)} to {_ms(with_it)}"
    )


def _ms(seconds: float | None) -> str:
    return "none finished" if seconds is None else f"{digits(seconds / MILLI)} ms"


def _rows(cases: Sequence[SimulationCase], windows: Sequence[SteadyWindow]) -> Sequence[Row]:
    """Every number of the first case beside that of the second, which is the baseline."""
    titles = (
        "time to first token",
        "time per output token",
        "time between deliveries, warm-up and all",
    )
    case_times = [
        (w.ttft_s, w.tpot_s, case.metrics["itl_s"]) for case, w in zip(cases, windows, strict=True)
    ]
    rows: list[Row] = []
    for place, title in enumerate(titles):
        for part in ("mean", "p50", "p90", "p99"):
            values = [times[place][part] for times in case_times]
            first, plain = values
            rows.append(
                {"time": title, "statistic": part}
                | {
                    f"{case.name} (ms)": None if value is None else round(value / MILLI, 3)
                    for case, value in zip(cases, values, strict=True)
                }
                | {"change (%)": round(100 * (first / plain - 1.0), 1) if first and plain else None}
            )
    return rows


def _cards(
    cases: list[SimulationCase],
    windows: Sequence[SteadyWindow],
    load: dict[str, list[tuple[float, float | None]]],
) -> list[Card]:
    ttft = {case.name: _shares(case.result.ttft_s) for case in cases}
    tpot = {case.name: _shares(case.result.tpot_s) for case in cases}
    flying = {}
    for case in cases:
        series = case.result.series[0]
        every = max(1, -(-series.t_s.size // MOST_POINTS))
        flying[case.name] = (series.t_s[::every].tolist(), series.running[::every].tolist())
    good = {
        name: ([rate for rate, _ in points], [value or 0.0 for _, value in points])
        for name, points in load.items()
    }
    return [
        Card(
            title="Time to first token",
            note="Share of requests that wait no longer.",
            figure=_figure(ttft, "ms", "share of requests (%)"),
        ),
        Card(
            title="Time per output token",
            note="Share of requests that are no slower.",
            figure=_figure(tpot, "ms", "share of requests (%)"),
        ),
        Card(
            title="Timeline",
            note=(
                "Requests in flight; what arrives in the shaded time is counted, after the warm-up "
                "and before the last arrival."
            ),
            figure=_shaded(_figure(flying, "time (s)", "requests in flight"), windows),
        ),
        Card(
            title="Goodput against load",
            note="Requests a second that finish within the limits.",
            figure=_figure(good, "requests/s that arrive", "good requests/s"),
        ),
    ]


def _shaded(figure: Figure, windows: Sequence[SteadyWindow]) -> Figure:
    """A timeline with the windows that are counted."""
    figure["layout"]["shapes"] = [
        {
            "type": "rect",
            "xref": "x",
            "yref": "paper",
            "x0": window.begin_s,
            "x1": window.end_s,
            "y0": 0,
            "y1": 1,
            "line": {"width": 0},
            "fillcolor": PALETTE[place],
            "opacity": 0.1,
            "layer": "below",
        }
        for place, window in enumerate(windows)
    ]
    return figure


def _shares(seconds: Any) -> tuple[list[float], list[float]]:
    x, y = shares(np.asarray(seconds, dtype=np.float64))
    return [value / MILLI for value in x], [100 * value for value in y]


def _figure(lines: dict[str, tuple[list[float], list[float]]], bottom: str, side: str) -> Figure:
    data = [
        {
            "type": "scatter",
            "mode": "lines+markers" if len(x) < 10 else "lines",
            "name": name,
            "x": x,
            "y": y,
            "line": {"color": PALETTE[place], "dash": DASHES[place], "width": 2.5},
        }
        for place, (name, (x, y)) in enumerate(lines.items())
    ]
    up = {"title": {"text": side}, "rangemode": "tozero"}
    return framed(data, {"title": {"text": bottom}}, up, height=320, showlegend=True)
