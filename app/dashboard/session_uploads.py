"""Which files has this session been given? A file is read once and stays for the session, on every page.

Leaves out how a file is read without trusting it (`uploads`).
"""

import tempfile
from pathlib import Path
from typing import Literal, overload

import streamlit as st

from app.dashboard.held import hold_recording
from app.dashboard.uploads import MOST_BYTES, MOST_SECONDS, SUFFIXES, Kind, parsed_upload
from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.confidence import ConfidenceTrace
from traces.storage.acceptance_file import write_acceptance


@overload
def uploaded(kind: Literal["acceptance"], *, draw: bool = ...) -> AcceptanceTrace | None: ...
@overload
def uploaded(kind: Literal["confidence"], *, draw: bool = ...) -> ConfidenceTrace | None: ...
def uploaded(kind: Kind, *, draw: bool = True) -> AcceptanceTrace | ConfidenceTrace | None:
    """Draw the place for a file, and give the recording that it or an earlier one holds.

    Args:
        kind: of recording.
        draw: the place; False where it stands elsewhere on the page.

    Raises:
        InputError: the file holds no recording; asked again, the same error is raised without reading the file again.
    """
    given = draw and st.file_uploader(
        f"A file of your own, at most {MOST_BYTES >> 20} MiB: it stays in this session, not in the link",
        type=list(SUFFIXES[kind]), key=f"file-of-{kind}", on_change=_chosen, args=(kind,),
    )  # fmt: skip
    file, found = st.session_state.get(f"uploaded-{kind}", (None, None))
    if given and file != given.file_id:
        found = _read(kind, given)
        st.session_state[f"uploaded-{kind}"] = (given.file_id, found)
    if isinstance(found, InputError):
        raise found
    trace: AcceptanceTrace | ConfidenceTrace | None = found
    return trace


def held_recording() -> str:
    """The name under which the server keeps this session's acceptance recording; empty without one."""
    file, found = st.session_state.get("uploaded-acceptance", (None, None))
    if not isinstance(found, AcceptanceTrace):
        return ""
    if "uploads" not in st.session_state:  # gone with the session
        st.session_state["uploads"] = tempfile.TemporaryDirectory(prefix="rooftree-session-")
    folder = Path(st.session_state["uploads"].name)
    name = f"{folder.name}-{file}"
    if not (place := folder / f"{file}.parquet").exists():
        write_acceptance(found, place)
        hold_recording(name, place)
    return name


def _read(kind: Kind, given: "st.runtime.uploaded_file_manager.UploadedFile") -> object:
    """The recording in a file, or what is wrong with it."""
    place = st.empty()
    with place.container():
        bar = st.progress(0.0, text="reading")
        st.button("Cancel", on_click=_leave, args=(kind, given.file_id))

    def report(passed_s: float) -> None:
        # drawing is also where a press of the button, which reruns the script, ends this run
        message = f"reading, {passed_s:.0f} of at most {MOST_SECONDS:g} s"
        bar.progress(min(passed_s / MOST_SECONDS, 1.0), text=message)

    try:
        return parsed_upload(given.name, given.getvalue(), kind, report=report)
    except InputError as error:
        return error
    finally:
        place.empty()


def _chosen(kind: Kind) -> None:
    """A file that was taken away is forgotten."""
    if st.session_state.get(f"file-of-{kind}") is None:
        st.session_state.pop(f"uploaded-{kind}", None)


def _leave(kind: Kind, file: str) -> None:
    st.session_state[f"uploaded-{kind}"] = (file, InputError("was not read to its end; choose it again", key="upload"))
