"""Where does the question stand on a page? In one bar, the same on every page, and what a page asks
beside it.

The bar is a row of buttons that say the question and open its controls; on a narrow screen one line
stands for all. Leaves out the widgets (`widgets`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import streamlit as st

from app.dashboard.answers.server import taken_from
from app.dashboard.controls.files import OWN_FILES, ask_file
from app.dashboard.controls.widgets import ask, read, sold_words, wanted
from app.dashboard.device_numbers import DEVICE_NUMBERS
from app.dashboard.held import OWN, SHOWN
from app.dashboard.state import (
    State,
    as_sold,
    control_of,
    device_words,
    is_modified,
    rate_of,
)
from app.dashboard.uploads.session import dropped, held_recording, offer_drop, refused_drop
from app.dashboard.wording import KNOWN_BY, YOUR_SERVER, error_words, plain
from costmodel.configuration.decoding import OWN_DRAFTER
from traces.importers.engines.ran import running_of

QUESTION = {
    "Workload": ("model", "batch", "context"),
    "Hardware": ("device", "tp", "engine", "dtype", "kv_dtype"),
    "Device card": tuple(DEVICE_NUMBERS),
    "Drafting": (
        "method",
        "known_by",
        "acceptance",
        "trace",
        "draft",
        "draft_dtype",
        "rivals",
    ),
    "Drafter card": ("draft_bytes", "draft_passes", "draft_name"),
    "Limits": ("slo_tpot", "slo_ttft", "slo_e2e"),
}
LOAD = ("rate", "prompt_tokens", "output_tokens")
# what a page asks beside the bar: in a row under it, and behind further buttons
INLINE: Mapping[str, Sequence[str]] = {
    "run": ("tree_nodes",),
    "map": (),
    "tree": ("trace", "tree_nodes", "depth"),
    "trace": ("trace", "other_trace", "draft_tokens"),
    "diffusion": ("commit", "threshold", "block", "cache"),
    "hardware": ("draft_tokens", "other_device"),
    "pareto": (),
    "serving": ("trace", "draft_tokens", "rate", "count"),
    "validation": ("measured",),
}
BEHIND: Mapping[str, Mapping[str, Sequence[str]]] = {
    "hardware": {"Load": LOAD},
    "serving": {"Lengths": ("prompt_tokens", "output_tokens")},
    "diffusion": {"Recording": ("confidence", "recorded_prompt", "agreement_ratio")},
}
COLUMNS = 4
AS_SOLD = "Put back as sold"
STYLE = Path(__file__).with_name("bar.css")


def ask_questions(state: State) -> State:
    """Draw the bar and the page's own controls, and give the state that they hold now."""
    groups = {**QUESTION, **BEHIND.get(state.page, {})}
    inline = INLINE.get(state.page, ())
    # what was just moved decides which others are asked for, above it and below
    state = read(state, [*(name for names in groups.values() for name in names), *inline])
    st.html(STYLE)
    is_open = st.session_state.get("question-open", False)
    st.button(plain(summary(state)), key="question-summary", on_click=_turn, icon=":material/tune:")
    with st.container(key=f"question-{'open' if is_open else 'closed'}"):
        with st.container(horizontal=True, key="question"):
            for title, names in groups.items():
                # the words are of the state before its controls are drawn, which differs where one
                # corrects another
                with st.popover(
                    f"**{title}** {plain(words(title, state))}",
                    key=f"group-{title.replace(' ', '-')}",
                ):
                    state = _group(title, names, state)
            _server(state)
        held = held_recording() if state.known_by == "upload" else ""
        return _beside(replace(state, upload=held))


def _beside(state: State) -> State:
    """The page's own controls, in rows under the bar."""
    shown = beside(state)
    for row in range(0, len(shown), COLUMNS):
        columns = st.columns(COLUMNS)
        for name, column in zip(shown[row : row + COLUMNS], columns, strict=False):
            with column:
                state = ask(name, state)
    return state


def summary(state: State) -> str:
    """The question in a line, which stands for the bar on a narrow screen."""
    titles = ["Workload", "Hardware", "Drafting", *(["Limits"] if _limits(state) else [])]
    return " · ".join(words(title, state) for title in titles)


def beside(state: State) -> list[str]:
    """The fields that a page asks for in the rows under the bar."""
    return [name for name in INLINE.get(state.page, ()) if _stands_alone(name, state)]


def _turn() -> None:
    st.session_state["question-open"] = not st.session_state.get("question-open", False)


