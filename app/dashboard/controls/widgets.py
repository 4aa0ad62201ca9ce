"""Which widgets ask for a page's question? One per field of the state, filled from the link.

Leaves out where they stand (`bar`), what the values mean (`state`) and what fields are called
(`wording`).
"""

from collections.abc import Sequence
from typing import Any

import streamlit as st

from app.dashboard.controls.help_texts import HELP
from app.dashboard.held import OWN, SHOWN, understood
from app.dashboard.state import (
    CONTEXTS,
    DTYPES,
    FIELDS,
    KNOWN_BY,
    MOST_AGAINST,
    State,
    against_of,
    checked,
    known_names,
    sold_devices,
    with_values,
)
from app.dashboard.wording import EMPTY, LABELS, MOST, said
from app.dashboard.wording import KNOWN_BY as KNOWN_BY_WORDS
from costmodel.optimizers.refining.grid import threshold_values
from hardware_profiles.errors import InputError
from traces.kinds.refine_policy import COMMIT_RULES
from traces.library import shipped_traces

TICKS = {
    "batch": (*(2**n for n in range(4)), 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024),
    "context": CONTEXTS,
    "tp": (1, 2, 4, 8),
    "block": tuple(2**n for n in range(9)),
    "bandwidth_ratio": (0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 4.0),
}
for _name in ("peak_ratio", "memory_ratio", "link_ratio", "price_ratio"):
    TICKS[_name] = TICKS["bandwidth_ratio"]
UP_TO = ("map", "pareto")  # pages that take the best draft length up to K
SET = "times-set"
TYPED = {"model", "rates", "against"}  # what is typed may be wrong, and then keeps the value before


def key_of(name: str) -> str:
    """The session's key of a field's widget: another one each time that an address or a press sets
    it.

    A browser goes on sending the value to which a control was moved that now is behind a closed
    button.
    """
    times = st.session_state.get(SET, {}).get(name, 0)
    return f"asked-{name}--{times}" if times else f"asked-{name}"


def held(state: State, name: str) -> Any:
    """A field's value as its widget holds it."""
    value = getattr(state, name)
    return against_of(value) if name == "against" else value


def moved(state: State) -> bool:
    """Whether a widget holds another value than the state."""
    return any(
        st.session_state.get(key_of(name), held(state, name)) != held(state, name)
        for name in FIELDS
    )


def set_widgets(state: State) -> None:
    """Let the widgets say what a state says: those of fields that differ from the session's state
    are new ones.
    """
    before, times = st.session_state["state"], st.session_state.setdefault(SET, {})
    for name in FIELDS:
        value = held(state, name)
        if not value == held(before, name) == st.session_state.get(key_of(name), value):
            times[name] = times.get(name, 0) + 1


def read(state: State, names: Sequence[str]) -> State:
    """The state with what the widgets of some fields hold now."""
    return with_values(
        state, {name: _stated(state, name) for name in names if key_of(name) in st.session_state}
    )


def ask(name: str, state: State) -> State:
    """Draw a field's widget, and give the state that it makes."""
    # always with the state's value: a browser does not know a control that is behind a closed
    # button
    _widget(name, state, key_of(name))
    if message := st.session_state.get(f"wrong-{name}"):
        st.caption(f":red[{message}]")
    return with_values(state, {name: _stated(state, name)})


def wanted(name: str, state: State) -> bool:
    """Whether a field matters: a drafter's model and format only where a method has one, a rate
    where one is stated.
    """
    from costmodel.method_library import load_method

    known_by = {"acceptance_ratio": "rate", "rates": "rates"}
    if name == "draft":
        return bool(state.method) and load_method(state.method).needs_draft_model
    if name == "draft_dtype":
        return bool(state.method) and load_method(state.method).drafts_with_weights
    if name in known_by:
        return bool(state.method) and state.known_by == known_by[name]
    return True


def label_of(name: str, page: str) -> str:
    """What a field is called on a page: some compare every draft length up to the one that is asked
    for.
    """
    return MOST.get(name, LABELS[name]) if page in UP_TO else LABELS[name]


def _stated(state: State, name: str) -> Any:
    """What a widget holds as the state's value; of what was typed wrong, the state's own."""
    value = st.session_state[key_of(name)]
    if name not in TYPED:
        return value
    text = ";".join(value) if name == "against" else str(value or "").replace(" ", "")
    st.session_state.pop(f"wrong-{name}", None)
    try:
        if name == "model" and text and not text.startswith(OWN):
            return understood(text).name
        return checked(name, text)
    except InputError as error:
        st.session_state[f"wrong-{name}"] = said(error)
        return getattr(state, name)


