"""A page's first answer in the document: of the question that the page itself reads, escaped, soon
or not at all."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("streamlit", reason="streamlit, of the extra `app`, is not installed")

from app.dashboard.answer import Answer, Card, EngineStart
from app.dashboard.first_page import asked
from app.dashboard.first_page.document import document
from app.dashboard.first_page.question import question
from app.dashboard.pages import answered
from app.dashboard.state import PAGES, State, address, from_query

HOSTILE = """</script><script>alert(1)</script><img src=x onerror=alert(1)>"'&lt;"""
ANSWERED = [page for page in PAGES if page != "serving"]


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch):
    monkeypatch.setattr(asked, "_answers", {})


class Elements(HTMLParser):
    """The elements of a document and what each says."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.says, self.open = [], {}, []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, "every element is closed where it should be"

    def handle_data(self, text):
        self.says.setdefault(self.open[-1], []).append(text)


def first(path="", **query):
    return asyncio.run(asked.first_answer(path, query))


@pytest.mark.parametrize("page", ["run", "map", "hardware"])
def test_the_first_answer_is_the_pages_own(page):
    found = Elements(first(page, model="llama-3.2-1b"))
    state = State(page=page, model="llama-3.2-1b")
    answer = answered(state)
    assert found.says["h2"] == [answer.headline]
    assert found.says["dd"] == [value for _, value in answer.numbers]
    (charts,) = [
        json.loads(text)
        for text in found.says["script"]
        if text.startswith("{") and '"cards"' in text
    ]
    assert charts["cards"] == json.loads(
        json.dumps(
            [
                {"title": card.title, "note": card.note, "figure": card.figure}
                for card in answer.cards
            ]
        )
    )
    assert json.loads(charts["asked"]) == address(state)


def test_no_text_of_an_answer_is_markup():
    figure = {"data": [{"name": HOSTILE}], "layout": {"height": 100}}
    answer = Answer(
        headline=HOSTILE,
        command=HOSTILE,
        numbers=[(HOSTILE, HOSTILE)],
        notes=[HOSTILE],
        engines=[EngineStart(title=HOSTILE, command=HOSTILE, files={})],
        cards=[Card(title=HOSTILE, note=HOSTILE, figure=figure)],
    )
    usual = Answer(
        headline="a",
        command="a",
        numbers=[("a", "a")],
        notes=["a"],
        engines=[EngineStart(title="a", command="a", files={})],
        cards=[Card(title="a", note="a", figure=figure)],
    )
    found, plain = (Elements(document(State(), each, is_first=True)) for each in (answer, usual))
    assert found.tags == plain.tags, "no element and no attribute comes from a text"
    assert "".join(found.says["h2"]) == HOSTILE
    charts = [json.loads(text) for text in found.says["script"] if '"cards"' in text]
    assert charts[0]["cards"][0] == {"title": HOSTILE, "note": HOSTILE, "figure": figure}


@pytest.mark.parametrize(
    "name", ["model", "device", "batch", "page", "against", "rates", "trace", HOSTILE]
)
@pytest.mark.parametrize("path", ["", "map", HOSTILE])
def test_a_hostile_link_has_no_first_answer(name, path):
    assert first(path, **{name: HOSTILE}) == ""


@pytest.mark.parametrize(
    "query",
    [
        {"page": "serving"},
        {"known_by": "upload"},
        {"model": "config-0123456789abcdef"},
        {"batch": "0"},
        {"embed": "true"},
        {"page": "pareto", "model": "llama-3.1-405b", "device": "l4"},
    ],
)
def test_what_a_page_has_to_say_first_or_cannot_answer_has_no_first_answer(query):
    assert first(**query) == ""


def test_a_limit_that_nothing_meets_is_answered_as_the_page_does():
    state = State(slo_tpot_ms=0.001)
    assert Elements(first("run", **address(state))).says["h2"] == [answered(state).headline]
    assert "limit" in answered(state).headline


def test_a_question_that_a_control_would_correct_has_no_first_answer():
    assert question("", {"known_by": "rate"}) is None, "a rate of which drafter?"
    assert question("", {"known_by": "rate", "method": "eagle-3"}) is not None


@given(st.sampled_from(ANSWERED), st.sampled_from(ANSWERED), st.integers(1, 1024), st.booleans())
def test_a_link_asks_what_the_page_reads_of_it(page, path, batch, named):
    state = State(page=page, batch=batch)
    query = {**address(state), **({"page": page} if named else {})}
    assert question(path if named else page, query) == (state, False)
    read, wrong = from_query(query)
    assert not wrong and (read.batch, read.model) == (batch, state.model)


def test_the_first_page_alone_begins_with_what_it_is():
    assert question("", {}) == (State(), True)
    assert question("map", {}) == (State(page="map"), False)
    assert question("", {"page": "map"}) == (State(page="map"), False)
    assert question("nowhere", {}) is None


def test_an_answer_that_comes_late_is_there_the_next_time_and_made_once(monkeypatch):
    made, go = [], Event()

    def written(path, query):
        assert go.wait(30)
        made.append((path, query))
        return f"{path} {query}"

    with ThreadPoolExecutor(1) as writer:
        monkeypatch.setattr(asked, "_writer", writer)
        monkeypatch.setattr(asked, "_written", written)
        monkeypatch.setattr(asked, "SOON_S", 0.0)
        names = [str(n) for n in range(asked.MOST_WAITING)]
        assert [first(name) for name in names] == [""] * len(names)
        assert asked.begin("more", {}) is None, "nobody has the server answer questions without end"
        assert first("more") == ""
        go.set()
        for name in names:
            asked.begin(name, {}).result(30)
        assert [first(name) for name in names] == [f"{name} {{}}" for name in names]
        assert first("more", a="b") in ("", "more {'a': 'b'}")
        assert [path for path, _ in made if path != "more"] == names


def test_few_answers_are_kept(monkeypatch):
    monkeypatch.setattr(asked, "_written", lambda path, query: path)
    monkeypatch.setattr(asked, "MOST_HELD", 3)
    for name in "abcde":
        asked.begin(name, {}).result(30)
    assert [path for path, _ in asked._answers] == ["c", "d", "e"]
