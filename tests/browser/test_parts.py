"""The parts of an answer, drawn by the component alone in whatever order they come."""

from pathlib import Path

import pytest

pytest.importorskip("streamlit", reason="streamlit, of the extra `app`, is not installed")

from app import dashboard

SCRIPT = (Path(dashboard.__path__[0]) / "chart_component.js").read_text(encoding="utf-8")
DRAWN = """async ([source, names]) => {
    self.Plotly = { react: plot => { plot.on = () => {}; }, purge: () => {}, Plots: { resize: () => {} } };
    const { default: show } = await import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
    for (const name of names) {
        const card = title => ({ title, note: "", press: "", figure: { data: [], layout: { height: 250 } } });
        const cards = [card(name), card(`${name}, too`)];
        const data = { name, asked: "it", numbers: [], notes: [], tables: [], cards };
        show({ data, parentElement: document.body.appendChild(document.createElement("div")) });
    }
    const inside = document.querySelectorAll("[data-part=charts] > .cards > .rooftree-card h3");
    return [...inside].map(each => each.innerText);
}"""


@pytest.mark.parametrize("names", [("charts", "rest"), ("rest", "charts")])
def test_charts_that_come_later_share_a_grid_with_the_first_ones_whoever_is_drawn_first(
    browser, names
):
    page = browser.new_page()
    assert page.evaluate(DRAWN, [SCRIPT, names]) == ["charts", "charts, too", "rest", "rest, too"]
    page.close()
