"""How long does a profile say that measured operations take, and how many bytes do they touch?

Maps the columns of `Measurements` to the forms of `costmodel.passes.kernels`. Leaves out fitting
and scores.
"""

from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np

from costmodel.calibration.measurements import Measurements
from costmodel.passes import kernels, ops
from costmodel.passes.kernels.communication import Backend
from costmodel.passes.kernels.timing import Timing
from costmodel.passes.ops import Array, Work
from costmodel.passes.precision import BYTES_PER_VALUE
from hardware_profiles.profile import Device

# the only absorbed latent attention that tables hold, DeepSeek-V2 and V3
MLA_LATENT, MLA_ROPE = (512, 64)
Columns = Mapping[str, Array]
VerifyForm = Literal["split", "unsplit"]
Timed = tuple[Timing, Array]  # by row: what the time is made of, and bytes touched


def timed(
    device: Device,
    rows: Measurements,
    *,
    dtype: str = "bf16",
    verify: VerifyForm = "split",
    matrices: Array | None = None,
) -> tuple[Array, Array]:
    """Seconds that the profile predicts for every row, and bytes that the row touches; arguments as
    in `timings`.
    """
    timing, touched = timings(device, rows, dtype=dtype, verify=verify, matrices=matrices)
    return timing.seconds, touched


def timings(
    device: Device,
    rows: Measurements,
    *,
    dtype: str = "bf16",
    verify: VerifyForm = "split",
    matrices: Array | None = None,
) -> Timed:
    """What the profile predicts for every row, and bytes that the row touches.

    Args:
        device: profile.
        rows: measurements of one operation.
        dtype: format of operands.
        verify: whether the kernel behind `attention_verify` splits a request's cache.
        matrices: weight matrices of an expert by row; None: 3, gated.
    """
    c = rows.columns
    if rows.operation == "gemm":
        return _gemm(device, c, dtype)
    if rows.operation == "attention_verify":
        return _verify(device, c, dtype, verify)
    if rows.operation == "moe":
        return _moe(device, c, dtype, matrices)
    if rows.operation == "allreduce":
        return _allreduce(device, rows)
    plain: dict[str, Callable[[Device, Columns, str], Timed]] = {
        "attention_generation": _generation,
        "attention_context": _context,
        "mla_generation": _mla,
    }
    return plain[rows.operation](device, c, dtype)


def _gemm(device: Device, c: Columns, dtype: str) -> Timed:
    width = BYTES_PER_VALUE[dtype]
    wide = max(width, 2.0)
    work = ops.gemm(c["rows"], c["outputs"], c["inputs"], weight_bytes=width, activation_bytes=wide)
    read = c["rows"] * c["inputs"]
    work = work._replace(bytes=work.bytes - read * (wide - width))
    timing = kernels.gemm(device, work, c["rows"], dtype, outputs=c["outputs"])
    narrowed = c["converts"] * (width < wide)
    return (
        _after_narrowing(device, timing, narrowed, read * (wide + width))
        if narrowed.any()
        else timing
    ), work.bytes


def _after_narrowing(device: Device, timing: Timing, narrowed: Array, moved: Array) -> Timing:
    """Products of tables that time the conversion of their inputs from 16 bits with them, where
    `narrowed` is 1.
    """
    constants = device.constants
    extra = (
        narrowed
        * moved
        / (device.bandwidth_bytes_per_s * constants.elementwise.bandwidth_efficiency)
    )
    launch = narrowed * constants.elementwise.kernel_s
    return Timing(
        timing.seconds + launch + extra,
        timing.compute_s,
        timing.memory_s + extra,
        timing.launch_s + launch,
    )


def _work(c: Columns, dtype: str) -> Work:
    width = BYTES_PER_VALUE[dtype]
    return ops.attention(
        c["requests"],
        c["query_tokens"],
        c["context"],
        heads=c["heads"],
        kv_heads=c["kv_heads"],
        head_dim=c["head_dim"],
        window=None,
        kv_bytes=width,
        activation_bytes=width,
    )


