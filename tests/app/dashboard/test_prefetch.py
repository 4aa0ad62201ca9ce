"""Prefetched answers: which questions, in which order, and that a new question cancels the rest."""

from dataclasses import replace
from threading import Event

from hypothesis import given
from hypothesis import strategies as st

from app.dashboard import prefetch
from app.dashboard.state import CONTEXTS, KNOWN_BY, PAGES, State

PATIENCE_S = 30


@given(st.sampled_from(PAGES), st.sampled_from(CONTEXTS), st.integers(1, 64), st.sampled_from(KNOWN_BY))
def test_every_question_is_one_step_away_and_may_be_asked(page, context, nodes, known_by):
    state = State(page=page, context=context, tree_nodes=nodes, known_by=known_by)
    found = prefetch.neighbours(state)
    assert len(set(found)) == len(found)
    assert bool(found) == (page == "run")
    for each in found:
        assert each != state
        assert state in (replace(each, context=context), replace(each, tree_nodes=nodes))
        assert each.context in CONTEXTS
        assert 1 <= each.tree_nodes <= 64
        assert known_by == "recording" or each.tree_nodes == nodes, "only recordings have trees"
        assert abs(CONTEXTS.index(each.context) - CONTEXTS.index(context)) <= 1


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
