"""How are a live server's counters fetched?

As the Prometheus text that vLLM, SGLang, TensorRT-LLM and llama.cpp publish. Leaves out what the
text says (`traces.importers.scrapes`).
"""

from __future__ import annotations

import time

from hardware_profiles.errors import InputError
from real_runs.servers.event_loop import run
from real_runs.servers.exchange import Patience, fetch_text
from real_runs.servers.identify import Server
from traces.importers.scrapes import Scrape


def scrape(server: Server, *, patience: Patience | None = None) -> Scrape:
    """Read a server's counters.

    Raises:
        UnreachableError: no connection.
        InputError: it publishes none, or its answer broke off.
    """
    paths, option = server.engine.counter_paths, server.engine.counters_option
    for path in paths:
        text = run(fetch_text(server.address, path, patience=patience))
        if text is not None and "# TYPE" in text:
            return Scrape(at_s=time.monotonic(), text=text)
    hint = f"; the server must be started with {option}" if option else ""
    wanted = f"publishes no counters{hint}"
    raise InputError(wanted, key=f"{server.address}{paths[0]}")
