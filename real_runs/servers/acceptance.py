"""What did a live server's speculation keep between scrapes of its counters?

The importers of traces read each engine's counters; what is added is a window for every interval,
beside the requests that ran at its end. Leaves out scraping (`real_runs.servers.counters`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from hardware_profiles.errors import InputError
from real_runs.servers.identify import Server
from traces.importers.engines.metric_names import GAUGES, PREFIXES, first_of
from traces.importers.formats import import_trace
from traces.importers.scrapes import Scrape, observed
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.summary import Window


def acceptance_between(
    server: Server, scrapes: Sequence[Scrape], *, model: str | None = None
) -> tuple[AcceptanceTrace | None, str]:
    """What was drafted and accepted over all scrapes.

    Args:
        server: whose they are.
        scrapes: at least two, in their order; none of them after a restart.
        model: whose counters count where the server has several; None: the only one's.

    Returns:
        A trace of level 0, with a window for every interval in which something was drafted, and an
        empty text; or None and why there is none.
    """
    form = server.engine.counters_format
    if not form:
        return None, "which counters speak of speculation is not known of this engine"
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, f"scrape-{number}.txt") for number in range(len(scrapes))]
        for file, scrape in zip(files, scrapes, strict=True):
            file.write_text(scrape.text, encoding="utf-8")
        options: dict[str, Any] = {} if model is None else {"model": model}
        try:
            trace = import_trace(form, [files[0], files[-1]], **options)
        except InputError as error:
            return None, error.message
        windows = []
        for (before, after), (start, end) in zip(pairwise(files), pairwise(scrapes), strict=True):
            try:
                summary = import_trace(form, [before, after], **options).summary
            except InputError:
                continue
            running = first_of(
                observed(start, end, model).level, PREFIXES[server.kind], GAUGES["running"]
            )
            if summary is not None and summary.drafts:
                windows.append(
                    Window(
                        drafts=summary.drafts,
                        draft_tokens=summary.draft_tokens,
                        accepted_tokens=summary.accepted_tokens,
                        batch_requests=None if running is None else round(running),
                    )
                )
    provenance = replace(trace.provenance, model=trace.provenance.model or server.model)
    assert trace.summary is not None
    between = tuple(windows) if len(scrapes) > 2 else trace.summary.windows
    return replace(
        trace, provenance=provenance, summary=replace(trace.summary, windows=between), file=None
    ), ""
