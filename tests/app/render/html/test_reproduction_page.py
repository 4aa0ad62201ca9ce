"""The page of published numbers stands alone, draws every prediction, and takes names for no more
than text."""

import json
import re

import pytest

pytest.importorskip("plotly")

from app.answers.reproduction.reproduction import reproduction
from app.render.html.reproduction_page import reproduction_page, write_plot
from hardware_profiles.errors import InputError
from real_runs.published_numbers.answer import Prediction
from real_runs.published_numbers.reading.table import PublishedRow

HOSTILE = "</script><img src=x onerror=alert(1)>"


def found(predicted, *, group="full", system="EAGLE-2", **changes):
    row = PublishedRow(
        line=2,
        kind="drafting",
        system=system,
        source="a page",
        group=group,
        target="Vicuna-7B",
        **({"value": 20.0, "unit": "tok/s"} | changes),
    )
    return "rows.csv", Prediction(
        row=row, predicted=predicted, reason="" if predicted else f"no answer to {system}"
    )


def answer(*rows):
    return reproduction(rows, {"names": [], "group": None, "rows": ["folder/rows.csv"], "seed": 0})


def figures(page):
    return json.loads(re.search(r'id="figures">(.*?)</script>', page, re.DOTALL)[1])


def test_the_page_stands_alone_and_draws_every_prediction(tmp_path):
    rows = [
        found(22.0),
        found(30.0),
        found(2.4, value=None, unit="", speedup=2.0),
        found(None),
        found(21.0, group="partial"),
        found(None, group="headline"),
    ]
    place = tmp_path / "sub" / "page.html"
    write_plot(answer(*rows), place)
    page = place.read_text(encoding="utf-8")
    markup = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"(src|href)=", markup)
    assert "default-src" in markup
    drawn = figures(page)
    assert list(drawn) == ["full", "partial"]
    marks = [trace for trace in drawn["full"]["data"] if trace["mode"] == "markers"]
    assert {trace["name"]: len(trace["x"]) for trace in marks} == {
        "times and rates": 2,
        "ratios to a baseline": 1,
    }
    assert marks[0]["y"] == [22.0, 30.0]
    assert "3 of 4 numbers predicted" in page
    assert "no answer to EAGLE-2" in page
    assert reproduction_page(answer(*rows)) == page


def test_names_in_tables_are_text():
    page = reproduction_page(
        answer(found(22.0, system=HOSTILE, hardware=HOSTILE), found(None, system=HOSTILE))
    )
    assert "<img" not in page.split('id="figures">')[0]
    assert HOSTILE not in page


def test_nothing_to_draw_is_said():
    with pytest.raises(InputError, match="nothing to draw"):
        reproduction_page(answer(found(None)))
