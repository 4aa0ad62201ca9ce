"""What commits blocks of tokens over several passes: numbers that somebody states, or blocks that
were recorded?

Options as data, checked when they are made. Leaves out which passes follow from them
(`simulator.loop.decoders.block_walk`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from costmodel.laws.refining import reads_prompts, refine_of
from costmodel.method import Method
from hardware_profiles.errors import InputError

if TYPE_CHECKING:
    from traces.replay.confidence.block_passes import BlockPasses

_MOST_SIZES = 64  # of passes whose times are tabulated exactly


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class BlockOptions:
    """A decoder that commits blocks of tokens over several passes.

    A request draws one row after the other from `commits`: pass j of a block runs on
    `query_tokens[j]` tokens and fixes `commits[i, j]` of them; the block joins the context when it
    is complete.

    Args:
        block_tokens: tokens of a block.
        commits: int[n, p], tokens fixed in every pass of n recorded or drawn blocks; rows sum to
            `block_tokens` and may end in zeros, which are passes that did not run. A zero before
            the last commit is a pass without one.
        query_tokens: int[p], tokens that pass j computes, >= 1.
        closing_passes: passes that only store a finished block, each of `block_tokens` tokens.

    Raises:
        InputError: rows that do not sum to a block, shapes that do not fit.
    """

    block_tokens: int
    commits: NDArray[np.int64]
    query_tokens: NDArray[np.int64]
    closing_passes: int = 0

    def __post_init__(self) -> None:
        commits = np.atleast_2d(np.asarray(self.commits, dtype=np.int64))
        queries = np.asarray(self.query_tokens, dtype=np.int64)
        if self.block_tokens < 1 or self.closing_passes < 0:
            raise InputError(
                "a block has at least one token", key="block_tokens", value=self.block_tokens
            )
        if (
            commits.size == 0
            or np.any(commits < 0)
            or np.any(commits.sum(axis=1) != self.block_tokens)
        ):
            raise InputError(
                f"every row must sum to the block's {self.block_tokens} tokens", key="commits"
            )
        if queries.shape != (commits.shape[1],) or np.any(queries < 1):
            raise InputError(
                "must hold one number >= 1 per pass", key="query_tokens", value=list(queries.shape)
            )
        object.__setattr__(self, "commits", commits)
        object.__setattr__(self, "query_tokens", queries)

    @property
    def copies(self) -> int:
        """Sequences that a pass computes for every request."""
        return 1

    @property
    def query_sizes(self) -> tuple[int, ...]:
        """Tokens of one sequence that passes compute, of which the largest matters where times are
        tabulated.
        """
        return (int(max(self.block_tokens, self.query_tokens.max())),)

    @property
    def lookahead_tokens(self) -> int:
        """Cache slots that a pass may write behind the tokens that are finished."""
        return max(self.query_sizes)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RecordedBlocks:
    """A method that refines blocks, along the blocks of recorded prompts.

    A request begins at the first block of a prompt of its own and goes on from block to block,
    behind a prompt's last one with the next prompt. A pass computes what the method says: prompt
    and canvas, the canvas from the block on, or the block; where the canvas is full or its text has
    ended, the next one begins behind it.

    Args:
        method: an entry that refines one block at a time, over a cache of whole sequences.
        walked: blocks of recorded prompts, under a policy with the method's blocks.

    Raises:
        InputError: a method whose passes are priced as a mean alone, or blocks that its canvas does
            not hold.
    """

    method: Method
    walked: BlockPasses

    def __post_init__(self) -> None:
        r = refine_of(self.method)
        own = (
            (r.forward in ("full", "suffix", "block"), f"forward {r.forward}"),
            (r.begin_ratio >= 1.0, "begin_ratio"),
            (r.computed_ratio >= 1.0, "computed_ratio"),
            (not r.stores_along, "stores_along"),
            (not r.auxiliary, "auxiliary"),
            (not r.vocab_state_bytes, "vocab_state_bytes"),
            (r.copies == 1 or r.forward != "full", "copies"),
        )
        for simulated, what in own:
            if not simulated:
                rule = f"its passes ({what}) are priced as a mean alone; ask `rooftree predict`"
                raise InputError(rule, key="method", value=self.method.slug)
        longest = int((self.walked.end - self.walked.start).max())
        if longest > self.canvas_tokens:
            raise InputError(
                f"must lie within the method's canvas of {self.canvas_tokens}",
                key="block_tokens",
                value=longest,
            )

    @property
    def canvas_tokens(self) -> int:
        """Tokens behind the prompt that a full pass computes."""
        return max(refine_of(self.method).canvas_tokens, self.method.shape.nodes)

    @property
    def block_tokens(self) -> int:
        """Most tokens of a block."""
        return int((self.walked.end - self.walked.start).max())

    @property
    def copies(self) -> int:
        """Sequences that a pass computes for every request, passes over prompt and canvas apart."""
        return refine_of(self.method).copies

    @property
    def query_sizes(self) -> tuple[int, ...]:
        """Tokens of one sequence that passes compute, those over prompt and canvas apart;
        rising.
        """
        r = refine_of(self.method)
        sizes = set((self.walked.end - self.walked.start).tolist())
        if r.forward == "suffix":
            sizes |= set(
                range(
                    self.canvas_tokens,
                    0,
                    -max(self.method.shape.nodes, self.canvas_tokens // _MOST_SIZES),
                )
            )
        return tuple(sorted(sizes | ({self.canvas_tokens} if r.canvas_every else set())))

    @property
    def lookahead_tokens(self) -> int:
        """Cache slots that a pass may write behind the tokens that are finished."""
        return self.canvas_tokens

    @property
    def texts_end(self) -> bool:
        """Whether a text may end before its canvas is full, so that the next canvas begins
        there.
        """
        return self.walked.replay.policy.stop == "end_token"

    @property
    def held_sequences(self) -> int:
        """Sequences of every request whose keys and values are held; 0: every pass computes all of
        them anew.
        """
        r = refine_of(self.method)
        return 0 if r.forward == "full" else r.copies

    @property
    def reads_prompts(self) -> bool:
        """Whether a prompt is computed before its first block; False: that block's first pass
        computes both.
        """
        return reads_prompts(self.method)
