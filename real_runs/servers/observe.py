"""What is a live server doing, as its own counters say?

Scrapes them at intervals and reads what lies between: acceptance by position, requests that run and
wait, requests per step, and times as the engine states them. An engine that restarts or is lost
ends the observation, and what lies before is kept. Leaves out what no counter tells: positions in a
text, single requests, and the traffic itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from hardware_profiles.errors import InputError, RooftreeError
from real_runs.servers.acceptance import acceptance_between
from real_runs.servers.counters import scrape
from real_runs.servers.engines import KINDS
from real_runs.servers.exchange import Patience
from real_runs.servers.identify import Server
from simulator.results.metrics import PERCENTILES
from traces.importers.engines.metric_names import (
    BUSY,
    COUNTERS,
    DECODES,
    GAUGES,
    KV_USED_RATIO,
    PREFIXES,
    RATES,
    STEPS,
    TIMES,
    first_of,
)
from traces.importers.scrapes import Observed, Scrape, observed
from traces.kinds.acceptance import AcceptanceTrace

_PATIENCE = Patience(connect_s=5.0, silence_s=15.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Observation:
    """What was seen of a server.

    Attributes:
        server: which.
        seconds: from the first scrape to the last.
        scrapes: how many.
        figures: by the names of `metric_names`: gauges as mean and most over the scrapes, counters
            and their rate per second, histograms as mean and percentiles; what the engine does not
            say is absent.
        trace: acceptance at level 0, with a window for every interval; None where nothing was
            drafted.
        no_trace: why there is no trace; empty where there is one.
        ended: why it ended early; empty where it did not.
    """

    server: Server
    seconds: float
    scrapes: int
    figures: Mapping[str, Any]
    trace: AcceptanceTrace | None
    no_trace: str
    ended: str


def observe(
    server: Server,
    *,
    for_s: float,
    every_s: float,
    patience: Patience = _PATIENCE,
    model: str | None = None,
    tell: Callable[[float], None] = lambda elapsed_s: None,
) -> Observation:
    """Watch a server for a while.

    Args:
        server: from `identify`.
        for_s: how long, > 0; Ctrl-C ends it earlier and keeps what was seen.
        every_s: between two scrapes, > 0.
        patience: of one scrape.
        model: whose counters count where the server has several; None: those of all.
        tell: called with the seconds observed so far.

    Raises:
        InputError: the server publishes no counters, or was lost before a second scrape.
    """
    scrapes, ended = [scrape(server, patience=patience)], ""
    server = _with_engine(server, scrapes[0])
    end_s = scrapes[0].at_s + for_s
    try:
        while not ended:
            left_s = end_s - time.monotonic()
            time.sleep(max(min(every_s, left_s), 0.0))
            ended = _scrape_again(server, scrapes, patience)
            tell(scrapes[-1].at_s - scrapes[0].at_s)
            if left_s <= every_s:
                break
    except KeyboardInterrupt:
        ended = _scrape_again(server, scrapes, patience) or "stopped by Ctrl-C"
    if len(scrapes) < 2:
        raise InputError(f"nothing was observed: {ended}", key=str(server.address))
    spans = [observed(before, after, model) for before, after in pairwise(scrapes)]
    whole = observed(scrapes[0], scrapes[-1], model)
    trace, reason = acceptance_between(server, scrapes, model=model)
    return Observation(
        server=server,
        seconds=whole.seconds,
        scrapes=len(scrapes),
        figures=_figures(server, whole, spans),
        trace=trace,
        no_trace=reason,
        ended=ended,
    )


def _with_engine(server: Server, first: Scrape) -> Server:
    """The server with the engine that its counters are named after, where it does not name one
    itself.
    """
    if server.kind != "openai":
        return server
    kinds = (kind for kind in KINDS if kind in PREFIXES and f"\n{PREFIXES[kind]}" in first.text)
    return replace(server, kind=next(kinds, server.kind))


def _scrape_again(server: Server, scrapes: list[Scrape], patience: Patience) -> str:
    """Add a scrape; why that is not possible, else empty."""
    try:
        latest = scrape(server, patience=patience)
    except RooftreeError as error:
        return str(error)
    if fell := observed(scrapes[-1], latest).fell:
        return f"the engine was restarted: {fell[0]} fell; what lies before is kept"
    scrapes.append(latest)
    return ""


def _figures(server: Server, whole: Observed, spans: Sequence[Observed]) -> dict[str, Any]:
    prefix = PREFIXES.get(server.kind, "")
    figures: dict[str, Any] = {}
    for figure, names in {**GAUGES, "kv_used_ratio": KV_USED_RATIO}.items():
        read = [span.level if figure in GAUGES else span.highest for span in spans]
        levels = [
            level
            for span_values in read
            if (level := first_of(span_values, prefix, names)) is not None
        ]
        if levels:
            figures[figure] = {"mean": sum(levels) / len(levels), "most": max(levels)}
    for figure, names in COUNTERS.items():
        if (gain := first_of(whole.total, prefix, names)) is not None:
            figures[figure] = {"gained": gain, "per_s": gain / whole.seconds}
    for figure, names in TIMES.items():
        for name in (f"{prefix}{suffix}" for suffix in names):
            if (mean := whole.mean(name)) is not None and figure not in figures:
                figures[figure] = {"mean": mean} | {
                    f"p{p}": whole.quantile(name, p / 100) for p in PERCENTILES
                }
    for figure, (seconds, tokens) in RATES.items():
        spent, count = whole.total(f"{prefix}{seconds}"), whole.total(f"{prefix}{tokens}")
        if figure not in figures and spent is not None and count:
            figures[figure] = {"mean": spent / count}
    if (tokens_per_step := whole.mean(f"{prefix}{STEPS}")) is not None:
        figures["steps"] = {
            "gained": whole.total(f"{prefix}{STEPS}_count"),
            "tokens_per_step": tokens_per_step,
        }
    if decodes := whole.total(f"{prefix}{DECODES}"):
        busy = whole.weighted_mean(f"{prefix}{BUSY}", f"{prefix}{DECODES}")
        figures["steps"] = {"gained": decodes, "requests_per_step": busy}
    return figures
