"""Which recording do simulated requests walk along, from where, and with which draft lengths?

Turns `SpeculationOptions` and `BlockOptions` into the arrays of `simulator.drafting`. Leaves out the walk itself.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from simulator.compiled import compiled
from simulator.drafting import (
    AHEAD,
    ALWAYS,
    BLOCK,
    CHAIN,
    EMA,
    GOODPUT,
    NOTHING,
    PAD,
    PLAIN,
    REGROUP,
    SPLIT,
    TREE,
    WHOLE,
    Drafts,
)
from simulator.overlap import Overlap
from simulator.scenario import BlockOptions, Scenario, SpeculationOptions
from simulator.state import Byte, Requests, Small, Whole
from traces.arrays import IntArray
from traces.replay import child_offsets, replay_chain, replay_tree
from traces.schema import AcceptanceTrace
from traces.tree import Tree

_CONTROLLERS = {None: ALWAYS, "ema": EMA, "goodput": GOODPUT}
_RAGGED = {"split": SPLIT, "pad": PAD, "regroup": REGROUP}
_NONE = np.zeros(0, dtype=np.int32)
_EVERYBODY = 1 << 24
_SERIAL = Overlap(name="serial")
_PLAIN = Drafts(
    decoder=PLAIN, controller=ALWAYS, most=0, weight=1.0, branches=0, parts=1, prunes=False, interference_ratio=0.0,
    ragged=SPLIT, group=_EVERYBODY, by_batch=np.zeros(1, np.int32), emits=_NONE, proposes=_NONE, left=_NONE,
    foreseen=np.zeros(0, np.uint8),
)  # fmt: skip


def build_drafts(scenario: Scenario, generator: np.random.Generator) -> Drafts:
    """The decoder of a scenario.

    Args:
        scenario: its options.
        generator: decides which steps had a proposal where a recording knows only their share.

    Raises:
        InputError: a recording without a step, or too shallow for the topology.
    """
    if scenario.blocks is not None:
        return _blocks(scenario.blocks)
    options = scenario.speculation
    most = options.draft_tokens if options is not None else 0
    if options is None or most == 0:
        return _PLAIN
    policy = options.policy or _SERIAL
    emits, proposes, left, foreseen = _steps(options, policy.branches, generator)
    decoder = TREE if isinstance(options.topology, Tree) else AHEAD if policy.ahead else CHAIN
    return Drafts(
        decoder=decoder, controller=_CONTROLLERS[options.controller], most=int(most),
        weight=float(options.ema_weight), branches=int(policy.branches), parts=int(policy.parts),
        prunes=bool(policy.prunes), interference_ratio=float(policy.interference_ratio),
        ragged=_RAGGED[options.ragged], group=int(options.group_requests or _EVERYBODY),
        by_batch=_by_batch(options), emits=emits, proposes=proposes, left=left, foreseen=foreseen,
    )  # fmt: skip


def lookahead_tokens(scenario: Scenario) -> int:
    """Most cache slots that a step writes beyond those that it is sure to keep."""
    if scenario.blocks is not None:
        return int(max(scenario.blocks.query_tokens.max(), scenario.blocks.block_tokens))
    return scenario.speculation.draft_tokens if scenario.speculation is not None else 0


def place_requests(requests: Requests, drafts: Drafts, generator: np.random.Generator) -> None:
    """Give every request a place of its own on the recording, from which its walk begins."""
    if drafts.emits.size:
        starts = np.nonzero(drafts.left == 0)[0] if drafts.decoder == BLOCK else np.arange(drafts.emits.size)
        requests["place"] = starts[generator.integers(0, starts.size, requests.size)]
    requests["kept"] = drafts.most
    requests["pending"] = NOTHING if drafts.decoder == AHEAD else WHOLE


def _by_batch(options: SpeculationOptions) -> Small:
    most = max((last for _, last, _ in options.schedule), default=0)
    table = np.full(min(most, 1 << 20) + 2, options.draft_tokens, dtype=np.int32)
    for first, last, draft_tokens in options.schedule:
        table[first : last + 1] = draft_tokens
    return table


def _steps(
    options: SpeculationOptions, branches: int, generator: np.random.Generator
) -> tuple[Small, Small, Small, Byte]:
    """At every place where a step can start: tokens that it emits, that it drafts, and to the end of its text.

    And whether the token there is one of those that so many branches begin with; where a drafter's ranks depend on the
    depth, as if it had read everything before.
    """
    trace, topology = options.trace, options.topology
    assert trace.emitted is not None
    lengths = trace.output_tokens
    index = np.arange(trace.positions) - np.repeat(trace.offsets[:-1], lengths)
    kept = index >= trace.first_step_position
    if not kept.any():
        raise InputError("the recording has no decoding step to walk along", file=trace.file, key="trace")
    left = (np.repeat(lengths, lengths) - index).astype(np.int32)
    if isinstance(topology, Tree):
        replay_tree(trace, topology)  # refuses what the recording cannot tell
        emits, proposes = _tree_steps(trace, topology)
    else:
        for draft_tokens in sorted({topology, *(row[2] for row in options.schedule)} - {0}):
            replay_chain(trace, draft_tokens)
        emits = trace.emitted.astype(np.int32)
        proposes = np.full(trace.positions, topology, np.int32)
        if trace.drafted is not None:
            proposes = np.minimum(proposes, trace.drafted)
    if trace.drafted is None and trace.match_rate is not None:
        certain = emits > 1
        replay = replay_tree(trace, topology) if isinstance(topology, Tree) else replay_chain(trace, topology)
        known = float(replay.proposed_steps.sum() / replay.steps.sum())
        share = max(trace.match_rate - known, 0.0) / (1.0 - known) if known < 1.0 else 0.0
        proposes[~certain & (generator.random(trace.positions) >= share)] = 0
    foreseen = (emits > 1) & (proposes > 0)
    if branches > 1 and trace.rank is not None:
        first = trace.rank if trace.depth is None else trace.rank[:, 0]
        foreseen = (first >= 0) & (first < branches) & (proposes > 0)
    if options.stop_ratio is not None:
        proposes = np.minimum(proposes, _sure(trace, options.stop_ratio))
    return (
        np.ascontiguousarray(emits[kept]), np.ascontiguousarray(proposes[kept], dtype=np.int32),
        np.ascontiguousarray(left[kept]), np.ascontiguousarray(foreseen[kept], dtype=np.uint8),
    )  # fmt: skip


def _sure(trace: AcceptanceTrace, stop_ratio: float) -> Small:
    """Tokens from every position on that the drafter is sure of, as if all before them were kept."""
    assert trace.draft_probs is not None
    unsure = trace.draft_probs[:, 0].astype(np.float64) < stop_ratio
    unsure[trace.offsets[1:][trace.output_tokens > 0] - 1] = True  # no draft reaches into another text
    place = np.arange(trace.positions)
    following = np.where(unsure, place, trace.positions)
    return np.asarray(np.minimum.accumulate(following[::-1])[::-1] - place, dtype=np.int32)


def _tree_steps(trace: AcceptanceTrace, tree: Tree) -> tuple[Small, Small]:
    assert trace.rank is not None
    below = np.cumsum((0, *tree.level_widths()), dtype=np.int64)
    drafted = np.full(trace.positions, below.size - 1, np.int64)
    if trace.drafted is not None:
        drafted = np.minimum(drafted, trace.drafted)
    offsets = trace.offsets
    ends = np.repeat(offsets[1:], trace.output_tokens)
    table = child_offsets(tree, trace.rank_width)
    depth = 1 if trace.depth is None else trace.depth
    emits = np.empty(trace.positions, dtype=np.int32)
    _descend.machine(trace.rank.reshape(-1), depth, table, drafted, ends, emits)
    return emits, below[drafted].astype(np.int32)


@compiled
def _descend(
    rank: IntArray, stride: int, table: NDArray[np.int32], levels: Whole, ends: Whole, emits: Small
) -> None:  # fmt: skip
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
    """Passes of recorded blocks in a row; a block is delivered by the pass that fixes its last token."""
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
