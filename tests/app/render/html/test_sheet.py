"""One answer on one sheet: whatever it is called, its texts stay texts."""

import json
import re
from html import unescape
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.answers.scoring.certainty import MEASURED, UNKNOWN
from app.render.charts.charts import framed
from app.render.html.sheet import Sheet, sheet_page

pytest.importorskip("plotly")

FIGURE = framed([{"type": "bar", "x": [1], "y": [2]}], {}, {})
USUAL = Sheet(
    title="Pareto",
    question="llama-3.1-8b",
    headline="It pays",
    sure=(MEASURED, "8 runs"),
    numbers=[("Speedup", "2×")],
    figures=[("Speedup", "At batch 8.", FIGURE)],
    notes=["A note."],
    command="rooftree optimize",
    link="http://localhost:8501/pareto?batch=8",
)
HOSTILE = st.text(max_size=40) | st.sampled_from(
    ["</script><script>alert(1)</script>", "<img src=x onerror=alert(2)>", "'\"&<", "</style>"]
)


class Elements(HTMLParser):
    """The elements of a page with their attributes."""

    def __init__(self, text):
        super().__init__()
        self.elements = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))


@pytest.fixture(scope="module", autouse=True)
def _small():
    """Pages without plotly's five megabytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("plotly.offline.get_plotlyjs", lambda: "/* plotly */")
        yield


def tags(page):
    return [tag for tag, _ in Elements(page).elements]


@given(HOSTILE, HOSTILE)
def test_names_add_no_element_and_stand_as_they_are(name, other):
    page = sheet_page(
        Sheet(
            title="Pareto",
            question=name,
            headline=other,
            sure=(name, other),
            numbers=[(name, other)],
            figures=[(name, other, framed([{"type": "bar", "name": name, "x": [other]}], {}, {}))],
            notes=[name],
            command=other,
            link=USUAL.link,
        )
    )
    assert tags(page) == tags(sheet_page(USUAL))
    for text in (name, other):
        assert text.strip() in unescape(page)
    (drawn,) = json.loads(re.search(r'id="figures">(.*?)</script>', page, re.DOTALL)[1]).values()
    assert drawn["data"][0]["name"] == name


def test_a_link_that_is_none_of_the_web_is_text():
    links = [
        attrs.get("href")
        for address in ("javascript:alert(1)", "run?batch=8", USUAL.link)
        for tag, attrs in Elements(sheet_page(Sheet(**{**fields(USUAL), "link": address}))).elements
        if tag == "a"
    ]
    assert links == [USUAL.link]


def fields(sheet):
    return {name: getattr(sheet, name) for name in sheet.__slots__}


def test_what_is_not_known_is_said_by_nothing():
    page = sheet_page(Sheet(**{**fields(USUAL), "sure": None, "notes": []}))
    assert "How sure" not in page and "<ul>" not in page
    assert "badge warn" in sheet_page(Sheet(**{**fields(USUAL), "sure": (UNKNOWN, "")}))
