"""What does the loop know of a decoder, as numbers and arrays that compiled code reads?

Leaves out where they come from (`speculation`), and what is done with them (`drafting`,
`block_walk`, `slots`).
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from simulator.loop.compiled import laid_out
from simulator.loop.state import Byte, Real, Short, Small

PLAIN, CHAIN, TREE, PARALLEL, BLOCK = range(5)
SPLIT, PAD, REGROUP = range(3)
# what a request has of the draft that was made during the latest verification
# (LATE: nothing, and it waits for a whole one)
WHOLE, NOTHING, WITHOUT_FIRST, LATE = range(4)
# who sets the draft length: see `decoders.lengths`
ALWAYS, EMA, GOODPUT, EXPECTED, ORACLE, SURVIVAL, VERIFIED, COST, TIERS, GATE, BANDIT = range(11)
ALIKE, LIKELIEST, BY_REQUEST = range(3)  # which requests' draft tokens are verified
FULL, FROM_BLOCK = 0, -1  # passes over prompt and canvas, and over the canvas from the block on
# whether the token of a place is foreseen behind a whole draft, and in the place of a rejected one
BEHIND, INSTEAD = 1, 2
BEGINS, BEGINS_CANVAS = 1, 2  # the latter where the text before has ended


class Drafts(NamedTuple):
    """Decoder of every request; arrays over the places of a recording, or over the passes of
    recorded blocks.
    """

    decoder: int
    controller: int
    most: int  # draft tokens
    weight: float
    branches: int  # 0: a draft made during verification goes on behind the drafter's own token
    fan_out: int  # drafts made during verification behind every length that may be accepted
    waits: bool  # a request whose outcome was not foreseen waits for a draft
    parts: int  # passes in which a draft is verified
    prunes: bool  # requests with a rejected token take no part in later ones
    interference_ratio: float
    ragged: int
    group: int  # most requests that are padded together
    by_batch: Small  # draft tokens by decoding requests; the last entry serves all larger batches
    # [places, 2], `emits` and `proposes` of a step side by side, for what every request reads
    steps: Short
    emits: (
        Small  # tokens of a step that drafts enough, within its text; of a pass of a block decoder
    )
    # draft tokens that the drafter has there; of a block decoder the query tokens of the pass, or
    # what
    proposes: Small
    # follows from where its canvas stands: `FULL`, `FROM_BLOCK`
    # draft passes of a step there, where that is not its tokens: a tree of its own, a look beyond
    # the last; passes until a recorded block is finished, 0 for those that only store it
    passes: Small
    left: Small  # tokens to the end of the recorded text; passes since the start of the block
    branches_at: Byte  # branches of a draft made during verification that begins there
    slots: int
    budget_per_request: float  # draft tokens that are verified, of a mean request; infinity: all
    sure: Real  # the drafter's probability of its likeliest token there
    within_output: bool  # nobody drafts beyond the end of its output
    # 1 where a draft made during verification would have begun with the recorded token, or of
    # several outcomes the sum of `BEHIND` and `INSTEAD`; where the
    # blocks of a recorded prompt begin: `BEGINS`, or `BEGINS_CANVAS`
    foreseen: Byte
    # trees that depend on the step before: places of one follow those of another, the first one's
    # first
    states: int
    # place behind a step there, where several states have places; empty: behind what it emits
    following: Small
    canvas: int  # tokens of the canvas that recorded blocks lie in; 0: there is none
    copies: int  # sequences that a pass over a part of the canvas computes for every request
    renews: (
        bool  # the first pass of a block computes the prompt too, and nothing is computed before it
    )
    lengths: Small  # draft lengths that a controller of the batch chooses from, rising
    gains: Real  # tokens that a step of 0, 1, ... draft tokens emits in the mean
    pace: int  # iterations between two choices; of a gate those of its rolling mean
    least_share: float  # of draft tokens accepted, below which a gate closes
    # tokens of a request with which passes were timed for the choice; below 0: those it has
    profiled_context: float
    tiers: NDArray[np.float64]  # by batch size, see `decoders.lengths`
    draws: Real  # in [0, 1), for choices by chance
    change_s: float  # of another draft length than before
    # the drafter reads what was generated while nothing was drafted before it drafts again
    rereads: bool
    counts_passes: bool  # whether `passes` tells the draft passes of a step


# what every request reads of its place: most of a step is waiting for memory
STEP = np.dtype((np.record, [("emits", "i2"), ("proposes", "i2")]))
# the rest, under the names of `Drafts`, for decoders that read it
PLACE = np.dtype(
    (
        np.record,
        np.dtype(
            [
                ("emits", "i4"),
                ("proposes", "i4"),
                ("passes", "i4"),
                ("left", "i4"),
                ("following", "i4"),
                ("branches_at", "u1"),
                ("foreseen", "u1"),
                ("sure", "f8"),
            ],
            align=True,
        ),
    )
)
_BY_PLACE = frozenset({"steps", *(PLACE.names or ())})
Steps: TypeAlias = Any  # an array of STEP
Decoder: TypeAlias = Any  # the numbers of `Drafts` as a record
Places: TypeAlias = Any  # an array of PLACE
Place: TypeAlias = Any  # one of them


class Walk(NamedTuple):
    """What the loop reads of a decoder; all None where requests decode one token a step.

    Code for what is None is left out of a function that takes it as an argument and compares it
    with None: what few scenarios have is compiled for those alone.

    Args:
        decoder: its numbers, and the places of its tables.
        steps: of the recording, what every request reads.
        places: the rest of the recording; None: nobody reads it.
        tables: end to end.
    """

    decoder: Decoder | None
    steps: Steps | None
    places: Places | None
    tables: Real | None


def walk_of(drafts: Drafts) -> Walk:
    """A decoder as compiled code reads it."""
    if drafts.decoder == PLAIN:
        return Walk(None, None, None, None)
    decoder, tables = laid_out(drafts, _BY_PLACE)
    steps, places = np.zeros(len(drafts.steps), STEP), None
    if len(steps):
        steps["emits"], steps["proposes"] = drafts.steps.T
    if drafts.decoder != CHAIN or drafts.slots != ALIKE or drafts.counts_passes:
        places = np.zeros(max(len(drafts.emits), 1), PLACE)
        for name in PLACE.names or ():
            values = getattr(drafts, name)
            if len(values):
                places[name] = values
    return Walk(decoder, steps, places, tables)
