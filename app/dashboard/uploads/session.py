"""Which files does this session have? A file is read once and stays for the session, on every
page.

Leaves out how a file is read without trusting it (`reading`), and what a server's file means
(`app.dashboard.answers.server`).
"""

import hashlib
import shutil
import tempfile
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

from app.dashboard.held import hold_recording
from app.dashboard.state import State, with_values
from app.dashboard.uploads.reading import (
    MOST_BYTES,
    MOST_SECONDS,
    PASTED,
    Dropped,
    Report,
    UnclearFormatError,
    parsed_confidence,
    parsed_drop,
)
from hardware_profiles.errors import InputError

if TYPE_CHECKING:
    from app.dashboard.answers.diffusion.recordings import Recording

MOST_CHARACTERS = 1 << 20  # of pasted lines
DROPPED, MASKED = "dropped", "uploaded-confidence"  # the session's keys: a mark and what was read
_DROP, _PASTE, _MASKED_FILE = "file-of-server", "pasted", "file-of-confidence"
_FOLDER = "uploads"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Files:
    """Files or pasted lines: names for messages with their bytes, and what tells them from others."""

    files: tuple[tuple[str, bytes], ...]
    mark: str


class _SessionFolder:
    """A folder that is gone with the session."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="rooftree-session-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def offer_drop() -> bool:
    """Draw the place for files or pasted lines, and read what is new.

    Returns:
        Whether something was read just now that can be used.
    """
    uploads = st.file_uploader(
        "Drop two scrapes of `/metrics`, in either order, or one; a log of vLLM or SGLang; or a"
        f" recording: at most {MOST_BYTES >> 20} MiB, which stay in this session, not in the link",
        accept_multiple_files=True,
        key=_DROP,
        on_change=_drop_changed,
    )
    text = st.text_area(
        "Or paste what /metrics shows, or lines of the log",
        key=_PASTE,
        height=68,
        max_chars=MOST_CHARACTERS,
        on_change=_drop_changed,
    )
    if uploads:
        files = tuple((upload.name, upload.getvalue()) for upload in uploads)
        offered = _Files(files=files, mark=_mark(*(upload.file_id for upload in uploads)))
    elif text and text.strip():
        offered = _Files(files=((PASTED, text.encode()),), mark=_mark(text))
    else:
        return False
    mark, outcome = st.session_state.get(DROPPED, (None, None))
    if new := mark != offered.mark:
        outcome = _read(DROPPED, offered, lambda report: parsed_drop(offered.files, report=report))
    if isinstance(outcome, UnclearFormatError):
        chosen = st.selectbox(
            "Its format",
            outcome.formats,
            index=None,
            placeholder="choose one",
            key=f"format-of-{offered.mark}",
        )
        if new := chosen is not None:
            format = str(chosen)
            outcome = _read(
                DROPPED,
                offered,
                lambda report: parsed_drop(offered.files, format=format, report=report),
            )
    return new and isinstance(outcome, Dropped)


def dropped() -> Dropped | None:
    """What this session has; None for nothing, or what was refused."""
    _, outcome = st.session_state.get(DROPPED, (None, None))
    return outcome if isinstance(outcome, Dropped) else None


def refused_drop() -> InputError | None:
    """Why what is there was refused."""
    _, outcome = st.session_state.get(DROPPED, (None, None))
    return outcome if isinstance(outcome, InputError) else None


def uploaded_confidence() -> "Recording | None":
    """Draw the place for a confidence trace, and give what it or an earlier one holds.

    Raises:
        InputError: no recording; asked again, the same error is raised without reading again.
    """
    upload = st.file_uploader(
        f"A file of your own, at most {MOST_BYTES >> 20} MiB: it stays in this session, not in the"
        " link",
        type=["parquet"],
        key=_MASKED_FILE,
        on_change=_masked_changed,
    )
    mark, outcome = st.session_state.get(MASKED, (None, None))
    if upload is not None and mark != upload.file_id:
        name, content = upload.name, upload.getvalue()
        offered = _Files(files=((name, content),), mark=upload.file_id)
        outcome = _read(MASKED, offered, lambda report: _masked(name, content, report))
    if isinstance(outcome, InputError):
        raise outcome
    recording: Recording | None = outcome
    return recording


def _masked(name: str, content: bytes, report: Report) -> "Recording":
    from app.dashboard.answers.diffusion.recordings import own_recording

    return own_recording(parsed_confidence(name, content, report=report))


def held_recording() -> str:
    """The name under which the server keeps this session's acceptance recording; empty without
    one.
    """
    mark, outcome = st.session_state.get(DROPPED, (None, None))
    if not isinstance(outcome, Dropped):
        return ""
    if _FOLDER not in st.session_state:
        st.session_state[_FOLDER] = _SessionFolder()
    folder: Path = st.session_state[_FOLDER].path
    name = f"{folder.name}-{mark}"
    if not (place := folder / f"{mark}.parquet").exists():
        from traces.storage.acceptance_file import write_acceptance

        write_acceptance(outcome.trace, place)
        hold_recording(name, place)
    return name


def _mark(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


def _read(key: str, offered: _Files, parse: Callable[[Report], object]) -> object:
    """The recording in what was offered, or what is wrong with it, which the session keeps."""
    place = st.empty()
    with place.container():
        bar = st.progress(0.0, text="reading")
        st.button("Cancel", on_click=_leave, args=(key, offered.mark))

    def report(passed_s: float) -> None:
        # drawing is also where a press of the button, which reruns the script, ends this run
        message = f"reading, {passed_s:.0f} of at most {MOST_SECONDS:g} s"
        bar.progress(min(passed_s / MOST_SECONDS, 1.0), text=message)

    outcome: object
    try:
        outcome = parse(report)
    except InputError as error:
        outcome = error
    finally:
        place.empty()
    st.session_state[key] = (offered.mark, outcome)
    return outcome


def _drop_changed() -> None:
    """What was taken away is forgotten, and no drafter is known by it any more."""
    if st.session_state.get(_DROP) or st.session_state.get(_PASTE):
        return
    st.session_state.pop(DROPPED, None)
    state = st.session_state.get("state")
    if isinstance(state, State) and state.known_by == "upload":
        usual = {"known_by": "published", "upload": ""}
        st.session_state["next"] = with_values(state, usual)


def _masked_changed() -> None:
    """What was taken away is forgotten."""
    if st.session_state.get(_MASKED_FILE) is None:
        st.session_state.pop(MASKED, None)


def _leave(key: str, mark: str) -> None:
    st.session_state[key] = (
        mark,
        InputError("was not read to its end; give it again", key="upload"),
    )
