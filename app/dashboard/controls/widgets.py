"""Which widgets ask for a page's question? One per field of the state, filled from the link.

Leaves out where they stand (`bar`), what the values mean (`state`) and what fields are called
(`wording`).
"""

from collections.abc import Sequence
from typing import Any

import streamlit as st

from app.dashboard.device_numbers import DEVICE_NUMBERS, number_as_sold
from app.dashboard.held import (
    OWN,
    SHOWN,
    is_held_method,
    model_name,
    model_place,
    shown_device,
    understood,
)
from app.dashboard.recorded import tree_traces
from app.dashboard.state import (
    CHOICES,
    DTYPES,
    FIELDS,
    KNOWN_BY,
    LOADED_PAGES,
    MOST_RIVALS,
    State,
    as_sold,
    checked,
    control_of,
    is_modified,
    known_names,
    rate_of,
    rivals_of,
    sold_devices,
    with_values,
)
from app.dashboard.wording import KNOWN_BY as KNOWN_BY_WORDS
from app.dashboard.wording import error_words
from costmodel.acceptance_library import published
from costmodel.architectures.library import load_model
from costmodel.method_library import load_method
from costmodel.optimizers.candidates.policy_grid import threshold_values
from hardware_profiles.errors import InputError
from traces.kinds.refine_policy import COMMIT_RULES
from traces.library import shipped_traces

USUAL_RULE = "threshold"  # of the method that the diffusion page prices
MOST_OF_SLIDER = 64  # whole numbers; of more, one is typed
SET = "times-set"
EXAMPLE = "0.78,0.61,0.48"
BY_POSITION = "Kept at position 1, 2, … (shares)"
BY_POSITION_HELP = (
    f"Share of steps in which draft position 1, 2, … was kept, as engines print it: {EXAMPLE}."
)
TYPED = {
    "model",
    "acceptance",
    "draft_name",
    "draft_bytes",
    "rivals",
}  # may be typed wrong, which keeps the value before


def key_of(name: str) -> str:
    """The session's key of a field's widget: another one each time that an address or a press sets
    it.

    A browser goes on sending the value to which a control was moved that now is behind a closed
    button.
    """
    times = st.session_state.get(SET, {}).get(name, 0)
    return f"asked-{name}--{times}" if times else f"asked-{name}"


def value_of(state: State, name: str) -> Any:
    """A field's value as its widget holds it."""
    if name == "acceptance" and state.known_by == "rate":
        return rate_of(state)
    value = getattr(state, name)
    if name in DEVICE_NUMBERS:
        return value or None  # an empty control shows the number as sold
    return rivals_of(value) if name == "rivals" else value


def moved(state: State) -> bool:
    """Whether a widget holds another value than the state."""
    return any(
        st.session_state.get(key_of(name), value_of(state, name)) != value_of(state, name)
        for name in FIELDS
    )


