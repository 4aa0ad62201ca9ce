"""What is a confidence trace, and what may a reader rely on?

Recorded decoding of masked canvases: which pass committed which position, and how sure the model
was of every masked position in every pass. A trace holds runs of several *anchor* policies over the
same prompts, of one model and one way of caching. Every instance has been checked: arrays fit each
other, and a pass commits only what it computed, with its likeliest token. Leaves out how traces are
stored (`traces.storage.confidence_file`), replayed (`traces.replay.confidence`) and recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from traces.kinds.arrays import checked_floats, checked_integers
from traces.kinds.naming import naming
from traces.kinds.provenance import Provenance
from traces.kinds.refine_policy import MOST_CANVAS_TOKENS, RefinePolicy

FORWARDS = ("full", "suffix", "block")
"""What a pass computes: prompt and canvas, the canvas from the block on, the block; stored by place
in this tuple."""
MOST_POLICIES = 256
MOST_CANDIDATES = 64
MOST_CELLS = 20_000_000
MOST_PASSES = 4_000_000
MOST_RUN_POSITIONS = 20_000_000
MOST_STEP_POSITIONS = 200_000_000
GROUP_POSITIONS = 1 << 22
"""Canvas positions that are looked at together: what a group takes in memory does not grow with the
file."""
CELL_FIELDS = ("second_prob", "logit_gap", "entropy")
"""What a recording may hold of every cell beside the likeliest token and what it lacks to
certainty."""
CANDIDATE_FIELDS = ("candidate_ids", "candidate_probs")
STEP_FIELDS = ("block_start", "block_end", "computed_tokens", "cached_tokens")
_LARGEST_HALF = float(np.finfo(np.float16).max)


def check_sizes(*, runs: int = 0, passes: int = 0, cells: int = 0, canvas_tokens: int = 1) -> None:
    """Insist that a trace's sizes lie within what is held in memory, whatever says them.

    Args:
        runs: of prompts under policies.
        passes: of all runs.
        cells: recorded positions of all passes.
        canvas_tokens: positions of a canvas.

    Raises:
        InputError: more cells, passes, or canvas positions of all runs or of all passes.
    """
    for key, count, most, counted in (
        ("runs", runs * canvas_tokens, MOST_RUN_POSITIONS, "canvas positions of runs"),
        ("forward", passes, MOST_PASSES, "passes"),
        ("forward", passes * canvas_tokens, MOST_STEP_POSITIONS, "canvas positions of passes"),
        ("top_ids", cells, MOST_CELLS, "cells"),
    ):
        if not 0 <= count <= most:
            raise InputError(f"must hold at most {most} {counted}", key=key, value=count)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ConfidenceTrace:
    """Runs of a masked decoder: r runs over a canvas of L positions, s passes and c cells in all.

    A cell is a masked position of a pass that the pass computed; cells stand run after run, pass
    after pass, position after position. Which these are follows from `committed_at` and what the
    pass computed: `cells` says it.

    Attributes:
        provenance: where it comes from.
        vocabulary: token ids that the model knows.
        mask_id: the id of a masked position.
        end_id: the id that ends a text; None: there is none.
        canvas_tokens: L, positions behind the prompt.
        policies: anchors that runs follow.
        request_ids: one text per run; a prompt has the same one in all its runs.
        prompt_kinds: stratum of each run's prompt; "" where unknown.
        policy_of_run: int16[r], place in `policies`.
        prompt_offsets: int64[r+1]; run i has the prompt
            prompt_ids[prompt_offsets[i]:prompt_offsets[i+1]].
        prompt_ids: int32, prompts one after the other.
        final_ids: int32[r, L], what stands there in the end; `mask_id` where a run stopped early.
        committed_at: int32[r, L], pass of the run that committed the position; its number of passes
            where none did.
        step_offsets: int64[r+1]; run i took passes step_offsets[i]:step_offsets[i+1].
        forward: int8[s], what a pass computed, as a place in `FORWARDS`.
        block_start, block_end: int32[s], canvas positions of the block that the pass may commit in.
        computed_tokens: int32[s], query tokens of the pass.
        cached_tokens: int32[s], tokens whose keys and values it read without computing them.
        wall_s: float32[s], seconds of the pass; None: not recorded.
        top_ids: int32[c], the likeliest token.
        doubt: float16[c], 1 - its probability, in [0, 1]: half precision is fine near 0 and coarse
            near 1.
        second_prob: float16[c], probability of the second likeliest token; None: not recorded.
        logit_gap: float16[c], by how much the likeliest token's logit exceeds the second's; None:
            not recorded.
        entropy: float16[c], of the whole distribution, nats; None: not recorded.
        candidate_ids, candidate_probs: int32[c, W] and float16[c, W], the likeliest tokens; None:
            not recorded.
        file: where it was read from, for messages.

    Raises:
        InputError: lengths or values that do not fit together.
    """

    provenance: Provenance = field(default_factory=Provenance)
    vocabulary: int
    mask_id: int
    end_id: int | None = None
    canvas_tokens: int
    policies: tuple[RefinePolicy, ...]
    request_ids: tuple[str, ...]
    prompt_kinds: tuple[str, ...] = ()
    policy_of_run: NDArray[np.int16]
    prompt_offsets: NDArray[np.int64]
    prompt_ids: NDArray[np.int32]
    final_ids: NDArray[np.int32]
    committed_at: NDArray[np.int32]
    step_offsets: NDArray[np.int64]
    forward: NDArray[np.int8]
    block_start: NDArray[np.int32]
    block_end: NDArray[np.int32]
    computed_tokens: NDArray[np.int32]
    cached_tokens: NDArray[np.int32]
    wall_s: NDArray[np.float32] | None = None
    top_ids: NDArray[np.int32]
    doubt: NDArray[np.float16]
    second_prob: NDArray[np.float16] | None = None
    logit_gap: NDArray[np.float16] | None = None
    entropy: NDArray[np.float16] | None = None
    candidate_ids: NDArray[np.int32] | None = None
    candidate_probs: NDArray[np.float16] | None = None
    file: str | None = None

    def __post_init__(self) -> None:
        with naming(self.file):
            self._check_header()
            self._check_runs()
            self._check_steps()
            self._check_cells()

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _check_header(self) -> None:
        limits = {
            "vocabulary": (2, 1 << 24),
            "mask_id": (0, self.vocabulary - 1),
            "canvas_tokens": (1, MOST_CANVAS_TOKENS),
        }
        if self.end_id is not None:
            limits["end_id"] = (0, self.vocabulary - 1)
        for key, (lowest, highest) in limits.items():
            value = getattr(self, key)
            if type(value) is not int or not lowest <= value <= highest:
                raise InputError(f"must lie in {lowest}..{highest}", key=key, value=value)
        check_sizes(
            runs=len(self.request_ids), passes=len(self.forward), canvas_tokens=self.canvas_tokens
        )
        if self.end_id == self.mask_id:
            raise InputError("must not be the mask", key="end_id", value=self.end_id)
        if not 1 <= len(self.policies) <= MOST_POLICIES:
            raise InputError(
                f"must be 1 to {MOST_POLICIES}", key="policies", value=len(self.policies)
            )
        for policy in self.policies:
            policy.check_canvas(self.canvas_tokens)

    def _check_runs(self) -> None:
        r, highest = len(self.request_ids), self.vocabulary - 1
        self._set("request_ids", tuple(self.request_ids))
        self._set("prompt_kinds", tuple(self.prompt_kinds) or ("",) * r)
        if len(self.prompt_kinds) != r:
            raise InputError(
                f"must have one entry per run ({r})",
                key="prompt_kinds",
                value=len(self.prompt_kinds),
            )
        self._integers("policy_of_run", np.int16, (r,), highest=len(self.policies) - 1)
        if len(set(zip(self.request_ids, self.policy_of_run.tolist(), strict=True))) < r:
            raise InputError("must name each prompt once per policy", key="request_ids")
        self._integers("prompt_ids", np.int32, (None,), highest=highest)
        for key, total in (
            ("prompt_offsets", self.prompt_ids.size),
            ("step_offsets", len(self.forward)),
        ):
            self._integers(key, np.int64, (r + 1,))
            offsets = getattr(self, key)
            if offsets[0] != 0 or offsets[-1] != total or np.any(np.diff(offsets) < 0):
                raise InputError(f"must go from 0 to {total} and never decrease", key=key)
        self._integers("final_ids", np.int32, (r, self.canvas_tokens), highest=highest)
        self._integers("committed_at", np.int32, (r, self.canvas_tokens))
        # a position that no pass committed has the number of passes and keeps its mask
        open_end = self.committed_at >= self.steps[:, None]
        if np.any(self.committed_at > self.steps[:, None]) or np.any(
            (self.final_ids == self.mask_id) != open_end
        ):
            raise InputError(
                "must be a pass of the run, or its number of passes where it stays masked",
                key="committed_at",
            )

    def _check_steps(self) -> None:
        s = (len(self.forward),)
        self._integers("forward", np.int8, s, highest=len(FORWARDS) - 1)
        for key in STEP_FIELDS:
            self._integers(key, np.int32, s)
        if np.any(self.block_start >= self.block_end) or np.any(
            self.block_end > self.canvas_tokens
        ):
            raise InputError(
                f"must be a block of the canvas of {self.canvas_tokens}", key="block_end"
            )
        if self.wall_s is not None:
            self._set("wall_s", checked_floats(self.wall_s, np.float32, "wall_s", s, highest=1e9))

    def _check_cells(self) -> None:
        counts = self.cell_counts()
        total = int(counts.sum())
        check_sizes(cells=total)
        self._integers("top_ids", np.int32, (total,), highest=self.vocabulary - 1)
        self._set("doubt", checked_floats(self.doubt, np.float16, "doubt", (total,)))
        for key, highest in (("second_prob", 1.0), ("logit_gap", _LARGEST_HALF), ("entropy", 32.0)):
            if getattr(self, key) is not None:
                self._set(
                    key,
                    checked_floats(getattr(self, key), np.float16, key, (total,), highest=highest),
                )
        if (self.candidate_ids is None) != (self.candidate_probs is None):
            raise InputError("must stand beside candidate_probs", key="candidate_ids")
        if self.candidate_ids is not None:
            width = self.candidate_ids.shape[1] if np.ndim(self.candidate_ids) == 2 else 0
            if not 1 <= width <= MOST_CANDIDATES:
                raise InputError(
                    f"must be 1 to {MOST_CANDIDATES} wide", key="candidate_ids", value=width
                )
            self._integers("candidate_ids", np.int32, (total, width), highest=self.vocabulary - 1)
            probs = checked_floats(
                self.candidate_probs, np.float16, "candidate_probs", (total, width)
            )
            self._set("candidate_probs", probs)
        self._check_commits()

    def _check_commits(self) -> None:
        """A pass commits only masked positions of its block that it computed, with their likeliest
        tokens.
        """
        run, step, position = self.cells()
        commits = np.flatnonzero(self.committed_at[run, position] == step - self.step_offsets[run])
        inside = (position[commits] >= self.block_start[step[commits]]) & (
            position[commits] < self.block_end[step[commits]]
        )
        # the rule of gaps commits anywhere on the canvas
        everywhere = np.array([policy.commit == "gap" for policy in self.policies])[
            self.policy_of_run[run[commits]]
        ]
        if np.any(~inside & ~everywhere):
            raise InputError(
                "must lie in the block of the pass that committed it", key="committed_at"
            )
        # cells are the positions that a pass computed: a commit that is no cell was never computed
        if commits.size != int((self.committed_at < self.steps[:, None]).sum()):
            raise InputError("must be a pass that computed the position", key="committed_at")
        if np.any(self.final_ids[run[commits], position[commits]] != self.top_ids[commits]):
            raise InputError(
                "must be the likeliest tokens of the passes that committed them", key="final_ids"
            )

    def _integers(
        self,
        key: str,
        dtype: type[np.signedinteger[Any]],
        shape: Any,
        *,
        highest: int | None = None,
    ) -> None:
        self._set(
            key, checked_integers(getattr(self, key), dtype, key, shape, lowest=0, highest=highest)
        )

    @property
    def runs(self) -> int:
        """Number of runs r."""
        return len(self.request_ids)

    @property
    def steps(self) -> NDArray[np.int64]:
        """Passes of every run, int64[r]."""
        steps: NDArray[np.int64] = np.diff(self.step_offsets)
        return steps

    @property
    def committed_tokens(self) -> NDArray[np.int64]:
        """Positions that every run committed, int64[r]."""
        counts: NDArray[np.int64] = (self.committed_at < self.steps[:, None]).sum(
            axis=1, dtype=np.int64
        )
        return counts

    def span(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """First canvas position that every pass computed, and the one behind its last: int64[s]
        each.
        """
        whole, block = (
            self.forward == FORWARDS.index("full"),
            self.forward == FORWARDS.index("block"),
        )
        start = np.where(whole, 0, self.block_start).astype(np.int64)
        return start, np.where(block, self.block_end, self.canvas_tokens).astype(np.int64)

    def masked(self, steps: slice) -> NDArray[np.bool_]:
        """Which canvas positions are cells of these passes: bool[passes, L]."""
        start, end = (bound[steps, None] for bound in self.span())
        at = np.arange(self.canvas_tokens)
        index = np.arange(len(self.forward))[steps]
        run = np.searchsorted(self.step_offsets, index, side="right") - 1
        # committed by this pass or a later one: masked when the pass began
        unfinished = self.committed_at[run] >= (index - self.step_offsets[run])[:, None]
        cells: NDArray[np.bool_] = unfinished & (at >= start) & (at < end)
        return cells

    def cell_counts(self) -> NDArray[np.int64]:
        """Cells of every pass, int64[s]."""
        counts = [
            np.zeros(0, np.int64),
            *(self.masked(part).sum(axis=1, dtype=np.int64) for part in self.parts()),
        ]
        joined: NDArray[np.int64] = np.concatenate(counts)
        return joined

    def cells(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Run, pass (of all passes) and canvas position of every cell: int64[c] each."""
        step_parts, position_parts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for part in self.parts():
            step, position = np.nonzero(self.masked(part))
            step_parts.append(step + part.start)
            position_parts.append(position)
        step = np.concatenate(step_parts)
        run = np.searchsorted(self.step_offsets, step, side="right") - 1
        return run, step, np.concatenate(position_parts)

    def require(self, names: Sequence[str], question: str) -> None:
        """Insist on optional fields of cells.

        Args:
            names: of the fields.
            question: what needs them, for the message.

        Raises:
            InputError: one that was not recorded.
        """
        for name in names:
            if getattr(self, name) is None:
                raise InputError(
                    f"{question} needs it, and this trace has none", file=self.file, key=name
                )

    def parts(self) -> list[slice]:
        """Passes in groups of `GROUP_POSITIONS` canvas positions."""
        rows = max(1, GROUP_POSITIONS // self.canvas_tokens)
        return [
            slice(at, min(at + rows, len(self.forward))) for at in range(0, len(self.forward), rows)
        ]
