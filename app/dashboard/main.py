"""The dashboard's script: `streamlit run` starts here, `rooftree dashboard` starts that.

Reads the state from the URL, draws the page's widgets, answers, and writes the state back. No
exception reaches the page: a question that cannot be answered shows a message that says why.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.dashboard import chart_component
from app.dashboard.answer import Change, DeferredAnswer, EngineStart, PageAnswer
from app.dashboard.answers.server import ServerAnswer
from app.dashboard.answers.validation.badge import sure_of
from app.dashboard.changes import asked_by_point
from app.dashboard.code_block import code_block
from app.dashboard.controls.bar import ask_questions, summary
from app.dashboard.controls.files import refused_files
from app.dashboard.controls.widgets import moved, rejected, set_widgets
from app.dashboard.own_server import answered_server
from app.dashboard.pages import (
    ASKED,
    ASKED_BY_BUTTON,
    OF_MASKED_MODELS,
    answered,
    answering,
    completed,
    unfolded,
)
from app.dashboard.pinned import PIN, RELEASE, beside, pinned_question, pinned_text
from app.dashboard.question import is_masked
from app.dashboard.state import PAGES, State, address, from_query, to_query, with_values
from app.dashboard.taken_along import report, rows
from app.dashboard.uploads.session import dropped, uploaded_confidence
from app.dashboard.waiting import waited
from app.dashboard.wording import (
    ABOUT,
    ASK_DIFFUSION,
    FOLD,
    LEFT_OUT,
    MASKED,
    NOT_TOLD,
    OWN_RECORDING,
    OWN_TAB,
    SERVER_FOLD,
    TITLES,
    error_words,
    file_stem,
    plain,
)
from hardware_profiles.errors import RooftreeError

Result = TypeVar("Result")
MOST_MESSAGES = 3  # of a link


def page() -> None:
    """Draw the page of the state."""
    st.set_page_config(layout="wide", initial_sidebar_state="auto")
    chosen = _chosen()
    state, wrong = _state()
    state = ask_questions(replace(state, page=chosen))
    _name_tab(state)
    if st.session_state.get("state") not in (None, state):
        wrong = st.session_state["wrong"] = []
    query = address(state)
    st.session_state.update(state=state, link=query)
    if st.query_params.to_dict() != query:
        st.query_params.from_dict(query)
    if st.session_state.get("first") == state:
        st.markdown(ABOUT)
    st.title(TITLES[state.page], anchor=False)
    for message in wrong[:MOST_MESSAGES]:
        st.warning(f"Left out of the link: {plain(message)}")
    if more := len(wrong[MOST_MESSAGES:]):
        st.warning(f"Left out of the link: {more:,} more parts")
    if refusals := [
        *rejected(),
        *refused_files(),
    ]:  # the answer would be that of what was typed before
        for message in refusals:
            st.warning(plain(message))
        return
    if (server := _guarded(lambda: answered_server(state))) is not None:
        _show_server(server, state)
        if server.changes and state.page not in ASKED:
            return  # nothing is known of what drafted, which such a page's answer rests on
    answer = _guarded(lambda: _answer(state))
    if answer is not None:
        _show(_beside_pinned(answer, state), state)


def _chosen() -> str:
    """The page that the address names; a link that names it in its query leads to the page's own
    address.
    """
    pages = _pages()
    # headings between the pages would stand in a list of their own making, which screen readers
    # take amiss
    chosen = st.navigation(list(pages.values()))
    if (named := st.query_params.get("page")) in pages:
        st.switch_page(
            pages[named],
            query_params={name: text for name, text in st.query_params.items() if name != "page"},
        )
    return next(name for name, page in pages.items() if page == chosen)


def _pages() -> dict[str, st.Page]:
    """The pages by name."""
    return {
        name: st.Page(_nothing, title=TITLES[name], url_path=name, default=name == PAGES[0])
        for name in PAGES
    }


def _name_tab(state: State, own: str = "") -> None:
    """Say the question in the tab, and that it is about a file of the reader's own."""
    st.set_page_config(page_title=f"{TITLES[state.page]} {summary(state)}{own}")


def _nothing() -> None:
    """Every page is drawn by this script."""


