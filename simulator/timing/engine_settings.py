"""How was the engine set up whose kernels were measured?

Reads the settings that a recording of a serving engine comes with: the arguments that the engine
was started with (`engine_kwargs`, vLLM's names) and the machine (`sim_config`). Leaves out times
(`simulator.timing.profile_timer`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.architectures.architecture import Architecture
from costmodel.architectures.library import load_model
from costmodel.engine_library import load_engine
from costmodel.engines.record.engine import Engine
from costmodel.parallel.plan import ParallelPlan, weight_bytes
from costmodel.passes.memory import activation_bytes, kv_bytes
from costmodel.passes.precision import Precision
from costmodel.scheduler import Scheduler
from hardware_profiles.errors import InfeasibleError, InputError
from hardware_profiles.loader import load_device
from hardware_profiles.units import GIB, GIGA, NANO
from simulator.loop.options import SchedulerOptions
from simulator.timing.engine_keys import NO_TIME, Keys
from traces.importers.files import expect_object, parse_json, read_text

_DTYPES = {
    "auto": "bf16",
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "float": "fp32",
}
_KV_DTYPES = {"auto": "", "fp8": "fp8", "fp8_e4m3": "fp8", "fp8_e5m2": "fp8"} | _DTYPES
_MOST = 1 << 24
_TOP = frozenset({"model", "vllm_version", "engine_kwargs", "sim_config", "kv_cache"})
# of the run that was recorded, as LLMServingSim's bench notes it beside the settings
_RUN = frozenset(
    {
        "schema_version",
        "dataset_path",
        "dataset_hash",
        "started_at",
        "finished_at",
        "num_requests",
        "tick_seconds",
        "hardware",
        "resolved_config",
    }
)
_READ = frozenset(
    {
        "model",
        "tensor_parallel_size",
        "data_parallel_size",
        "enable_expert_parallel",
        "max_num_seqs",
        "max_num_batched_tokens",
        "max_model_len",
        "dtype",
        "kv_cache_dtype",
        "enable_chunked_prefill",
        "enable_prefix_caching",
        "block_size",
        "gpu_memory_utilization",
        "async_scheduling",
        "pipeline_parallel_size",
        "num_gpu_blocks_override",
        "num_gpu_blocks",
        "enforce_eager",
        "all2all_backend",
        "enable_eplb",
        "enable_dbo",
    }
)
# of the running engine's cache, said beside its blocks
_CACHE_TOO = frozenset(
    {
        "num_cpu_blocks",
        "num_kv_tokens",
        "gpu_memory_utilization",
        "enable_prefix_caching",
        "kv_cache_memory_bytes",
    }
)
# settings with one value that is simulated
_FIXED = (
    ("pipeline_parallel_size", 1, "stages of a pipeline are not simulated from a profile"),
    ("enforce_eager", False, "a profile says nothing of the host, which eager passes wait for"),
    (
        "all2all_backend",
        "allgather_reducescatter",
        "must be vLLM's default, allgather_reducescatter",
    ),
    ("enable_eplb", False, "copies of popular experts are not simulated"),
    ("enable_dbo", False, "exchanges hidden behind a second batch are not simulated"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineSettings:
    """An engine as it was started.

    Args:
        model: name of the model.
        architecture: its shapes.
        precision: number formats of weights and cache.
        tensor_parallel: devices that share the model.
        started: its scheduler.
        block_tokens: tokens of a cache block.
        stated_blocks: of its cache, as it said itself or was told; None: what the memory leaves.
        memory_bytes: of one device; 0 where not stated.
        memory_ratio: share of it that the engine uses.
        memory_bytes_per_s: read or written; 0 where not stated.
        link_bytes_per_s: between the devices; 0 where not stated.
        link_latency_s: of one message.
        replicas: copies of attention and dense layers, each with requests and a cache of its own.
        expert_parallel: every routed expert lies whole on one of all the devices.
        longest_request: most tokens of prompt and output together; None: the model's own limit.
    """

    model: str
    architecture: Architecture
    precision: Precision
    tensor_parallel: int
    started: Scheduler
    block_tokens: int
    stated_blocks: int | None
    memory_bytes: float
    memory_ratio: float
    memory_bytes_per_s: float
    link_bytes_per_s: float
    link_latency_s: float
    replicas: int
    expert_parallel: bool
    longest_request: int | None

    @property
    def in_step(self) -> bool:
        """Whether the copies begin every iteration together, since tokens of one go to experts of
        another.
        """
        return self.replicas > 1 and self.architecture.is_moe

    @property
    def expert_devices(self) -> int:
        """Devices among which the routed experts of a layer are divided."""
        return self.tensor_parallel * (self.replicas if self.in_step else 1)

    @property
    def layers(self) -> int:
        """Layers of the model."""
        return sum(count for _, count in self.architecture.blocks)

    def kv_blocks(self) -> int:
        """Cache blocks: as many as the engine said, else what the stated memory leaves beside the
        weights.

        Raises:
            InputError: the memory is not stated.
            InfeasibleError: not one block is left.
        """
        if self.stated_blocks is not None:
            return self.stated_blocks
        if self.memory_bytes <= 0.0:
            raise InputError("must be stated for the size of the cache", key="npu_mem.mem_size")
        model, shared = self.architecture, self.tensor_parallel
        spread = ParallelPlan(tensor=shared)
        if self.in_step:
            spread = replace(spread, data=self.replicas, expert=self.expert_devices)
        free = replace(
            load_engine("vllm").memory, ratio=self.memory_ratio, unseen_bytes=0.0
        ).cache_bytes(
            self.memory_bytes,
            weights_bytes=weight_bytes(model, self.precision, spread),
            activations_bytes=activation_bytes(
                model,
                self.precision,
                tokens=self.started.token_budget,
                logit_rows=self.started.max_requests,
            ),
        )
        block = kv_bytes(
            model, self.precision, batch=1, context=self.block_tokens, tensor_parallel=shared
        )
        blocks = int(np.floor(float(free) / float(block)))
        if blocks < 1:
            raise InfeasibleError(
                f"{self.model} leaves no room for a cache", key="npu_mem.mem_size"
            )
        return blocks

    def scheduler(self, **changes: Any) -> SchedulerOptions:
        """The scheduler of this engine.

        Args:
            changes: fields of `SchedulerOptions` that differ; `kv_blocks` follows from the memory
                where left out.
        """
        options = asdict(self.started) | {"block_tokens": self.block_tokens} | changes
        if "kv_blocks" not in options:
            options["kv_blocks"] = self.kv_blocks()
        return SchedulerOptions(**options)


def read_engine(path: str | Path) -> EngineSettings:
    """Read an engine's settings.

    Args:
        path: JSON with `engine_kwargs` (or those keys at the top) and, for memory and links,
            `sim_config`. What is not stated is vLLM's default, at the release that `vllm_version`
            names.

    Raises:
        InputError: no such JSON, a value out of range, an unknown model or format, a setting that
            would go unread, or two places that disagree.
    """
    file = str(path)
    document = expect_object(parse_json(read_text(path), file), file, "document")
    top = Keys(document, file, "")
    keys = (
        top.inside("engine_kwargs")
        if "engine_kwargs" in document
        else Keys(document, file, "engine_kwargs")
    )
    if "engine_kwargs" in document:
        top.only(_TOP, _RUN)
    keys.only(_READ, NO_TIME | (frozenset() if "engine_kwargs" in document else _TOP))
    for key, only, why in _FIXED:
        keys.must_be(key, only, why)
    name = keys.text("model", top.text("model", ""))
    if not name:
        raise InputError("must name the model", file=file, key="engine_kwargs.model")
    architecture, sizes = load_model(name), _sizes(keys)
    if sizes["replicas"] > 1 and architecture.is_moe and not sizes["expert_parallel"]:
        rule = (
            "copies of a model with experts need expert parallelism: kernels of experts were"
            " measured whole"
        )
        raise InputError(rule, file=file, key="engine_kwargs.enable_expert_parallel", value=False)
    vllm = load_engine("vllm").on(load_device("h100-sxm"), top.text("vllm_version", "") or None)
    return EngineSettings(
        model=name,
        architecture=architecture,
        precision=_precision(keys),
        **sizes,
        **_limits(keys, top.inside("kv_cache"), vllm),
        **_machine(
            top.inside("sim_config"),
            sizes,
            keys.number("gpu_memory_utilization", vllm.memory.ratio),
        ),
    )


def _precision(keys: Keys) -> Precision:
    weights, kv = keys.text("dtype", "auto"), keys.text("kv_cache_dtype", "auto")
    for key, value, formats in (("dtype", weights, _DTYPES), ("kv_cache_dtype", kv, _KV_DTYPES)):
        if value not in formats:
            raise InputError(
                f"must be one of {', '.join(sorted(formats))}", file=keys.file, key=key, value=value
            )
    dtype = _DTYPES[weights]
    return Precision(weights=dtype, activations=dtype, kv=_KV_DTYPES[kv] or dtype)


def _sizes(keys: Keys) -> dict[str, Any]:
    """How the model is spread."""
    return {
        "tensor_parallel": keys.whole("tensor_parallel_size", 1),
        "replicas": keys.whole("data_parallel_size", 1),
        "expert_parallel": keys.truth("enable_expert_parallel", False),
    }


def _limits(keys: Keys, cache: Keys, vllm: Engine) -> dict[str, Any]:
    """Of the scheduler and of the cache's blocks, which `cache` holds as the running engine had
    them.
    """
    usual = vllm.scheduling
    cache.only(("num_gpu_blocks", "block_size"), _CACHE_TOO)
    block_tokens = cache.whole("block_size", keys.whole("block_size", vllm.memory.block_tokens))
    stated_blocks = keys.whole("num_gpu_blocks_override", keys.whole("num_gpu_blocks", _MOST))
    blocks = cache.whole("num_gpu_blocks", stated_blocks)
    longest = keys.whole("max_model_len", _MOST)
    return {
        "started": Scheduler(
            token_budget=keys.whole("max_num_batched_tokens", usual.token_budget),
            max_requests=keys.whole("max_num_seqs", usual.max_requests),
            # vLLM 0.6 and later: prompts share iterations in chunks and their blocks are shared,
            # unless switched off
            chunked_prefill=keys.truth("enable_chunked_prefill", True),
            prefix_cache=keys.truth("enable_prefix_caching", True),
            overlapped_scheduling=keys.truth("async_scheduling", usual.overlapped_scheduling),
        ),
        "block_tokens": block_tokens,
        "stated_blocks": None if blocks == _MOST else blocks,
        "longest_request": None if longest == _MOST else longest,
    }


def _machine(machine: Keys, sizes: Mapping[str, Any], ratio: float) -> dict[str, Any]:
    """Memory of a device and links between them; `sizes` are those of the engine, which the machine
    must agree with.

    Args:
        machine: the settings' `sim_config`, which may be empty.
        sizes: of `_sizes`.
        ratio: share of the memory that the engine uses where the machine states none.
    """
    machine.only(("num_nodes", "link_bw", "link_latency", "nodes"))
    machine.must_be("num_nodes", 1, "links between nodes are not stated: one node is simulated")
    nodes = machine.objects("nodes")
    if len(nodes) > 1:
        raise InputError(
            "one node is simulated", file=machine.file, key=machine.named("nodes"), value=len(nodes)
        )
    instances: tuple[Keys, ...] = ()
    for node in nodes:
        node.only(("num_instances", "instances"), ("cpu_mem",))
        instances = node.objects("instances")
        node.must_be("num_instances", len(instances), "must be the number of instances that follow")
    for instance in instances:
        _check_instance(instance, instances[0], sizes, len(instances))
    first = (
        instances[0]
        if instances
        else Keys({}, machine.file, machine.named("nodes[0].instances[0]"))
    )
    memory = first.inside("npu_mem")
    return {
        # LLMServingSim counts mem_size in 1024^3 bytes (serving/core/memory_model.py), and
        # ASTRA-sim counts link_bw in 10^9
        "memory_bytes": memory.number("mem_size", 0.0) * GIB,
        "memory_ratio": memory.number("mem_util", ratio),
        "memory_bytes_per_s": memory.number("mem_bw", 0.0) * GIGA,
        "link_bytes_per_s": machine.number("link_bw", 0.0) * GIGA,
        "link_latency_s": machine.number("link_latency", 0.0) * NANO,
    }


def _check_instance(instance: Keys, first: Keys, sizes: Mapping[str, Any], count: int) -> None:
    """An instance is like the first one, and as the engine was started."""
    tensor, replicas = sizes["tensor_parallel"], sizes["replicas"]
    instance.only(
        ("npu_mem", "num_npus", "tp_size", "ep_size", "dp_group", "pd_type"),
        ("model_name", "hardware"),
    )
    instance.must_be("tp_size", tensor, "must be engine_kwargs.tensor_parallel_size")
    instance.must_be("num_npus", tensor, "must be engine_kwargs.tensor_parallel_size")
    instance.inside("npu_mem").only(("mem_size", "mem_util", "mem_bw"), ("mem_latency",))
    together = tensor * replicas if sizes["expert_parallel"] else 1
    instance.must_be("ep_size", together, f"must be {together}, as engine_kwargs says")
    if count > 1 and count != replicas:
        rule = "must be as many as engine_kwargs.data_parallel_size"
        raise InputError(rule, file=instance.file, key="instances", value=count)
    if instance.values.get("pd_type") is not None:
        rule = "prompts apart are a section of the scenario: disaggregation.prefill_replicas"
        raise InputError(
            rule,
            file=instance.file,
            key=instance.named("pd_type"),
            value=instance.values["pd_type"],
        )
    if dict(instance.values) != dict(first.values):
        raise InputError("must be as the first instance", file=instance.file, key=instance.place)
