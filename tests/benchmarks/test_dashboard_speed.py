"""How soon does a change of the dashboard show, and how soon its first page? Beside Streamlit's
smallest page.

Each change of ours is taken in turn with one of Streamlit's smallest page, one slider and one
chart, so that whatever else the machine does slows both. Leaves out which changes there are
(`dashboard_controls`).
"""

import statistics
import sys
import time
from itertools import product

import pytest

pytest.importorskip("streamlit", reason="streamlit, of the extra `app`, is not installed")

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

from tests.benchmarks.conftest import MOST_ROUNDS  # noqa: E402
from tests.benchmarks.dashboard_controls import alternating, controls, opened, stepped  # noqa: E402
from tests.browser.screenshots import CHROMIUM, FLAGS, own_words, served  # noqa: E402
from tests.browser.steps import settled  # noqa: E402

MOST_RATIO_P50, MOST_RATIO_P90 = 1.5, 2.0
CHANGES = 2 * MOST_ROUNDS
SMALLEST = """
import streamlit as st
value = st.slider("value", 0, 100, 0)
line = {"type": "scatter", "x": [0, 1], "y": [0, value]}
st.plotly_chart({"data": [line], "layout": {"title": {"text": str(value)}}})
"""
DRAWN = ".js-plotly-plot .main-svg"
HEADLINE = "[data-part=words] h2"
CHARTS = "[data-part=charts][data-shown]"
SINCE = ("from the command", "from a new server's address", "of a second session")
SINCE_COMMAND = ("headline with controls", SINCE[0])
TITLE = "() => document.querySelector('.js-plotly-plot')?.layout?.title?.text"

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not on the path"),
]


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("dashboard") / "server.log") as address:
        yield address


@pytest.fixture(scope="module")
def smallest_words(tmp_path_factory):
    """Makes the command that serves Streamlit's smallest page at a port."""
    script = tmp_path_factory.mktemp("smallest") / "page.py"
    script.write_text(SMALLEST)
    flags = [
        "--server.address",
        "127.0.0.1",
        "--server.headless",
        "true",
        "--server.fileWatcherType",
        "none",
        "--browser.gatherUsageStats",
        "false",
    ]
    return lambda port: [
        sys.executable,
        "-m",
        "streamlit",
        "run",
        str(script),
        "--server.port",
        str(port),
        *flags,
    ]


@pytest.fixture(scope="module")
def smallest(browser, smallest_words, tmp_path_factory):
    """Seconds of the next change of Streamlit's smallest page."""
    with served(tmp_path_factory.mktemp("server") / "server.log", words=smallest_words) as address:
        page = opened(browser, address, lambda page: page.locator(DRAWN).first.wait_for())
        slider = page.get_by_test_id("stSlider")

        def step():
            while (taken := stepped(page, slider, TITLE)) is None:
                page.keyboard.press("Home")
                page.wait_for_function(f"() => ({TITLE})() === '0'")
            return taken

        step()
        yield step
        page.close()


@pytest.fixture(scope="module")
def table():
    """Rows of what was measured, printed at the end."""
    rows = []
    yield rows
    head = zip(
        ("changes", "p50 ms", "p90 ms", "of", "of", "p50 x", "p90 x"),
        (8, 8, 8, 6, 6, 7, 7),
        strict=True,
    )
    print(f"\n{'page':<12}{'control':<18}" + "".join(f"{name:>{width}}" for name, width in head))
    for page, name, changes, p50, p90, of50, of90 in rows:
        times = "".join(
            f"{1e3 * each:{width}.0f}" for each, width in ((p50, 8), (p90, 8), (of50, 6), (of90, 6))
        )
        print(f"{page:<12}{name:<18}{changes:>8}{times}{p50 / of50:7.2f}{p90 / of90:7.2f}")
    if rows:
        met = sum(
            p50 <= MOST_RATIO_P50 * of50 and p90 <= MOST_RATIO_P90 * of90
            for *_, p50, p90, of50, of90 in rows
        )
        print(
            f"{met} of {len(rows)} controls within {MOST_RATIO_P50} x p50 and {MOST_RATIO_P90}"
            " x p90"
        )


