"""Pages of explanations and break-evens in a real browser, without a network: every plot drawn,
nothing wrong."""

import pytest

from app.cli.main import main

pytest.importorskip("plotly", reason="plotly, of the extra `app`, is not installed")

SIZES = [(1280, 800), (390, 844)]
ASKED = [
    "--model",
    "llama-3.1-8b",
    "--method",
    "eagle-3",
    "--acceptance",
    "0.6",
    "--draft-tokens",
    "3",
    "--quiet",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("explained")
    assert main(["predict", *ASKED, "--batch", "1,128", "--explain", "--out", str(out)]) == 0
    assert (
        main(
            ["breakeven", *ASKED, "--batch", "1,16,256", "--context", "512,8192", "--out", str(out)]
        )
        == 0
    )
    return out


@pytest.mark.parametrize(
    ("size", "scheme"), list(zip(SIZES, ("light", "dark"), strict=True)), ids=["desktop", "phone"]
)
@pytest.mark.parametrize(
    ("name", "plots", "marks"),
    [
        ("explain", 4, ".scatterlayer .point, .barlayer .point"),
        ("breakeven", 2, ".heatmaplayer image"),
    ],
    ids=["explain", "breakeven"],
)
def test_every_plot_is_drawn_and_nothing_is_wrong(folder, drawn, name, plots, marks, size, scheme):
    page = drawn(folder / f"{name}.html", size, scheme)
    shown = page.locator(".plot")
    assert shown.count() == plots
    assert all(shown.nth(index).locator(marks).count() >= 1 for index in range(plots))
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0], (
        "the body never scrolls sideways"
    )