def words(title: str, state: State) -> str:
    """What a group of the bar says of the question; empty for groups of one page."""
    return _WORDS[title](state) if title in _WORDS else ""


def _workload(state: State) -> str:
    model = SHOWN if state.model.startswith(OWN) else state.model
    return f"{model} · batch {state.batch:,} · context {state.context:,}"


def _hardware(state: State) -> str:
    formats = [state.dtype, f"{state.kv_dtype} cache" if state.kv_dtype else ""]
    device = f"{state.tp} × {device_words(state)}"
    return " · ".join(filter(None, (device, *formats, state.engine)))


def _device_card(state: State) -> str:
    return "modified" if is_modified(state) else "as sold"


def _drafting(state: State) -> str:
    acceptance = {
        "rate": f"{rate_of(state):g}",
        "rates": state.acceptance,
        "recording": state.trace,
        "published": "as published",
    }.get(state.known_by, KNOWN_BY[state.known_by])
    called = (state.draft_name or OWN_DRAFTER) if state.draft_bytes else state.method
    own = f"{called} · {acceptance}" if called or state.known_by != "published" else "all published"
    rivals = len(state.rivals.split(";")) if state.rivals else 0
    return own.removeprefix(" · ") + (f" · against {rivals}" if rivals else "")


def _drafter_card(state: State) -> str:
    return f"{state.draft_passes} × {state.draft_bytes}" if state.draft_bytes else "none"


def _limit_words(state: State) -> str:
    return " · ".join(_limits(state)) or "none"


_WORDS: Mapping[str, Callable[[State], str]] = {
    "Workload": _workload,
    "Hardware": _hardware,
    "Device card": _device_card,
    "Drafting": _drafting,
    "Drafter card": _drafter_card,
    "Limits": _limit_words,
}


def _limits(state: State) -> list[str]:
    """The limits of latency that the page asks about, in words."""
    names = {"TPOT": "slo_tpot", "TTFT": "slo_ttft", "E2E": "slo_e2e"}
    limits = {word: getattr(state, name) for word, name in names.items() if wanted(name, state)}
    return [f"{word} ≤ {value:g} ms" for word, value in limits.items() if value]


def _group(title: str, names: Sequence[str], state: State) -> State:
    for name in names:
        if _grouped(name, state):
            state = ask(name, state)
            if name in OWN_FILES:
                ask_file(name, state)
            if name in DEVICE_NUMBERS and getattr(state, name):
                sold = sold_words(state.device, name) or "none"
                st.caption(f":orange[modified], {sold} {control_of(name).empty}")
    if title == "Device card" and is_modified(state):
        st.button(AS_SOLD, key="as-sold", on_click=_put_back, args=(state,))
    return state


def _grouped(name: str, state: State) -> bool:
    """Whether a button's controls have one for a field."""
    return wanted(name, state) and not (name == "trace" and state.known_by != "recording")


def _stands_alone(name: str, state: State) -> bool:
    """Whether a page asks for a field itself: a recording that the bar names is asked for there."""
    if name == "tree_nodes" and state.page == "run":
        return state.known_by in ("recording", "upload")
    return wanted(name, state) and not (name == "trace" and state.known_by == "recording")


def _put_back(state: State) -> None:
    st.session_state["next"] = as_sold(state)


def _server(state: State) -> None:
    """The place for a server's counters, its log or a recording, which every page then uses."""
    with st.popover(f"**{YOUR_SERVER}** {plain(_server_words())}", key="group-Your-server"):
        if offer_drop():
            st.session_state["next"] = _with_drop(state)
            st.rerun()
        if (refusal := refused_drop()) is not None:
            st.caption(f":red[{plain(error_words(refusal))}]")
        if (drop := dropped()) is not None and drop.unjudged:
            st.caption(f"Used as acceptance alone: {plain(drop.unjudged)}")


def _with_drop(state: State) -> State:
    """The question with the drafter known by what was just dropped, and what a server says of
    itself.
    """
    drop = dropped()
    assert drop is not None
    running = running_of(drop.trace, drop.trace.file or "")
    taken = state if running is None else taken_from(state, running)
    return replace(taken, known_by="upload")


def _server_words() -> str:
    """What the button says of what was dropped."""
    if refused_drop() is not None:
        return "refused"
    if (drop := dropped()) is None:
        return ""
    running = running_of(drop.trace, drop.trace.file or "")
    if running is None:
        return "a recording"
    lengths = "" if running.draft_tokens is None else f" · K={running.draft_tokens}"
    return f"{running.engine}{lengths}"
