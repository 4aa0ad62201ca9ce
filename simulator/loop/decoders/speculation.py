"""Which recording do simulated requests walk along, from where, and with which draft lengths?

Turns `SpeculationOptions` and `BlockOptions` into the arrays of `drafting`. Leaves out the walk
itself.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from costmodel.laws.acceptance import accepted_shares, drawn_lengths
from costmodel.laws.drafting import dropped_tokens, stopped
from costmodel.laws.refining import refine_of
from costmodel.method import Batch, Stop
from hardware_profiles.errors import InputError
from simulator.loop.block_options import BlockOptions, RecordedBlocks
from simulator.loop.compiled import entry
from simulator.loop.decoders.policy_tables import with_policy
from simulator.loop.decoders.record import (
    ALIKE,
    ALWAYS,
    BEGINS,
    BEGINS_CANVAS,
    BEHIND,
    BLOCK,
    BY_REQUEST,
    CHAIN,
    COST,
    EMA,
    FROM_BLOCK,
    FULL,
    GOODPUT,
    INSTEAD,
    LATE,
    LIKELIEST,
    NOTHING,
    PAD,
    PARALLEL,
    PLAIN,
    REGROUP,
    SPLIT,
    TREE,
    WHOLE,
    Drafts,
)
from simulator.loop.options import LONGEST_DRAFT, Scenario, SpeculationOptions
from simulator.loop.state import Byte, Real, Requests, Small, Whole
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.arrays import IntArray
from traces.kinds.state_trees import StateTrees
from traces.kinds.tree import Tree
from traces.replay.calibration import calibrated
from traces.replay.dynamic import PickedTrees, TreePolicy, pick_trees
from traces.replay.outcomes import foreseen_tokens
from traces.replay.states import state_steps
from traces.replay.walk import check_chain, check_tree, replay_chain, replay_tree

_Kind = TypeVar("_Kind", bound=np.generic)
_CONTROLLERS = {"ema": EMA, "goodput": GOODPUT, "cost": COST}
_SLOTS = {"alike": ALIKE, "likeliest": LIKELIEST, "by_request": BY_REQUEST}
_RAGGED = {"split": SPLIT, "pad": PAD, "regroup": REGROUP}
_NONE = np.zeros(0, dtype=np.int32)
_EVERYBODY = 1 << 24
_CACHED = 8  # recordings, each under one draft length
# of a recording and its copies: the draws of a walk then hardly move its mean
_DRAWN_PLACES = 100_000
Steps = tuple[Small, Small, Small, Byte, Byte]
Rows = tuple[tuple[int, int, int], ...]
_PLAIN = Drafts(
    decoder=PLAIN,
    controller=ALWAYS,
    most=0,
    weight=1.0,
    branches=0,
    fan_out=0,
    waits=False,
    parts=1,
    prunes=False,
    interference_ratio=0.0,
    steps=np.zeros((0, 2), np.int16),
    ragged=SPLIT,
    group=_EVERYBODY,
    by_batch=np.zeros(1, np.int32),
    emits=_NONE,
    proposes=_NONE,
    passes=_NONE,
    left=_NONE,
    branches_at=np.ones(1, np.uint8),
    foreseen=np.zeros(0, np.uint8),
    slots=ALIKE,
    budget_per_request=np.inf,
    sure=np.ones(1),
    within_output=False,
    states=1,
    following=_NONE,
    canvas=0,
    copies=1,
    renews=False,
    lengths=np.arange(1, dtype=np.int32),
    gains=np.ones(1),
    pace=1,
    least_share=0.0,
    profiled_context=-1.0,
    tiers=np.zeros((1, 1)),
    draws=np.zeros(1),
    change_s=0.0,
    rereads=False,
    counts_passes=False,
)


def build_drafts(scenario: Scenario, generator: np.random.Generator) -> Drafts:
    """The decoder of a scenario.

    Args:
        scenario: its options.
        generator: decides which steps had a proposal where a recording knows only their share.

    Raises:
        InputError: a recording without a step, or too shallow for the topology.
    """
    if isinstance(scenario.blocks, RecordedBlocks):
        return _recorded(scenario.blocks)
    if scenario.blocks is not None:
        return _blocks(scenario.blocks)
    options = scenario.speculation
    most = options.draft_tokens if options is not None else 0
    if options is None or most == 0:
        return _PLAIN
    batch = options.batch
    if isinstance(options.topology, StateTrees):
        return _by_state(options.trace, options.topology, _by_batch(options))
    emits, proposes, left, branches_at, foreseen = _steps(options, generator)
    decoder = PARALLEL if batch.drafts_during_verify else CHAIN
    passes = _NONE
    if not isinstance(options.topology, int):
        decoder = TREE
    if isinstance(options.topology, TreePolicy):
        passes = _started(options.trace, _picked(options.trace, options.topology).passes)
    elif decoder == CHAIN and batch.slots == "alike" and (more := dropped_tokens(options.stop)):
        # the pass that found the drafter unsure counts too
        passes = _repeated(
            _started(options.trace, (_lengths(options) + more).astype(np.int16)), emits.size
        )
    drafts = _PLAIN._replace(
        decoder=decoder,
        controller=_CONTROLLERS.get(options.stop.rule, ALWAYS),
        most=int(most),
        weight=float(options.stop.at if options.stop.rule == "cost" else options.ema_weight),
        branches=int(batch.branches),
        fan_out=int(batch.fan_out),
        waits=batch.on_miss == "wait",
        parts=int(batch.parts),
        prunes=bool(batch.prunes),
        interference_ratio=float(batch.interference_ratio),
        ragged=_RAGGED[batch.ragged],
        group=int(options.group_requests or _EVERYBODY),
        by_batch=_by_batch(options),
        emits=emits,
        proposes=proposes,
        passes=passes,
        counts_passes=passes.size > 0,
        left=left,
        branches_at=branches_at,
        foreseen=foreseen,
        slots=_SLOTS[options.slots],
        budget_per_request=np.inf
        if batch.budget_per_request is None
        else float(batch.budget_per_request),
        sure=_repeated(_sure(options), emits.size),
        within_output=bool(scenario.scheduler.drafts_within_output),
        lengths=np.arange(most + 1, dtype=np.int32),
    )
    return with_policy(_side_by_side(drafts), options.policy, scenario.seed)


def lookahead_tokens(scenario: Scenario) -> int:
    """Most cache slots that a step writes beyond those that it is sure to keep."""
    if scenario.blocks is not None:
        return scenario.blocks.lookahead_tokens
    return scenario.speculation.draft_tokens if scenario.speculation is not None else 0


def place_requests(requests: Requests, drafts: Drafts, generator: np.random.Generator) -> None:
    """Give every request a place of its own on the recording, from which its walk begins."""
    if drafts.emits.size:
        if drafts.decoder == BLOCK:
            starts = np.nonzero(drafts.foreseen if drafts.canvas else drafts.left == 0)[0]
            requests["place"] = starts[generator.integers(0, starts.size, requests.size)]
        else:  # texts begin in the first state
            requests["place"] = generator.integers(
                0, drafts.emits.size // drafts.states, requests.size
            )
            requests["emits"], requests["proposes"] = drafts.steps[requests["place"]].T
    requests["recent_accepted"] = drafts.most
    requests["pending"] = WHOLE if drafts.decoder != PARALLEL else LATE if drafts.waits else NOTHING


def _by_batch(options: SpeculationOptions) -> Small:
    most = max((last for _, last, _ in options.schedule), default=0)
    table = np.full(min(most, 1 << 20) + 2, options.draft_tokens, dtype=np.int32)
    for first, last, draft_tokens in options.schedule:
        table[first : last + 1] = draft_tokens
    return table


def _steps(options: SpeculationOptions, generator: np.random.Generator) -> Steps:
    """The steps along a recording; where nothing of them is drawn, those of the latest recordings
    are kept.
    """
    trace, topology = options.trace, options.topology
    certain = trace.match_rate is None or trace.drafted is not None
    if certain and options.law.by_matching and isinstance(topology, int):
        return _certain_steps(trace, topology, tuple(options.schedule), options.stop, options.batch)
    return _read_steps(options, generator)


@lru_cache(maxsize=_CACHED)
def _certain_steps(
    trace: AcceptanceTrace, topology: int, rows: Rows, stop: Stop, batch: Batch
) -> Steps:
    options = SpeculationOptions(
        trace=trace, topology=topology, schedule=rows, stop=stop, batch=batch
    )
    return _read_steps(options, np.random.default_rng(0))


def _read_steps(options: SpeculationOptions, generator: np.random.Generator) -> Steps:
    """At every place where a step can start: tokens that it emits, that it drafts, and to the end
    of its text.

    And in how many branches a draft goes on from there, and whether one of them begins with the
    token there; where a drafter's ranks depend on the depth, as if it had read everything before.
    Where acceptance is drawn, the recording is walked along in several copies, each with draws of
    its own.
    """
    trace, topology = options.trace, options.topology
    assert not isinstance(topology, StateTrees)
    if not options.law.by_matching:
        copies = -(-_DRAWN_PLACES // max(trace.positions, 1))
        trace = trace.select(np.tile(np.arange(trace.requests), copies))
        options = replace(options, trace=trace)
    assert trace.emitted is not None
    lengths = trace.output_tokens
    index = np.arange(trace.positions) - np.repeat(trace.offsets[:-1], lengths)
    starts = index >= trace.first_step_position
    if not starts.any():
        raise InputError(
            "the recording has no decoding step to walk along", file=trace.file, key="trace"
        )
    left = (np.repeat(lengths, lengths) - index).astype(np.int32)
    if isinstance(topology, Tree):
        emits, proposes = _tree_steps(trace, topology)
    elif isinstance(topology, TreePolicy):
        picked = _picked(trace, topology)
        emits = picked.emitted.astype(np.int32)
        proposes = np.where(picked.exact, picked.nodes, topology.nodes).astype(np.int32)
    else:
        for draft_tokens in sorted({topology, *(row[2] for row in options.schedule)} - {0}):
            check_chain(trace, draft_tokens)
        emits = trace.emitted.astype(np.int32)
        proposes = np.full(trace.positions, topology, np.int32)
        if trace.drafted is not None:
            proposes = np.minimum(proposes, trace.drafted)
    if not options.law.by_matching and not isinstance(topology, TreePolicy):
        emits = drawn_lengths(trace, options.law, topology, generator)
    elif (
        trace.drafted is None
        and trace.match_rate is not None
        and not isinstance(topology, TreePolicy)
    ):
        # a step that emits several tokens had a proposal; others have one as often as makes up the
        # recorded rate
        certain = emits > 1
        replay = (
            replay_tree(trace, topology)
            if isinstance(topology, Tree)
            else replay_chain(trace, topology)
        )
        proposed = float(replay.proposed_steps.sum() / replay.steps.sum())
        share = max(trace.match_rate - proposed, 0.0) / (1.0 - proposed) if proposed < 1.0 else 0.0
        proposes[~certain & (generator.random(trace.positions) >= share)] = 0
    branches_at, foreseen = _branches(options.batch, trace, emits)
    foreseen = np.where(proposes > 0, foreseen, 0)
    proposes = np.minimum(proposes, _lengths(options))
    return (
        np.minimum(emits, np.minimum(left, LONGEST_DRAFT + 1))[starts].astype(np.int32),
        np.ascontiguousarray(proposes[starts], dtype=np.int32),
        np.ascontiguousarray(left[starts]),
        np.ascontiguousarray(branches_at[starts]),
        np.ascontiguousarray(foreseen[starts], dtype=np.uint8),
    )


def _branches(batch: Batch, trace: AcceptanceTrace, emits: Small) -> tuple[Byte, Byte]:
    """Branches of a draft that goes on from every position, and whether one of them begins with the
    token there: 1, or where several outcomes are drafted for the sum of `BEHIND` and `INSTEAD`.
    """
    if batch.fan_out:
        behind, instead = foreseen_tokens(trace, batch.fan_out)
        return np.ones(trace.positions, np.uint8), (BEHIND * behind + INSTEAD * instead).astype(
            np.uint8
        )
    if batch.branches <= 1:
        return np.ones(trace.positions, np.uint8), np.asarray(emits > 1, dtype=np.uint8)
    count = np.full(trace.positions, batch.branches, np.uint8)
    if batch.branch_at < 1.0:
        assert trace.draft_probs is not None
        count[trace.draft_probs[:, 0] >= batch.branch_at] = 1
    assert trace.rank is not None
    first = trace.rank if trace.depth is None else trace.rank[:, 0]
    return count, np.asarray((first >= 0) & (first < count), dtype=np.uint8)


def _sure(options: SpeculationOptions) -> Real:
    """The drafter's probability of its likeliest token at every place, where the batch chooses by
    it; calibrated by the recording where that is weighed against seconds.
    """
    if options.slots != "likeliest":
        return np.ones(1)
    trace = options.trace
    assert trace.draft_probs is not None
    index = np.arange(trace.positions) - np.repeat(trace.offsets[:-1], trace.output_tokens)
    sure = np.ascontiguousarray(
        trace.draft_probs[index >= trace.first_step_position, 0], dtype=np.float64
    )
    weighs = "cost" in (options.stop.rule, options.policy.rule if options.policy else "")
    return calibrated(trace, accepted_shares(trace, options.law)).accepted(sure) if weighs else sure


def _lengths(options: SpeculationOptions) -> Small:
    """Draft tokens from every position on until the drafter stops, as if all before them were
    accepted.
    """
    trace, lengths = options.trace, np.full(options.trace.positions, LONGEST_DRAFT, np.int32)
    stops = [options.stop] if options.stop.rule in ("probability", "product") else []
    if options.batch.branches > 1 and options.batch.branch_at < 1.0:
        stops.append(Stop(rule="probability", at=options.batch.branch_at, least_tokens=0))
    for stop in stops:
        ends = stopped(trace, stop).drafted
        assert ends is not None
        lengths = np.minimum(lengths, ends.astype(np.int32))
    return lengths


def mean_rows_by_pass(options: SpeculationOptions | None) -> tuple[float, ...]:
    """Mean tokens that a request reads in each draft pass, among steps that have it; empty but for
    dynamic trees.
    """
    if options is None or not isinstance(options.topology, TreePolicy):
        return ()
    picked = _picked(options.trace, options.topology)
    taking = [picked.passes > place for place in range(picked.rows.shape[1])]
    return tuple(
        float(picked.rows[part, place].mean()) for place, part in enumerate(taking) if part.any()
    )


def _picked(trace: AcceptanceTrace, policy: TreePolicy) -> PickedTrees:
    """The tree of a step from every position; one that the recording cuts off counts with the nodes
    of the policy.

    Raises:
        InputError: no expansions, or more nodes, levels or candidates than were recorded.
    """
    if trace.expansions is None:
        raise InputError(
            "dynamic trees need a recording with expansions", file=trace.file, key="topology"
        )
    if policy.nodes > trace.expansions.nodes:
        rule = f"must lie in 0..{trace.expansions.nodes}, the nodes recorded"
        raise InputError(rule, file=trace.file, key="nodes", value=policy.nodes)
    return pick_trees(trace.expansions, policy)


def _repeated(values: NDArray[_Kind], size: int) -> NDArray[_Kind]:
    """Values again and again up to a size, without a list of all repetitions as `np.resize` makes."""
    return np.tile(values, -(-size // max(values.size, 1)))[:size]


def _started(trace: AcceptanceTrace, values: IntArray) -> Small:
    """Values of the positions at which steps can start."""
    index = np.arange(trace.positions) - np.repeat(trace.offsets[:-1], trace.output_tokens)
    return np.ascontiguousarray(values[index >= trace.first_step_position], dtype=np.int32)


def _by_state(trace: AcceptanceTrace, trees: StateTrees, by_batch: Small) -> Drafts:
    """Trees that depend on the step before: every state has a place for every position, the last
    state's first.
    """
    emitted, following = (by_state[::-1] for by_state in state_steps(trace, trees))
    index = np.arange(trace.positions) - np.repeat(trace.offsets[:-1], trace.output_tokens)
    starts = index >= trace.first_step_position
    if not starts.any():
        raise InputError(
            "the recording has no decoding step to walk along", file=trace.file, key="trace"
        )
    left = (np.repeat(trace.output_tokens, trace.output_tokens) - index)[starts]
    emits, count = emitted[:, starts], left.size
    ahead = (np.arange(count) + emits) % count
    # the next text begins in the last state, which stands first
    state = np.where(emits == left, 0, trees.levels - following[:, starts])
    drafts = _PLAIN._replace(
        decoder=TREE,
        most=max(trees.sizes),
        by_batch=by_batch,
        states=trees.levels,
        emits=np.minimum(emits, left).astype(np.int32).reshape(-1),
        left=np.tile(left, trees.levels).astype(np.int32),
        proposes=np.repeat(trees.sizes[::-1], count).astype(np.int32),
        following=(state * count + ahead).astype(np.int32).reshape(-1),
        branches_at=np.ones(count * trees.levels, np.uint8),
    )
    return _side_by_side(drafts)


def _side_by_side(drafts: Drafts) -> Drafts:
    """A decoder with what a request reads of its place side by side: most of a step is waiting for
    memory.
    """
    return drafts._replace(steps=np.stack([drafts.emits, drafts.proposes], axis=1).astype(np.int16))


def _tree_steps(trace: AcceptanceTrace, tree: Tree) -> tuple[Small, Small]:
    table = check_tree(trace, tree)
    assert trace.rank is not None
    below = np.cumsum((0, *tree.level_widths()), dtype=np.int64)
    drafted = np.full(trace.positions, below.size - 1, np.int64)
    if trace.drafted is not None:
        drafted = np.minimum(drafted, trace.drafted)
    offsets = trace.offsets
    ends = np.repeat(offsets[1:], trace.output_tokens)
    depth = 1 if trace.depth is None else trace.depth
    emits = np.empty(trace.positions, dtype=np.int32)
    _descend(trace.rank.reshape(-1), depth, table, drafted, ends, emits)
    return emits, below[drafted].astype(np.int32)


@entry
def _descend(
    rank: IntArray, stride: int, table: NDArray[np.int32], levels: Whole, ends: Whole, emits: Small
) -> None:
    """Write the tokens that a step with the whole tree emits at every position."""
    for i in range(levels.size):
        most = min(levels[i], ends[i] - i)
        place = 1
        accepted = 0
        while accepted < most:
            place = table[place + rank[i * stride + accepted]]
            if place == 0:
                break
            accepted += 1
        emits[i] = accepted + 1


def _blocks(options: BlockOptions) -> Drafts:
    """Passes of recorded blocks in a row; a block is delivered by the pass that fixes its last
    token.
    """
    passes = options.commits.shape[1]
    last = passes - 1 - np.argmax(options.commits[:, ::-1] > 0, axis=1)
    emits: list[int] = []
    queries: list[int] = []
    since: list[int] = []
    for end in last.tolist():
        closing = options.closing_passes
        emits += [0] * end + [options.block_tokens] + [0] * closing
        queries += options.query_tokens[: end + 1].tolist() + [options.block_tokens] * closing
        since += range(end + 1 + closing)
    return _PLAIN._replace(
        decoder=BLOCK,
        emits=np.array(emits, dtype=np.int32),
        proposes=np.array(queries, dtype=np.int32),
        left=np.array(since, dtype=np.int32),
    )


def _recorded(options: RecordedBlocks) -> Drafts:
    """Passes of recorded blocks in a row, as the method computes them; each is delivered by its
    last commit.

    Some code uses a renewed cache so many times whether or not the block is finished. One in so
    many of the other passes renews it too, counted over all blocks.
    """
    method, walked = options.method, options.walked
    r = refine_of(method)
    least = 1 if r.forward == "full" else max(r.full_passes + r.reuses, 1)
    passes = np.maximum(walked.passes, least)
    taken = passes + r.closing_passes
    block = np.repeat(np.arange(taken.size), taken)
    since = np.arange(block.size) - np.repeat(np.cumsum(taken) - taken, taken)
    ahead = np.maximum(passes[block] - since, 0)
    sizes = (walked.end - walked.start)[block]
    stores = ahead == 0
    queries = np.where(stores, sizes, FROM_BLOCK) if r.forward == "suffix" else sizes
    full = ~stores & ((since < r.full_passes) | (r.forward == "full"))
    others = ~stores & ~full
    full |= _one_in(others, r.full_every)
    queries = np.where(_one_in(others & ~full, r.canvas_every), options.canvas_tokens, queries)
    begins = walked.begins[block] & (since == 0)
    restarts = BEGINS_CANVAS if options.texts_end else BEGINS
    return _PLAIN._replace(
        decoder=BLOCK,
        ragged=SPLIT if method.batch.ragged == "split" else PAD,
        emits=np.where(ahead == 1, walked.tokens[block], 0).astype(np.int32),
        proposes=np.where(full, FULL, queries).astype(np.int32),
        passes=ahead.astype(np.int32),
        left=since.astype(np.int32),
        foreseen=np.where(begins, restarts, 0).astype(np.uint8),
        canvas=int(options.canvas_tokens),
        copies=int(options.copies),
        renews=not options.reads_prompts,
    )


def _one_in(chosen: NDArray[np.bool_], every: int) -> NDArray[np.bool_]:
    """The last of every so many chosen places; none where `every` is 0."""
    if not every:
        return np.zeros_like(chosen)
    last: NDArray[np.bool_] = chosen & (np.cumsum(chosen) % every == 0)
    return last
