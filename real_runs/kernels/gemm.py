"""How long does a matrix product of M tokens with a model's weight take?

Shapes come from an architecture by name. Leaves out fused epilogues.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch.nn import functional as F  # noqa: N812

from costmodel.architectures.library import load_model
from costmodel.passes import ops
from costmodel.passes.precision import BYTES_PER_VALUE
from real_runs.kernels.machine import DTYPES
from real_runs.kernels.operands import drawing
from real_runs.kernels.sweep import Case, Variant, coarse_first
from real_runs.kernels.timing import Call

_SPLIT_BY_INPUT = (
    "output",
    "down",
    "shared_down",
)  # second of a pair: each device holds some of the inner width
_FP8_TOLERANCE = (
    0.02  # of the same eight-bit numbers multiplied in float32: fast accumulation and bf16 results
)
_WHOLE = ("router", "q_down", "kv_down")


def weight_shapes(
    model: str, *, tensor_parallel: int = 1, head: bool = True
) -> list[tuple[int, int]]:
    """Distinct weights (N, K) of a model's most frequent layer and of its output head.

    Args:
        model: shipped name.
        tensor_parallel: devices that share each weight: columns of the first, rows of the second of
            a pair.
        head: include the output head.

    Raises:
        UnknownNameError: no such model.
    """
    architecture = load_model(model)
    block = max(architecture.blocks, key=lambda pair: pair[1])[0]
    hidden = architecture.hidden
    shapes = []
    for name, outputs, inputs in (
        *block.attention.projections(hidden),
        *block.feed_forward.projections(hidden),
    ):
        parts = 1 if name in _WHOLE else tensor_parallel
        shapes.append(
            (outputs, inputs // parts) if name in _SPLIT_BY_INPUT else (outputs // parts, inputs)
        )
    if head:
        shapes.append((architecture.vocab // tensor_parallel, hidden))
    return list(dict.fromkeys(shapes))


def gemm_cases(
    weights: Sequence[tuple[int, int]], device: torch.device, dtype: str, *, rows: Sequence[int]
) -> list[Case]:
    """Every weight with every number of tokens, coarse first.

    Args:
        weights: (N, K) each.
        device: where.
        dtype: of `DTYPES`, or "fp8" (E4M3 with one scale per operand, bf16 out).
        rows: tokens M.
    """
    picks = coarse_first([list(rows), list(range(len(weights)))])
    return [_case(m, *weights[index], device, dtype) for m, index in picks]


def _case(m: int, n: int, k: int, device: torch.device, dtype: str) -> Case:
    width = BYTES_PER_VALUE[dtype]
    work = ops.gemm(m, n, k, weight_bytes=width, activation_bytes=max(width, 2.0))
    build = (
        _fp8_builders if dtype == "fp8" else partial(_builders, DTYPES.get(dtype, torch.float32))
    )
    return Case(
        shape={"operation": "gemm", "dtype": dtype, "rows": m, "outputs": n, "inputs": k},
        flops=float(work.flops),
        bytes=float(work.bytes),
        set_bytes=width * (n * k + m * k) + max(width, 2.0) * m * n,
        build=partial(build, m, n, k, device),
    )


def _builders(
    dtype: torch.dtype, m: int, n: int, k: int, device: torch.device, sets: int
) -> Mapping[str, Callable[[], Variant]]:
    drawn = drawing(device)
    operands = [
        (
            torch.empty(m, k, device=device, dtype=dtype).normal_(generator=drawn),
            torch.empty(n, k, device=device, dtype=dtype).uniform_(-1.0, 1.0, generator=drawn),
        )
        for _ in range(sets)
    ]
    return {
        "linear": lambda: Variant(calls=[partial(F.linear, x, weight) for x, weight in operands])
    }


def _fp8_builders(
    m: int, n: int, k: int, device: torch.device, sets: int
) -> Mapping[str, Callable[[], Variant]]:
    one = torch.ones((), device=device)

    def eight(rows: int, columns: int) -> torch.Tensor:
        numbers = torch.empty(rows, columns, device=device, dtype=torch.bfloat16).normal_(
            generator=drawing(device)
        )
        return numbers.to(torch.float8_e4m3fn)

    def call(x: torch.Tensor, weight: torch.Tensor) -> Call:
        scales: dict[str, Any] = {"scale_a": one, "scale_b": one, "out_dtype": torch.bfloat16}
        return lambda: torch._scaled_mm(x, weight.t(), use_fast_accum=True, **scales)

    operands = [(eight(m, k), eight(n, k)) for _ in range(sets)]

    def checked() -> Variant:
        calls = [call(x, weight) for x, weight in operands]
        x, weight = operands[0]
        exact = x.float() @ weight.float().t()
        error = float((calls[0]().float() - exact).norm() / exact.norm())
        if not error < _FP8_TOLERANCE:
            raise ArithmeticError(
                f"wrong: relative error {error:.3g} against the product in float32"
            )
        return Variant(calls=calls)

    return {"scaled-mm": checked}
