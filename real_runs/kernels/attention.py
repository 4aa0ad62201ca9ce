"""How long does decode and verify attention take?

Shapes of one attention layer over batch, query tokens and context, timed with every form that can
run them and that answers right on a small shape. Leaves out the projections around it (`gemm`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import torch

from costmodel.architectures.library import load_model
from costmodel.passes import ops
from costmodel.passes.precision import BYTES_PER_VALUE
from hardware_profiles.errors import InputError, UnknownNameError
from real_runs.kernels.attention_forms import FORMS, Form
from real_runs.kernels.machine import DTYPES
from real_runs.kernels.operands import AttentionOperands, AttentionShape
from real_runs.kernels.sweep import Case, Variant, coarse_first

TOLERANCE = {"fp32": 1e-4, "fp16": 4e-3, "bf16": 1.5e-2}
_CHECKED = ((1, 96), (5, 96), (16, 512))  # query tokens and context


def layer_shape(model: str, *, tensor_parallel: int = 1) -> AttentionShape:
    """Heads of a model's most frequent attention layer, as one device of several holds them.

    Raises:
        UnknownNameError: no such model.
        InputError: latent attention, or heads that do not divide.
    """
    layer = max(load_model(model).blocks, key=lambda pair: pair[1])[0].attention
    if layer.is_mla:
        raise InputError("has latent attention, which is not timed here", key="model", value=model)
    if layer.heads % tensor_parallel or layer.kv_heads % tensor_parallel:
        raise InputError(
            "must divide the model's heads", key="tensor_parallel", value=tensor_parallel
        )
    return AttentionShape(
        requests=1,
        query_tokens=1,
        context=1,
        head_dim=layer.head_dim,
        heads=layer.heads // tensor_parallel,
        kv_heads=layer.kv_heads // tensor_parallel,
    )


def relative_error(form: Form, operands: AttentionOperands) -> float:
    """Norm of a form's error over that of the exact answer; infinite where it answers NaN or
    another shape.
    """
    prepared = form.prepare(operands)
    output = prepared.answer(prepared.call()).float()
    exact = operands.reference(form.layout)
    if output.shape != exact.shape:
        return float("inf")
    error = float((output - exact).norm() / exact.norm())
    return error if math.isfinite(error) else float("inf")


def checked_forms(
    names: Sequence[str], layer: AttentionShape, device: torch.device, dtype: str
) -> tuple[list[str], dict[str, str]]:
    """Forms that answer right on small shapes of a layer, and why the others are left out.

    Args:
        names: forms to check.
        layer: heads and head width.
        device: where.
        dtype: number format; sets the tolerance.

    Raises:
        UnknownNameError: a form that is not in `FORMS`.
    """
    right, wrong = [], {}
    for name in names:
        if name not in FORMS:
            raise UnknownNameError("implementation", name, FORMS)
        reason = _fault(FORMS[name], layer, device, dtype)
        if reason:
            wrong[name] = reason
        else:
            right.append(name)
    return right, wrong


def attention_cases(
    layer: AttentionShape,
    device: torch.device,
    dtype: str,
    *,
    operation: str,
    requests: Sequence[int],
    query_tokens: Sequence[int],
    context: Sequence[int],
    forms: Sequence[str],
) -> list[Case]:
    """All combinations of sizes as cases, coarse first.

    Args:
        layer: heads, head size and mask; its sizes are replaced.
        device: where cases run.
        dtype: number format, as in `BYTES_PER_VALUE`.
        operation: name of the rows.
        requests: batch sizes, >= 1.
        query_tokens: new tokens per request, >= 1.
        context: cached tokens per request, >= 0.
        forms: keys of `FORMS` that are timed beside each other.
    """
    return [
        _case(
            replace(layer, requests=b, query_tokens=n, context=c), device, dtype, operation, forms
        )
        for c, n, b in coarse_first([context, query_tokens, requests])
    ]


def _case(
    shape: AttentionShape, device: torch.device, dtype: str, operation: str, forms: Sequence[str]
) -> Case:
    width = BYTES_PER_VALUE[dtype]
    work = ops.attention(
        shape.requests,
        shape.query_tokens,
        shape.context,
        heads=shape.heads,
        kv_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        window=None,
        kv_bytes=width,
        activation_bytes=width,
    )
    refused = {name: FORMS[name].refusal(shape, device.type) for name in forms}
    usable = [name for name in forms if not refused[name]]
    return Case(
        shape={
            "operation": operation,
            "dtype": dtype,
            "mask": shape.mask,
            "requests": shape.requests,
            "query_tokens": shape.query_tokens,
            "context": shape.context,
            "heads": shape.heads,
            "kv_heads": shape.kv_heads,
            "head_dim": shape.head_dim,
        },
        flops=float(work.flops),
        bytes=float(work.bytes),
        set_bytes=width
        * (
            2 * shape.values
            + 2 * shape.requests * shape.query_tokens * shape.heads * shape.head_dim
        ),
        build=partial(_builders, shape, device, DTYPES[dtype], usable),
        scratch={name: FORMS[name].scratch_bytes(shape) for name in usable},
        refused={name: reason for name, reason in refused.items() if reason},
    )


def _builders(
    shape: AttentionShape, device: torch.device, dtype: torch.dtype, forms: Sequence[str], sets: int
) -> Mapping[str, Callable[[], Variant]]:
    first = AttentionOperands(shape, device, dtype)
    operands = [
        first,
        *(AttentionOperands(shape, device, dtype, like=first) for _ in range(sets - 1)),
    ]
    return {name: partial(_variant, FORMS[name], operands) for name in forms}


def _variant(form: Form, operands: Sequence[AttentionOperands]) -> Variant:
    prepared = [form.prepare(prepared_call) for prepared_call in operands]
    return Variant(
        calls=[prepared_call.call for prepared_call in prepared],
        fields={"splits": prepared[0].splits, "packed": form.packed},
    )


def _fault(form: Form, layer: AttentionShape, device: torch.device, dtype: str) -> str:
    """Why a form may not be timed; "" where it answers right at every shape checked."""
    for n, c in ((5, 0), (64, 0)) if form.cached == "none" else _CHECKED:
        shape = replace(
            layer, requests=2, query_tokens=n, context=c, mask="tree" if form.trees else "causal"
        )
        reason = form.refusal(shape, device.type)
        if reason:
            return reason
        try:
            error = relative_error(form, AttentionOperands(shape, device, DTYPES[dtype]))
        except Exception as raised:
            lines = str(raised).strip().splitlines()
            return f"{type(raised).__name__}: {lines[0] if lines else ''}"[:200]
        if error > TOLERANCE[dtype]:
            return f"wrong: relative error {error:.3g} at {n} query tokens over {c}"
    return ""
