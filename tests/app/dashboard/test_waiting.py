"""What takes long on a page: computed once for all who ask, and left when something else is asked."""

from threading import Event, Thread

import pytest

from app.dashboard import pages
from app.dashboard.answer import PageAnswer
from app.dashboard.state import State
from app.dashboard.waiting import waited

PATIENCE_S = 300


def test_a_question_that_is_being_answered_is_not_answered_twice(monkeypatch):
    asked, begun, left = [], Event(), Event()

    def answer_map(state):
        asked.append(state)
        begun.set()
        assert left.wait(PATIENCE_S)
        return PageAnswer(headline="one", command="")

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
        waited(compute, next_question)
    assert not left.is_set(), "nobody waited for it to end"
    left.set()
    assert waited(compute, lambda: None) == 3
    with pytest.raises(ZeroDivisionError):
        waited(lambda: 1 // 0, lambda: None)
