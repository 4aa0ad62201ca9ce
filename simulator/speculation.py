"""Which recording do simulated requests walk along, from where, and with which draft lengths?

Turns `SpeculationOptions` and `BlockOptions` into the arrays of `simulator.drafting`. Leaves out the walk itself.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from simulator.compiled import compiled
from simulator.drafting import ALWAYS, BLOCK, CHAIN, EMA, GOODPUT, PEARL, PLAIN, TREE, Drafts
from simulator.scenario import BlockOptions, Scenario, SpeculationOptions
from simulator.state import Requests, Small, Whole
from traces.arrays import IntArray
from traces.replay import child_offsets, replay_chain, replay_tree
from traces.schema import AcceptanceTrace
from traces.tree import Tree

_CONTROLLERS = {None: ALWAYS, "ema": EMA, "goodput": GOODPUT}
_NONE = np.zeros(0, dtype=np.int32)


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
        return Drafts(PLAIN, ALWAYS, 0, 1.0, False, np.zeros(1, np.int32), _NONE, _NONE, _NONE)
    emits, proposes, left = _steps(options, generator)
    decoder = TREE if isinstance(options.topology, Tree) else PEARL if options.overlap else CHAIN
    return Drafts(
        decoder=decoder, controller=_CONTROLLERS[options.controller], most=int(most),
        weight=float(options.ema_weight), padded=bool(options.padded),
        by_batch=_by_batch(options), emits=emits, proposes=proposes, left=left,
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
    requests["stale"] = drafts.decoder == PEARL


def _by_batch(options: SpeculationOptions) -> Small:
    most = max((last for _, last, _ in options.schedule), default=0)
    table = np.full(min(most, 1 << 20) + 2, options.draft_tokens, dtype=np.int32)
    for first, last, draft_tokens in options.schedule:
        table[first : last + 1] = draft_tokens
    return table


def _steps(options: SpeculationOptions, generator: np.random.Generator) -> tuple[Small, Small, Small]:
    """Emitted and drafted tokens at every place where a step can start, and tokens to the end of its text."""
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
    return (
        np.ascontiguousarray(emits[kept]), np.ascontiguousarray(proposes[kept], dtype=np.int32),
        np.ascontiguousarray(left[kept]),
    )  # fmt: skip


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
    _descend(trace.rank.reshape(-1), depth, table, drafted, ends, emits)
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
    return Drafts(
        BLOCK, ALWAYS, 0, 1.0, False, np.zeros(1, np.int32), np.array(emits, dtype=np.int32),
        np.array(queries, dtype=np.int32), np.array(since, dtype=np.int32),
    )  # fmt: skip
