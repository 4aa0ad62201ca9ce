"""What is an acceptance trace, and what may a reader rely on?

Data classes for recordings of speculative decoding (`AcceptanceTrace`) and of arrivals
(`RequestTrace`). Every instance has been checked: lengths agree, values are in range, arrays are
contiguous and read-only. Levels build on each other (L1 lengths, L2 ranks, L3 probabilities; L0 is
a summary without positions); a consumer states the one it needs with `require`. Leaves out how
traces are stored (`traces.storage`), replayed (`traces.replay`) and recorded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from traces.kinds.arrays import IntArray, checked_floats, checked_integers, consistent_ranks
from traces.kinds.expansions import Expansions
from traces.kinds.naming import naming
from traces.kinds.provenance import Provenance
from traces.kinds.summary import Summary
from traces.kinds.timed_steps import TimedSteps

__all__ = [
    "LEVEL_NAMES",
    "MAX_RANK_WIDTH",
    "SCHEMA_VERSION",
    "AcceptanceTrace",
    "Provenance",
    "RequestTrace",
]

SCHEMA_VERSION = 1
MAX_RANK_WIDTH = 4096
LEVEL_NAMES = ("summary", "lengths", "ranks", "probabilities")


_PROBABILITIES = (
    "draft_ids",
    "draft_probs",
    "target_probs",
    "emitted_target_prob",
    "residual_mass",
)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class AcceptanceTrace:
    """One recording of draft-and-verify decoding: r requests, n output positions, request after
    request.

    Attributes:
        provenance: where it comes from.
        request_ids: one text per request.
        prompt_kinds: stratum of each request (for the bootstrap); "" where unknown.
        prompt_tokens: int32[r]; 0 where unknown.
        offsets: int64[r+1]; request r owns positions offsets[r]:offsets[r+1].
        first_step_position: output position of a request's first step (1 if prefill emits position
            0).
        emitted: int16[n], tokens that a step starting there emits, bonus included; the end of the
            text need not cap it, replay does.
        drafted: int16[n], tokens that the drafter would propose there; None: not recorded.
        match_rate: share of steps with a proposal, in place of `drafted`; None: every step
            proposes.
        rank: rank of the true token among the drafter's candidates given the true prefix, -1
            outside the top `rank_width`; [n] if `depth_invariant`, else [n, depth] (depth 0
            predicts output position i).
        rank_width: candidates recorded per position.
        depth_invariant: the drafter re-reads true tokens at every depth, so rank[i, d] = rank[i +
            d].
        draft_ids: int32[n, W], the drafter's W likeliest tokens given the true prefix, best first,
            -1 where there are fewer; the first of the five arrays of level 3, which are there
            together or not at all.
        draft_probs: float16[n, W], the drafter's probabilities of `draft_ids` at temperature 1.
        target_probs: float16[n, W], the target's probabilities of `draft_ids` at the temperature of
            the recording (`provenance.sampling`), from which its text was drawn; of a greedy
            recording at temperature 1, where they tell how sure the target was and nothing about
            how the text was drawn.
        emitted_target_prob: float16[n], the target's probability of the token that the text goes on
            with.
        residual_mass: float16[n], the target's probability of all tokens outside `draft_ids`
            together.
        expansions: one draft tree per position, for policies that choose a part of it; at any level
            but 0.
        steps: how long steps of loops took that decoded the same texts; None: none was timed.
        summary: counts without positions.
        extra_columns: further per-request columns, passed through (wall times, digests).
        file: where it was read from, for messages.

    Raises:
        InputError: lengths or values that do not fit together.
    """

    provenance: Provenance = field(default_factory=Provenance)
    request_ids: tuple[str, ...] = ()
    prompt_kinds: tuple[str, ...] = ()
    prompt_tokens: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    offsets: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))
    first_step_position: int = 0
    emitted: NDArray[np.int16] | None = None
    drafted: NDArray[np.int16] | None = None
    match_rate: float | None = None
    rank: IntArray | None = None
    rank_width: int = 0
    depth_invariant: bool = False
    draft_ids: NDArray[np.int32] | None = None
    draft_probs: NDArray[np.float16] | None = None
    target_probs: NDArray[np.float16] | None = None
    emitted_target_prob: NDArray[np.float16] | None = None
    residual_mass: NDArray[np.float16] | None = None
    expansions: Expansions | None = None
    steps: TimedSteps | None = None
    summary: Summary | None = None
    extra_columns: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    file: str | None = None

    def __post_init__(self) -> None:
        with naming(self.file):
            self._check()

    def _check(self) -> None:
        self._check_requests()
        if self.match_rate is not None and not 0 <= self.match_rate <= 1:
            raise InputError("must lie in [0, 1]", key="match_rate", value=self.match_rate)
        n = (self.positions,)
        if self.emitted is None:
            if self.summary is None:
                raise InputError("a trace needs lengths or at least a summary", key="emitted")
            if self.rank is not None or self.drafted is not None or self.positions:
                raise InputError("positions without emitted lengths", key="emitted")
        else:
            self._set("emitted", checked_integers(self.emitted, np.int16, "emitted", n, lowest=1))
        if self.drafted is not None:
            self._set("drafted", checked_integers(self.drafted, np.int16, "drafted", n, lowest=0))
        self._check_ranks()
        self._check_probabilities()
        self._check_expansions()
        if self.steps is not None:
            self.steps.check_texts(self.prompt_tokens, self.output_tokens, self.first_step_position)

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _check_requests(self) -> None:
        self._set("offsets", checked_integers(self.offsets, np.int64, "offsets", (None,), lowest=0))
        r = self.requests
        if self.offsets.size < 1 or self.offsets[0] != 0 or np.any(np.diff(self.offsets) < 0):
            raise InputError("must start at 0 and never decrease", key="offsets")
        prompt_tokens = self.prompt_tokens if len(self.prompt_tokens) else np.zeros(r, np.int32)
        self._set(
            "prompt_tokens",
            checked_integers(prompt_tokens, np.int32, "prompt_tokens", (r,), lowest=0),
        )
        self._set("request_ids", tuple(self.request_ids) or tuple(str(i) for i in range(r)))
        self._set("prompt_kinds", tuple(self.prompt_kinds) or ("",) * r)
        columns = {
            "request_ids": self.request_ids,
            "prompt_kinds": self.prompt_kinds,
            **self.extra_columns,
        }
        for name, column in columns.items():
            if len(column) != r:
                raise InputError(
                    f"must have one entry per request ({r})", key=name, value=len(column)
                )
        if self.first_step_position < 0:
            raise InputError(
                "must be >= 0", key="first_step_position", value=self.first_step_position
            )

    def _check_ranks(self) -> None:
        if self.rank is None:
            return
        if not 1 <= self.rank_width <= MAX_RANK_WIDTH:
            raise InputError(
                f"must lie in 1..{MAX_RANK_WIDTH}", key="rank_width", value=self.rank_width
            )
        # -1 and ranks up to width - 1 fit into a byte up to this width
        dtype = np.int8 if self.rank_width <= 127 else np.int16
        shape = (self.positions,) if self.depth_invariant else (self.positions, None)
        rank = checked_integers(
            self.rank, dtype, "rank", shape, lowest=-1, highest=self.rank_width - 1
        )
        self._set("rank", rank)
        if self.emitted is not None:
            consistent_ranks(rank, self.offsets, self.emitted, self.drafted)

    def _check_probabilities(self) -> None:
        present = [name for name in _PROBABILITIES if getattr(self, name) is not None]
        if not present:
            return
        if len(present) < len(_PROBABILITIES) or self.rank is None:
            needed = ", ".join((*_PROBABILITIES, "rank"))
            raise InputError(
                f"level 3 needs all of {needed}", key="draft_probs", value=", ".join(present)
            )
        ids = checked_integers(
            self.draft_ids, np.int32, "draft_ids", (self.positions, None), lowest=-1
        )
        self._set("draft_ids", ids)
        wide = ids.shape
        for name in ("draft_probs", "target_probs"):
            self._set(name, checked_floats(getattr(self, name), np.float16, name, wide))
        for name in ("emitted_target_prob", "residual_mass"):
            self._set(
                name, checked_floats(getattr(self, name), np.float16, name, (self.positions,))
            )

    def _check_expansions(self) -> None:
        if self.expansions is None:
            return
        if self.emitted is None or self.expansions.positions != self.positions:
            rule = f"must have one tree per output position ({self.positions})"
            raise InputError(rule, key="expansions", value=self.expansions.positions)
        # a node on level d at position i stands for position i + d - 1, which must lie in the same
        # text
        left = np.repeat(self.offsets[1:], self.output_tokens) - np.arange(self.positions)
        true = self.expansions.on_path
        if np.any(self.expansions.levels()[true] > np.repeat(left, self.expansions.sizes)[true]):
            raise InputError(
                "no node behind the end of a text is on the path", key="expansions.on_path"
            )

    @property
    def level(self) -> int:
        """0 summary, 1 lengths, 2 ranks, 3 probabilities; each includes the ones before it, 0
        excepted.
        """
        if self.emitted is None:
            return 0
        if self.rank is None:
            return 1
        return 2 if self.draft_probs is None else 3

    @property
    def requests(self) -> int:
        """Number of requests r."""
        return int(self.offsets.size) - 1

    @property
    def positions(self) -> int:
        """Number of output positions n over all requests."""
        return int(self.offsets[-1])

    @property
    def output_tokens(self) -> NDArray[np.int64]:
        """Output length of every request, int64[r]."""
        return np.diff(self.offsets)

    @property
    def depth(self) -> int | None:
        """Draft levels that `rank` covers; None where it covers any depth (or there are no
        ranks).
        """
        return None if self.rank is None or self.depth_invariant else int(self.rank.shape[1])

    def require(self, level: int, question: str) -> None:
        """Insist on a level.

        Args:
            level: 0..3.
            question: what the trace is used for, for the message.

        Raises:
            InputError: the trace holds less.
        """
        if self.level < level:
            raise InputError(
                f"{question} needs a trace of level {level} ({LEVEL_NAMES[level]}) or more",
                file=self.file,
                key="level",
                value=f"{self.level} ({LEVEL_NAMES[self.level]})",
            )

    def select(self, requests: Sequence[int] | NDArray[np.int64]) -> AcceptanceTrace:
        """The same recording with only these requests, in this order.

        Args:
            requests: indices in 0..r-1; repeats are allowed.

        Raises:
            InputError: an index out of range, or a trace without positions.
        """
        self.require(1, "choosing requests")
        chosen = np.asarray(requests, dtype=np.int64).reshape(-1)
        if chosen.size and (chosen.min() < 0 or chosen.max() >= self.requests):
            raise InputError(f"request indices must lie in 0..{self.requests - 1}", key="requests")
        steps = None if self.steps is None else self.steps.select(chosen)
        return self._part(chosen, self.offsets[chosen], self.output_tokens[chosen], steps)

    def between_contexts(self, low: float, high: float) -> AcceptanceTrace:
        """The positions at which a request has so many cached tokens, of prompt and output, as
        requests of their own; a step that reaches beyond them ends there.

        Args:
            low: least tokens.
            high: tokens that are no longer counted.

        Raises:
            InputError: a trace without positions or without lengths of prompts, or no such
                position.
        """
        self.require(1, "acceptance by context")
        if not (self.prompt_tokens > 0).all():
            rule = "must be known of every request to tell acceptance by context"
            raise InputError(rule, file=self.file, key="prompt_tokens")
        first = self.first_step_position
        begins = np.clip(np.ceil(low) - self.prompt_tokens, first, None) - first
        ends = np.clip(np.ceil(high) - self.prompt_tokens, 0, self.output_tokens)
        inside = np.flatnonzero(ends > begins + first)
        if not inside.size:
            rule = f"holds no position with a context of {low:,.0f} to {high:,.0f} tokens"
            raise InputError(rule, file=self.file, key="context", value=[int(low), high])
        cut = begins[inside].astype(np.int64)
        lengths = ends[inside].astype(np.int64) - cut
        part = self._part(inside, self.offsets[inside] + cut, lengths, None)
        return replace(part, prompt_tokens=(part.prompt_tokens + cut).astype(np.int32))

    def _part(
        self,
        chosen: NDArray[np.int64],
        starts: NDArray[np.int64],
        lengths: NDArray[np.int64],
        steps: TimedSteps | None,
    ) -> AcceptanceTrace:
        """Some positions of some requests: `lengths` of them from the row `starts` on."""
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        # row i of the part is row i + shift of the recording
        shift = np.repeat(starts - offsets[:-1], lengths)
        rows = np.arange(offsets[-1]) + shift
        by_position = ("emitted", "drafted", "rank", *_PROBABILITIES)
        picked: dict[str, Any] = {
            name: getattr(self, name)[rows]
            for name in by_position
            if getattr(self, name) is not None
        }
        if self.expansions is not None:
            picked["expansions"] = self.expansions.select(rows)
        return replace(
            self,
            steps=steps,
            request_ids=tuple(self.request_ids[i] for i in chosen),
            prompt_kinds=tuple(self.prompt_kinds[i] for i in chosen),
            prompt_tokens=self.prompt_tokens[chosen],
            offsets=offsets,
            extra_columns={
                name: [column[i] for i in chosen.tolist()]
                for name, column in self.extra_columns.items()
            },
            **picked,
        )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RequestTrace:
    """Arrivals of one workload.

    Attributes:
        arrival_s: float64[r], seconds since the start, sorted, >= 0.
        prompt_tokens: int32[r], >= 1.
        output_tokens: int32[r], >= 1.
        prefix_blocks: per request the ids of its prompt's cache blocks; None where not recorded.
        priority: int32[r], lower is served first; None where not recorded.
        provenance: where it comes from.
        file: where it was read from, for messages.
    """

    arrival_s: NDArray[np.float64]
    prompt_tokens: NDArray[np.int32]
    output_tokens: NDArray[np.int32]
    prefix_blocks: tuple[tuple[int, ...], ...] | None = None
    priority: NDArray[np.int32] | None = None
    provenance: Provenance = field(default_factory=Provenance)
    file: str | None = None

    def __post_init__(self) -> None:
        with naming(self.file):
            self._check()

    def _check(self) -> None:
        arrival = checked_floats(self.arrival_s, np.float64, "arrival_s", (None,), highest=np.inf)
        r = (arrival.size,)
        if np.any(np.diff(arrival) < 0):
            raise InputError("arrivals must be sorted", key="arrival_s")
        object.__setattr__(self, "arrival_s", arrival)
        for name in ("prompt_tokens", "output_tokens"):
            object.__setattr__(
                self, name, checked_integers(getattr(self, name), np.int32, name, r, lowest=1)
            )
        if self.priority is not None:
            lowest = int(np.iinfo(np.int32).min)
            priority = checked_integers(self.priority, np.int32, "priority", r, lowest=lowest)
            object.__setattr__(self, "priority", priority)
        if self.prefix_blocks is not None and len(self.prefix_blocks) != arrival.size:
            rule = f"must have one list per request ({arrival.size})"
            raise InputError(rule, key="prefix_blocks", value=len(self.prefix_blocks))

    @property
    def requests(self) -> int:
        """Number of requests r."""
        return int(self.arrival_s.size)
