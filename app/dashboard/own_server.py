"""What does the session's own server run, and what should it? Answered once a question.

Leaves out the answer (`answers.server`), and the files (`uploads`).
"""

import streamlit as st

from app.dashboard.answers.server import ServerAnswer, answer_server, asked_server
from app.dashboard.held import recording_place
from app.dashboard.state import State
from app.dashboard.uploads.session import dropped, held_recording
from traces.importers.engines.ran import running_of

_ANSWERED = "answered-server"


def answered_server(state: State) -> ServerAnswer | None:
    """What a server's counters mean for what it runs; None where none were dropped.

    Args:
        state: the page's question.

    Raises:
        RooftreeError: it cannot be answered; the message says why.
    """
    drop = dropped()
    running = None if drop is None else running_of(drop.trace, drop.trace.file or "")
    if running is None:
        return None
    place = recording_place(held_recording())
    question = asked_server(state, place)
    before, answer = st.session_state.get(_ANSWERED, (None, None))
    if before != question:
        answer = answer_server(state, running, place)
        st.session_state[_ANSWERED] = (question, answer)
    known: ServerAnswer | None = answer
    return known
