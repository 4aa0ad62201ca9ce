"""The page of a simulation in a real browser, without a network: every plot drawn, nothing
wrong."""

import pytest

from app.cli.main import main

pytest.importorskip("plotly", reason="plotly, of the extra `app`, is not installed")

SIZES = [(1280, 800), (390, 844)]
ASKED = [
    "--model",
    "llama-3.1-8b",
    "--count",
    "60",
    "--prompt-tokens",
    "lognormal:800:1",
    "--output-tokens",
    "40",
]
LOADS = ["--rate", "10", "--rates", "5,20,40", "--compare", "prefill-first", "--quiet"]
BUDGET = ["--set", "scheduler.token_budget=512"]
PLOTS = 8


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    file = tmp_path_factory.mktemp("simulated") / "simulation.html"
    assert main(["simulate", *ASKED, *LOADS, *BUDGET, "--plot", str(file)]) == 0
    return file


@pytest.mark.parametrize(
    ("size", "scheme"), list(zip(SIZES, ("light", "dark"), strict=True)), ids=["desktop", "phone"]
)
def test_every_plot_is_drawn_and_nothing_is_wrong(page_file, drawn, size, scheme):
    page = drawn(page_file, size, scheme)
    shown = page.locator(".plot")
    assert shown.count() == PLOTS
    assert all(
        shown.nth(index).locator(".scatterlayer .js-line").count() == 2 for index in range(PLOTS)
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0], (
        "the body never scrolls sideways"
    )
