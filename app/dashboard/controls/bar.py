"""Where does the question stand on a page? In one bar, the same on every page, and what a page asks
beside it.

The bar is a row of buttons that say the question and open its controls; on a narrow screen one line
stands for all. Leaves out the widgets (`widgets`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import streamlit as st

from app.dashboard.controls.widgets import ask, read, wanted
from app.dashboard.held import MOST_BYTES, OWN, SHOWN, hold_config
from app.dashboard.state import FACTORS, State, as_sold, rate_of
from app.dashboard.uploads.session import held_recording, uploaded
from app.dashboard.wording import KNOWN_BY, error_words, plain
from hardware_profiles.errors import RooftreeError

QUESTION = {
    "Workload": ("model", "batch", "context"),
    "Hardware": ("device", "tp", "engine", "dtype", "kv_dtype"),
    "Drafting": (
        "method",
        "known_by",
        "acceptance",
        "trace",
        "draft",
        "draft_dtype",
        "rivals",
    ),
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
    "hardware": {"Another device": FACTORS, "Load": LOAD},
    "serving": {"Lengths": ("prompt_tokens", "output_tokens")},
    "diffusion": {"Recording": ("confidence", "recorded_prompt", "agreement_ratio")},
}
COLUMNS = 4
CONFIG = "own-config"  # the file that was read last, and why it was refused
STYLE = Path(__file__).with_name("bar.css")


def refused_config() -> list[str]:
    """Why the config.json that is there was refused; it is no answer to an earlier question."""
    _, refusal = st.session_state.get(CONFIG, ("", ""))
    return [refusal] if refusal else []


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
        return _beside(state)


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
    limits = _limits(state)
    return " · ".join(words(title, state) for title in QUESTION if title != "Limits" or limits)


def beside(state: State) -> list[str]:
    """The fields that a page asks for in the rows under the bar."""
    return [name for name in INLINE.get(state.page, ()) if _stands_alone(name, state)]


def _turn() -> None:
    st.session_state["question-open"] = not st.session_state.get("question-open", False)


def words(title: str, state: State) -> str:
    """What a group of the bar says of the question; empty for groups of one page."""
    if title == "Workload":
        model = SHOWN if state.model.startswith(OWN) else state.model
        return f"{model} · batch {state.batch:,} · context {state.context:,}"
    if title == "Hardware":
        formats = [state.dtype, f"{state.kv_dtype} cache" if state.kv_dtype else ""]
        device = state.device if as_sold(state) == state else f"{state.device}, changed"
        return " · ".join(filter(None, (f"{state.tp} × {device}", *formats, state.engine)))
    if title == "Drafting":
        acceptance = {
            "rate": f"{rate_of(state):g}",
            "rates": state.acceptance,
            "recording": state.trace,
            "published": "as published",
        }.get(state.known_by, KNOWN_BY[state.known_by])
        own = (
            f"{state.method} · {acceptance}"
            if state.method or state.known_by != "published"
            else "all published"
        )
        rivals = len(state.rivals.split(";")) if state.rivals else 0
        return (own.removeprefix(" · ")) + (f" · against {rivals}" if rivals else "")
    if title == "Limits":
        return " · ".join(_limits(state)) or "none"
    return ""


def _limits(state: State) -> list[str]:
    """The limits of latency that the page asks about, in words."""
    names = {"TPOT": "slo_tpot", "TTFT": "slo_ttft", "E2E": "slo_e2e"}
    limits = {word: getattr(state, name) for word, name in names.items() if wanted(name, state)}
    return [f"{word} ≤ {value:g} ms" for word, value in limits.items() if value]


def _group(title: str, names: Sequence[str], state: State) -> State:
    for name in names:
        if _grouped(name, state):
            state = ask(name, state)
            if name == "model":
                _own_config(state)
            if name == "known_by" and state.known_by == "upload":
                state = _own_recording(state)
    return (
        replace(state, upload="") if "known_by" in names and state.known_by != "upload" else state
    )


def _grouped(name: str, state: State) -> bool:
    """Whether a button's controls have one for a field."""
    return wanted(name, state) and not (name == "trace" and state.known_by != "recording")


def _stands_alone(name: str, state: State) -> bool:
    """Whether a page asks for a field itself: a recording that the bar names is asked for there."""
    if name == "tree_nodes" and state.page == "run":
        return state.known_by in ("recording", "upload")
    return wanted(name, state) and not (name == "trace" and state.known_by == "recording")


def _own_config(state: State) -> None:
    """A config.json of one's own in place of the model."""
    upload = st.file_uploader(
        f"Or a `config.json`, at most {MOST_BYTES >> 20} MiB",
        type=["json"],
        key="file-of-model",
        help=(
            "Shapes alone are read. This server keeps the file until it stops, so that your link"
            " works here; elsewhere the file has to be given again."
        ),
    )
    if upload is None:
        st.session_state.pop(CONFIG, None)
        return
    read_before, refusal = st.session_state.get(CONFIG, ("", ""))
    if upload.file_id != read_before:
        refusal, name = "", state.model
        try:
            name = hold_config(upload.getvalue())
        except RooftreeError as error:
            refusal = error_words(error)
        st.session_state[CONFIG] = (upload.file_id, refusal)
        if not refusal:
            st.session_state["next"] = replace(state, model=name)
            st.rerun()
    if refusal:
        st.caption(f":red[{plain(refusal)}]")


def _own_recording(state: State) -> State:
    """A recording of one's own, which every page of the session can use."""
    try:
        uploaded("acceptance")
    except RooftreeError as error:
        st.caption(f":red[{plain(error_words(error))}]")
    return replace(state, upload=held_recording())
