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
from simulator.loop.state import Blocks, Prefixes, Replica, Request, SchedulerLimits, Seats


@compiled
def most_blocks(request: Request, limits: SchedulerLimits) -> int:
    """Blocks that a request may come to hold."""
    tokens = request.prompt + request.output - limits.lag + limits.lookahead
    if request.output == 1 and limits.lag:
        tokens = int(request.prompt)
    if limits.canvas:
        canvases = (request.output + limits.canvas - 1) // limits.canvas
        tokens = min(tokens, request.prompt + canvases * limits.canvas)
    return (tokens * limits.sequences + limits.block_tokens - 1) // limits.block_tokens


@compiled
def promised_blocks(request: Request, limits: SchedulerLimits) -> int:
    """Blocks that a request holds once it has generated the reserved share of its missing
    tokens.
    """
    missing = request.output - request.generated
    tokens = request.prompt + request.output - limits.lag + limits.lookahead
    tokens -= int((1.0 - limits.reserve_ratio) * missing)
    blocks = (tokens * limits.sequences + limits.block_tokens - 1) // limits.block_tokens
    return min(blocks, most_blocks(request, limits))


@inlined
def missing_blocks(request: Request, limits: SchedulerLimits, tokens: int) -> int:
    """Blocks without which a request cannot hold so many tokens."""
    short = tokens - request.slots
    if short <= limits.block_tokens:  # nearly always; dividing takes longer than the rest
        return 1 if short > 0 else 0
    return (short + limits.block_tokens - 1) // limits.block_tokens


@inlined
def obtainable(replica: Replica) -> int:
    """Blocks that can be had: unused ones and those that nobody refers to."""
    return replica.unused_blocks + replica.idle_blocks


@compiled
def shareable(prefixes: Prefixes, limits: SchedulerLimits, request: Request, r: int) -> int:
    """Full blocks of a prompt that have names."""
    named = (prefixes.start[r + 1] - prefixes.start[r]) * prefixes.per_id
    return min(named, request.prompt // limits.block_tokens)


@compiled
def entry(prefixes: Prefixes, r: int, block: int) -> int:
    """Name of a request's shareable block."""
    per = prefixes.per_id
    return int(prefixes.ids[prefixes.start[r] + block // per]) * per + block % per


@compiled
def _unlink(blocks: Blocks, name: int) -> None:
    before, after = blocks[name].previous, blocks[name].next
    blocks[before].next = after
    blocks[after].previous = before


@inlined
def take_unused(replica: Replica, request: Request, limits: SchedulerLimits, count: int) -> None:
    """Give a request more blocks of its own; so many must be unused."""
    replica.unused_blocks -= count
    request.private += count
    request.slots += count * limits.block_tokens
    used = limits.kv_blocks - obtainable(replica)
    replica.peak_blocks = max(replica.peak_blocks, used)


@inlined
def has_blocks(replica: Replica, request: Request, limits: SchedulerLimits, tokens: int) -> bool:
    """Whether a request holds blocks for `tokens` tokens, of unused ones if need be."""
    count = missing_blocks(request, limits, tokens)
    if count > replica.unused_blocks:
        return False
    # of none too: asking, which nobody foresees, takes longer
    take_unused(replica, request, limits, count)
    return True


@compiled
def grow(
    replica: Replica, blocks: Blocks, request: Request, limits: SchedulerLimits, count: int
) -> None:
    """Give a request more blocks of its own; they must be obtainable."""
    while replica.unused_blocks < count:
        name = blocks[len(blocks) - 1].next
        _unlink(blocks, name)
        blocks[name].resident = 0
        replica.idle_blocks -= 1
        replica.unused_blocks += 1
    take_unused(replica, request, limits, count)


@compiled
def cached_prefix(
    blocks: Blocks,
    prefixes: Prefixes,
    limits: SchedulerLimits,
    request: Request,
    r: int,
    tokens: int,
) -> tuple[int, int]:
    """Leading blocks that are resident, of the first `tokens` tokens at most; how many of them
    nobody refers to.
    """
    most = min(shareable(prefixes, limits, request, r), tokens // limits.block_tokens)
    idle = 0
    for block in range(most):
        name = entry(prefixes, r, block)
        if not blocks[name].resident:
            return block, idle
        idle += blocks[name].references == 0
    return most, idle


@compiled
def claim(
    replica: Replica,
    blocks: Blocks,
    prefixes: Prefixes,
    limits: SchedulerLimits,
    request: Request,
    r: int,
    count: int,
) -> None:
    """Refer to a prompt's leading blocks, which are resident; the request holds none yet."""
    first = prefixes.start[r] * prefixes.per_id
    for block in range(count):
        name = entry(prefixes, r, block)
        if blocks[name].references == 0:
            _unlink(blocks, name)
            replica.idle_blocks -= 1
        blocks[name].references += 1
        prefixes.held[first + block] = 1
    request.slots += count * limits.block_tokens
    replica.prefix_hit_tokens += count * limits.block_tokens


@compiled
def publish(
    blocks: Blocks,
    prefixes: Prefixes,
    limits: SchedulerLimits,
    request: Request,
    r: int,
    start: int,
    end: int,
) -> None:
    """Share the named blocks that tokens `start` to `end` of a prompt have filled, where nobody has
    yet.
    """
    first = prefixes.start[r] * prefixes.per_id
    last = min(end // limits.block_tokens, shareable(prefixes, limits, request, r))
    for block in range(start // limits.block_tokens, last):
        name = entry(prefixes, r, block)
        if not blocks[name].resident:
            blocks[name].resident = 1
            blocks[name].references = 1
            prefixes.held[first + block] = 1
            request.private -= 1


@compiled
def release(
    replica: Replica,
    seats: Seats | None,
    blocks: Blocks,
    prefixes: Prefixes,
    limits: SchedulerLimits,
    request: Request,
    r: int,
) -> None:
    """Take all of a request's blocks from it, and its slot."""
    if seats is not None and limits.numbered_slots:
        seats[request.slot].slot_left = replica.ended
    replica.unused_blocks += request.private
    request.private = 0
    request.slots = 0
    first = prefixes.start[r] * prefixes.per_id
    ring = len(blocks) - 1
    for block in range(shareable(prefixes, limits, request, r) - 1, -1, -1):
        if not prefixes.held[first + block]:
            continue
        prefixes.held[first + block] = 0
        name = entry(prefixes, r, block)
        blocks[name].references -= 1
        if blocks[name].references == 0:
            newest = blocks[ring].previous
            blocks[newest].next = name
            blocks[name].previous = newest
            blocks[name].next = ring
            blocks[ring].previous = name
            replica.idle_blocks += 1
