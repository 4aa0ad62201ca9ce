"""Serves the dashboard: Streamlit's server, the first answers before anybody asks, and Plotly's
script as a file.

Whoever opens a page reads its answer in the document, while Streamlit's own scripts load. Scripts
are files that browsers keep, not part of every session's messages. Leaves out which settings the
server has (the verb `dashboard`).
"""

import gc
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from app.dashboard.first_page.asked import begin, first_answer

if TYPE_CHECKING:
    import streamlit as st
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

SCRIPT = Path(__file__).with_name("main.py")
YEAR_S = 365 * 24 * 60 * 60
_APPLICATION = re.compile(r'<script type="module"[^>]* src="[^"]+"></script>')
# as they are: packing them would take longer than sending them to a browser on this machine
IMMUTABLE = {
    "Cache-Control": f"public, immutable, max-age={YEAR_S}",
    "Content-Encoding": "identity",
}


def prepare() -> None:
    """Load what the script loads and answer the first page's own question; those of the others
    while nobody asks.

    Before anybody is answered: a browser that loads Streamlit's scripts meanwhile would wait for
    both. Leaves out simulations, and replays of masked blocks until a process beside the server has
    compiled them.
    """
    if (first_page := begin("", {})) is not None:
        first_page.result()
    from app.dashboard import main, pages, prefetch  # noqa: F401
    from app.dashboard.precompile import is_compiled
    from app.dashboard.state import PAGES, State

    left_out = {pages.ASKED_BY_BUTTON} | (set() if is_compiled() else {"diffusion"})
    first, *others = [State(page=name) for name in PAGES if name not in left_out]
    prefetch.start([first], pages.answered, idle=others)


@asynccontextmanager
async def _serving(app: "st.App") -> AsyncIterator[None]:
    """Compile beside the server, as long as that lives."""
    from app.dashboard.precompile import compiling

    beside = compiling(sys.executable)
    try:
        yield
    finally:
        if beside is not None:
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


async def _component(request: "Request") -> "Response":
    from starlette.responses import Response

    from app.dashboard.scripts import component_source

    return Response(component_source("js"), media_type="text/javascript", headers=IMMUTABLE)


async def _page(request: "Request") -> "Response":
    """Streamlit's document, sent at once up to where an answer stands, so that its scripts load
    meanwhile.
    """
    from starlette.responses import StreamingResponse

    async def parts() -> AsyncIterator[str]:
        before, after = _index()
        yield before
        yield await first_answer(request.url.path.strip("/"), dict(request.query_params)) + after

    headers = {"Cache-Control": "no-cache", "Content-Encoding": "identity"}
    return StreamingResponse(parts(), media_type="text/html", headers=headers)


@lru_cache(maxsize=1)
def _index() -> tuple[str, str]:
    """Streamlit's document before an answer and after it, with links to what loads beside
    Streamlit's scripts.

    Those begin when they are loaded, not when the document ends, so that no answer keeps them
    waiting.
    """
    from streamlit.file_util import get_static_dir

    from app.dashboard import scripts

    index = Path(get_static_dir(), "index.html").read_text(encoding="utf-8")
    links = (
        f'<link rel="modulepreload" data-answer href="./{scripts.component_address()}">'
        f'<link rel="preload" as="script" fetchpriority="low" href="./{scripts.PLOTLY_ADDRESS}">'
    )
    head, end, rest = index.replace(
        "<title>Streamlit</title>", "<title>rooftree</title>"
    ).partition("</head>")
    body, last, after = rest.rpartition("</body>")
    if found := _APPLICATION.search(head):
        head, body = (
            head.replace(found[0], ""),
            body + found[0].replace("<script", "<script async", 1),
        )
    return f"{head}{links}{end}{body}", f"{last}{after}"


def routes() -> "list[BaseRoute]":
    """What is served beside Streamlit's own."""
    from starlette.routing import Route

    from app.dashboard import scripts
    from app.dashboard.wording import TITLES

    pages = [Route(path, _page) for path in ("/", *(f"/{name}" for name in TITLES))]
    return [
        Route(f"/{scripts.PLOTLY_ADDRESS}", _plotly),
        Route(f"/{scripts.component_address()}", _component),
        *pages,
    ]


def serve(settings: dict[str, str | int | bool]) -> None:
    """Serve until a signal ends it.

    Args:
        settings: Streamlit's, by their names.
    """
    from importlib.metadata import version

    from app.dashboard import scripts

    # what is loaded before anybody is answered stays: looking for garbage among it would find none
    gc.disable()
    sys.modules["plotly"] = None  # type: ignore[assignment]  # a quarter of Streamlit's import, for charts of its own
    import streamlit as st

    del sys.modules["plotly"]
    scripts.PLOTLY_ADDRESS = f"plotly-{version('plotly')}.js"
    prepare()
    gc.freeze()
    gc.enable()
    st.App(SCRIPT, lifespan=_serving, routes=routes()).run(config=settings)
