"""Which files has this session been given? A file is read once and stays for the session, on every
page.

Leaves out how a file is read without trusting it (`reading`).
"""

import hashlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, overload

import streamlit as st

from app.dashboard.held import hold_recording
from app.dashboard.uploads.reading import (
    MOST_BYTES,
    MOST_SECONDS,
    PASTED,
    SUFFIXES,
    Kind,
    UnclearFormatError,
    parsed_upload,
)
from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace

if TYPE_CHECKING:
    from app.dashboard.answers.diffusion.recordings import Recording

MOST_CHARACTERS = 1 << 20  # of pasted lines


@overload
def uploaded(kind: Literal["acceptance"], *, draw: bool = ...) -> AcceptanceTrace | None: ...
@overload
def uploaded(kind: Literal["confidence"], *, draw: bool = ...) -> "Recording | None": ...
def uploaded(kind: Kind, *, draw: bool = True) -> "AcceptanceTrace | Recording | None":
    """Draw the place for a file or pasted lines, and give the recording that they or earlier ones
    hold.

    Args:
        kind: of recording.
        draw: the place; False where it stands elsewhere on the page.

    Raises:
        InputError: no recording; asked again, the same error is raised without reading again.
    """
    key = f"uploaded-{kind}"
    upload = _offered_upload(kind) if draw else None
    mark, outcome = st.session_state.get(key, (None, None))
    if upload is not None and mark != upload.mark:
        mark, outcome = upload.mark, _read(kind, upload)
        st.session_state[key] = (mark, outcome)
    if upload is not None and isinstance(outcome, UnclearFormatError):
        chosen = st.selectbox(
            "Its format",
            outcome.formats,
            index=None,
            placeholder="choose one",
            key=f"format-of-{upload.mark}",
        )
        if chosen is not None:
            st.session_state[key] = (mark, outcome := _read(kind, upload, chosen))
    if isinstance(outcome, InputError):
        raise outcome
    trace: AcceptanceTrace | Recording | None = outcome
    return trace


@dataclass(frozen=True, kw_only=True, slots=True)
class _Upload:
    """A file or pasted lines: a name for messages, what tells it from another one, and its bytes."""

    name: str
    mark: str
    content: bytes


def _offered_upload(kind: Kind) -> _Upload | None:
    """A file, or lines that were pasted; the file goes before them."""
    file = st.file_uploader(
        f"A file of your own, at most {MOST_BYTES >> 20} MiB: it stays in this session, not in the"
        " link",
        type=list(SUFFIXES[kind]) or None,
        key=f"file-of-{kind}",
        on_change=_changed,
        args=(kind,),
    )
    text = ""
    if kind == "acceptance":
        text = st.text_area(
            "Or paste lines of an engine's log, or what its /metrics shows",
            key="pasted",
            height=68,
            max_chars=MOST_CHARACTERS,
            on_change=_changed,
            args=(kind,),
        )
    if file is not None:
        return _Upload(name=file.name, mark=file.file_id, content=file.getvalue())
    if text and text.strip():
        content = text.encode()
        return _Upload(
            name=PASTED, mark=f"pasted-{hashlib.sha256(content).hexdigest()[:16]}", content=content
        )
    return None


def held_recording() -> str:
    """The name under which the server keeps this session's acceptance recording; empty without
    one.
    """
    file, outcome = st.session_state.get("uploaded-acceptance", (None, None))
    if not isinstance(outcome, AcceptanceTrace):
        return ""
    if "uploads" not in st.session_state:  # gone with the session
        st.session_state["uploads"] = tempfile.TemporaryDirectory(prefix="rooftree-session-")
    folder = Path(st.session_state["uploads"].name)
    name = f"{folder.name}-{file}"
    if not (place := folder / f"{file}.parquet").exists():
        from traces.storage.acceptance_file import write_acceptance

        write_acceptance(outcome, place)
        hold_recording(name, place)
    return name


def _read(kind: Kind, upload: _Upload, format: str = "") -> object:
    """The recording in what was given, or what is wrong with it."""
    place = st.empty()
    with place.container():
        bar = st.progress(0.0, text="reading")
        st.button("Cancel", on_click=_leave, args=(kind, upload.mark))

    def report(passed_s: float) -> None:
        # drawing is also where a press of the button, which reruns the script, ends this run
        message = f"reading, {passed_s:.0f} of at most {MOST_SECONDS:g} s"
        bar.progress(min(passed_s / MOST_SECONDS, 1.0), text=message)

    try:
        if kind == "confidence":
            from app.dashboard.answers.diffusion.recordings import own_recording

            return own_recording(parsed_upload(upload.name, upload.content, kind, report=report))
        return parsed_upload(upload.name, upload.content, kind, format=format, report=report)
    except InputError as error:
        return error
    finally:
        place.empty()


def _changed(kind: Kind) -> None:
    """What was taken away is forgotten."""
    if st.session_state.get(f"file-of-{kind}") is None and not st.session_state.get("pasted"):
        st.session_state.pop(f"uploaded-{kind}", None)


def _leave(kind: Kind, mark: str) -> None:
    st.session_state[f"uploaded-{kind}"] = (
        mark,
        InputError("was not read to its end; give it again", key="upload"),
    )
