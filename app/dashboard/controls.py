"""Which widgets ask for a page's question? One per field of the state, filled from the link.

Leaves out what the values mean (`state`).
"""

from collections.abc import Sequence
from typing import Any

import streamlit as st

from app.dashboard.state import CONTEXTS, FIELDS, State, known_names, with_values

TITLES = {
    "run": "What should I run?", "map": "Break-even map", "tree": "Tree explorer", "trace": "Trace lab",
    "hardware": "Hardware what-if", "serving": "Serving", "validation": "Validation",
}  # fmt: skip
LABELS = {
    "model": "Model", "device": "Device", "other_device": "Second device", "engine": "Engine",
    "dtype": "Weight format", "method": "Drafting method", "draft": "Draft model", "trace": "Recording",
    "other_trace": "Second recording", "measured": "Measured results",
    "acceptance_ratio": "Acceptance rate of a draft token",
    "batch": "Batch (requests)", "context": "Context (tokens)", "draft_tokens": "Draft tokens K",
    "tree_nodes": "Draft tokens of the tree", "depth": "Draft levels of the tree",
    "slo_tpot_ms": "Longest time per output token (ms, 0: none)",
    "slo_ttft_ms": "Longest time to first token (ms, 0: none)", "bandwidth_ratio": "Bandwidth (× as sold)",
    "peak_ratio": "Peak rates (× as sold)", "memory_ratio": "Memory (× as sold)", "link_ratio": "Link (× as sold)",
    "price_ratio": "Price (× as listed)", "tp": "Devices that share the model", "rate": "Requests per second",
    "count": "Requests to simulate", "prompt_tokens": "Mean prompt (tokens)", "output_tokens": "Mean output (tokens)",
}  # fmt: skip
EMPTY = {
    "dtype": "as published", "draft": "choose one", "trace": "default", "other_trace": "none", "measured": "first",
}  # fmt: skip
ASKED = {
    "run": ("model", "device", "engine", "dtype", "tp", "trace", "batch", "context", "tree_nodes", "slo_tpot_ms",
            "slo_ttft_ms"),
    "map": ("model", "device", "engine", "dtype", "tp", "method", "draft", "trace", "acceptance_ratio", "draft_tokens",
            "batch", "context"),
    "tree": ("trace", "tree_nodes", "depth", "model", "device", "engine", "batch", "context"),
    "trace": ("trace", "other_trace", "draft_tokens"),
    "hardware": ("model", "device", "bandwidth_ratio", "peak_ratio", "memory_ratio", "link_ratio", "price_ratio",
                 "other_device", "method", "draft", "acceptance_ratio", "draft_tokens", "batch", "context", "engine",
                 "tp", "rate", "prompt_tokens", "output_tokens"),
    "serving": ("model", "device", "engine", "tp", "trace", "draft_tokens", "rate", "count", "prompt_tokens",
                "output_tokens", "slo_tpot_ms", "slo_ttft_ms"),
    "validation": ("measured",),
}  # fmt: skip
TICKS = {
    "batch": tuple(2**n for n in range(11)), "context": CONTEXTS,
    "bandwidth_ratio": (0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 4.0),
}  # fmt: skip
for _name in ("peak_ratio", "memory_ratio", "link_ratio", "price_ratio"):
    TICKS[_name] = TICKS["bandwidth_ratio"]


def asked(state: State) -> State:
    """Draw the page's widgets and give the state that they hold now."""
    values = {name: _widget(name, state) for name in ASKED[state.page] if _wanted(name, state)}
    return with_values(state, values)


def _wanted(name: str, state: State) -> bool:
    """Whether a field matters: a draft model only for methods that have one."""
    from costmodel.method_library import load_method

    if name == "draft":
        return load_method(state.method).needs_draft_model
    if name in ("method", "acceptance_ratio") and state.page == "map":
        return not state.trace  # a recording names its method and holds its acceptance
    return True


def _widget(name: str, state: State) -> Any:
    key, about = f"asked-{name}", FIELDS[name]
    if key not in st.session_state:
        st.session_state[key] = getattr(state, name)
    label = LABELS[name]
    if about.type is str:
        return st.selectbox(label, _choices(name, state), key=key, format_func=lambda value: _shown(name, value))
    if name in TICKS:
        values = sorted({*TICKS[name], getattr(state, name), st.session_state[key]})
        return st.select_slider(label, values, key=key, format_func=lambda value: f"{value:,}")
    low, high = about.metadata["range"]
    if name == "acceptance_ratio":
        return st.slider(label, low, high, step=0.01, key=key)
    if about.type is int and high <= 64:
        return st.slider(label, low, high, key=key)
    step: Any = 1 if about.type is int else 1.0
    return st.number_input(label, low, high, step=step, key=key, format=None if about.type is int else "%g")


def _choices(name: str, state: State) -> Sequence[str]:
    known: list[str] = list(known_names(name) or FIELDS[name].metadata.get("among", ()))
    if name == "trace" and state.page == "tree":
        from app.dashboard.answers.tree import tree_traces

        known = [*tree_traces(), *([state.trace] if state.trace and state.trace not in tree_traces() else [])]
    return known if FIELDS[name].default != "" or "" in known else ["", *known]


def _shown(name: str, value: str) -> str:
    return value or EMPTY.get(name, "default")
