"""What does one pass of one model cost: b requests of n new tokens each over a cache?

Sums the operations of every layer, the output head and the sampler on one device of a tensor-parallel group.
Leaves out the host (see `step`) and everything between passes.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from costmodel import kernels, ops
from costmodel.architecture import Architecture, Attention, Block, Projection
from costmodel.kernels import Timing
from costmodel.ops import Array, Mask, Number, Work
from costmodel.precision import Precision
from hardware_profiles.errors import InputError
from hardware_profiles.profile import Device

Fidelity = Literal["datasheet", "calibrated"]
Logits = Literal["all", "last", "none"]
_INPUT_SPLIT = ("output", "down", "shared_down", "expert_down")  # sharded along the inner dimension


@dataclass(frozen=True, kw_only=True, slots=True)
class Deployment:
    """A model on a device, and how it runs there.

    Args:
        architecture: the model.
        device: one device of the group.
        precision: number formats.
        tensor_parallel: devices N that share every layer; must divide the query heads.
        fidelity: `datasheet` (bare roofs) or `calibrated` (the profile's constants).
        split_verify: the attention kernel can split a request's cache among processors when it has several
            query tokens; False bills the whole context to one unit.
        graphs: passes are captured in graphs, so that the host costs nothing per layer.
        expert_correlation: of the experts that one request's tokens of a pass choose, 0 to 1.

    Raises:
        InputError: a tensor-parallel degree that does not divide the heads, a correlation outside [0, 1].
    """

    architecture: Architecture
    device: Device
    precision: Precision
    tensor_parallel: int = 1
    fidelity: Fidelity = "calibrated"
    split_verify: bool = True
    graphs: bool = True
    expert_correlation: float = 0.0

    def __post_init__(self) -> None:
        n = self.tensor_parallel
        if n < 1 or any(block.attention.heads % n for block, _ in self.architecture.blocks):
            raise InputError(f"must be >= 1 and divide the heads of {self.architecture.name}", key="tp", value=n)
        if not 0.0 <= self.expert_correlation <= 1.0:
            raise InputError("must lie in [0, 1]", key="expert_correlation", value=self.expert_correlation)


@dataclass(frozen=True, kw_only=True, slots=True)
class PassCost:
    """Cost of a pass; every array broadcasts over the batch, query-token and context arguments.

    Args:
        seconds: by operation: gemm, attention, mla, moe, elementwise, allreduce, head, sampler.
        flops: of all operations, one device.
        bytes: moved from memory, one device.
        compute_s: time the arithmetic alone would take.
        memory_s: time the traffic alone would take.
        launch_s: launches and synchronisation.
    """

    seconds: Mapping[str, Array]
    flops: Array
    bytes: Array
    compute_s: Array
    memory_s: Array
    launch_s: Array

    @property
    def total_s(self) -> Array:
        """Seconds of the pass."""
        return np.asarray(sum(self.seconds.values(), start=np.zeros(())))

    @property
    def limit(self) -> Array:
        """What bounds the pass: `bandwidth`, `compute` or `launch`, whichever alone would take longest."""
        parts = np.stack(np.broadcast_arrays(self.memory_s, self.compute_s, self.launch_s))
        return np.asarray(np.array(["bandwidth", "compute", "launch"])[np.argmax(parts, axis=0)])


def pass_cost(
    deployment: Deployment,
    *,
    batch: Number,
    query_tokens: Number,
    context: Number,
    logits: Logits = "all",
    prefill: bool = False,
) -> PassCost:
    """Cost of one pass of `batch` requests with `query_tokens` new tokens each over `context` cached ones.

    Args:
        deployment: model, device and how they run.
        batch: requests b, > 0; arrays broadcast, and fractions are allowed (mean values).
        query_tokens: new tokens per request n, > 0.
        context: cached tokens per request, >= 0.
        logits: rows that reach the output head: `all` tokens (decode, verify), the `last` of each request
            (prefill), or `none`.
        prefill: use the prompt-processing form of attention.

    Raises:
        InputError: a negative, zero or non-finite argument.

    >>> from hardware_profiles.loader import load_device
    >>> from costmodel.model_library import load_model
    >>> d = Deployment(architecture=load_model("llama-3.1-8b"), device=load_device("h100-sxm"), precision=Precision())
    >>> cost = pass_cost(d, batch=1, query_tokens=1, context=1024)
    >>> bool(4.5e-3 < cost.total_s < 8e-3), str(cost.limit)
    (True, 'bandwidth')
    """
    b, n, context_tokens = _checked(batch, query_tokens, context)
    tally = _Tally()
    for block, count in deployment.architecture.blocks:
        for name, timing, work in _block(deployment, block, b, n, context_tokens, prefill):
            tally.add(name, timing, work, count)
    for name, timing, work in _head(deployment, b, n, logits):
        tally.add(name, timing, work, 1)
    return tally.cost()


class _Tally:
    """Running sums of a pass; arrays keep their own small shapes until somebody asks for the total."""

    def __init__(self) -> None:
        self.seconds: dict[str, Array] = {}
        zero = np.zeros(())
        self.flops, self.bytes, self.compute, self.memory, self.launch = zero, zero, zero, zero, zero

    def add(self, name: str, timing: Timing, work: Work, count: int) -> None:
        self.seconds[name] = self.seconds.get(name, np.zeros(())) + count * timing.seconds
        self.flops = self.flops + count * work.flops
        self.bytes = self.bytes + count * work.bytes
        self.compute = self.compute + count * timing.compute_s
        self.memory = self.memory + count * timing.memory_s
        self.launch = self.launch + count * timing.launch_s

    def cost(self) -> PassCost:
        return PassCost(
            seconds=self.seconds,
            flops=self.flops,
            bytes=self.bytes,
            compute_s=self.compute,
            memory_s=self.memory,
            launch_s=self.launch,
        )


Operation = tuple[str, Timing, Work]


def _block(d: Deployment, block: Block, b: Array, n: Array, context: Array, prefill: bool) -> Iterator[Operation]:
    hidden, rows = d.architecture.hidden, b * n
    feed_forward = block.feed_forward
    for projection in (*block.attention.projections(hidden), *feed_forward.projections(hidden)):
        yield _gemm(d, projection, rows)
    yield _attention(d, block.attention, b, n, context, prefill)
    if feed_forward.is_moe:
        yield _experts(d, block, b, n)
    width = (feed_forward.shared_width if feed_forward.is_moe else feed_forward.width) / d.tensor_parallel
    work = ops.elementwise(rows, hidden, width, activation_bytes=d.precision.activation_bytes)
    dtype = d.precision.activations
    yield "elementwise", _timed(d, work, lambda: kernels.elementwise(d.device, work), dtype), work
    if d.tensor_parallel > 1:
        message = rows * hidden * d.precision.activation_bytes
        timing = kernels.allreduce(d.device, message, d.tensor_parallel, graphs=d.graphs)
        for _ in range(2):
            yield "allreduce", timing, Work(np.zeros(()), np.zeros(()))


def _gemm(d: Deployment, projection: Projection, rows: Array, name: str = "gemm") -> Operation:
    role, outputs, inputs = projection
    replicated = role in ("router", "q_down", "kv_down")
    n, k = float(outputs), float(inputs)
    if not replicated:
        n, k = (n, k / d.tensor_parallel) if role in _INPUT_SPLIT else (n / d.tensor_parallel, k)
    p = d.precision
    work = ops.gemm(rows, n, k, weight_bytes=p.weight_bytes, activation_bytes=p.activation_bytes)
    timing = _timed(d, work, lambda: kernels.gemm(d.device, work, rows, p.activations), p.activations)
    return name, timing, work


def _attention(d: Deployment, attention: Attention, b: Array, n: Array, context: Array, prefill: bool) -> Operation:
    p, dtype = d.precision, d.precision.activations
    heads = attention.heads / d.tensor_parallel
    if attention.is_mla:
        work = ops.latent_attention(
            b, n, context, heads=heads, latent=attention.kv_lora_rank, rope=attention.rope_dim,
            kv_bytes=p.kv_bytes, activation_bytes=p.activation_bytes,
        )  # fmt: skip
        return "mla", _timed(d, work, lambda: kernels.latent_attention(d.device, work, dtype), dtype), work
    kv_heads = max(1.0, attention.kv_heads / d.tensor_parallel)
    work = ops.attention(
        b, n, context, heads=heads, kv_heads=kv_heads, head_dim=attention.head_dim, window=attention.window,
        kv_bytes=p.kv_bytes, activation_bytes=p.activation_bytes,
    )  # fmt: skip
    read = context if attention.window is None else np.minimum(context, float(attention.window))

    def calibrated() -> Timing:
        if prefill:
            return kernels.prefill_attention(d.device, work, dtype)
        split = kernels.split_attention(
            d.device,
            work,
            requests=b,
            query_tokens=n,
            context=read,
            heads=heads,
            kv_heads=kv_heads,
            dtype=dtype,
        )
        if d.split_verify:
            return split
        whole = kernels.unsplit_attention(
            d.device, work, requests=b, query_tokens=n, context=read, heads=heads, dtype=dtype
        )
        return _where(n > 1, whole, split)

    return "attention", _timed(d, work, calibrated, dtype), work


def _experts(d: Deployment, block: Block, b: Array, n: Array) -> Operation:
    feed_forward, p = block.feed_forward, d.precision
    tokens = ops.independent_tokens(b, n, d.expert_correlation)
    visited = ops.distinct_experts(tokens, feed_forward.experts, feed_forward.experts_per_token)
    work = ops.experts(
        b * n, visited, hidden=d.architecture.hidden, width=feed_forward.width / d.tensor_parallel,
        matrices=3 if feed_forward.gated else 2, experts_per_token=feed_forward.experts_per_token,
        weight_bytes=p.weight_bytes, activation_bytes=p.activation_bytes,
    )  # fmt: skip
    return (
        "moe",
        _timed(d, work, lambda: kernels.experts(d.device, work, visited, p.activations), p.activations),
        work,
    )


def _head(d: Deployment, b: Array, n: Array, logits: Logits) -> Iterator[Operation]:
    if logits == "none":
        return
    rows = b * n if logits == "all" else b * np.ones_like(n)
    yield _gemm(d, ("head", d.architecture.vocab, d.architecture.hidden), rows, "head")
    if d.fidelity == "calibrated":
        yield "sampler", kernels.sampler(d.device, rows), Work(np.zeros(()), np.zeros(()))


def _timed(d: Deployment, work: Work, calibrated: Callable[[], Timing], dtype: str) -> Timing:
    if d.fidelity == "calibrated":
        return calibrated()
    return kernels.roofline(d.device, work, dtype)


def _where(condition: Mask, yes: Timing, no: Timing) -> Timing:
    return Timing(*(np.where(condition, y, x) for y, x in zip(yes, no, strict=True)))


def _checked(batch: Number, query_tokens: Number, context: Number) -> tuple[Array, Array, Array]:
    values = []
    for key, value, least in (
        ("batch", batch, 0.0),
        ("query_tokens", query_tokens, 0.0),
        ("context", context, -1.0),
    ):
        array = np.asarray(value, dtype=np.float64)
        if not np.all(np.isfinite(array)) or np.any(array <= least) or np.any(array < 0.0):
            rule = "must be finite and > 0" if least == 0.0 else "must be finite and >= 0"
            raise InputError(rule, key=key, value=value)
        values.append(array)
    return values[0], values[1], values[2]