def late_s(times):
    """Nine in ten are sooner; of one time itself."""
    return statistics.quantiles(times, n=10, method="inclusive")[-1] if len(times) > 1 else times[0]


@pytest.mark.parametrize(("page", "name"), controls())
def test_a_change_redraws_soon(benchmark, browser, server, smallest, table, aim, page, name):
    ours, theirs = benchmark.pedantic(
        alternating, args=(browser, server, smallest, page, name, CHANGES), rounds=1
    )
    if not ours:
        pytest.skip("has one value")
    middles, lates = (
        [statistics.median(each) for each in (ours, theirs)],
        [late_s(each) for each in (ours, theirs)],
    )
    table.append((page, name, len(ours), middles[0], lates[0], middles[1], lates[1]))
    print(f"\n{page}, {name}: {len(ours)} changes")
    aim("p50, times the smallest page's", middles[0] / middles[1], most=MOST_RATIO_P50)
    aim("p90, times the smallest page's", lates[0] / lates[1], most=MOST_RATIO_P90)


def ours_drawn(page):
    """Yields once the answer can be read, and once its charts are there."""
    page.locator(HEADLINE).first.wait_for()
    yield "headline with controls"
    page.locator(CHARTS).wait_for(state="attached")
    yield "charts with controls"


def smallest_drawn(page):
    """Yields once the smallest page's widget is there, and once its chart is."""
    page.get_by_test_id("stSlider").wait_for()
    yield "headline with controls"
    page.locator(DRAWN).first.wait_for()
    yield "charts with controls"


def first_drawn(browser, words, log, drawn):
    """Seconds to the first words and charts of a new server, in a new browser, and of a second
    session in it.

    Args:
        browser: whose kind is started anew.
        words: makes the server's command from a port.
        log: file for what it says.
        drawn: yields what is there as soon as it is.

    Returns:
        By what is there and since when: the server was started; its address was opened; it was
            opened again.
    """
    chromium, times = browser.browser_type.launch(executable_path=CHROMIUM, args=FLAGS), {}
    began = time.perf_counter()
    with served(log, words=words) as address:
        context = chromium.new_context(viewport={"width": 1280, "height": 800})
        for since in SINCE[1:]:
            page, opening = context.new_page(), time.perf_counter()
            page.goto(address, wait_until="commit")
            for what in drawn(page):
                now = time.perf_counter()
                if since == SINCE[1]:
                    times[what, SINCE[0]] = now - began
                times[what, since] = now - opening
            settled(page) if drawn is ours_drawn else None
        chromium.close()
    return times


def test_the_first_page_shows_soon(benchmark, browser, smallest_words, aim, tmp_path):
    def taken():
        rounds = [
            [
                first_drawn(browser, words, tmp_path / "server.log", drawn)
                for words, drawn in ((smallest_words, smallest_drawn), (own_words, ours_drawn))
            ]
            for _ in range(min(3, MOST_ROUNDS))
        ]
        return [
            {each: statistics.median(one[each] for one in found) for each in found[0]}
            for found in zip(*rounds, strict=True)
        ]

    theirs, ours = benchmark.pedantic(taken, rounds=1)
    print(f"\n{'seconds to':<52}{'ours':>8}{'smallest page':>15}")
    for since, what in product(SINCE, dict.fromkeys(what for what, _ in ours)):
        other = f"{theirs[what, since]:.2f}" if (what, since) in theirs else "–"
        print(f"{f'{what} {since}':<52}{ours[what, since]:8.2f}{other:>15}")
    aim(
        "first headline, times the smallest page's widget",
        ours[SINCE_COMMAND] / theirs[SINCE_COMMAND],
        most=MOST_RATIO_P90,
    )
