"""The dashboard's script: `streamlit run` starts here, `rooftree dashboard` starts that.

Reads the state from the URL, draws the page's widgets, answers, and writes the state back. No exception reaches the
page: a question that cannot be answered shows a message that says why.
"""

import json
import re
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Literal, TypeVar, overload

import streamlit as st

from app.dashboard import chart_component, prefetch
from app.dashboard.answer import Answer
from app.dashboard.controls import asked
from app.dashboard.pages import answered, completed
from app.dashboard.state import FIELDS, State, from_query, to_query
from app.dashboard.uploads import MOST_BYTES, MOST_SECONDS, SUFFIXES, Kind, parsed_upload
from app.dashboard.wording import TITLES, said
from hardware_profiles.errors import InputError, RooftreeError
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.confidence import ConfidenceTrace

Result = TypeVar("Result")
MOST_MESSAGES = 3  # of a link
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+!|<>~$:&])")


def plain(text: str) -> str:
    """A text that Markdown shows as it is: names in recordings are untrusted."""
    return _MARKDOWN.sub(r"\\\1", text)


def page() -> None:
    """Draw the page of the state."""
    st.set_page_config(page_title="rooftree", layout="wide", initial_sidebar_state="auto")
    prefetch.cancel()
    state, wrong = _state()
    with st.sidebar:
        st.markdown("**rooftree**")
        if "asked-page" not in st.session_state:
            st.session_state["asked-page"] = state.page
        chosen = st.radio("Page", list(TITLES), key="asked-page", format_func=TITLES.__getitem__)
        state = asked(replace(state, page=chosen))
    if state != st.session_state.get("state", state):
        wrong = st.session_state["wrong"] = []
    query = to_query(state)
    st.session_state.update(state=state, link=query)
    if st.query_params.to_dict() != query:
        st.query_params.from_dict(query)
    st.title(TITLES[state.page], anchor=False)
    for message in wrong[:MOST_MESSAGES]:
        st.warning(f"Left out of the link: {plain(message)}")
    if more := len(wrong[MOST_MESSAGES:]):
        st.warning(f"Left out of the link: {more:,} more parts")
    answer = _guarded(lambda: _answer(state))
    if answer is not None:
        _show(answer, state)
    chart_component.library()
    prefetch.start(prefetch.neighbours(state), answered)


def _state() -> tuple[State, list[str]]:
    """The session's state and what was wrong in its link; that of the address on the first run, and after Back.

    An address that is behind the state is the browser's news of an earlier one, except where a widget has moved since.
    """
    known, query = st.session_state.get("state"), st.query_params.to_dict()
    if isinstance(known, State) and (query == st.session_state.get("link") or _has_moved(known)):
        return known, st.session_state.get("wrong", [])
    state, wrong = from_query(query)
    st.session_state["wrong"] = wrong
    if known is not None:
        for name in FIELDS:
            if (key := f"asked-{name}") in st.session_state:
                st.session_state[key] = getattr(state, name)
        st.session_state["state"] = state
    return state, wrong


def _has_moved(state: State) -> bool:
    """Whether a widget holds another value than the state."""
    return any(st.session_state.get(f"asked-{name}", value) != value for name, value in asdict(state).items())


def _guarded(compute: Callable[[], Result]) -> Result | None:
    """The result, or a message in its place."""
    try:
        with st.spinner("Computing …"):
            return compute()
    except RooftreeError as error:
        st.warning(plain(said(error)))
    except Exception as error:
        st.error(f"This question could not be answered ({plain(type(error).__name__)}). Change a value and try again.")
    return None


def _answer(state: State) -> Answer | None:
    if state.page == "trace" and (uploaded := _uploaded("acceptance")) is not None:
        from app.dashboard.answers.trace import answer_trace

        return answer_trace(state, uploaded)
    if state.page == "diffusion" and (masked := _uploaded("confidence")) is not None:
        from app.dashboard.answers.diffusion import answer_diffusion

        return answer_diffusion(state, masked)
    if state.page == "serving":
        return _served(state)
    return answered(state)


