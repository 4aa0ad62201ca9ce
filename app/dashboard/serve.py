"""Serves the dashboard: Streamlit's server, with Plotly's script as a file beside it.

Scripts are files that browsers keep, not part of every session's messages. Leaves out which
settings the server has (the verb `dashboard`).
"""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import streamlit as st
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

SCRIPT = Path(__file__).with_name("main.py")
YEAR_S = 365 * 24 * 60 * 60
# as they are: packing them would take longer than sending them to a browser on this machine
IMMUTABLE = {
    "Cache-Control": f"public, immutable, max-age={YEAR_S}",
    "Content-Encoding": "identity",
}


def prepare() -> None:
    """Load what the script loads and answer the first page's own question, before anybody asks."""
    from app.dashboard import main, pages  # noqa: F401  # the script itself runs in every session
    from app.dashboard.state import State

    pages.answered(State())


@asynccontextmanager
async def _serving(app: "st.App") -> AsyncIterator[None]:
    """Compile the replay of masked blocks beside the server, as long as that lives."""
    from app.dashboard.precompile import compiling

    beside = compiling(sys.executable)
    try:
        yield
    finally:
        beside.kill()
        beside.wait()


def plotly_file() -> Path:
    """Plotly's script as its package ships it."""
    from importlib.util import find_spec

    spec = find_spec("plotly")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent / "package_data" / "plotly.min.js"


async def _plotly(request: "Request") -> "Response":
    from starlette.responses import FileResponse

    return FileResponse(plotly_file(), media_type="text/javascript", headers=IMMUTABLE)


def routes() -> "list[BaseRoute]":
    """What is served beside Streamlit's own."""
    from starlette.routing import Route

    from app.dashboard import scripts

    return [Route(f"/{scripts.PLOTLY_ADDRESS}", _plotly)]


def serve(settings: dict[str, str | int | bool]) -> None:
    """Serve until a signal ends it.

    Args:
        settings: Streamlit's, by their names.
    """
    from importlib.metadata import version

    import streamlit as st

    from app.dashboard import scripts

    scripts.PLOTLY_ADDRESS = f"plotly-{version('plotly')}.js"
    prepare()
    st.App(SCRIPT, lifespan=_serving, routes=routes()).run(config=settings)
