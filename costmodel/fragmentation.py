"""How large a batch fits once pages, graphs, allocators and the drafter have taken their share?

`memory` counts what a batch needs to the byte; engines hold more. Blocks are filled to the last token only by
chance, so that each request wastes half a block on average, and every process keeps a context, captured graphs and
buffers for its largest pass. Leaves out prefix sharing, swapping and preemption.
"""

from dataclasses import dataclass

import numpy as np

from costmodel.acceptance import Acceptance
from costmodel.estimate import Setting
from costmodel.memory import activation_bytes, kv_bytes, weight_bytes
from hardware_profiles.errors import InfeasibleError, UnknownNameError
from hardware_profiles.units import GIB


@dataclass(frozen=True, kw_only=True, slots=True)
class Reserve:
    """What an engine keeps of a device's memory beside weights and cache.

    Args:
        engine: whose.
        usable_ratio: share of the memory that it plans with by default.
        block_tokens: tokens per block of the paged cache; 1 has no half-filled blocks.
        context_bytes: driver context, libraries and workspaces of one process.
        graph_bytes: pool of captured graphs.
        pass_tokens: tokens of the largest pass that buffers are set up for.
        logit_rows: its rows that reach the output head.
        source: where the numbers come from; ASSUMED where none was at hand.
    """

    engine: str
    usable_ratio: float
    block_tokens: int
    context_bytes: float
    graph_bytes: float
    pass_tokens: int
    logit_rows: int
    source: str


_TABLE = {
    "none": Reserve(
        engine="none", usable_ratio=1.0, block_tokens=1, context_bytes=0.0, graph_bytes=0.0, pass_tokens=0,
        logit_rows=0,
        source="no engine: weights, cache and the pass at hand alone",
    ),
    "vllm": Reserve(
        engine="vllm", usable_ratio=0.9, block_tokens=16, context_bytes=0.6 * GIB, graph_bytes=0.8 * GIB,
        pass_tokens=8192, logit_rows=1024,
        source="defaults of vLLM's cache and scheduler configuration: gpu_memory_utilization 0.9, block_size 16, "
        "max_num_batched_tokens 8192 and max_num_seqs 1024 on 80 GB devices; context and graph pool ASSUMED",
    ),
    "sglang": Reserve(
        engine="sglang", usable_ratio=0.88, block_tokens=1, context_bytes=0.6 * GIB, graph_bytes=1.0 * GIB,
        pass_tokens=8192, logit_rows=1024,
        source="ASSUMED: a static share of about 0.88 and pages of one token, as its server chooses on 80 GB devices; "
        "context and graph pool likewise",
    ),
    "tensorrt-llm": Reserve(
        engine="tensorrt-llm", usable_ratio=0.9, block_tokens=32, context_bytes=0.8 * GIB, graph_bytes=0.5 * GIB,
        pass_tokens=8192, logit_rows=1024,
        source="ASSUMED: free_gpu_memory_fraction 0.9 and blocks of 32 tokens; context and graph pool likewise",
    ),
    "llama.cpp": Reserve(
        engine="llama.cpp", usable_ratio=1.0, block_tokens=1, context_bytes=0.5 * GIB, graph_bytes=0.0,
        pass_tokens=512, logit_rows=512,
        source="ASSUMED: one contiguous cache, physical batches of 512 tokens, a driver context of half a GiB",
    ),
    "transformers": Reserve(
        engine="transformers", usable_ratio=1.0, block_tokens=1, context_bytes=1.0 * GIB, graph_bytes=0.0,
        pass_tokens=0, logit_rows=0,
        source="ASSUMED: contiguous caches that grow with the text; a GiB for driver context and allocator gaps",
    ),
}  # fmt: skip


def reserve(engine: str) -> Reserve:
    """The reserve of an engine.

    Raises:
        UnknownNameError: no such engine.
    """
    if engine not in _TABLE:
        raise UnknownNameError("engine", engine, sorted(_TABLE))
    return _TABLE[engine]