def _generation(device: Device, c: Columns, dtype: str) -> Timed:
    work = _work(c, dtype)
    timing = kernels.split_attention(
        device,
        work,
        requests=c["requests"],
        query_tokens=c["query_tokens"],
        context=c["context"],
        heads=c["heads"],
        kv_heads=c["kv_heads"],
        head_dim=c["head_dim"],
        dtype=dtype,
    )
    return timing, work.bytes


def _context(device: Device, c: Columns, dtype: str) -> Timed:
    work = _work(c, dtype)
    timing = kernels.prefill_attention(
        device,
        work,
        dtype,
        requests=c["requests"],
        query_tokens=c["query_tokens"],
        context=c["context"],
        heads=c["heads"],
        head_dim=c["head_dim"],
    )
    return timing, work.bytes


def _verify(device: Device, c: Columns, dtype: str, form: VerifyForm) -> Timed:
    if form == "split":
        return _generation(device, c, dtype)
    alone = _work(c, dtype)
    others = {
        **c,
        "requests": c["beside_requests"],
        "query_tokens": np.ones(1),
        "context": c["beside_context"],
    }
    beside = _work(others, dtype)
    work = Work(alone.flops + beside.flops, alone.bytes + beside.bytes)
    timing = kernels.unsplit_attention(
        device,
        work,
        requests=c["requests"],
        query_tokens=c["query_tokens"],
        context=c["context"],
        heads=c["heads"],
        kv_heads=c["kv_heads"],
        dtype=dtype,
        beside=(c["beside_requests"], c["beside_context"]),
    )
    return timing, work.bytes


def _mla(device: Device, c: Columns, dtype: str) -> Timed:
    width = BYTES_PER_VALUE[dtype]
    work = ops.latent_attention(
        c["requests"],
        1.0,
        c["context"],
        heads=c["heads"],
        latent=MLA_LATENT,
        rope=MLA_ROPE,
        kv_bytes=width,
        activation_bytes=width,
    )
    timing = kernels.latent_attention(
        device, work, dtype, context=c["context"], requests=c["requests"], rows=c["heads"]
    )
    return timing, work.bytes


def expert_work(
    c: Columns, dtype: str, matrices: Array | float, *, padded: str = "padded_rows"
) -> Work:
    """FLOPs and bytes of measured expert layers, with the rows of the column `padded`.

    Args:
        c: columns of a table of expert layers.
        dtype: format of operands.
        matrices: weight matrices of an expert, by row.
        padded: column with rows padded to tiles.
    """
    width = BYTES_PER_VALUE[dtype]
    return ops.experts(
        c["tokens"],
        c["visited"],
        hidden=c["hidden"],
        width=c["width"],
        matrices=matrices,
        experts_per_token=c["experts_per_token"],
        weight_bytes=width,
        activation_bytes=width,
        padded_rows=c[padded],
    )


def _moe(device: Device, c: Columns, dtype: str, matrices: Array | None) -> Timed:
    padded = (
        "padded_rows" if device.constants.moe.many_rows > ops.LEAST_ROWS else "least_padded_rows"
    )
    work = expert_work(c, dtype, 3.0 if matrices is None else matrices, padded=padded)
    return kernels.experts(
        device, work, c["visited"], dtype, hidden=c["hidden"], width=c["width"]
    ), work.bytes


def _allreduce(device: Device, rows: Measurements) -> Timed:
    size, devices, graphs = (rows.columns[name] for name in ("bytes", "devices", "graphs"))
    seconds, memory, launch = np.zeros((3, len(rows)))
    backends: tuple[Backend, ...] = ("vllm", "trtllm", "nccl")
    for backend in backends:
        for count in np.unique(devices):
            for captured in (False, True):
                mine = (rows.part == backend) & (devices == count) & (graphs == captured)
                if mine.any():
                    timing = kernels.allreduce(
                        device, size[mine], int(count), graphs=captured, backend=backend
                    )
                    seconds[mine], memory[mine], launch[mine] = (
                        timing.seconds,
                        timing.memory_s,
                        timing.launch_s,
                    )
    return Timing(seconds, np.zeros(()), memory, launch), size