def _widget(name: str, state: State, key: str) -> None:
    about, label, text, value = (
        FIELDS[name],
        label_of(name, state.page),
        HELP[name],
        held(state, name),
    )
    if name in TYPED:
        _typed(name, value, key)
    elif name == "threshold":
        _threshold(state, label, key)
    elif about.type is str:
        more: Any = {"on_change": _own_threshold} if name == "commit" else {}
        choices = _choices(name, state)
        if st.session_state.get(key, value) not in choices:
            value = st.session_state[key] = choices[0]
        st.selectbox(
            label,
            choices,
            choices.index(value),
            key=key,
            help=text,
            format_func=lambda each: _shown(name, each),
            **more,
        )
    elif name in TICKS:
        values = sorted({*TICKS[name], value, st.session_state.get(key, value)})
        st.select_slider(
            label, values, value, key=key, help=text, format_func=lambda each: f"{each:,}"
        )
    else:
        low, high = about.metadata["range"]
        if name in ("acceptance_ratio", "agreement_ratio"):
            st.slider(label, low, high, value, step=0.01, key=key, help=text)
        elif about.type is int and high <= 64:
            st.slider(label, low, high, value, key=key, help=text)
        else:
            step: Any = 1 if about.type is int else 1.0
            form = None if about.type is int else "%g"
            st.number_input(label, low, high, value, step=step, key=key, format=form, help=text)


def _typed(name: str, value: Any, key: str) -> None:
    label, text = LABELS[name], HELP[name]
    if name == "rates":
        st.text_input(label, value, key=key, help=text, placeholder="0.78,0.61,0.48")
    elif name == "model":
        shipped = list(known_names("model") or ())
        known = [*shipped, *([value] if value not in shipped else [])]
        st.selectbox(
            label,
            known,
            known.index(value),
            key=key,
            help=text,
            accept_new_options=True,
            on_change=_canonical,
            format_func=lambda each: SHOWN if each.startswith(OWN) else each,
        )
    else:
        offered = list(dict.fromkeys([*_rivals(), *value, *st.session_state.get(key, ())]))
        st.multiselect(
            label,
            offered,
            value,
            key=key,
            help=text,
            accept_new_options=True,
            max_selections=MOST_AGAINST,
            placeholder="nothing else",
        )


def _rivals() -> list[str]:
    """Drafters that can be picked: methods with published acceptance."""
    from costmodel.acceptance_library import published

    figures = {entry.method for entry in published() if entry.shape == "chain"}
    return [slug for slug in known_names("method") or () if slug in figures]


def _canonical() -> None:
    """A model that was typed under another name takes its own; a number format in its name is asked
    for.
    """
    key = key_of("model")
    try:
        found = understood(str(st.session_state[key] or ""))
    except InputError:
        return
    st.session_state[key] = found.name
    if found.read_as and found.dtype in DTYPES:
        st.session_state[key_of("dtype")] = found.dtype


def threshold_positions(rule: str) -> list[float]:
    """Values that a rule's first threshold usually has, ascending, after 0, which is the rule's
    own.
    """
    about = next(iter(COMMIT_RULES[rule].at.values()))
    return [0.0, *sorted(map(float, threshold_values(about)))]


def _threshold(state: State, label: str, key: str) -> None:
    """A slider of the values that the rule's first threshold usually has; 0 is the rule's own."""
    name, about = next(iter(COMMIT_RULES[state.commit].at.items()))
    held_now = st.session_state.get(key, state.threshold)
    values = sorted({*threshold_positions(state.commit), state.threshold, held_now})
    own = f"{about.default:g}, the rule's own"
    text = f"{HELP['threshold']} Of this rule: {name.replace('_', ' ')}."
    st.select_slider(
        label,
        values,
        state.threshold,
        key=key,
        help=text,
        format_func=lambda value: f"{value:g}" if value else own,
    )


def _own_threshold() -> None:
    """Another rule begins with its own threshold: a number of one means nothing to another."""
    st.session_state[key_of("threshold")] = 0.0


def _choices(name: str, state: State) -> list[str]:
    known: list[str] = list(known_names(name) or FIELDS[name].metadata.get("among", ()))
    if name == "trace" and state.page != "trace":
        from app.dashboard.answers.tree.page import tree_traces

        offered = (
            tree_traces() if state.page == "tree" else [path.stem for path in shipped_traces()]
        )
        known = [*offered, *([state.trace] if state.trace and state.trace not in offered else [])]
    if name in ("device", "other_device"):
        known = [
            *sold_devices(),
            *([chosen] if (chosen := getattr(state, name)) not in sold_devices() else []),
        ]
    if name == "known_by" and not state.method:
        known = [each for each in KNOWN_BY if each not in ("rate", "rates")]  # of which drafter?
    return known if FIELDS[name].default != "" or "" in known else ["", *known]


def _shown(name: str, value: str) -> str:
    if name == "known_by":
        return KNOWN_BY_WORDS[value]
    return value or EMPTY.get(name, "default")