@dataclass(frozen=True, kw_only=True, slots=True)
class Room:
    """The memory of one device of a replica, and the batch that it holds.

    Args:
        usable_bytes: what the engine plans with.
        weight_bytes: of the target.
        drafter_bytes: weights of the drafter.
        reserve_bytes: context, graphs and buffers of the largest pass.
        request_bytes: cache of one request of the target, half a block included.
        waste_bytes: the half block, within `request_bytes`.
        drafter_request_bytes: cache of one request of the drafter.
        pass_bytes: activations that one request adds to a verify pass.
        largest_batch: requests that fit; 0 where not even one does.
    """

    usable_bytes: float
    weight_bytes: float
    drafter_bytes: float
    reserve_bytes: float
    request_bytes: float
    waste_bytes: float
    drafter_request_bytes: float
    pass_bytes: float
    largest_batch: int


def room(setting: Setting, acceptance: Acceptance, *, context: float, held: Reserve) -> Room:
    """How a device's memory is shared out, and the largest batch.

    Args:
        setting: target, device, drafter and engine.
        acceptance: the configuration; without draft tokens the drafter takes nothing.
        context: mean of the longest context that each request reaches, in tokens.
        held: what the engine keeps.

    >>> from costmodel.acceptance import geometric
    >>> from costmodel.scenario import Scenario, build_setting
    >>> setting = build_setting(Scenario(model="llama-3.1-8b", device="h100-sxm", method="eagle-3"))
    >>> off, on = (room(setting, geometric(0.7, k), context=4096, held=reserve("vllm")) for k in (0, 3))
    >>> on.largest_batch < off.largest_batch
    True
    """
    d, drafter, used = setting.deployment, setting.drafter, acceptance.draft_tokens > 0
    share, formats = d.tensor_parallel, d.precision
    new = 1 + acceptance.draft_tokens
    tokens = float(context) + new
    exact = _cache_bytes(setting, tokens)
    waste = _cache_bytes(setting, tokens + held.block_tokens / 2.0) - exact if held.block_tokens > 1 else 0.0
    usable = held.usable_ratio * setting.device.memory_bytes
    weights = float(weight_bytes(setting.target, formats, share))
    drafter_weights = drafter.resident_values * formats.weight_bytes / share if used else 0.0
    drafter_cache = drafter.kv_values_per_token * formats.kv_bytes / share * tokens if used else 0.0
    buffers = activation_bytes(setting.target, formats, tokens=held.pass_tokens, logit_rows=held.logit_rows) / share
    kept = held.context_bytes + held.graph_bytes + float(buffers)
    pass_bytes = float(activation_bytes(setting.target, formats, tokens=new)) / share
    free = usable - weights - drafter_weights - kept
    each = exact + waste + drafter_cache
    batch = free / each
    if batch * pass_bytes > buffers:  # the buffers serve verify passes as well, up to their size
        batch = (free + float(buffers)) / (each + pass_bytes)
    return Room(
        usable_bytes=usable,
        weight_bytes=weights,
        drafter_bytes=drafter_weights,
        reserve_bytes=kept,
        request_bytes=exact + waste,
        waste_bytes=waste,
        drafter_request_bytes=drafter_cache,
        pass_bytes=pass_bytes,
        largest_batch=max(0, int(np.floor(batch + 1e-9))),
    )


def require_room(setting: Setting, found: Room) -> None:
    """Check that at least one request fits.

    Raises:
        InfeasibleError: naming what takes the memory.
    """
    if found.largest_batch < 1:
        fixed = found.weight_bytes + found.drafter_bytes
        raise InfeasibleError(
            f"memory: {setting.target.name} takes {fixed / GIB:.1f} GiB of weights, {found.reserve_bytes / GIB:.1f} "
            f"GiB of the engine and {(found.request_bytes + found.drafter_request_bytes) / GIB:.2f} GiB per request "
            f"on each {setting.device.name}, which has {found.usable_bytes / GIB:.1f} GiB usable"
        )


def _cache_bytes(setting: Setting, tokens: float) -> float:
    d = setting.deployment
    cache = kv_bytes(
        setting.target, d.precision, batch=1, context=tokens, tensor_parallel=d.tensor_parallel, page_tokens=1
    )
    return float(cache)
