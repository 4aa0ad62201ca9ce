"""The page of a simulation in a real browser, without a network: every plot drawn, nothing wrong."""

import shutil

import pytest

from app.cli.main import main

pytest.importorskip("plotly", reason="plotly, of the extra `app`, is not installed")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

CHROMIUM = shutil.which("chromium")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
SIZES = [(1280, 800), (390, 844)]
DRAWN = "() => [...document.querySelectorAll('.plot')].every(place => place.querySelector('svg.main-svg'))"
ASKED = ["--model", "llama-3.1-8b", "--count", "60", "--prompt-tokens", "lognormal:800:1", "--output-tokens", "40"]
LOADS = ["--rate", "10", "--rates", "5,20,40", "--compare", "prefill-first", "--token-budget", "512", "--quiet"]
PLOTS = 8

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not on the path"),
]


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    file = tmp_path_factory.mktemp("simulated") / "simulation.html"
    assert main(["simulate", *ASKED, *LOADS, "--plot", str(file)]) == 0
    return file


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES, ids=["desktop", "phone"])
def test_every_plot_is_drawn_and_nothing_is_wrong(page_file, browser, size, scheme):
    wrong = []
    page = browser.new_page(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
    page.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda r: None if r.url.startswith(("file:", "data:")) else wrong.append(r.url))
    page.goto(page_file.as_uri())
    page.wait_for_function(DRAWN)
    shown = page.locator(".plot")
    assert shown.count() == PLOTS
    assert all(shown.nth(index).locator(".scatterlayer .js-line").count() == 2 for index in range(PLOTS))
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0], "the body never scrolls sideways"
    page.close()
    assert wrong == []