@overload
def _uploaded(kind: Literal["acceptance"]) -> AcceptanceTrace | None: ...
@overload
def _uploaded(kind: Literal["confidence"]) -> ConfidenceTrace | None: ...
def _uploaded(kind: Kind) -> AcceptanceTrace | ConfidenceTrace | None:
    """The recording that was uploaded, parsed once; it stays in this session alone.

    Raises:
        InputError: the file holds no recording; asked again, the same error is raised without reading the file again.
    """
    given = st.file_uploader(
        f"Or a file of your own, at most {MOST_BYTES >> 20} MiB: it stays in this session, not in the link",
        type=list(SUFFIXES[kind]), key=f"file-of-{kind}",
    )  # fmt: skip
    if given is None:
        return None
    file, found = st.session_state.get(f"uploaded-{kind}", (None, None))
    if file != given.file_id:
        place = st.empty()
        with place.container():
            bar = st.progress(0.0, text="reading")
            st.button("Cancel", on_click=_leave, args=(kind, given.file_id))

        def report(passed_s: float) -> None:
            # drawing is also where a press of the button, which reruns the script, ends this run
            message = f"reading, {passed_s:.0f} of at most {MOST_SECONDS:g} s"
            bar.progress(min(passed_s / MOST_SECONDS, 1.0), text=message)

        try:
            found = parsed_upload(given.name, given.getvalue(), kind, report=report)
        except InputError as error:
            found = error
        st.session_state[f"uploaded-{kind}"] = (given.file_id, found)
        place.empty()
    if isinstance(found, InputError):
        raise found
    trace: AcceptanceTrace | ConfidenceTrace = found
    return trace


def _leave(kind: Kind, file: str) -> None:
    st.session_state[f"uploaded-{kind}"] = (file, InputError("was not read to its end; choose it again", key="upload"))


def _served(state: State) -> Answer | None:
    """A simulation, started by a button; the last one stays while its question does."""
    known = st.session_state.get("served")
    if st.button("Run the simulation"):
        from app.dashboard.answers.serving import answer_serving

        bar = st.progress(0.0, text="starting")
        st.button("Cancel")  # a press reruns the script, which ends this run at the bar's next update

        def report(name: str, ended: int, whole: int) -> None:
            bar.progress(min(ended / max(whole, 1), 1.0), text=f"{name}: {ended:,} of {whole:,} requests")

        known = (state, answer_serving(state, report))
        st.session_state["served"] = known
        st.rerun()
    if known is None or known[0] != state:
        st.info("Press the button to simulate this load with speculation and without.")
        return None
    answer: Answer = known[1]
    return answer


def _show(answer: Answer, state: State) -> None:
    """Words and charts first, then what takes longer, in its place between them."""
    query = json.dumps(to_query(state))
    chart_component.show("words", asked=query, headline=answer.headline, numbers=answer.numbers, notes=answer.notes)
    why = st.container()
    chart_component.show("charts", asked=query, cards=answer.cards, tables=answer.tables)
    rest = st.container()
    st.subheader("Take it along", anchor=False)
    st.caption("The command line that gives the same answer; the address of this page is a link to it.")
    st.code(answer.command, language="bash", wrap_lines=True)
    files: dict[str, Callable[[], bytes]] = {
        "rooftree-dashboard.json": lambda: _configuration(answer, state), **answer.files,
    }  # fmt: skip
    with st.container(horizontal=True):
        for name, content in files.items():
            label = "Download configuration" if name == "rooftree-dashboard.json" else f"Download {name}"
            st.download_button(label, content, file_name=name, key=f"file-{name}", on_click="ignore")
    if (later := answer.deferred) is None:
        return
    with rest:
        deferred = _guarded(later if answer.own_file else lambda: completed(state))
        if deferred is None:
            return
        if deferred.cards or deferred.tables:
            chart_component.show("rest", asked=query, cards=deferred.cards, tables=deferred.tables)
    if deferred.notes:
        with why:
            chart_component.show("why", asked=query, notes=deferred.notes)


def _configuration(answer: Answer, state: State) -> bytes:
    body = {"schema": 1, "state": asdict(state), "query": to_query(state), "command": answer.command,
            "headline": answer.headline, "numbers": dict(answer.numbers)}  # fmt: skip
    return (json.dumps(body, indent=1) + "\n").encode()


if __name__ == "__main__":
    page()
