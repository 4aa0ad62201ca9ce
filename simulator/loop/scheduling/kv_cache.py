"""Who holds which blocks of the cache?

Blocks of a request's own are counted, not named. A block whose tokens other prompts may share has a
name; it stays when nobody refers to it any more, until its room is needed, the least recently used
first and of one prompt the last first. At any time unused + private + resident blocks are all
blocks. Leaves out when blocks are asked for.

Reference: Kwon et al. 2023, "PagedAttention" (arXiv:2309.06180), section 4; Zheng et al. 2023,
"SGLang" (arXiv:2312.07104), section 3, for the eviction of shared prefixes.
"""

from __future__ import annotations

from simulator.loop.compiled import compiled, inlined
from simulator.loop.state import Buffers, Prefixes, Replica, Requests, SchedulerLimits


@compiled
def most_blocks(requests: Requests, limits: SchedulerLimits, r: int) -> int:
    """Blocks that a request may come to hold."""
    tokens = requests[r].prompt + requests[r].output - limits.lag + limits.lookahead
    if requests[r].output == 1 and limits.lag:
        tokens = requests[r].prompt
    if limits.canvas:
        canvases = (requests[r].output + limits.canvas - 1) // limits.canvas
        tokens = min(tokens, requests[r].prompt + canvases * limits.canvas)
    return int((tokens * limits.sequences + limits.block_tokens - 1) // limits.block_tokens)


@compiled
def promised_blocks(requests: Requests, limits: SchedulerLimits, r: int) -> int:
    """Blocks that a request holds once it has generated the reserved share of its missing
    tokens.
    """
    missing = requests[r].output - requests[r].generated
    tokens = requests[r].prompt + requests[r].output - limits.lag + limits.lookahead
    tokens -= int((1.0 - limits.reserve_ratio) * missing)
    blocks = int((tokens * limits.sequences + limits.block_tokens - 1) // limits.block_tokens)
    return int(min(blocks, most_blocks(requests, limits, r)))


@inlined
def missing_blocks(requests: Requests, limits: SchedulerLimits, r: int, tokens: int) -> int:
    """Blocks without which a request cannot hold so many tokens."""
    short = tokens - requests[r].slots
    if short <= limits.block_tokens:  # nearly always; dividing takes longer than the rest
        return 1 if short > 0 else 0
    return int((short + limits.block_tokens - 1) // limits.block_tokens)


@compiled
def obtainable(replica: Replica) -> int:
    """Blocks that can be had: unused ones and those that nobody refers to."""
    return int(replica.unused_blocks + replica.idle_blocks)


@compiled
def used_blocks(replica: Replica, limits: SchedulerLimits) -> int:
    """Blocks that running requests hold."""
    return int(limits.kv_blocks - obtainable(replica))


@compiled
def shareable(prefixes: Prefixes, limits: SchedulerLimits, requests: Requests, r: int) -> int:
    """Full blocks of a prompt that have names."""
    named = (prefixes.start[r + 1] - prefixes.start[r]) * prefixes.per_id
    return int(min(named, requests[r].prompt // limits.block_tokens))


@compiled
def entry(prefixes: Prefixes, r: int, block: int) -> int:
    """Name of a request's shareable block."""
    per = prefixes.per_id
    return int(prefixes.ids[prefixes.start[r] + block // per]) * per + block % per


@compiled
def _unlink(buffers: Buffers, name: int) -> None:
    before, after = buffers.blocks[name].previous, buffers.blocks[name].next
    buffers.blocks[before].next = after
    buffers.blocks[after].previous = before


@inlined
def take_unused(
    replica: Replica, requests: Requests, limits: SchedulerLimits, r: int, blocks: int
) -> None:
    """Give a request more blocks of its own; so many must be unused."""
    replica.unused_blocks -= blocks
    requests[r].private += blocks
    requests[r].slots += blocks * limits.block_tokens
    replica.peak_blocks = max(replica.peak_blocks, used_blocks(replica, limits))


@inlined
def has_blocks(
    replica: Replica, requests: Requests, limits: SchedulerLimits, r: int, tokens: int
) -> bool:
    """Whether a request holds blocks for `tokens` tokens, of unused ones if need be."""
    blocks = missing_blocks(requests, limits, r, tokens)
    if blocks > replica.unused_blocks:
        return False
    take_unused(
        replica, requests, limits, r, blocks
    )  # of none too: asking, which nobody foresees, takes longer
    return True


@compiled
def grow(
    replica: Replica,
    buffers: Buffers,
    requests: Requests,
    limits: SchedulerLimits,
    r: int,
    blocks: int,
) -> None:
    """Give a request more blocks of its own; they must be obtainable."""
    while replica.unused_blocks < blocks:
        name = buffers.blocks[len(buffers.blocks) - 1].next
        _unlink(buffers, name)
        buffers.blocks[name].resident = 0
        replica.idle_blocks -= 1
        replica.unused_blocks += 1
    take_unused(replica, requests, limits, r, blocks)


@compiled
def cached_prefix(
    replica: Replica,
    buffers: Buffers,
    requests: Requests,
    prefixes: Prefixes,
    limits: SchedulerLimits,
    r: int,
    tokens: int,
) -> tuple[int, int]:
    """Leading blocks that are resident, of the first `tokens` tokens at most; how many of them
    nobody refers to.
    """
    most = min(shareable(prefixes, limits, requests, r), tokens // limits.block_tokens)
    idle = 0
    for block in range(most):
        name = entry(prefixes, r, block)
        if not buffers.blocks[name].resident:
            return block, idle
        idle += buffers.blocks[name].references == 0
    return most, idle


@compiled
def claim(
    replica: Replica,
    buffers: Buffers,
    requests: Requests,
    prefixes: Prefixes,
    limits: SchedulerLimits,
    r: int,
    blocks: int,
) -> None:
    """Refer to a prompt's leading blocks, which are resident; the request holds none yet."""
    first = prefixes.start[r] * prefixes.per_id
    for block in range(blocks):
        name = entry(prefixes, r, block)
        if buffers.blocks[name].references == 0:
            _unlink(buffers, name)
            replica.idle_blocks -= 1
        buffers.blocks[name].references += 1
        prefixes.held[first + block] = 1
    requests[r].slots += blocks * limits.block_tokens
    replica.prefix_hit_tokens += blocks * limits.block_tokens


@compiled
def publish(
    replica: Replica,
    buffers: Buffers,
    requests: Requests,
    prefixes: Prefixes,
    limits: SchedulerLimits,
    r: int,
    start: int,
    end: int,
) -> None:
    """Share the named blocks that tokens `start` to `end` of a prompt have filled, where nobody has
    yet.
    """
    first = prefixes.start[r] * prefixes.per_id
    last = min(end // limits.block_tokens, shareable(prefixes, limits, requests, r))
    for block in range(start // limits.block_tokens, last):
        name = entry(prefixes, r, block)
        if not buffers.blocks[name].resident:
            buffers.blocks[name].resident = 1
            buffers.blocks[name].references = 1
            prefixes.held[first + block] = 1
            requests[r].private -= 1


@compiled
def release(
    replica: Replica,
    buffers: Buffers,
    requests: Requests,
    prefixes: Prefixes,
    limits: SchedulerLimits,
    r: int,
) -> None:
    """Take all of a request's blocks from it, and its slot."""
    if limits.numbered_slots:
        buffers.slot_last[requests[r].slot] = replica.ended
    replica.unused_blocks += requests[r].private
    requests[r].private = 0
    requests[r].slots = 0
    first = prefixes.start[r] * prefixes.per_id
    ring = len(buffers.blocks) - 1
    for block in range(shareable(prefixes, limits, requests, r) - 1, -1, -1):
        if not prefixes.held[first + block]:
            continue
        prefixes.held[first + block] = 0
        name = entry(prefixes, r, block)
        buffers.blocks[name].references -= 1
        if buffers.blocks[name].references == 0:
            newest = buffers.blocks[ring].previous
            buffers.blocks[newest].next = name
            buffers.blocks[name].previous = newest
            buffers.blocks[name].next = ring
            buffers.blocks[ring].previous = name
            replica.idle_blocks += 1
