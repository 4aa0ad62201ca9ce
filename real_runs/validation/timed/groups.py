"""Which requests of a timed recording decoded together, by which steps, and how long did they take?

Rows of a trace become groups: what ran, its steps as they were measured and as a replay of the same
recording says, and a run like those of other validations. The first step is left out, for a drafter
with a cache of its own reads the prompt in it. Leaves out predictions (`validate`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from real_runs.decoding.timed_pass import TimedPass
from real_runs.drafters.registry import load_drafter
from real_runs.validation.configurations import Configuration
from real_runs.validation.runs import Run
from real_runs.validation.walk import Path, Walk, request_path, walk_of
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.timed_steps import SECONDS, TimedSteps
from traces.kinds.tree import Tree

_SKIPPED_STEPS = 1


@dataclass(frozen=True, kw_only=True, eq=False)
class TimedGroup:
    """Requests that a loop decoded together.

    Attributes:
        trace: that timed them.
        configuration: what ran.
        batch: requests that began together.
        number: of the group among those of its configuration and batch.
        requests: their places in the trace.
        paths: of every request, as it ran.
        seconds: by step and phase (draft, verify, rest), float64 [steps, 3].
    """

    trace: AcceptanceTrace
    configuration: Configuration
    batch: int
    number: int
    requests: tuple[int, ...]
    paths: tuple[Path, ...]
    seconds: NDArray[np.float64]

    @property
    def mode(self) -> str:
        """Set of prompts and sampling mode, in words."""
        provenance = self.trace.provenance
        temperature = provenance.sampling.get("temperature") or 0
        mode = f"temperature {temperature}" if temperature else "greedy"
        return f"{provenance.dataset or 'recorded prompts'}, {mode}"

    @property
    def context(self) -> int:
        """Cached tokens of a step in the middle, as the nearest power of two."""
        return 1 << round(math.log2(max(float(self.measured.context.mean()), 1.0)))

    @cached_property
    def measured(self) -> Walk:
        """The steps that were timed."""
        return walk_of(self.paths, first=_SKIPPED_STEPS)

    @cached_property
    def replayed(self) -> Walk:
        """As many steps as the recorded acceptance says that the requests take."""
        paths = [self.replayed_path(request) for request in self.requests]
        return walk_of(paths, first=_SKIPPED_STEPS, last=len(self.seconds))

    def replayed_path(self, request: int) -> Path:
        """The steps of a request by the recorded acceptance alone."""
        return request_path(self.trace, self.configuration, request)

    @property
    def step_seconds(self) -> NDArray[np.float64]:
        """Seconds of the steps of `measured`, by phase, float64 [steps, 3]."""
        return self.seconds[_SKIPPED_STEPS:]

    def agreeing_steps(self) -> tuple[int, int]:
        """How many steps of all requests emit what the recording says of their place, of how
        many.
        """
        right = total = 0
        for request, (starts, _, emitted, _) in zip(self.requests, self.paths, strict=True):
            said = self.replayed_path(request)
            expected = dict(zip(said[0].tolist(), said[2].tolist(), strict=True))
            pairs = zip(starts.tolist(), emitted.tolist(), strict=True)
            right += sum(expected.get(start) == count for start, count in pairs)
            total += len(starts)
        return right, total

    @cached_property
    def run(self) -> Run:
        """The steps as one run, in the form of all validations."""
        steps, (draft_s, verify_s, _) = self.measured, self.step_seconds.T
        decode_s = float(self.step_seconds.sum())
        return Run(
            cell=f"{self.mode}, batch {self.batch}",
            configuration=self.configuration.name,
            round=0,
            prompts=tuple(self.trace.request_ids[request] for request in self.requests),
            tokens=steps.tokens,
            steps=steps.steps,
            request_steps=steps.request_steps,
            drafted_tokens=int(steps.drafted.sum()),
            decode_s=decode_s,
            cpu_s=decode_s,
            draft_s=float(draft_s.sum()),
            verify_s=float(verify_s.sum()),
            passes=tuple(
                TimedPass(requests=b, query_tokens=n, context=c, wall_s=seconds)
                for b, n, c, seconds in zip(
                    steps.requests.tolist(),
                    steps.query_tokens.tolist(),
                    steps.context.tolist(),
                    verify_s.tolist(),
                    strict=True,
                )
            ),
            output_sha256="",
        )


def timed_groups(trace: AcceptanceTrace) -> tuple[list[TimedGroup], int]:
    """The groups of a trace, and how many hold too few steps or requests to tell anything.

    Raises:
        InputError: a trace without seconds, or of no drafter that is known here.
    """
    steps = trace.steps
    if steps is None:
        raise InputError(
            "holds no seconds of steps; `rooftree campaign gpu-record` and `rooftree record"
            " --timed` record them",
            file=trace.file,
        )
    drafter = drafter_of(trace)
    configurations = [_configuration(drafter, tree) for tree in steps.shapes]
    run = np.stack([steps.shape, steps.batch, steps.group])
    keys, of_row = np.unique(run, axis=1, return_inverse=True)
    request, groups, short = steps.of_request(), [], 0
    for place, (shape, batch, number) in enumerate(keys.T.tolist()):
        rows = np.flatnonzero(of_row.reshape(-1) == place)
        requests = tuple(dict.fromkeys(request[rows].tolist()))
        parts = [rows[request[rows] == one] for one in requests]
        if len(requests) < batch or max(map(len, parts)) <= _SKIPPED_STEPS:
            short += 1
            continue
        groups.append(
            TimedGroup(
                trace=trace,
                configuration=configurations[shape],
                batch=batch,
                number=number,
                requests=requests,
                paths=tuple(_path(steps, part) for part in parts),
                seconds=_seconds(steps, max(parts, key=len)),
            )
        )
    return groups, short


def drafter_of(trace: AcceptanceTrace) -> str:
    """The drafter of a timed recording, by its name in the registry.

    Raises:
        InputError: none is stated, or one that is not known here.
    """
    timing = trace.provenance.extra.get("timing")
    name = timing.get("drafter") if isinstance(timing, dict) else None
    if not isinstance(name, str):
        rule = "must name the drafter of the timed steps"
        raise InputError(rule, file=trace.file, key="provenance.extra.timing.drafter", value=name)
    load_drafter(name)
    return name


def _configuration(drafter: str, tree: Tree) -> Configuration:
    if not tree.draft_tokens:
        return Configuration()
    is_chain = tree.depth == tree.nodes
    return Configuration(
        drafter=drafter, draft_tokens=tree.draft_tokens, tree=None if is_chain else tree
    )


def _path(steps: TimedSteps, rows: NDArray[np.int64]) -> Path:
    starts, drafted, emitted, context = (
        getattr(steps, name)[rows].astype(np.int64)
        for name in ("position", "drafted", "emitted", "context")
    )
    return starts, drafted, emitted, context


def _seconds(steps: TimedSteps, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.stack([getattr(steps, name)[rows] for name in SECONDS], axis=1).astype(np.float64)


def shared(traces: Sequence[AcceptanceTrace]) -> dict[str, Any]:
    """What all traces of one validation must have in common: model, device and number format.

    Raises:
        InputError: traces of two recordings that do not go together.
    """
    first = traces[0]
    for trace in traces[1:]:
        for key in ("model", "device", "dtype"):
            value, wanted = getattr(trace.provenance, key), getattr(first.provenance, key)
            if value != wanted:
                rule = f"must be {wanted!r}, as in {PurePath(str(first.file)).name}"
                raise InputError(rule, file=trace.file, key=f"provenance.{key}", value=value)
    return {key: getattr(first.provenance, key) for key in ("model", "device", "dtype")}