def _state() -> tuple[State, list[str]]:
    """The session's state and what was wrong in its link; that of the address on the first run, and
    after Back.

    An address that is behind the state is the browser's news of an earlier one, except where a
    widget has moved since. One that says nothing is a page that was chosen, as every address of
    ours says something.
    """
    if isinstance(following := st.session_state.pop("next", None), State):
        set_widgets(following)
        st.session_state["state"] = following
        return following, []
    last_state, query = st.session_state.get("state"), st.query_params.to_dict()
    if isinstance(last_state, State) and (
        query in ({}, st.session_state.get("link")) or moved(last_state)
    ):
        return last_state, st.session_state.get("wrong", [])
    state, wrong = from_query(query)
    st.session_state["wrong"] = wrong
    if last_state is not None:
        set_widgets(state)
        st.session_state["state"] = state
    elif not query:
        st.session_state["first"] = state
    return state, wrong


def _guarded(compute: Callable[[], Result]) -> Result | None:
    """The result, or a message in its place."""
    try:
        with st.spinner("Computing …"):
            return compute()
    except RooftreeError as error:
        st.warning(plain(error_words(error)))
    except Exception as error:
        st.error(
            f"This question could not be answered ({plain(type(error).__name__)}). Change a value"
            " and try again."
        )
    return None


def _show_server(server: ServerAnswer, state: State) -> None:
    """Whether to change what a server runs, in a line, so that the page's own charts stay in sight;
    its options and the rest behind a fold.
    """
    show = _shown_for(state)
    show("server", headline=server.headline)
    _changes(server.changes, "server")
    if not server.command:
        return
    with st.expander(SERVER_FOLD):
        for options in server.options:
            st.markdown(f"**{plain(options.title)}**")
            now, then = st.columns(2)
            with now:
                st.caption("Runs now")
                code_block(options.old or NOT_TOLD)
            with then:
                st.caption("In its place")
                code_block(options.new or LEFT_OUT)
        show("counted", numbers=server.numbers, notes=server.notes, tables=server.tables)
        code_block(server.command)


def _shown_for(state: State) -> Callable[..., None]:
    """What draws parts of the answer to a state."""
    return partial(
        chart_component.show,
        query=json.dumps(address(state)),
        question=summary(state),
        on_press=_pressed,
    )


def _answer(state: State) -> PageAnswer | None:
    if state.page not in OF_MASKED_MODELS and is_masked(state):
        st.info(MASKED)
        st.page_link(_pages()["diffusion"], label=ASK_DIFFUSION, icon=":material/arrow_forward:")
        return None
    if state.page == "trace":
        drop = dropped() if state.known_by == "upload" else None
        if drop is not None:
            _name_tab(state, OWN_TAB)
            return answering(state.page)(state, drop.trace)
    if state.page == "diffusion":
        with st.expander(OWN_RECORDING):
            masked = uploaded_confidence()
        if masked is not None:
            _name_tab(state, OWN_TAB)
            return answering(state.page)(state, masked)
    if state.page == ASKED_BY_BUTTON:
        return _served(state)
    return answered(state)


def _served(state: State) -> PageAnswer | None:
    """A simulation, started by a button; the last one stays while its question does."""
    served = st.session_state.get("served")
    if st.button("Run the simulation"):
        bar = st.progress(0.0, text="starting")
        # a press reruns the script, which ends this run at the bar's next update
        st.button("Cancel")

        def report(name: str, ended: int, whole: int) -> None:
            bar.progress(
                min(ended / max(whole, 1), 1.0), text=f"{name}: {ended:,} of {whole:,} requests"
            )

        served = (state, answering(state.page)(state, report))
        st.session_state["served"] = served
        st.rerun()
    if served is None or served[0] != state:
        st.info("Press the button to simulate this load with speculation and without.")
        return None
    answer: PageAnswer = served[1]
    return answer


def _beside_pinned(answer: PageAnswer, state: State) -> PageAnswer:
    """The answer beside that of the pinned question, where there is one that can be answered."""
    question = pinned_question(state)
    if question is None or state.page == ASKED_BY_BUTTON or answer.own_file:
        return answer
    first = _guarded(lambda: answered(question))
    return answer if first is None else beside(answer, first, summary(question))


def _pin(state: State) -> None:
    """A button that pins the answer, or releases the pinned one."""
    if state.upload or state.page == ASKED_BY_BUTTON:
        return  # a link holds neither
    label, text = (RELEASE, "") if state.pinned else (PIN, pinned_text(state))
    change = Change(label=label, values={"pinned": text})
    st.button(label, key="pin", on_click=_change, args=(change,))


