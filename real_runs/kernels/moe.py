"""How long does an expert layer take over M tokens?

The three matrix products of gated experts with the activation between them, tokens already grouped
by expert. Leaves out the router, the grouping and the weighted sum after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import torch
from torch.nn import functional as F  # noqa: N812

from costmodel.architectures.architecture import FeedForward
from costmodel.architectures.library import load_model
from costmodel.passes import ops
from costmodel.passes.precision import BYTES_PER_VALUE
from hardware_profiles.errors import InputError
from real_runs.kernels.machine import DTYPES
from real_runs.kernels.operands import drawing
from real_runs.kernels.sweep import Case, Variant, coarse_first
from real_runs.kernels.timing import Call

_TOLERANCE = 0.02


def expert_layer(model: str) -> tuple[int, FeedForward]:
    """Model width and expert layer of a model.

    Raises:
        InputError: the model has no gated experts.
    """
    architecture = load_model(model)
    for block, _ in architecture.blocks:
        if block.feed_forward.is_moe and block.feed_forward.gated:
            return architecture.hidden, block.feed_forward
    raise InputError("must have gated experts", key="model", value=model)


def tokens_per_expert(rows: int, layer: FeedForward, routing: str) -> list[int]:
    """How many tokens visit each expert.

    Args:
        rows: tokens.
        layer: expert layer.
        routing: "balanced": as even as can be; "random": distinct experts drawn evenly for each
            token.

    Returns:
        One count per expert, rows · experts_per_token in all.
    """
    if routing == "balanced":
        whole, rest = divmod(rows * layer.experts_per_token, layer.experts)
        return [whole + (index < rest) for index in range(layer.experts)]
    generator = np.random.default_rng(0)
    keys = generator.random((rows, layer.experts))
    chosen = np.argpartition(keys, layer.experts_per_token - 1, axis=1)[
        :, : layer.experts_per_token
    ]
    counts: list[int] = np.bincount(chosen.ravel(), minlength=layer.experts).tolist()
    return counts


def moe_cases(
    hidden: int,
    layer: FeedForward,
    device: torch.device,
    dtype: str,
    *,
    rows: Sequence[int],
    routings: Sequence[str],
) -> list[Case]:
    """Every number of tokens with every routing, coarse first.

    Args:
        hidden: width of the model.
        layer: experts, their width, and how many a token visits.
        device: where cases run.
        dtype: number format.
        rows: tokens of a pass, >= 1.
        routings: how tokens choose experts, as of `tokens_per_expert`.
    """
    picks = coarse_first([list(rows), list(range(len(routings)))])
    return [_case(m, hidden, layer, routings[index], device, dtype) for m, index in picks]


def _case(
    rows: int, hidden: int, layer: FeedForward, routing: str, device: torch.device, dtype: str
) -> Case:
    counts = tokens_per_expert(rows, layer, routing)
    width = BYTES_PER_VALUE[dtype]
    work = ops.experts(
        rows,
        sum(count > 0 for count in counts),
        hidden=hidden,
        width=layer.width,
        matrices=3,
        experts_per_token=layer.experts_per_token,
        weight_bytes=width,
        activation_bytes=width,
    )
    slots = rows * layer.experts_per_token
    return Case(
        shape={
            "operation": "moe",
            "dtype": dtype,
            "mask": routing,
            "rows": rows,
            "outputs": layer.width,
            "inputs": hidden,
            "experts": layer.experts,
            "experts_per_token": layer.experts_per_token,
        },
        flops=2.0 * slots * 3 * hidden * layer.width,
        bytes=float(work.bytes),
        set_bytes=width
        * (3 * layer.experts * hidden * layer.width + slots * (2 * hidden + 3 * layer.width)),
        build=partial(_builders, counts, hidden, layer.width, device, DTYPES[dtype]),
    )


def _builders(
    counts: Sequence[int],
    hidden: int,
    width: int,
    device: torch.device,
    dtype: torch.dtype,
    sets: int,
) -> Mapping[str, Callable[[], Variant]]:
    def numbers(*shape: int) -> torch.Tensor:
        return torch.empty(shape, device=device, dtype=dtype).uniform_(
            -0.1, 0.1, generator=drawing(device)
        )

    operands = [
        (
            numbers(sum(counts), hidden),
            numbers(len(counts), 2 * width, hidden),
            numbers(len(counts), hidden, width),
        )
        for _ in range(sets)
    ]

    def grouped() -> Variant:
        calls = [grouped_call(counts, *operand) for operand in operands]
        error = _distance(calls[0](), loop_call(counts, *operands[0])())
        if not error < _TOLERANCE:
            raise ArithmeticError(
                f"wrong: relative error {error:.3g} against the loop over experts"
            )
        return Variant(calls=calls)

    return {
        "loop": lambda: Variant(calls=[loop_call(counts, *operand) for operand in operands]),
        "grouped": grouped,
    }


def loop_call(
    counts: Sequence[int], tokens: torch.Tensor, first: torch.Tensor, second: torch.Tensor
) -> Call:
    """Two products per visited expert; the counts are known to the host.

    Args:
        counts: tokens of each expert, in the order of `tokens`.
        tokens: [slots, hidden].
        first: gate and up weights [experts, 2 · width, hidden].
        second: down weights [experts, hidden, width].
    """
    ends = np.cumsum(counts).tolist()
    visited = [
        (end - count, end, expert)
        for expert, (end, count) in enumerate(zip(ends, counts, strict=True))
        if count
    ]

    def call() -> torch.Tensor:
        output = torch.empty_like(tokens)
        for start, end, expert in visited:
            output[start:end] = F.linear(
                _gated(F.linear(tokens[start:end], first[expert])), second[expert]
            )
        return output

    return call


def grouped_call(
    counts: Sequence[int], tokens: torch.Tensor, first: torch.Tensor, second: torch.Tensor
) -> Call:
    """Torch's grouped product; arguments as `loop_call`."""
    ends = torch.tensor(np.cumsum(counts), dtype=torch.int32, device=tokens.device)
    up, down = first.transpose(1, 2), second.transpose(1, 2)
    return lambda: torch._grouped_mm(
        _gated(torch._grouped_mm(tokens, up, offs=ends)), down, offs=ends
    )


def _distance(answer: torch.Tensor, exact: torch.Tensor) -> float:
    return float((answer.float() - exact.float()).norm() / exact.float().norm())


def _gated(both: torch.Tensor) -> torch.Tensor:
    gate, up = both.chunk(2, dim=-1)
    return F.silu(gate) * up
