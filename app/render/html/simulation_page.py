"""How does a person see a simulation? Waiting times, load over time and goodput, as one HTML file.

Overlays any number of cases on the same requests, such as chunked prefill against prefill first.
Leaves out the numbers themselves (`simulator.results.metrics`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.answers.simulations.cases import LoadPoint, SimulationCase
from app.answers.simulations.rows import HighestRates, Simulation
from app.render.charts.charts import DASHES, PALETTE, Figure, digits, framed
from app.render.html.page import figure_card, html_page, html_table, write_page
from hardware_profiles.errors import InputError
from hardware_profiles.units import MILLI
from simulator.loop.histogram import LEAST_S, WIDTH, Histogram

MOST_POINTS = 400
_TAIL = 0.001  # distributions are drawn to the last request in a thousand


def write_plot(answer: Simulation | HighestRates, path: Path) -> None:
    """Write the page of an answer of `simulate`.

    Raises:
        InputError: as `write_simulation_page`.
    """
    if isinstance(answer, Simulation):
        write_simulation_page(answer.simulated, answer.points, path, title=answer.title)
        return
    rows = [asdict(row) for row in answer.highest_rates]
    write_load_page(rows, answer.points, answer.good_share, path, title=answer.title)


def write_simulation_page(
    cases: Sequence[SimulationCase], load: Sequence[LoadPoint], path: Path, *, title: str
) -> None:
    """Write figures and tables of simulations.

    Args:
        cases: at least one.
        load: the same cases at several loads, or nothing.
        path: the HTML file; its folder is made.
        title: of the page.

    Raises:
        InputError: no request of any case finished, plotly is missing, or the place cannot be
            written.
    """
    if not any(case.result.finished.any() for case in cases):
        raise InputError("no request finished: there is nothing to draw", key="--plot")
    figures: dict[str, Figure] = {}
    cards = [
        figure_card(figures, key, figure, heading, note)
        for key, heading, note, figure in (
            *_distributions(cases),
            *_over_time(cases),
            *_over_load(load),
        )
    ]
    head = f"<header><h1>{escape(title)}</h1></header>"
    grid = f'<section class="grid">{"".join(cards)}</section>'
    tables = f'<section class="card"><h2>Cases</h2>{_case_table(cases)}</section>'
    if load:
        tables += f'<section class="card"><h2>Load</h2>{_load_table(load)}</section>'
    write_page(
        html_page(title, f"{head}{_tiles(cases[0])}{grid}{tables}", figures, key="--plot"), path
    )


def write_load_page(
    highest: Sequence[Mapping[str, Any]],
    load: Sequence[LoadPoint],
    share: float,
    path: Path,
    *,
    title: str,
) -> None:
    """Write how goodput and the share within the limits go with the load, and the highest rates.

    Args:
        highest: rows of `app.answers.simulations.highest_rates`.
        load: points at stated rates, whose summaries have `good_ratio`.
        share: of requests that must be within the limits.
        path: of the file.
        title: of the page.

    Raises:
        InputError: the place cannot be written.
    """
    figures: dict[str, Figure] = {}
    drawn = [*_over_load(load), *_share_over_load(load, share)] if load else []
    cards = [
        figure_card(figures, key, figure, heading, note) for key, heading, note, figure in drawn
    ]
    head = (
        "setting",
        "highest rate, requests/s",
        "no more at",
        "within the limits",
        "goodput/s",
        "tokens/s",
        "requests",
        "seconds",
        "backlog",
        "no rate",
    )
    rows = [
        (
            escape(row["name"]),
            digits(row["rate_per_s"]),
            digits(row["above_per_s"]),
            _percent(row["good_ratio"]),
            digits(row["goodput_per_s"]),
            digits(row["tokens_per_s"]),
            digits(row["requests"]),
            digits(row["clock_s"]),
            "grows" if row["is_growing"] else "",
            escape(row["reason"] or ""),
        )
        for row in highest
    ]
    note = (
        f"<p>{share:.0%} of the requests within the limits after the warm-up, on the same"
        " draws, in "
    )
    note += "runs that are lengthened until their batches say so and no backlog grows.</p>"
    body = (
        f'<header><h1>{escape(title)}</h1></header><section class="card"><h2>Highest'
        f" rates</h2>{note}"
    )
    body += f'{html_table(head, rows)}</section><section class="grid">{"".join(cards)}</section>'
    if load:
        body += f'<section class="card"><h2>Load</h2>{_load_table(load)}</section>'
    write_page(html_page(title, body, figures, key="--plot"), path)


def shares(values: NDArray[np.float64]) -> tuple[list[float], list[float]]:
    """The share of values not above each of at most `MOST_POINTS` of them, up to the last in a
    thousand.

    Args:
        values: any order; what is not finite is left out.
    """
    finite = np.sort(values[np.isfinite(values)])
    if not finite.size:
        return [], []
    levels = (
        np.linspace(0.0, 1.0 - _TAIL, min(MOST_POINTS, finite.size))
        if finite.size > 1
        else np.ones(1)
    )
    return np.quantile(finite, levels).tolist(), levels.tolist()


def histogram_shares(waits: Histogram) -> tuple[list[float], list[float]]:
    """Waiting times that were counted in bins: the upper edges of the bins that hold any."""
    if not waits.count:
        return [], []
    below = np.cumsum(waits.counts) / waits.count
    used = np.nonzero((waits.counts > 0) & (below <= 1.0 - _TAIL))[0]
    return (LEAST_S * np.exp(used * WIDTH)).tolist(), below[used].tolist()


def _distributions(cases: Sequence[SimulationCase]) -> list[tuple[str, str, str, Figure]]:
    drawn = []
    for key, heading, unit, scale, log in (
        ("ttft", "Time to first token", "s", 1.0, True),
        ("tpot", "Time per output token", "ms", MILLI, False),
        ("itl", "Time between deliveries", "ms", MILLI, True),
    ):
        lines = []
        for place, case in enumerate(cases):
            result = case.result
            x, y = (
                histogram_shares(result.itl)
                if key == "itl"
                else shares(getattr(result, f"{key}_s")[_counted(case)])
            )
            at = [value / scale for value in x]
            lines.append(_line(case.name, place, at, y, f"{heading}, {unit}"))
        note = "Share of the requests counted that wait no longer."
        if key == "itl":
            note = (
                "Share of the gaps between what a user receives, of the whole run; bursts of"
                " accepted drafts arrive at once."
            )
        drawn.append(
            (
                f"plot-{key}",
                heading,
                note,
                _figure(lines, f"{unit}", "share", log=log, percent=True),
            )
        )
    return drawn


def _counted(case: SimulationCase) -> NDArray[np.bool_]:
    """Which requests of a case its times are of."""
    begin, end = (case.metrics["window"][key] for key in ("begin_s", "end_s"))
    arrival = case.result.arrival_s
    if begin is None:
        return np.ones(arrival.size, dtype=np.bool_)
    return np.asarray((arrival >= begin) & (arrival < end))


def _over_time(cases: Sequence[SimulationCase]) -> list[tuple[str, str, str, Figure]]:
    running, waiting, used = [], [], []
    for place, case in enumerate(cases):
        for number, series in enumerate(case.result.series):
            kind = "replica" if case.result.idle_passes is None else "rank"
            name = case.name if len(case.result.series) == 1 else f"{case.name}, {kind} {number}"
            every = max(1, -(-series.t_s.size // MOST_POINTS))
            t = series.t_s[::every].tolist()
            running.append(_line(name, place, t, series.running[::every].tolist(), "running"))
            waiting.append(_line(name, place, t, series.waiting[::every].tolist(), "waiting"))
            used.append(
                _line(
                    name,
                    place,
                    t,
                    (100.0 * series.kv_used_ratio[::every]).tolist(),
                    "% of the cache",
                )
            )
    return [
        (
            "plot-running",
            "Requests in flight",
            "Requests that hold cache.",
            _figure(running, "s", "requests"),
        ),
        (
            "plot-waiting",
            "Requests in the queue",
            "Requests that hold none yet.",
            _figure(waiting, "s", "requests"),
        ),
        ("plot-cache", "Cache", "Blocks that requests hold.", _figure(used, "s", "% of blocks")),
    ]


def _over_load(load: Sequence[LoadPoint]) -> list[tuple[str, str, str, Figure]]:
    if not load:
        return []
    names = list(dict.fromkeys(point.name for point in load))
    goodput, trade = [], []
    for place, name in enumerate(names):
        own = sorted((p for p in load if p.name == name), key=lambda p: p.rate_per_s)
        rates = [p.rate_per_s for p in own]
        goodput.append(
            _line(
                name,
                place,
                rates,
                [p.metrics["goodput_per_s"] for p in own],
                "good requests/s",
                True,
            )
        )
        both = [p for p in own if p.metrics["tpot_s"]["mean"] and p.metrics["ttft_s"]["mean"]]
        tpot = [p.metrics["itl_s"]["p99"] / MILLI for p in both]
        line = _line(name, place, tpot, [p.metrics["ttft_s"]["p90"] for p in both], "", True)
        line["hovertext"] = [
            f"<b>{escape(name)}</b><br>{p.rate_per_s:g} requests/s<br>ITL p99 {digits(x)} ms<br>"
            f"TTFT p90 {digits(p.metrics['ttft_s']['p90'])} s"
            for p, x in zip(both, tpot, strict=True)
        ]
        trade.append(line)
    return [
        (
            "plot-goodput",
            "Goodput against load",
            "Requests a second that finish within the limits.",
            _figure(goodput, "requests/s that arrive", "requests/s"),
        ),
        (
            "plot-trade",
            "First token against the ones after it",
            "One point per load; lower left is better.",
            _figure(trade, "ITL p99, ms", "TTFT p90, s", log=True),
        ),
    ]


def _share_over_load(load: Sequence[LoadPoint], share: float) -> list[tuple[str, str, str, Figure]]:
    lines = []
    for place, name in enumerate(dict.fromkeys(point.name for point in load)):
        own = sorted((p for p in load if p.name == name), key=lambda p: p.rate_per_s)
        rates, good = [p.rate_per_s for p in own], [p.metrics["good_ratio"] for p in own]
        lines.append(_line(name, place, rates, good, "share within the limits", True))
    ends = [min(p.rate_per_s for p in load), max(p.rate_per_s for p in load)]
    lines.append(_line("asked", len(lines), ends, [share, share], "share that is asked for"))
    figure = _figure(lines, "requests/s that arrive", "share", percent=True)
    return [
        (
            "plot-share",
            "Requests within the limits",
            "Of those that arrive after the warm-up.",
            figure,
        )
    ]


def _percent(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.1%}"


def _line(
    name: str, place: int, x: Sequence[float], y: Sequence[float], what: str, marked: bool = False
) -> Figure:
    color, dash = PALETTE[place % len(PALETTE)], DASHES[place // len(PALETTE) % len(DASHES)]
    return {
        "type": "scatter",
        "mode": "lines+markers" if marked else "lines",
        "name": escape(name),
        "x": list(x),
        "y": list(y),
        "line": {"color": color, "dash": dash, "width": 2},
        "marker": {"color": color, "size": 7},
        "hoverinfo": "text",
        "hovertext": [
            f"<b>{escape(name)}</b><br>{escape(what)}: {digits(b)} at {digits(a)}"
            for a, b in zip(x, y, strict=True)
        ],
    }


def _figure(
    lines: list[Figure], bottom: str, side: str, *, log: bool = False, percent: bool = False
) -> Figure:
    across = {"title": {"text": bottom}, "type": "log" if log else "linear"}
    up = {"title": {"text": side}, "tickformat": ".0%" if percent else None, "rangemode": "tozero"}
    return framed(lines, across, up, showlegend=len(lines) > 1)


def _tiles(case: SimulationCase) -> str:
    m = case.metrics
    shown: tuple[tuple[str, str, str], ...] = (
        ("TTFT", f"{digits(m['ttft_s']['mean'])} s", f"p99 {digits(m['ttft_s']['p99'])} s"),
        (
            "TPOT",
            f"{digits(_ms(m['tpot_s']['mean']))} ms",
            f"p99 {digits(_ms(m['tpot_s']['p99']))} ms",
        ),
        ("ITL p99", f"{digits(_ms(m['itl_s']['p99']))} ms", "between deliveries"),
        (
            "Output",
            f"{digits(m['tokens_per_s'])} tokens/s",
            f"{digits(m['requests_per_s'])} requests/s",
        ),
        (
            "Goodput",
            f"{digits(m['goodput_per_s'])} /s",
            f"{m['finished']:,} of {m['requests']:,} finished, {m['window']['requests']:,} counted",
        ),
    )
    if m.get("joules_per_token") is not None:
        price = m["usd_per_million_tokens"]
        below = "" if price is None else f"$ {digits(price)} per million"
        shown += (("Energy", f"{digits(m['joules_per_token'])} J/token", below),)
    cells = "".join(
        f"<div><dt>{name}</dt><dd>{value}<span>{below}</span></dd></div>"
        for name, value, below in shown
    )
    return f'<dl class="tiles">{cells}</dl>'


def _case_table(cases: Sequence[SimulationCase]) -> str:
    head = (
        "case",
        "TTFT mean, s",
        "p99",
        "TPOT mean, ms",
        "p99",
        "ITL p99, ms",
        "tokens/s",
        "goodput/s",
        "finished",
        "rejected",
        "failed",
        "preempted",
        "iterations",
    )
    return html_table(head, (_cells(case.name, case.metrics) for case in cases))


def _load_table(load: Sequence[LoadPoint]) -> str:
    head = (
        "case",
        "requests/s",
        "TTFT mean, s",
        "p99",
        "TPOT mean, ms",
        "p99",
        "ITL p99, ms",
        "tokens/s",
        "goodput/s",
        "finished",
        "rejected",
        "failed",
        "preempted",
        "iterations",
    )
    rows = ((p.name, p.rate_per_s, _cells(p.name, p.metrics)) for p in load)
    return html_table(head, ((cells[0], digits(rate), *cells[1:]) for _, rate, cells in rows))


def _cells(name: str, m: Mapping[str, Any]) -> tuple[str, ...]:
    unbroken = f'<span style="white-space:nowrap">{escape(name)}</span>'
    return (
        unbroken,
        digits(m["ttft_s"]["mean"]),
        digits(m["ttft_s"]["p99"]),
        digits(_ms(m["tpot_s"]["mean"])),
        digits(_ms(m["tpot_s"]["p99"])),
        digits(_ms(m["itl_s"]["p99"])),
        digits(m["tokens_per_s"]),
        digits(m["goodput_per_s"]),
        f"{m['finished']:,}",
        f"{m['rejected']:,}",
        f"{m['failed']:,}",
        f"{m.get('preemptions', 0):,}",
        f"{m['iterations']:,}",
    )


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds / MILLI
