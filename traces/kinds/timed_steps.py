"""How long did steps take of loops that decoded a recorded text, and what did they emit?

One row per request and step, beside the acceptance of the same text: what a replay says that a step
emits, and what a cost model says that it takes, can both be held against it. Leaves out the text's
acceptance (`acceptance`) and who measures.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from traces.kinds.arrays import checked_floats, checked_integers
from traces.kinds.tree import Tree

MAX_SHAPES = 256
MAX_BATCH = 1024
LONGEST_PHASE_S = 3600.0
COUNTS: dict[str, type[np.signedinteger[Any]]] = {
    "shape": np.int16,
    "batch": np.int16,
    "group": np.int32,
    "position": np.int32,
    "context": np.int32,
    "drafted": np.int16,
    "emitted": np.int16,
}
SECONDS = ("draft_s", "verify_s", "rest_s")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TimedSteps:
    """Steps of r requests, S in all: request after request, of each run after run, in order.

    A run decodes one or several requests together by one shape. Requests that run together take
    their steps together, from the first on, until they end; all of them bear the seconds of the
    whole pass.

    Attributes:
        offsets: int64[r+1]; request r owns steps offsets[r]:offsets[r+1].
        shapes: what steps draft: the root alone decodes plainly, a chain is a tree of one branch.
        shape: int16[S], index of the step's shape.
        batch: int16[S], requests that began together.
        group: int32[S], number of the run among those of its shape and batch: requests with the
            same number ran together.
        position: int32[S], output position at which the step starts.
        context: int32[S], tokens of this request in the cache before the step.
        drafted: int16[S], tokens proposed for this request.
        emitted: int16[S], tokens that the step adds to its text, cut where the text ends.
        draft_s: float32[S], wall seconds of drafting, for all requests of the step.
        verify_s: float32[S], wall seconds of the target's pass.
        rest_s: float32[S], wall seconds of all else: comparing, moving cache slots, stopping.

    Raises:
        InputError: lengths or values that do not fit together; steps of a run that leave a gap.
    """

    offsets: NDArray[np.int64]
    shapes: tuple[Tree, ...]
    shape: NDArray[np.int16]
    batch: NDArray[np.int16]
    group: NDArray[np.int32]
    position: NDArray[np.int32]
    context: NDArray[np.int32]
    drafted: NDArray[np.int16]
    emitted: NDArray[np.int16]
    draft_s: NDArray[np.float32]
    verify_s: NDArray[np.float32]
    rest_s: NDArray[np.float32]

    def __post_init__(self) -> None:
        offsets = checked_integers(self.offsets, np.int64, "steps.offsets", (None,), lowest=0)
        if offsets.size < 1 or offsets[0] != 0 or np.any(np.diff(offsets) < 0):
            raise InputError("must start at 0 and never decrease", key="steps.offsets")
        self._set("offsets", offsets)
        if not 1 <= len(self.shapes) <= MAX_SHAPES:
            rule = f"must be 1 to {MAX_SHAPES}"
            raise InputError(rule, key="steps.shapes", value=len(self.shapes))
        limits = {"shape": (0, len(self.shapes) - 1), "batch": (1, MAX_BATCH), "emitted": (1, None)}
        for name, dtype in COUNTS.items():
            lowest, highest = limits.get(name, (0, None))
            values = checked_integers(
                getattr(self, name),
                dtype,
                f"steps.{name}",
                (self.size,),
                lowest=lowest,
                highest=highest,
            )
            self._set(name, values)
        for name in SECONDS:
            values = checked_floats(
                getattr(self, name),
                np.float32,
                f"steps.{name}",
                (self.size,),
                highest=LONGEST_PHASE_S,
            )
            self._set(name, values)
        self._check_drafts()
        self._check_runs()

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _check_drafts(self) -> None:
        most = np.array([tree.draft_tokens for tree in self.shapes])[self.shape]
        deepest = np.array([tree.depth for tree in self.shapes])[self.shape]
        for name, limit in (
            ("drafted", most),
            ("emitted", np.minimum(deepest, self.drafted.astype(np.int64) + 1)),
        ):
            values = getattr(self, name)
            if np.any(wrong := values > limit):
                place = int(np.argmax(wrong))
                raise InputError(
                    f"must be at most {int(limit[place])} in a step of its shape and drafts",
                    key=f"steps.{name}",
                    value=int(values[place]),
                )

    def _check_runs(self) -> None:
        """Within a run of a request every step starts where the one before it ended."""
        request = np.repeat(np.arange(self.requests), np.diff(self.offsets))
        run = np.stack([request, self.shape, self.batch, self.group])
        same = np.all(run[:, 1:] == run[:, :-1], axis=0)
        for name in ("position", "context"):
            values = getattr(self, name).astype(np.int64)
            gap = same & (np.diff(values) != self.emitted[:-1])
            if gap.any():
                raise InputError(
                    "every step of a run must start where the one before it ended",
                    key=f"steps.{name}",
                    value=int(values[int(np.argmax(gap)) + 1]),
                )
        begins = run[:, np.append(True, ~same)] if self.size else run
        if np.unique(begins, axis=1).shape[1] < begins.shape[1]:
            raise InputError("the steps of a run must stand together", key="steps.group")

    @property
    def requests(self) -> int:
        """Number of requests r."""
        return int(self.offsets.size) - 1

    @property
    def size(self) -> int:
        """Number of steps S over all requests."""
        return int(self.offsets[-1])

    @property
    def step_s(self) -> NDArray[np.float32]:
        """Wall seconds of every step, float32[S]."""
        return self.draft_s + self.verify_s + self.rest_s

    def of_request(self) -> NDArray[np.int64]:
        """The request of every step, int64[S]."""
        return np.repeat(np.arange(self.requests), np.diff(self.offsets))

    def check_texts(
        self, prompt_tokens: NDArray[np.int32], output_tokens: NDArray[np.int64], first: int
    ) -> None:
        """Insist on steps that lie within the texts.

        Args:
            prompt_tokens: int32[r]; 0 where unknown.
            output_tokens: int64[r].
            first: output position of a request's first step.

        Raises:
            InputError: other requests, a step outside its text, or a cache of another length.
        """
        if self.requests != len(output_tokens):
            raise InputError(
                f"must have one list per request ({len(output_tokens)})",
                key="steps.offsets",
                value=self.requests,
            )
        request, position = self.of_request(), self.position.astype(np.int64)
        outside = (position < first) | (position + self.emitted > output_tokens[request])
        if outside.any():
            place = int(np.argmax(outside))
            raise InputError(
                f"must lie within its text, {first} to {int(output_tokens[request[place]])}",
                key="steps.position",
                value=int(position[place]),
            )
        prompts = prompt_tokens[request].astype(np.int64)
        wrong = (prompts > 0) & (self.context != prompts + position - 1)
        if wrong.any():
            place = int(np.argmax(wrong))
            raise InputError(
                f"must be the prompt and the text before the step, less its root:"
                f" {int(prompts[place] + position[place] - 1)}",
                key="steps.context",
                value=int(self.context[place]),
            )

    def select(self, requests: NDArray[np.int64]) -> TimedSteps:
        """The steps of these requests, in this order; others that ran with them are left out.

        Args:
            requests: int64, in 0..r-1; repeats are allowed.
        """
        lengths = np.diff(self.offsets)[requests]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        rows = np.arange(offsets[-1]) + np.repeat(self.offsets[requests] - offsets[:-1], lengths)
        picked: dict[str, Any] = {name: getattr(self, name)[rows] for name in (*COUNTS, *SECONDS)}
        return replace(self, offsets=offsets, **picked)
