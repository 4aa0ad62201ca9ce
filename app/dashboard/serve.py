"""Serves the dashboard: Streamlit's server, Plotly's script as a file, and the first answers before anybody asks.

The script is a file that browsers keep, not part of every session's messages. Whoever opens the first page finds
modules loaded and its answer made, or on the way. Leaves out which settings the server has (the verb `dashboard`).
"""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import streamlit as st

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

SCRIPT = Path(__file__).with_name("main.py")
YEAR_S = 365 * 24 * 60 * 60


def prepare() -> None:
    """Load what the script loads and answer the first page's own question; those of the others while nobody asks.

    Leaves out simulations, and replays of masked blocks until a process beside the server has compiled them.
    """
    from app.dashboard import main, pages, prefetch
    from app.dashboard.precompile import is_compiled
    from app.dashboard.state import PAGES, State

    left_out = {main.ASKED_BY_BUTTON} | (set() if is_compiled() else {"diffusion"})
    first, *others = [State(page=name) for name in PAGES if name not in left_out]
    prefetch.start([first], pages.answered, idle=others)


@asynccontextmanager
async def _serving(app: st.App) -> AsyncIterator[None]:
    """Prepare as soon as browsers are answered, which then load what Streamlit's own page needs."""
    Thread(target=prepare, name="prepare", daemon=True).start()
    yield


def plotly_file() -> Path:
    """Plotly's script as its package ships it."""
    from importlib.util import find_spec

    spec = find_spec("plotly")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent / "package_data" / "plotly.min.js"


async def _plotly(request: "Request") -> "Response":
    from starlette.responses import FileResponse

    # as it is: packing it would take longer than sending it to a browser on this machine
    headers = {"Cache-Control": f"public, immutable, max-age={YEAR_S}", "Content-Encoding": "identity"}
    return FileResponse(plotly_file(), media_type="text/javascript", headers=headers)


def serve(settings: dict[str, str | int | bool]) -> None:
    """Serve until a signal ends it.

    Args:
        settings: Streamlit's, by their names.
    """
    from importlib.metadata import version

    from starlette.routing import Route

    from app.dashboard import plotly_script

    plotly_script.ADDRESS = f"plotly-{version('plotly')}.js"
    st.App(SCRIPT, lifespan=_serving, routes=[Route(f"/{plotly_script.ADDRESS}", _plotly)]).run(config=settings)


if __name__ == "__main__":
    serve(json.loads(sys.argv[1]))
