"""One headless Chromium and one server of the dashboard; pages that must be drawn without an error
or a network."""

from pathlib import Path

import pytest

from tests.browser.screenshots import CHROMIUM, launched, patient, served
from tests.browser.steps import DRAWN, ask, settled

HERE = Path(__file__).parent
DESKTOP = (1280, 800)
FAILED = pytest.StashKey[bool]()


def pytest_collection_modifyitems(items):
    """Mark everything in this folder; skip it where there is no browser."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.browser)
            item.add_marker(
                pytest.mark.skipif(CHROMIUM is None, reason="chromium is not on the path")
            )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Remember which tests failed."""
    report = yield
    item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed
    return report


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
    """Ends with its file: an event loop runs as long as it lives, which other tests of the process
    could not bear."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as started:
        chromium = launched(started)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def files(browser):
    """Pages of files by path, size and colour scheme, and what went wrong in them."""
    return {}, []


@pytest.fixture
def drawn(browser, files, request):
    """Open a file at a size and in a colour scheme, once for all tests of a module that do not
    fail.

    A test that changes a page changes it back. At the end nothing may have gone wrong.
    """
    pages, wrong = files

    def open_page(path, size=DESKTOP, scheme="light"):
        if page := pages.get((path, size, scheme)):
            return page
        page = patient(
            browser.new_page(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
        )
        page.on(
            "console",
            lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None,
        )
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on(
            "request",
            lambda r: None if r.url.startswith(("file:", "data:")) else wrong.append(r.url),
        )
        page.goto(path.as_uri())
        page.wait_for_function(DRAWN)
        pages[path, size, scheme] = page
        return page

    yield open_page
    if request.node.stash.get(FAILED, False):
        for page in pages.values():
            page.close()
        pages.clear()
    said, wrong[:] = wrong[:], []
    assert said == []


@pytest.fixture(scope="module")
def tabs(browser, server):
    """Makes tabs, which load the dashboard's scripts once; the one that tests share; and what went
    wrong in them."""
    context, wrong = browser.new_context(), []

    def new_tab():
        page = patient(context.new_page())
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on(
            "request",
            lambda r: (
                None
                if r.url.startswith((server, "data:", "blob:", server.replace("http", "ws")))
                else wrong.append(r.url)
            ),
        )
        return page

    yield new_tab, [], wrong
    context.close()


@pytest.fixture
def asked(tabs, server, request):
    """Ask what a link asks, in the session that the tests of a file share; the next call of a test
    has its own tab.

    A test that failed takes its session with it. At the end no script error and no request to
    another machine may have happened.
    """
    new_tab, shared, wrong = tabs
    pages = []

    def ask_page(link="page=run", size=DESKTOP, scheme="light"):
        link = link if "page=" in link else f"page=run&{link}"
        page = shared.pop() if shared and not pages else new_tab()
        pages.append(page)
        page.set_viewport_size({"width": size[0], "height": size[1]})
        page.emulate_media(color_scheme=scheme)
        if page.url.startswith(server):
            ask(page, link)
        else:
            page.goto(f"{server}/?{link}")
            settled(page)
        return page

    yield ask_page
    if pages and not request.node.stash.get(FAILED, False):
        shared.append(pages.pop(0))
    for page in pages:
        page.close()
    said, wrong[:] = wrong[:], []
    assert said == []
