"""Pages of explanations and break-evens in a real browser, without a network: every plot drawn, nothing wrong."""

import shutil

import pytest

from app.cli.main import main

pytest.importorskip("plotly", reason="plotly, of the extra `app`, is not installed")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

CHROMIUM = shutil.which("chromium")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
SIZES = [(1280, 800), (390, 844)]
DRAWN = "() => [...document.querySelectorAll('.plot')].every(place => place.querySelector('svg.main-svg'))"
ASKED = ["--model", "llama-3.1-8b", "--method", "eagle-3", "--acceptance", "0.6", "--draft-tokens", "3", "--quiet"]

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not on the path"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("explained")
    assert main(["predict", *ASKED, "--batch", "1,128", "--explain", "--out", str(out)]) == 0
    assert main(["breakeven", *ASKED, "--batch", "1,16,256", "--context", "512,8192", "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES, ids=["desktop", "phone"])
@pytest.mark.parametrize(
    ("name", "plots", "marks"),
    [("explain", 4, ".scatterlayer .point, .barlayer .point"), ("breakeven", 2, ".heatmaplayer image")],
    ids=["explain", "breakeven"],
)
def test_every_plot_is_drawn_and_nothing_is_wrong(folder, browser, name, plots, marks, size, scheme):
    wrong = []
    page = browser.new_page(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
    page.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda r: None if r.url.startswith(("file:", "data:")) else wrong.append(r.url))
    page.goto((folder / f"{name}.html").as_uri())
    page.wait_for_function(DRAWN)
    shown = page.locator(".plot")
    assert shown.count() == plots
    assert all(shown.nth(index).locator(marks).count() >= 1 for index in range(plots))
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0], "the body never scrolls sideways"
    page.close()
    assert wrong == []
