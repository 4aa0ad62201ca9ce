"""One headless Chromium and one server of the dashboard; pages that must be drawn without an error or a network."""

from pathlib import Path

import pytest

from tests.browser.screenshots import CHROMIUM, FLAGS, PATIENCE_S, served, settled

HERE = Path(__file__).parent
DESKTOP = (1280, 800)
# figures that are not hidden are drawn
DRAWN = """() => [...document.querySelectorAll('.plot')]
    .filter(place => !place.closest('[hidden]')).every(place => place.querySelector('svg.main-svg'))"""


def pytest_collection_modifyitems(items):
    """Mark everything in this folder; skip it where there is no browser."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.skipif(CHROMIUM is None, reason="chromium is not on the path"))


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """Address of the dashboard; at the end its log must hold no traceback."""
    pytest.importorskip("streamlit", reason="streamlit, of the extra `app`, is not installed")
    log = tmp_path_factory.mktemp("dashboard") / "server.log"
    with served(log) as address:
        yield address
    assert "Traceback" not in log.read_text()


@pytest.fixture(scope="module")
def browser():
    """Ends with its file: an event loop runs as long as it lives, which other tests of the process could not bear."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def drawn(browser):
    """Open a file at a size and in a colour scheme; at the end nothing may have gone wrong."""
    pages, wrong = [], []

    def open_page(path, size=DESKTOP, scheme="light"):
        page = browser.new_page(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
        pages.append(page)
        page.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda r: None if r.url.startswith(("file:", "data:")) else wrong.append(r.url))
        page.goto(path.as_uri())
        page.wait_for_function(DRAWN)
        return page

    yield open_page
    for page in pages:
        page.close()
    assert wrong == []


@pytest.fixture(scope="module")
def context(browser):
    """Shared by the pages of a file, which then load the scripts of the dashboard once."""
    made = browser.new_context()
    yield made
    made.close()


@pytest.fixture
def opened(context, server):
    """Open a link of the dashboard; at the end no script error and no request to another machine may have happened."""
    pages, wrong = [], []

    def open_page(query="", size=DESKTOP, scheme="light"):
        page = context.new_page()
        page.set_viewport_size({"width": size[0], "height": size[1]})
        page.emulate_media(color_scheme=scheme)
        page.set_default_timeout(1000 * PATIENCE_S)
        pages.append(page)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda r: None if r.url.startswith((server, "data:", "blob:", server.replace("http", "ws")))
                else wrong.append(r.url))  # fmt: skip
        page.goto(f"{server}/?{query}")
        settled(page)
        return page

    yield open_page
    for page in pages:
        page.close()
    assert wrong == []