def set_widgets(state: State) -> None:
    """Let the widgets say what a state says: those of fields that differ from the session's state
    are new ones.
    """
    before, times = st.session_state["state"], st.session_state.setdefault(SET, {})
    for name in FIELDS:
        value = value_of(state, name)
        if not value == value_of(before, name) == st.session_state.get(key_of(name), value):
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
    where one is stated, the time of whole requests where their lengths are known.
    """
    if name == "draft":
        return bool(state.method) and load_method(state.method).needs_draft_model
    if name == "draft_dtype":
        return bool(state.draft_bytes) or (
            bool(state.method) and load_method(state.method).drafts_with_weights
        )
    if name == "acceptance":
        has_drafter = state.method or state.draft_bytes
        return bool(has_drafter) and state.known_by in ("rate", "rates")
    if name in ("draft_name", "draft_passes"):
        return bool(state.draft_bytes)
    if name == "slo_e2e":
        return state.page in LOADED_PAGES
    return True


def rejected() -> list[str]:
    """What is wrong with what was typed: the state has none of it."""
    return [
        st.session_state[f"wrong-{name}"]
        for name in TYPED
        if key_of(name) in st.session_state and f"wrong-{name}" in st.session_state
    ]


def _stated(state: State, name: str) -> Any:
    """What a widget holds as the state's value; of what was typed wrong, the state's own."""
    value = st.session_state[key_of(name)]
    if name in DEVICE_NUMBERS:
        return value or 0.0
    if name not in TYPED:
        return value
    if name == "acceptance" and isinstance(value, float):
        return state.acceptance if value == rate_of(state) else f"{value:g}"
    text = ";".join(value) if name == "rivals" else str(value or "").replace(" ", "")
    st.session_state.pop(f"wrong-{name}", None)
    try:
        if name == "model" and text and not text.startswith(OWN):
            return model_name(text)
        return checked(name, text)
    except InputError as error:
        st.session_state[f"wrong-{name}"] = error_words(error)
        return getattr(state, name)


def _widget(name: str, state: State, key: str) -> None:
    control, kind = control_of(name), FIELDS[name].type
    label, text, value = control.label, control.help, value_of(state, name)
    if isinstance(value, float) and control.step is not None:
        low, high = float(control.least), float(control.most)
        st.slider(label, low, high, value, step=control.step, key=key, help=text)
    elif name in TYPED:
        _typed(name, value, key)
    elif name == "threshold":
        _threshold(state, label, key)
    elif name in DEVICE_NUMBERS:
        low, high = float(control.least), float(control.most)
        sold = f"{sold_words(state.device, name)} {control.empty}".strip()
        st.number_input(label, low, high, value, key=key, format="%g", help=text, placeholder=sold)
    elif kind is str:
        more: Any = {"on_change": _ON_CHANGE[name]} if name in _ON_CHANGE else {}
        choices = _choices(name, state)
        if st.session_state.get(key, value) not in choices:
            value = st.session_state[key] = choices[0]
        st.selectbox(
            label,
            choices,
            choices.index(value),
            key=key,
            help=text,
            format_func=lambda choice: _shown(name, choice, state),
            **more,
        )
    elif control.ticks:
        values = sorted({*control.ticks, value, st.session_state.get(key, value)})
        st.select_slider(
            label, values, value, key=key, help=text, format_func=lambda tick: _tick(name, tick)
        )
    else:
        low, high, step = kind(control.least), kind(control.most), kind(1)
        if kind is int and high <= MOST_OF_SLIDER:
            st.slider(label, low, high, value, key=key, help=text)
        else:
            form = None if kind is int else "%g"
            st.number_input(label, low, high, value, step=step, key=key, format=form, help=text)


def _tick(name: str, value: float) -> str:
    """A number of a slider; 0 stands for no value where that is the default."""
    return control_of(name).empty if value == FIELDS[name].default == 0 else f"{value:,}"


def _typed(name: str, value: Any, key: str) -> None:
    label, text = control_of(name).label, control_of(name).help
    if name in ("draft_name", "draft_bytes"):
        empty = control_of(name).empty
        st.text_input(label, value, key=key, help=text, placeholder=empty)
    elif name == "acceptance":
        st.text_input(BY_POSITION, value, key=key, help=BY_POSITION_HELP, placeholder=EXAMPLE)
    elif name == "model":
        shipped = list(known_names("model") or ())
        models = [*shipped, *([value] if value not in shipped else [])]
        st.selectbox(
            label,
            models,
            models.index(value),
            key=key,
            help=text,
            accept_new_options=True,
            on_change=_canonical,
            format_func=lambda model: SHOWN if model.startswith(OWN) else model,
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
            max_selections=MOST_RIVALS,
            placeholder="nothing else",
        )


def _rivals() -> list[str]:
    """Drafters that can be picked: methods with published acceptance."""
    figures = {entry.method for entry in published() if entry.shape == "chain"}
    return [slug for slug in known_names("method") or () if slug in figures]


def _canonical() -> None:
    """A model that was typed under another name takes its own; a number format in its name is asked
    for.
    """
    key = key_of("model")
    try:
        model = understood(str(st.session_state[key] or ""))
    except InputError:
        return
    st.session_state[key] = model_name(str(st.session_state[key]))
    if model.read_as and model.dtype in DTYPES:
        st.session_state[key_of("dtype")] = model.dtype


def threshold_positions(rule: str) -> list[float]:
    """Values that a rule's first threshold usually has, ascending, after 0, which is the
    recommended one.
    """
    about = next(iter(COMMIT_RULES[rule].at.values()))
    return [0.0, *sorted(map(float, threshold_values(about)))]


def _threshold(state: State, label: str, key: str) -> None:
    """A slider of the values that the rule's first threshold usually has; 0 is the recommended one."""
    rule = state.commit or USUAL_RULE
    name = next(iter(COMMIT_RULES[rule].at))
    held_now = st.session_state.get(key, state.threshold)
    values = sorted({*threshold_positions(rule), state.threshold, held_now})
    text = f"{control_of('threshold').help} Of this rule: {name.replace('_', ' ')}."
    st.select_slider(
        label,
        values,
        state.threshold,
        key=key,
        help=text,
        format_func=lambda value: f"{value:g}" if value else control_of("threshold").empty,
    )


def _own_threshold() -> None:
    """Another rule begins with a threshold of its own: a number of one means nothing to another."""
    st.session_state[key_of("threshold")] = 0.0


def _another_device() -> None:
    """Another device begins as it is sold: modified numbers are those of one device."""
    state: State = st.session_state["state"]
    if is_modified(state):
        chosen = st.session_state[key_of("device")]
        st.session_state["next"] = as_sold(with_values(state, {"device": chosen}))


_ON_CHANGE = {"commit": _own_threshold, "device": _another_device}


def sold_words(device: str, name: str) -> str:
    """A number of a device as it is sold; empty where it has none."""
    try:
        number = number_as_sold(device, name)
    except InputError:
        return ""  # of a file that is not here, which the answer says
    return "" if number is None else f"{number:,.10g}"


def _choices(name: str, state: State) -> list[str]:
    choices: list[str] = list(known_names(name) or CHOICES.get(name, ()))
    if name == "trace" and state.page != "trace":
        offered = (
            tree_traces() if state.page == "tree" else [path.stem for path in shipped_traces()]
        )
        choices = [*offered, *([state.trace] if state.trace and state.trace not in offered else [])]
    if name in ("device", "other_device"):
        choices = [
            *sold_devices(),
            *([chosen] if (chosen := getattr(state, name)) not in sold_devices() else []),
        ]
    if name == "known_by" and state.draft_bytes:
        choices = [way for way in KNOWN_BY if way != "published"]
    elif name == "known_by" and not state.method:
        choices = [way for way in KNOWN_BY if way not in ("rate", "rates")]  # of which drafter?
    if name == "method":  # others than the reader may have given this server methods of theirs
        choices = [slug for slug in choices if slug == state.method or not is_held_method(slug)]
    return choices if FIELDS[name].default != "" or "" in choices else ["", *choices]


def _shown(name: str, value: str, state: State) -> str:
    if name == "known_by":
        return KNOWN_BY_WORDS[value]
    if name == "device":
        return shown_device(value)
    if name == "dtype" and not value:
        return f"{control_of(name).empty} ({load_model(model_place(state.model)).dtype})"
    return value or control_of(name).empty
