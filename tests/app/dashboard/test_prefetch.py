"""Prefetched answers: which questions, in which order, and that a new question cancels the rest."""

import sys
from dataclasses import replace
from threading import Event, Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.dashboard import pages, prefetch
from app.dashboard.answer import Answer
from app.dashboard.measured import measured_results
from app.dashboard.state import CONTEXTS, FIELDS, KNOWN_BY, PAGES, State, checked

PATIENCE_S = 30


@given(
    st.sampled_from(PAGES), st.sampled_from(CONTEXTS), st.integers(1, 64), st.sampled_from(KNOWN_BY)
)
def test_every_question_is_one_step_away_and_may_be_asked(page, context, nodes, known_by):
    state = State(page=page, context=context, tree_nodes=nodes, known_by=known_by)
    found = prefetch.neighbours(state)
    assert len(set(found)) == len(found)
    assert bool(found) == (page in ("run", "validation"))
    if page == "validation":
        assert [each.measured for each in found] == list(measured_results()), (
            "a few, of which any may be next"
        )
        assert {replace(each, measured="") for each in found} == {state}
        return
    for each in found:
        assert each != state
        assert state in (replace(each, context=context), replace(each, tree_nodes=nodes))
        assert each.context in CONTEXTS
        assert 1 <= each.tree_nodes <= 64
        assert known_by == "recording" or each.tree_nodes == nodes, "only recordings have trees"
        assert abs(CONTEXTS.index(each.context) - CONTEXTS.index(context)) <= 1


@pytest.mark.parametrize(
    ("name", "was", "now", "next_ones"),
    [
        ("context", 1024, 2048, [4096, 8192]),
        ("context", 512, 256, []),
        ("batch", 12, 8, [4, 2]),
        ("batch", 768, 1024, []),
        ("tree_nodes", 62, 63, [64]),
        ("draft_tokens", 3, 2, [1]),
        ("acceptance_ratio", 0.28, 0.29, [0.3, 0.31]),
        ("slo_tpot_ms", 3.0, 2.0, [1.0, 0.0]),
        ("bandwidth_ratio", 1.0, 3.0, [4.0]),
        ("threshold", 0.5, 0.55, [0.6, 0.65]),
        ("dtype", "bf16", "fp16", []),
        ("model", "qwen3-8b", "llama-3.2-1b", []),
        ("page", "map", "tree", []),
    ],
)
def test_a_slider_is_expected_further_along_its_way_and_a_list_anywhere(name, was, now, next_ones):
    pytest.importorskip("streamlit", reason="streamlit, of the extra `app`, is not installed")
    before = replace(State(page="run"), **{name: was})
    found = prefetch.further(before, replace(before, **{name: now}))
    assert found == [replace(before, **{name: value}) for value in next_ones]
    for each in found:
        assert checked(name, str(getattr(each, name))) == getattr(each, name)
        assert type(getattr(each, name)) is FIELDS[name].type
    assert prefetch.further(before, replace(before, **{name: was})) == []
    assert prefetch.further(before, replace(before, seed=3, count=7)) == [], (
        "two fields are no move"
    )


def test_a_question_that_is_being_answered_is_not_answered_twice(monkeypatch):
    asked, begun, left = [], Event(), Event()

    def answer_map(state):
        asked.append(state)
        begun.set()
        assert left.wait(PATIENCE_S)
        return Answer(headline="one", command="")

    monkeypatch.setattr("app.dashboard.answers.map.answer_map", answer_map)
    found, question = [], State(page="map", seed=20_061_123)
    threads = [Thread(target=lambda: found.append(pages.answered(question))) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert begun.wait(PATIENCE_S)
    left.set()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert len(asked) == 1
    assert len(found) == 3 and found[0] is found[1] is found[2]


def test_questions_are_answered_in_order_and_errors_stay_behind():
    asked, done = [], Event()

    def answer(state):
        asked.append(state.batch)
        if state.batch == 3:
            done.set()
        if state.batch == 2:
            raise ValueError

    prefetch.start([State(batch=n) for n in (1, 2, 3)], answer)
    assert done.wait(PATIENCE_S)
    assert asked == [1, 2, 3]


def test_nothing_more_is_begun_once_something_else_is_asked():
    asked, begun, left, done = [], Event(), Event(), Event()

    def answer(state):
        asked.append(state.batch)
        begun.set()
        assert left.wait(PATIENCE_S)

    prefetch.start([State(batch=1), State(batch=2)], answer)
    assert begun.wait(PATIENCE_S)
    prefetch.cancel()
    left.set()
    prefetch.start([State(batch=9)], lambda state: done.set())
    assert done.wait(PATIENCE_S), "the thread is free again"
    assert asked == [1]


def test_what_takes_long_is_waited_for_until_something_else_is_asked():
    begun, left = Event(), Event()

    def compute():
        begun.set()
        assert left.wait(PATIENCE_S)
        return 3

    class NextQuestionError(Exception):
        pass

    def next_question():
        if begun.is_set():
            raise NextQuestionError

    with pytest.raises(NextQuestionError):
        prefetch.waited(compute, next_question)
    assert not left.is_set(), "nobody waited for it to end"
    left.set()
    assert prefetch.waited(compute, lambda: None) == 3
    with pytest.raises(ZeroDivisionError):
        prefetch.waited(lambda: 1 // 0, lambda: None)


def test_what_is_answered_ahead_takes_short_turns_until_it_is_answered():
    usual, turns = sys.getswitchinterval(), []
    prefetch.start([State()], lambda _: turns.append(sys.getswitchinterval()))
    prefetch._worker.submit(prefetch.cancel).result(PATIENCE_S)
    assert turns[0] < usual / 2
    assert sys.getswitchinterval() == usual
