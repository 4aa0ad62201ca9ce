"""How soon does a slider's change show? From the key's event to the frame in which every chart in sight follows.

Measured in the page itself. The machine's own speed is measured in the same run, as how soon Streamlit's smallest
page, one slider and one chart, shows a change; the aim is the larger of 300 ms and a ratio to that.
"""

import statistics
import sys

import pytest

pytest.importorskip("streamlit", reason="streamlit, of the extra `app`, is not installed")

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

from tests.browser.screenshots import CHROMIUM, FLAGS, PATIENCE_S, reached, served, settled  # noqa: E402
from traces.library import shipped_traces  # noqa: E402

AIM_S = 0.3
MOST_RATIO = 4.0  # of what one slider and one chart take: a page has a dozen widgets and five charts
CHANGES = 12
REST_MS = 300  # of a hand between two changes
MODELS = tuple(f"model={name}" for name in ("llama-3.1-8b", "llama-3.2-1b", "qwen3-8b", "mistral-7b-v0.3"))
RECORDINGS = tuple(f"trace={path.stem}" for path in shipped_traces())
# page, slider, the links to begin with (enough of them that no question comes twice), and how many times the aim is
# allowed: the last searches over all methods at every change
CASES = [
    ("map", "acceptance_ratio=0.4&known_by=rate&method=eagle-3", MODELS, 1),
    ("hardware", "bandwidth_ratio=0.25", MODELS, 1),
    ("tree", "tree_nodes=4", MODELS, 1), ("trace", "draft_tokens=1", RECORDINGS, 1), ("run", "batch=1", MODELS, 1),
    ("run", "context=256", MODELS, 2),
]  # fmt: skip
SMALLEST = """
import streamlit as st
value = st.slider("value", 0, 100, 50)
line = {"type": "scatter", "x": [0, 1], "y": [0, value]}
st.plotly_chart({"data": [line], "layout": {"title": {"text": str(value)}}})
"""
# the promise of the seconds from the next key's event until `shown` gives something else and that frame is on its way
WATCH = """shown => {
    const before = shown();
    let began;
    addEventListener("keydown", event => { began = event.timeStamp; }, {capture: true, once: true});
    window.told = new Promise(done => {
        const look = () => {
            const now = shown();
            if (began !== undefined && now !== undefined && now !== before) {
                setTimeout(() => done((performance.now() - began) / 1000));
            } else requestAnimationFrame(look);
        };
        requestAnimationFrame(look);
    });
}"""
CHARTS = "() => document.querySelector('[data-part=charts]').dataset.shown"
TITLE = "() => document.querySelector('.js-plotly-plot')?.layout?.title?.text"

pytestmark = [pytest.mark.browser, pytest.mark.skipif(CHROMIUM is None, reason="chromium is not on the path")]


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
def smallest(browser, tmp_path_factory):
    """Seconds of a change of Streamlit's smallest page, one for each."""
    folder = tmp_path_factory.mktemp("smallest")
    script = folder / "page.py"
    script.write_text(SMALLEST)
    flags = ["--server.address", "127.0.0.1", "--server.headless", "true", "--server.fileWatcherType", "none",
             "--browser.gatherUsageStats", "false"]  # fmt: skip

    def words(port):
        return [sys.executable, "-m", "streamlit", "run", str(script), "--server.port", str(port), *flags]

    with served(folder / "server.log", words=words) as address:
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(1000 * PATIENCE_S)
        page.goto(address)
        page.locator(".js-plotly-plot .main-svg").first.wait_for()
        times = changed(page, page.get_by_test_id("stSlider"), TITLE, CHANGES)
        page.close()
    return times


def changed(page, slider, shown, most):
    """Seconds of every step of a slider to its end, at most so many."""
    place = slider.locator("input[type=range]").first
    place.focus()
    times = []
    while len(times) < most and place.evaluate("each => Number(each.value) < Number(each.max)"):
        page.wait_for_timeout(REST_MS)
        page.evaluate(f"() => ({WATCH})({shown})")
        page.keyboard.press("ArrowRight")
        times.append(page.evaluate("window.told"))
    return times


def late_s(times):
    """Nine in ten are sooner."""
    return statistics.quantiles(times, n=10)[-1]


def sliding(browser, server, name, start, links):
    """Seconds of `CHANGES` changes, each to a question that this server was never asked."""
    times = []
    for link in links:
        if len(times) == CHANGES:
            break
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(1000 * PATIENCE_S)
        page.goto(f"{server}/?page={name}&{start}&{link}")
        settled(page)
        times += changed(page, reached(page, start.split("=")[0]), CHARTS, CHANGES - len(times))
        page.close()
    return times


@pytest.mark.parametrize(("name", "start", "links", "patience"), CASES)
def test_a_slider_redraws_soon(benchmark, browser, server, smallest, aim, name, start, links, patience):
    times = benchmark.pedantic(sliding, args=(browser, server, name, start, links), rounds=1)
    print(f"\n{name}, {start.split('=')[0]}: median {1e3 * statistics.median(times):.0f} ms of {len(times)} changes")
    print(f"Streamlit's smallest page: median {1e3 * statistics.median(smallest):.0f} ms")
    most_s = patience * max(AIM_S, MOST_RATIO * late_s(smallest))
    aim("nine in ten within ms", 1e3 * late_s(times), most=1e3 * most_s)
