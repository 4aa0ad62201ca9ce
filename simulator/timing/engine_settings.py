"""How was the engine set up whose kernels were measured?

Reads the settings that a recording of a serving engine comes with: the arguments that the engine was started with
(`engine_kwargs`, vLLM's names) and the machine (`sim_config`). Leaves out times (`simulator.timing.profile_timer`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.architectures.architecture import Architecture
from costmodel.architectures.library import load_model
from costmodel.engine_library import load_engine
from costmodel.passes.memory import activation_bytes, kv_bytes, weight_bytes
from costmodel.passes.precision import Precision
from hardware_profiles.errors import InfeasibleError, InputError
from hardware_profiles.loader import load_device
from hardware_profiles.units import GIGA, NANO
from simulator.loop.options import SchedulerOptions
from traces.importers.files import expect_object, parse_json, read_text

_DTYPES = {"auto": "bf16", "bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32", "float": "fp32"}
_KV_DTYPES = {"auto": "", "fp8": "fp8", "fp8_e4m3": "fp8", "fp8_e5m2": "fp8"} | _DTYPES
_MOST = 1 << 24
# vLLM 0.6 and later: prompts share iterations in chunks and their blocks are shared, unless switched off
_ON_BY_DEFAULT = ("enable_chunked_prefill", "enable_prefix_caching")


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineSettings:
    """An engine as it was started.

    Args:
        model: name of the model.
        architecture: its shapes.
        precision: number formats of weights and cache.
        tensor_parallel: devices that share the model.
        token_budget: most query tokens of an iteration.
        max_requests: most requests in flight.
        chunked_prefill: prompts are split over iterations.
        prefix_cache: prompts share blocks.
        block_tokens: tokens of a cache block.
        memory_bytes: of one device; 0 where not stated.
        memory_ratio: share of it that the engine uses.
        link_bytes_per_s: between the devices; 0 where not stated.
        link_latency_s: of one message.
        replicas: engines behind one router.
    """

    model: str
    architecture: Architecture
    precision: Precision
    tensor_parallel: int
    token_budget: int
    max_requests: int
    chunked_prefill: bool
    prefix_cache: bool
    block_tokens: int
    memory_bytes: float
    memory_ratio: float
    link_bytes_per_s: float
    link_latency_s: float
    replicas: int

    @property
    def layers(self) -> int:
        """Layers of the model."""
        return sum(count for _, count in self.architecture.blocks)

    def kv_blocks(self) -> int:
        """Cache blocks that the stated memory leaves beside the weights.

        Raises:
            InputError: the memory is not stated.
            InfeasibleError: not one block is left.
        """
        if self.memory_bytes <= 0.0:
            raise InputError("must be stated for the size of the cache", key="npu_mem.mem_size")
        model, shared = self.architecture, self.tensor_parallel
        free = replace(load_engine("vllm").memory, ratio=self.memory_ratio, unseen_bytes=0.0).cache_bytes(
            self.memory_bytes, weights_bytes=weight_bytes(model, self.precision, shared),
            activations_bytes=activation_bytes(
                model, self.precision, tokens=self.token_budget, logit_rows=self.max_requests
            ),
        )  # fmt: skip
        block = kv_bytes(model, self.precision, batch=1, context=self.block_tokens, tensor_parallel=shared)
        blocks = int(np.floor(float(free) / float(block)))
        if blocks < 1:
            raise InfeasibleError(f"{self.model} leaves no room for a cache", key="npu_mem.mem_size")
        return blocks

    def scheduler(self, **changes: Any) -> SchedulerOptions:
        """The scheduler of this engine.

        Args:
            changes: fields of `SchedulerOptions` that differ; `kv_blocks` follows from the memory where left out.
        """
        options: dict[str, Any] = {
            "token_budget": self.token_budget,
            "max_requests": self.max_requests,
            "chunked_prefill": self.chunked_prefill,
            "prefix_cache": self.prefix_cache,
            "block_tokens": self.block_tokens,
        }
        options |= changes
        if "kv_blocks" not in options:
            options["kv_blocks"] = self.kv_blocks()
        return SchedulerOptions(**options)


def read_engine(path: str | Path) -> EngineSettings:
    """Read an engine's settings.

    Args:
        path: JSON with `engine_kwargs` (or those keys at the top) and, for memory and links, `sim_config`. Keys
            without a meaning for time are passed over; what is not stated is vLLM's default.

    Raises:
        InputError: no such JSON, a value out of range, an unknown model or format.
    """
    file = str(path)
    document = expect_object(parse_json(read_text(path), file), file, "document")
    found = _Keys(expect_object(document.get("engine_kwargs", document), file, "engine_kwargs"), file, "engine_kwargs")
    node, instance = _machine(document, file)
    name = found.text("model", str(document.get("model", "")))
    if not name:
        raise InputError("must name the model", file=file, key="engine_kwargs.model")
    weights, kv = found.text("dtype", "auto"), found.text("kv_cache_dtype", "auto")
    for key, value, known in (("dtype", weights, _DTYPES), ("kv_cache_dtype", kv, _KV_DTYPES)):
        if value not in known:
            raise InputError(f"must be one of {', '.join(sorted(known))}", file=file, key=key, value=value)
    dtype = _DTYPES[weights]
    vllm = load_engine("vllm").on(load_device("h100-sxm"))
    usual = vllm.scheduling
    memory = _Keys(expect_object(instance.get("npu_mem", {}), file, "npu_mem"), file, "npu_mem")
    links = _Keys(node, file, "sim_config")
    chunked, shared = (found.truth(key) for key in _ON_BY_DEFAULT)
    return EngineSettings(
        model=name,
        architecture=load_model(name),
        precision=Precision(weights=dtype, activations=dtype, kv=_KV_DTYPES[kv] or dtype),
        tensor_parallel=found.whole("tensor_parallel_size", 1),
        token_budget=found.whole("max_num_batched_tokens", usual.batch_tokens),
        max_requests=found.whole("max_num_seqs", usual.requests),
        chunked_prefill=chunked,
        prefix_cache=shared,
        block_tokens=found.whole("block_size", vllm.memory.block_tokens),
        memory_bytes=memory.number("mem_size", 0.0) * GIGA,
        memory_ratio=memory.number("mem_util", found.number("gpu_memory_utilization", vllm.memory.ratio)),
        link_bytes_per_s=links.number("link_bw", 0.0) * GIGA,
        link_latency_s=links.number("link_latency", 0.0) * NANO,
        replicas=found.whole("data_parallel_size", 1),
    )


@dataclass(frozen=True, slots=True)
class _Keys:
    """Checked look-ups in one JSON object; null counts as absent."""

    values: Mapping[str, Any]
    file: str
    place: str

    def whole(self, key: str, default: int) -> int:
        value = self.values.get(key)
        value = default if value is None else value
        if type(value) is not int or not 1 <= value <= _MOST:
            raise InputError(f"must be a whole number in 1..{_MOST}", file=self.file, key=self._named(key), value=value)
        return value

    def number(self, key: str, default: float) -> float:
        value = self.values.get(key)
        value = default if value is None else value
        if type(value) not in (int, float) or not 0.0 <= value < float("inf"):
            raise InputError("must be a number >= 0", file=self.file, key=self._named(key), value=value)
        return float(value)

    def truth(self, key: str) -> bool:
        value = self.values.get(key)
        value = True if value is None else value
        if not isinstance(value, bool):
            raise InputError("must be true or false", file=self.file, key=self._named(key), value=value)
        return value

    def text(self, key: str, default: str) -> str:
        value = self.values.get(key)
        value = default if value is None else value
        if not isinstance(value, str):
            raise InputError("must be text", file=self.file, key=self._named(key), value=value)
        return value

    def _named(self, key: str) -> str:
        return f"{self.place}.{key}"


def _machine(document: Mapping[str, Any], file: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The machine's links and its first engine, empty where not stated."""
    machine = expect_object(document.get("sim_config") or {}, file, "sim_config")
    nodes = machine.get("nodes") or [{}]
    node = expect_object(nodes[0] if isinstance(nodes, list) else nodes, file, "sim_config.nodes[0]")
    instances = node.get("instances") or [{}]
    first = instances[0] if isinstance(instances, list) else instances
    return machine, expect_object(first, file, "sim_config.nodes[0].instances[0]")
