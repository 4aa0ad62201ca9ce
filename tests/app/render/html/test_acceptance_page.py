"""The page that compares recordings: every row drawn once, names escaped, nothing to draw
refused."""

from dataclasses import replace

import pytest

from app.answers.recordings.compare import ComparedRecording, ComparedRecordings
from app.render.html.acceptance_page import acceptance_figure, name, write_plot
from hardware_profiles.errors import InputError

pytest.importorskip("plotly")


def row(drafter="lookup", kind="chat", temperature=0.0, shares=(0.5, 0.25)):
    return ComparedRecording(
        drafter=drafter,
        temperature=temperature,
        kind=kind,
        requests=3,
        tokens=120,
        draft_tokens=2,
        tokens_per_step=1.75,
        acceptance_by_depth=list(shares),
        tokens_per_step_interval=(1.6, 1.9),
    )


def write(rows, path):
    write_plot(ComparedRecordings(inputs={}, rows=rows), path)


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
    write([row(kind=kind) for kind in ("chat", "code", "all")], path)
    text = path.read_text(encoding="utf-8")
    assert text.count('class="plot"') == 3
    assert "1.75" in text and "1.60–1.90" in text
    assert text.index("<h2>all</h2>") < text.index("<h2>chat</h2>")


def test_a_name_cannot_leave_its_place(tmp_path):
    write([row("<script>alert(1)</script>", kind="<i>")], tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script>alert" not in text and "<i>" not in text


def test_nothing_to_draw_is_refused(tmp_path):
    with pytest.raises(InputError, match="no step"):
        write([replace(row(), acceptance_by_depth=None)], tmp_path / "page.html")
    assert not list(tmp_path.iterdir())
