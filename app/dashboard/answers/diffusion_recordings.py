"""Which confidence traces does the diffusion page look into? Leaves out reading uploads, and what a trace says."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from app.dashboard.state import State
from hardware_profiles.errors import InputError
from traces.kinds.confidence import ConfidenceTrace
from traces.library import shipped_confidence
from traces.replay.confidence.anchors import Anchors, pooled
from traces.storage.confidence_file import read_confidence


@dataclass(frozen=True, kw_only=True, slots=True)
class Recording:
    """A confidence trace and the states that a replay looks at; `path` is None for an upload."""

    path: Path | None
    trace: ConfidenceTrace
    anchors: Anchors


@lru_cache(maxsize=8)
def shipped_recording(name: str) -> Recording:
    """A shipped trace, read once.

    Raises:
        InputError: there is none of this name.
    """
    path = next((each for each in shipped_confidence() if each.stem == name), None)
    if path is None:
        raise InputError("is no shipped confidence trace", key="confidence", value=name)
    trace = read_confidence(path)
    return Recording(path=path, trace=trace, anchors=pooled(trace))


def recording_name(state: State) -> str:
    """The trace that is named, or the first shipped one of the policy's cache that says what agreement is with.

    Raises:
        InputError: none was recorded beside that cache.
    """
    if state.confidence:
        return state.confidence
    for path in shipped_confidence():
        policies = shipped_recording(path.stem).trace.policies
        if any(each.commit == "static" for each in policies) and {each.cache for each in policies} == {state.cache}:
            return path.stem
    raise InputError("no shipped trace was recorded beside this cache: upload one", key="cache", value=state.cache)


def names_beside(state: State, known: Recording) -> tuple[str, ...]:
    """The shipped trace, and where the state names none those of the same model beside other caches."""
    assert known.path is not None
    if state.confidence:
        return (known.path.stem,)
    found = {state.cache: known.path.stem}
    for path in shipped_confidence():
        trace = shipped_recording(path.stem).trace
        alike = (trace.provenance.model, trace.canvas_tokens) == (
            known.trace.provenance.model,
            known.trace.canvas_tokens,
        )
        if alike and any(each.commit == "static" for each in trace.policies):
            found.setdefault(trace.policies[0].cache, path.stem)
    return tuple(found.values())
