"""The page that compares recordings: every row drawn once, names escaped, nothing to draw
refused."""

import numpy as np
import pytest

from app.render.html.acceptance_page import acceptance_figure, name, write_acceptance_page
from hardware_profiles.errors import InputError
from traces.replay.comparison import ComparisonRow

pytest.importorskip("plotly")


def row(drafter="lookup", kind="chat", temperature=0.0, shares=(0.5, 0.25)):
    return ComparisonRow(drafter, temperature, kind, 3, 120, 2, np.array(shares), 1.75, (1.6, 1.9))


def test_names_tell_the_temperature():
    assert name(row()) == "lookup, greedy"
    assert name(row(temperature=0.8)) == "lookup, T = 0.8"
    assert name(row(temperature=None)) == "lookup"


def test_a_line_per_recording_and_colours_that_stay():
    rows = [row(), row("exit", shares=(0.2,)), row("<b>", temperature=None)]
    names = [name(each) for each in rows]
    drawn = acceptance_figure(rows, names)["data"]
    assert [line["y"] for line in drawn] == [[0.5, 0.25], [0.2], [0.5, 0.25]]
    assert [line["x"] for line in drawn] == [[1, 2], [1], [1, 2]]
    assert drawn[2]["name"] == "&lt;b&gt;"
    assert acceptance_figure(rows[1:], names)["data"][0]["line"] == drawn[1]["line"]
    assert len({line["line"]["color"] for line in drawn}) == 3


def test_the_page_holds_a_card_per_kind_and_a_table(tmp_path):
    path = tmp_path / "new" / "page.html"
    write_acceptance_page([row(kind=kind) for kind in ("chat", "code", "all")], path)
    text = path.read_text(encoding="utf-8")
    assert text.count('class="plot"') == 3
    assert "1.75" in text and "1.60–1.90" in text
    assert text.index("<h2>all</h2>") < text.index("<h2>chat</h2>")


def test_a_name_cannot_leave_its_place(tmp_path):
    write_acceptance_page([row("<script>alert(1)</script>", kind="<i>")], tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script>alert" not in text and "<i>" not in text


def test_nothing_to_draw_is_refused(tmp_path):
    with pytest.raises(InputError, match="no step"):
        write_acceptance_page([row()._replace(acceptance=None)], tmp_path / "page.html")
    assert not list(tmp_path.iterdir())
