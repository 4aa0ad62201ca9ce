"""How does a serving engine fill an iteration?

One entry per engine: published defaults with their source and the versions they were read in, as data. Leaves out
options that an operator sets: pass another `Policy` for those.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from costmodel.kernels.communication import Backend
from hardware_profiles.errors import InputError, UnknownNameError
from hardware_profiles.profile import Device
from hardware_profiles.units import GIB, MIB


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """What a scheduler does with waiting prompts and running requests.

    Args:
        engine: name of the engine, as `overheads` knows it.
        versions: versions whose defaults these are.
        mixes: prompts join the iterations in which others decode; False runs waiting prompts first, alone.
        chunks: a prompt may be split over iterations; False admits it whole.
        batch_tokens: most query tokens of an iteration, decoding requests included where `mixes`.
        requests: most requests in flight.
        memory_ratio: share of memory for the engine (`of_free` False) or for the cache alone (True).
        of_free: the share is of what weights and activations leave, not of the whole memory.
        activations_inside: activations count against that share; False leaves them to the rest.
        unseen_bytes: memory of the device that the engine does not count on when it takes its share: what the driver
            keeps and, where the share is of what is found free, the context of a process.
        reserve_ratio: share of a request's output that must fit before it is admitted; 1 never evicts.
        graph_rows: largest iteration with prompt tokens that runs from a captured graph; larger ones are launched
            layer by layer. Iterations that only decode always run from graphs.
        fp8_cache: models with fp8 weights keep their cache in fp8 too.
        reductions: whose all-reduce kernels it runs.
        head_norm_kernels: launches per layer to normalise queries and keys, where the model does; 0 where that is
            fused with the rotation. Of TensorRT-LLM 0 (pull request 4611); of vLLM (its pull request 38621 lists the
            kernels) and SGLang (qknorm.cuh) one for both.
        ahead: an iteration is put together when the one before it starts, so that whoever arrives in between waits
            for one more: what schedulers that overlap with the device do.
        source: where the numbers come from.

    Raises:
        InputError: a limit below 1 or a ratio outside its range.
    """

    engine: str
    versions: str
    mixes: bool
    chunks: bool
    batch_tokens: int
    requests: int
    memory_ratio: float = 0.9
    of_free: bool = False
    activations_inside: bool = True
    unseen_bytes: float = 0.0
    reserve_ratio: float = 0.0
    graph_rows: int = 0
    fp8_cache: bool = False
    head_norm_kernels: int = 1
    reductions: Backend = "vllm"
    ahead: bool = False
    source: str

    def __post_init__(self) -> None:
        for key in ("batch_tokens", "requests"):
            if getattr(self, key) < 1:
                raise InputError("must be at least 1", key=key, value=getattr(self, key))
        if not 0.0 < self.memory_ratio <= 1.0:
            raise InputError("must lie in (0, 1]", key="memory_ratio", value=self.memory_ratio)
        if not self.unseen_bytes >= 0.0:
            raise InputError("must not be negative", key="unseen_bytes", value=self.unseen_bytes)
        if not 0.0 <= self.reserve_ratio <= 1.0:
            raise InputError("must lie in [0, 1]", key="reserve_ratio", value=self.reserve_ratio)


# An H100 of 81,559 MiB has 79.22 GiB for CUDA (vLLM pull request 12126); on an H200 of 143,771 MiB a process finds
# 139.3 GiB free before it joins the others of its group (SGLang pull request 11716: 137.29 GB left, 2.01 GB for those).
_DRIVER_BYTES = 81_559 * MIB - 79.22 * GIB
_PROCESS_BYTES = 143_771 * MIB - 139.3 * GIB
GROUP_BYTES = (139.3 - 137.29) * GIB  # of buffers, by each device of a group: of eight in that log, ASSUMED of fewer

_LARGE_MEMORY_BYTES = 70 * GIB  # where vLLM raises its server's defaults, A100 excepted
_VLLM_SOURCE = (
    "vllm/engine/arg_utils.py get_batch_defaults (server defaults by device memory, 0.10 to 0.18), "
    "gpu_memory_utilization 0.9, graphs captured up to 512 rows (vllm/config/vllm.py); decodes first, prompts in the "
    "rest of the budget, preemption by recomputation (vllm/v1/core/sched/scheduler.py); asynchronous scheduling by "
    "default from 0.14.0 (its release notes)"
)
_VLLM_AHEAD_FROM = (0, 14)

_POLICIES: Mapping[str, Policy] = {
    "vllm": Policy(
        engine="vllm",
        versions="0.10-0.18",
        mixes=True,
        chunks=True,
        batch_tokens=8192,
        requests=1024,
        unseen_bytes=_DRIVER_BYTES,
        graph_rows=512,
        source=_VLLM_SOURCE,
    ),
    "tensorrt-llm": Policy(
        engine="tensorrt-llm",
        versions="1.0-1.3",
        mixes=True,
        chunks=False,
        batch_tokens=8192,
        requests=2048,
        of_free=True,
        unseen_bytes=_PROCESS_BYTES,
        reserve_ratio=1.0,
        fp8_cache=True,
        head_norm_kernels=0,
        reductions="trtllm",
        ahead=True,
        source=(
            "tensorrt_llm/llmapi/llm_args.py 1.0: max_num_tokens 8192, max_batch_size 2048, enable_chunked_prefill "
            "False, free_gpu_memory_fraction 0.9, GUARANTEED_NO_EVICT; the PyTorch backend captures graphs of "
            "generation-only batches (cuda_graph_config); kv_cache_config.dtype `auto` follows the checkpoint, and "
            "NVIDIA's fp8 checkpoints carry kv_cache_quant_algo FP8; step n + 1 is launched before the outcome of "
            "step n is looked at (features/overlap-scheduler of its documentation, on by default)"
        ),
    ),
    "sglang": Policy(
        engine="sglang",
        versions="0.5",
        mixes=False,
        chunks=True,
        batch_tokens=8192,
        requests=4096,
        memory_ratio=0.835,
        activations_inside=False,
        unseen_bytes=_PROCESS_BYTES,
        reserve_ratio=0.1,
        ahead=True,
        source=(
            "sglang/srt/server_args.py 0.5: chunked_prefill_size 8192 from 25 GB of memory, max_prefill_tokens 16384 "
            "(the chunk binds first), enable_mixed_chunk False, mem_fraction_static leaves 512 MiB + 1.5 MiB a "
            "token of a chunk + 2 MiB for each of 256 graphed requests + 128 MiB a device (0.835 of an H100); of an "
            "output 0.7 is reserved at first, decaying to 0.098 (init_new_token_ratio, 0.14 of it at the least); the "
            "next batch is launched before the last one is processed (event_loop_overlap, the default since pull "
            "request 2067, which names the TTFT that it costs)"
        ),
    ),
}
_VLLM_SMALL = Policy(
    engine="vllm",
    versions="0.10-0.18",
    mixes=True,
    chunks=True,
    batch_tokens=2048,
    requests=256,
    unseen_bytes=_DRIVER_BYTES,
    graph_rows=512,
    source=_VLLM_SOURCE,
)
_SGLANG_APART_BYTES = 13_440 * MIB
_ALIASES = {"trtllm": "tensorrt-llm", "tensorrt_llm": "tensorrt-llm", "trt-llm": "tensorrt-llm"}


def policy_names() -> list[str]:
    """Engines with a policy."""
    return sorted(_POLICIES)


def policy(engine: str, device: Device, version: str | None = None) -> Policy:
    """The default policy of an engine on a device.

    Args:
        engine: name, in any case; `trtllm` stands for `tensorrt-llm`.
        device: defaults depend on its memory, vLLM's on its name too.
        version: of the engine, such as `0.12.0`; the newest of the policy where there is none.

    Raises:
        UnknownNameError: no such engine; the nearest are offered.
    """
    name = _ALIASES.get(engine.casefold(), engine.casefold())
    if name not in _POLICIES:
        raise UnknownNameError("engine", engine, [*policy_names(), *_ALIASES])
    large = device.memory_bytes >= _LARGE_MEMORY_BYTES and "a100" not in device.name
    if name == "sglang":
        left = max(1.0 - _SGLANG_APART_BYTES / device.memory_bytes, 0.1)
        return replace(_POLICIES[name], memory_ratio=left)
    if name == "vllm":
        numbers = re.match(r"v?(\d+)\.(\d+)", version or "")
        old = numbers is not None and (int(numbers[1]), int(numbers[2])) < _VLLM_AHEAD_FROM
        return replace(_POLICIES[name] if large else _VLLM_SMALL, ahead=not old)
    return _POLICIES[name]