def _show(answer: PageAnswer, state: State) -> None:
    """The answer and its charts, what to do with it, and the rest behind one fold; what takes longer
    comes to its places between them.
    """
    show = _shown_for(state)
    show("words", headline=answer.headline, numbers=answer.numbers, sure=sure_of(answer, state))
    if not answer.cards:  # what would hold is all that there is to do
        _changes(answer.changes, "now")
    show("charts", cards=answer.cards)
    chart_component.library()  # before what takes longer, which the charts do not wait for
    # one command of an engine stands beside another that comes later
    sides = st.columns(2) if answer.engines else []
    _starts(answer.engines, sides)
    if answer.cards:
        _changes(answer.changes, "now")
    changed = st.container()
    _taken_along(answer, state)
    fold = st.expander(FOLD, key=f"fold-{state.page}", on_change="rerun")
    with fold:
        if fold.open:
            show("notes", notes=answer.notes, tables=answer.tables)
        below = st.container()
    deferred = _part_of(answer.deferred, lambda: completed(state), answer)
    if deferred.cards:
        show("rest", cards=deferred.cards)
    _starts(deferred.engines, sides[len(answer.engines) :])
    with changed:
        _changes(deferred.changes, "later")
    if fold.open:
        with below:
            _behind(deferred, "why", show)
            _behind(_part_of(answer.behind, lambda: unfolded(state), answer), "behind", show)


def _part_of(
    part: Callable[[], DeferredAnswer] | None,
    shared: Callable[[], DeferredAnswer],
    answer: PageAnswer,
) -> DeferredAnswer:
    """A part of an answer that the rest does not wait for: shared by all sessions, or of the
    session's own file; nothing where there is none.
    """
    if part is None:
        return DeferredAnswer()
    compute = part if answer.own_file else shared
    # a look at the session lets Streamlit begin the next question
    found = _guarded(lambda: waited(compute, lambda: st.session_state["state"]))
    return found or DeferredAnswer()


def _behind(part: DeferredAnswer, name: str, show: Callable[..., None]) -> None:
    """Sentences and tables behind the fold."""
    if part.notes or part.tables:
        show(name, notes=part.notes, tables=part.tables)


def _taken_along(answer: PageAnswer, state: State) -> None:
    """The command line that answers the same, and files."""
    st.markdown(
        "**Take it along**: the command line that gives the same answer; the address of this page"
        " is a link to it."
    )
    code_block(answer.command)
    question, url = summary(state), st.context.url or ""
    stem = file_stem(TITLES[state.page], question)
    with st.container(horizontal=True):
        _pin(state)
        _download("report", f"{stem}.html", lambda: report(answer, state, question, url))
        if answer.command_answer is not None:
            _download("CSV", f"{stem}.csv", lambda: rows(answer))
        _download("configuration", "rooftree-dashboard.json", lambda: _configuration(answer, state))
        for name, content in answer.files.items():
            _download(name, name, content)


def _download(what: str, name: str, content: Callable[[], bytes]) -> None:
    """A button for a file, whose content is made when it is pressed."""
    st.download_button(
        f"Download {what}", content, file_name=name, key=f"file-{what}", on_click="ignore"
    )


def _starts(engines: Sequence[EngineStart], places: Sequence[DeltaGenerator]) -> None:
    """What starts the engine, to be copied, with the files that it reads, a place each."""
    for start, place in zip(engines, places, strict=False):
        with place:
            st.markdown(plain(start.title))
            code_block(start.command)
            with st.expander("Files beside it"):
                for name, text in start.files.items():
                    st.markdown(plain(name))
                    code_block(text)


def _changes(changes: Sequence[Change], when: str) -> None:
    """A button for each question that is worth asking instead."""
    if not changes:
        return
    with st.container(horizontal=True):
        for place, change in enumerate(changes):
            st.button(change.label, key=f"change-{when}-{place}", on_click=_change, args=(change,))


def _change(change: Change) -> None:
    st.session_state["next"] = with_values(st.session_state["state"], dict(change.values))


def _pressed(text: str) -> None:
    """Ask what a point of a chart carries."""
    _change(asked_by_point(text))


def _configuration(answer: PageAnswer, state: State) -> bytes:
    body = {
        "schema": 2,
        "state": asdict(state),
        "query": to_query(state),
        "command": answer.command,
        "headline": answer.headline,
        "numbers": dict(answer.numbers),
    }
    return (json.dumps(body, indent=1) + "\n").encode()


if __name__ == "__main__":
    page()
