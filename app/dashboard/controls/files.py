"""Where does a file of the reader's own go in place of a model, a device or a method, and what is
said of one that cannot be read?

Leaves out keeping files (`held`), and recordings (`uploads`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import streamlit as st

from app.dashboard.held import MOST_BYTES, hold_config, hold_device, hold_method
from app.dashboard.state import State, as_sold
from app.dashboard.uploads.session import refused_drop
from app.dashboard.wording import error_words, plain
from hardware_profiles.errors import RooftreeError


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnFile:
    """A file that takes the place of a shipped name.

    Args:
        label: of the place for it.
        suffix: of its name.
        help: what a person reads who looks for more.
        asked: the question about what a file holds.

    Raises:
        RooftreeError: by `asked`: the file holds nothing of the kind.
    """

    label: str
    suffix: str
    help: str
    asked: Callable[[State, bytes], State]


_HELD_HERE = (
    "This server keeps the file until it stops, so that your link works here; elsewhere the file has"
    " to be given again."
)


def _on_own_device(state: State, content: bytes) -> State:
    return as_sold(replace(state, device=hold_device(content)))


def _with_own_method(state: State, content: bytes) -> State:
    """Of which nothing was published."""
    known_by = "rate" if state.known_by == "published" else state.known_by
    return replace(state, method=hold_method(content), known_by=known_by)


OWN_FILES: Mapping[str, OwnFile] = {
    "model": OwnFile(
        label="Or a `config.json`",
        suffix="json",
        help=f"Shapes alone are read. {_HELD_HERE}",
        asked=lambda state, content: replace(state, model=hold_config(content)),
    ),
    "device": OwnFile(
        label="Or the TOML file of a device",
        suffix="toml",
        help=f"`rooftree devices new my-card --like NEAREST` writes one to begin with. {_HELD_HERE}",
        asked=_on_own_device,
    ),
    "method": OwnFile(
        label="Or the TOML file of a method",
        suffix="toml",
        help=f"`rooftree methods new mine --like NEAREST` writes one to begin with. {_HELD_HERE}",
        asked=_with_own_method,
    ),
}
"""By the field whose name it takes the place of."""


def refused_files() -> list[str]:
    """Why files that are there were refused; what follows is no answer to an earlier question."""
    outcomes = (st.session_state.get(_outcome_key(name), ("", "")) for name in OWN_FILES)
    drop = refused_drop()
    return [
        *(refusal for _, refusal in outcomes if refusal),
        *([] if drop is None else [error_words(drop)]),
    ]


def ask_file(name: str, state: State) -> None:
    """Draw the place for a file; one that is new is read, and asked about from the next run on.

    Args:
        name: of the field that names what the file holds.
        state: the question so far.
    """
    own, key = OWN_FILES[name], _outcome_key(name)
    upload = st.file_uploader(
        f"{own.label}, at most {MOST_BYTES >> 20} MiB",
        type=[own.suffix],
        key=f"file-of-{name}",
        help=own.help,
    )
    if upload is None:
        st.session_state.pop(key, None)
        return
    read_before, refusal = st.session_state.get(key, ("", ""))
    if upload.file_id != read_before:
        refusal, asked = "", state
        try:
            asked = own.asked(state, upload.getvalue())
        except RooftreeError as error:
            refusal = error_words(error)
        st.session_state[key] = (upload.file_id, refusal)
        if not refusal:
            st.session_state["next"] = asked
            st.rerun()
    if refusal:
        st.caption(f":red[{plain(refusal)}]")


def _outcome_key(name: str) -> str:
    """Of the file that was read last, and why it was refused."""
    return f"own-{name}"
