"""How soon does a change of the dashboard show, and how soon its first page? Beside Streamlit's
smallest page.

Each change of ours is taken in turn with one of Streamlit's smallest page, one slider and one line
of text, so that whatever else the machine does slows both. Times are printed as they come; what a
page says after the last change is compared with its answer. Leaves out which changes there are
(`dashboard_controls`).
"""

import statistics
import sys
import time
from itertools import product

import pytest

pytest.importorskip("streamlit", reason="streamlit, of the extra `app`, is not installed")

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

from app.dashboard.pages import answered  # noqa: E402
from app.dashboard.state import from_query  # noqa: E402
from tests.benchmarks.conftest import MOST_ROUNDS  # noqa: E402
from tests.benchmarks.dashboard_controls import (  # noqa: E402
    ANSWERED,
    WATCH,
    alternating,
    controls,
    opened,
    stepped,
)
from tests.browser.screenshots import CHROMIUM, FLAGS, own_words, served  # noqa: E402
from tests.browser.steps import headline, query, reached, settled  # noqa: E402

MOST_RATIO_FIRST = 2.0
CHANGES = 2 * MOST_ROUNDS
SMALLEST = """
import streamlit as st
st.write(st.slider("value", 0, 100, 0))
"""
SERVED = """
import sys
import streamlit as st
from app.dashboard.command import server_settings
st.App(sys.argv[1]).run(config=server_settings(host="127.0.0.1", port=int(sys.argv[2])))
"""
DRAWN = "[data-testid=stMarkdownContainer] p:text-matches('^[0-9]+$')"
HEADLINE = "[data-part=words] h2"
CHARTS = "[data-part=charts][data-shown]"
SINCE = ("from the command", "from a new server's address", "of a second session")
SINCE_COMMAND = ("headline with controls", SINCE[0])
WRITTEN = (
    "() => [...document.querySelectorAll('[data-testid=stMarkdownContainer] p')]"
    ".map(({innerText}) => innerText).findLast(text => /^[0-9]+$/.test(text))"
)
SESSIONS = {
    "llama-3.1-8b": "page=tree&model=llama-3.1-8b&tree_nodes=2",
    "qwen3-8b": "page=tree&model=qwen3-8b&tree_nodes=2",
}
TURNS = 20

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
    """Makes the command that serves Streamlit's smallest page at a port, under the settings of
    ours."""
    script = tmp_path_factory.mktemp("smallest") / "page.py"
    script.write_text(SMALLEST)
    return lambda port: [sys.executable, "-c", SERVED, str(script), str(port)]


@pytest.fixture(scope="module")
def smallest(browser, smallest_words, tmp_path_factory):
    """Seconds of the next change of Streamlit's smallest page."""
    with served(tmp_path_factory.mktemp("server") / "server.log", words=smallest_words) as address:
        page = opened(browser, address, lambda page: page.locator(DRAWN).first.wait_for())
        slider = page.get_by_test_id("stSlider")

        def step():
            while (taken := stepped(page, slider, WRITTEN)) is None:
                page.keyboard.press("Home")
                page.wait_for_function(f"() => ({WRITTEN})() === '0'")
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


def late_s(times):
    """Nine in ten are sooner; of one time itself."""
    return statistics.quantiles(times, n=10, method="inclusive")[-1] if len(times) > 1 else times[0]


@pytest.mark.parametrize(("page", "name"), controls())
def test_a_change_redraws_soon(benchmark, browser, server, smallest, table, page, name):
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
        most=MOST_RATIO_FIRST,
    )


def in_turn(sessions, name, turns):
    """Seconds of as many changes of a slider in every session, which are asked at the same time.

    Args:
        sessions: pages, by what they are called.
        name: of the field that the slider holds.
        turns: changes of each.
    """
    times = {session: [] for session in sessions}
    for _ in range(turns):
        for page in sessions.values():
            settled(page)
            page.evaluate(f"() => ({WATCH})({ANSWERED})")
            reached(page, name).locator("input[type=range]").first.focus()
        for page in sessions.values():
            page.keyboard.press("ArrowRight")
        for session, page in sessions.items():
            times[session].append(page.evaluate("window.told"))
    return times


def test_two_sessions_change_beside_each_other(benchmark, browser, server):
    sessions = {
        name: opened(browser, f"{server}/?{link}", settled) for name, link in SESSIONS.items()
    }
    times = benchmark.pedantic(in_turn, args=(sessions, "tree_nodes", TURNS), rounds=1)
    print(f"\n{'session':<16}{'changes':>8}{'p50 ms':>8}{'most ms':>8}")
    for name, page in sessions.items():
        own = times[name]
        middle, most = 1e3 * statistics.median(own), 1e3 * max(own)
        print(f"{name:<16}{len(own):>8}{middle:8.0f}{most:8.0f}")
        settled(page)
        state, wrong = from_query({**query(page), "page": "tree"})
        assert not wrong and state.model == name and state.tree_nodes == 2 + TURNS
        assert headline(page) == answered(state).headline
        page.close()
