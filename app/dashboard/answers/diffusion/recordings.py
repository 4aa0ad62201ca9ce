"""Which confidence traces does the diffusion page look into, and what do policies do on them?

A replay depends on nothing but the trace and the policy: it is kept with the trace, so that another
device, model or batch changes costs alone. Leaves out reading uploads, and what a trace says.
"""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from app.dashboard.state import State
from costmodel.optimizers.refining.search import Played, played_policies
from hardware_profiles.errors import InputError
from traces.kinds.confidence import ConfidenceTrace
from traces.kinds.refine_policy import RefinePolicy
from traces.library import shipped_confidence, trace_name
from traces.replay.confidence.anchors import Anchors, pooled
from traces.replay.confidence.walk import RefineReplay, replay_policy
from traces.storage.confidence_file import read_confidence, write_confidence

MOST_REPLAYS = 4096  # kept with a recording


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Recording:
    """A confidence trace, the states that a replay looks at, and what was replayed; `path` is None
    for an upload.
    """

    path: Path | None
    trace: ConfidenceTrace
    anchors: Anchors
    _replays: dict[RefinePolicy, RefineReplay] = field(default_factory=dict, repr=False)
    _played: dict[tuple[RefinePolicy, int], Played] = field(default_factory=dict, repr=False)

    @property
    def cache(self) -> str:
        """What its passes read from a cache."""
        return self.trace.policies[0].cache

    def replay(self, policy: RefinePolicy) -> RefineReplay:
        """What a policy does on all prompts.

        Raises:
            InputError: a policy that the trace cannot answer for.
        """
        if policy not in self._replays:
            _trim(self._replays)
            self._replays[policy] = replay_policy(self.anchors, policy)
        return self._replays[policy]

    def played(self, policies: Sequence[RefinePolicy], seed: int) -> list[Played]:
        """What policies of the recording's cache do, with intervals over prompts."""
        missing = [policy for policy in policies if (policy, seed) not in self._played]
        if missing:
            _trim(self._played)
            made = played_policies(
                {policy.cache: self.anchors for policy in missing}, missing, seed=seed
            )
            self._played.update(
                ((policy, seed), replay) for policy, replay in zip(missing, made, strict=True)
            )
        return [self._played[policy, seed] for policy in policies]


def _trim(memo: dict[Any, Any]) -> None:
    if len(memo) >= MOST_REPLAYS:
        memo.clear()


def own_recording(trace: ConfidenceTrace | Recording) -> Recording:
    """A trace of somebody's own."""
    return (
        trace
        if isinstance(trace, Recording)
        else Recording(path=None, trace=trace, anchors=pooled(trace))
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
    return Recording(path=path, trace=trace, anchors=pooled(trace))


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
