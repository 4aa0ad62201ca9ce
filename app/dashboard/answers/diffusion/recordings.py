"""Which confidence traces does the diffusion page look into, and what do policies do on them?

A replay depends on nothing but the trace and the policy: it is kept with the trace, so that another
device, model or batch changes costs alone. Leaves out reading uploads, and what a trace says.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from app.dashboard.state import State
from hardware_profiles.errors import InputError
from traces.kinds.confidence import ConfidenceTrace
from traces.kinds.refine_policy import RefinePolicy
from traces.library import shipped_confidence, trace_name
from traces.replay.confidence.anchors import Anchors
from traces.replay.confidence.played import MOST_PLAYED, RecordedPrompts, recorded_prompts
from traces.replay.confidence.walk import RefineReplay, replay_policy
from traces.storage.confidence_file import read_confidence, write_confidence


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Recording:
    """A confidence trace, the states that a replay looks at, and what was replayed; `path` is None
    for an upload.
    """

    path: Path | None
    trace: ConfidenceTrace
    prompts: RecordedPrompts
    _replays: dict[RefinePolicy, RefineReplay] = field(default_factory=dict, repr=False)

    @property
    def anchors(self) -> Anchors:
        """The states that a replay looks at."""
        return self.prompts.anchors

    def replay(self, policy: RefinePolicy) -> RefineReplay:
        """What a policy does on all prompts.

        Raises:
            InputError: a policy that the trace cannot answer for.
        """
        if policy not in self._replays:
            if len(self._replays) >= MOST_PLAYED:
                self._replays.clear()
            self._replays[policy] = replay_policy(self.anchors, policy)
        return self._replays[policy]


def own_recording(trace: ConfidenceTrace | Recording) -> Recording:
    """A trace of somebody's own."""
    return (
        trace
        if isinstance(trace, Recording)
        else Recording(path=None, trace=trace, prompts=recorded_prompts([trace])[0])
    )


@contextmanager
def readable(recording: Recording) -> Iterator[str]:
    """What a verb reads a trace from: its name, or a file of somebody's own while it is read."""
    if recording.path is not None:
        yield trace_name(recording.path)
        return
    with tempfile.TemporaryDirectory(prefix="rooftree-session-") as folder:
        place = Path(folder) / "confidence.parquet"
        write_confidence(recording.trace, place)
        yield str(place)


@lru_cache(maxsize=8)
def shipped_recording(name: str) -> Recording:
    """A shipped trace, read once.

    Raises:
        InputError: there is none of this name.
    """
    path = next((file for file in shipped_confidence() if file.stem == name), None)
    if path is None:
        raise InputError("is no shipped confidence trace", key="confidence", value=name)
    trace = read_confidence(path)
    return Recording(path=path, trace=trace, prompts=recorded_prompts([trace])[0])


def recording_name(state: State) -> str:
    """The trace that is named, or the first shipped one of the policy's cache that says what
    agreement is with.

    Raises:
        InputError: none was recorded beside that cache.
    """
    if state.confidence:
        return state.confidence
    for path in shipped_confidence():
        policies = shipped_recording(path.stem).trace.policies
        if any(policy.commit == "static" for policy in policies) and {
            policy.cache for policy in policies
        } == {state.cache}:
            return path.stem
    raise InputError(
        "no shipped trace was recorded beside this cache: upload one",
        key="cache",
        value=state.cache,
    )


def names_beside(state: State, recording: Recording) -> tuple[str, ...]:
    """The shipped trace, and where the state names none those of the same model beside other
    caches.
    """
    assert recording.path is not None
    if state.confidence:
        return (recording.path.stem,)
    names = {state.cache: recording.path.stem}
    for path in shipped_confidence():
        trace = shipped_recording(path.stem).trace
        alike = (trace.provenance.model, trace.canvas_tokens) == (
            recording.trace.provenance.model,
            recording.trace.canvas_tokens,
        )
        if alike and any(policy.commit == "static" for policy in trace.policies):
            names.setdefault(trace.policies[0].cache, path.stem)
    return tuple(names.values())
