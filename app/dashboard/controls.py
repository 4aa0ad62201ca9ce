"""Which widgets ask for a page's question? One per field of the state, filled from the link.

Leaves out what the values mean (`state`) and what fields are called (`wording`).
"""

from collections.abc import Sequence
from typing import Any

import streamlit as st

from app.dashboard.state import CONTEXTS, FIELDS, State, known_names, sold_devices, with_values
from app.dashboard.wording import EMPTY, LABELS
from costmodel.optimizers.refining_grid import threshold_values
from traces.kinds.refine_policy import COMMIT_RULES

ASKED = {
    "run": ("model", "device", "engine", "dtype", "tp", "trace", "batch", "context", "tree_nodes", "slo_tpot_ms",
            "slo_ttft_ms"),
    "map": ("model", "device", "engine", "dtype", "tp", "method", "draft", "trace", "acceptance_ratio", "draft_tokens",
            "batch", "context"),
    "tree": ("trace", "tree_nodes", "depth", "model", "device", "engine", "batch", "context"),
    "trace": ("trace", "other_trace", "draft_tokens"),
    "diffusion": ("commit", "threshold", "block", "cache", "agreement_ratio", "confidence", "prompt", "model", "device",
                  "engine", "tp", "batch", "context"),
    "hardware": ("model", "device", "bandwidth_ratio", "peak_ratio", "memory_ratio", "link_ratio", "price_ratio",
                 "other_device", "method", "draft", "acceptance_ratio", "draft_tokens", "batch", "context", "engine",
                 "tp", "rate", "prompt_tokens", "output_tokens"),
    "pareto": ("model", "device", "engine", "dtype", "tp", "method", "draft", "trace", "acceptance_ratio",
               "draft_tokens", "batch", "context", "slo_tpot_ms"),
    "serving": ("model", "device", "engine", "tp", "trace", "draft_tokens", "rate", "count", "prompt_tokens",
                "output_tokens", "slo_tpot_ms", "slo_ttft_ms"),
    "validation": ("measured",),
}  # fmt: skip
PLAIN = "plain-decoding"
TICKS = {
    "batch": tuple(2**n for n in range(11)), "context": CONTEXTS, "tp": (1, 2, 4, 8),
    "block": tuple(2**n for n in range(9)),
    "bandwidth_ratio": (0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 4.0),
}  # fmt: skip
for _name in ("peak_ratio", "memory_ratio", "link_ratio", "price_ratio"):
    TICKS[_name] = TICKS["bandwidth_ratio"]


def asked(state: State) -> State:
    """Draw the page's widgets and give the state that they hold now."""
    names = ASKED[state.page]
    # what was just moved decides which others are asked for, above it and below
    state = with_values(state, {name: st.session_state[key] for name in names
                                if (key := f"asked-{name}") in st.session_state})  # fmt: skip
    for name in names:
        if _wanted(name, state):
            state = with_values(state, {name: _widget(name, state)})
    return state


def _wanted(name: str, state: State) -> bool:
    """Whether a field matters: a draft model only for methods that have one."""
    from costmodel.method_library import load_method

    if name == "draft":
        return load_method(state.method).needs_draft_model
    if name in ("method", "acceptance_ratio") and state.page in ("map", "pareto"):
        return not state.trace  # a recording names its method and holds its acceptance
    return True


def _widget(name: str, state: State) -> Any:
    key, about = f"asked-{name}", FIELDS[name]
    if key not in st.session_state:
        st.session_state[key] = getattr(state, name)
    label = LABELS[name]
    if about.type is str:
        more: Any = {"on_change": _own_threshold} if name == "commit" else {}
        shown = {"format_func": lambda value: _shown(name, value), **more}
        return st.selectbox(label, _choices(name, state), key=key, **shown)
    if name == "threshold":
        return _threshold(state, label, key)
    if name in TICKS:
        values = sorted({*TICKS[name], getattr(state, name), st.session_state[key]})
        return st.select_slider(label, values, key=key, format_func=lambda value: f"{value:,}")
    low, high = about.metadata["range"]
    if name in ("acceptance_ratio", "agreement_ratio"):
        return st.slider(label, low, high, step=0.01, key=key)
    if about.type is int and high <= 64:
        return st.slider(label, low, high, key=key)
    step: Any = 1 if about.type is int else 1.0
    return st.number_input(label, low, high, step=step, key=key, format=None if about.type is int else "%g")


def _threshold(state: State, label: str, key: str) -> float:
    """A slider of the values that the rule's first threshold usually has; 0 is the rule's own."""
    name, about = next(iter(COMMIT_RULES[state.commit].at.items()))
    values = sorted({0.0, *map(float, threshold_values(about)), state.threshold, st.session_state[key]})
    own = f"{about.default:g}, the rule's own"
    chosen: float = st.select_slider(label, values, key=key, help=f"Of this rule: {name.replace('_', ' ')}.",
                                     format_func=lambda value: f"{value:g}" if value else own)  # fmt: skip
    return chosen


def _own_threshold() -> None:
    """Another rule begins with its own threshold: a number of one means nothing to another."""
    st.session_state["asked-threshold"] = 0.0


def _choices(name: str, state: State) -> Sequence[str]:
    known: list[str] = list(known_names(name) or FIELDS[name].metadata.get("among", ()))
    if name == "trace" and state.page == "tree":
        from app.dashboard.answers.tree import tree_traces

        known = [*tree_traces(), *([state.trace] if state.trace and state.trace not in tree_traces() else [])]
    if name in ("device", "other_device"):
        known = [*sold_devices(), *([chosen] if (chosen := getattr(state, name)) not in sold_devices() else [])]
    if name == "method" and state.page in ("map", "pareto") and state.method != PLAIN:
        known.remove(PLAIN)  # which is what drafting is compared with
    return known if FIELDS[name].default != "" or "" in known else ["", *known]


def _shown(name: str, value: str) -> str:
    if name == "method" and value == PLAIN:
        return "none: plain decoding"
    return value or EMPTY.get(name, "default")
