"""Attention kernels answer what float64 arithmetic does, whatever the split, packing or mask; wrong
ones are caught."""

import math
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from hardware_profiles.errors import InputError, UnknownNameError  # noqa: E402
from real_runs.kernels import attention, split_attention  # noqa: E402
from real_runs.kernels.attention import (  # noqa: E402
    TOLERANCE,
    attention_cases,
    checked_forms,
    layer_shape,
    relative_error,
)
from real_runs.kernels.attention_forms import FORMS, Form, PreparedCall  # noqa: E402
from real_runs.kernels.operands import AttentionOperands, AttentionShape  # noqa: E402
from tests.property_examples import examples  # noqa: E402

CPU = torch.device("cpu")
LAYER = AttentionShape(requests=2, query_tokens=5, context=24, heads=6, kv_heads=2, head_dim=8)
ON_CPU = [name for name, form in FORMS.items() if "cpu" in form.devices]


def by_hand(operands, layout):
    """One query at a time, in float64."""
    s = operands.shape
    if layout == "heads":
        parts = zip(operands.cached_by_head(), operands.new_by_head(), strict=True)
        keys, values = (torch.cat(pair, dim=2).permute(0, 2, 1, 3) for pair in parts)
    else:
        keys, values = operands.by_token()
    query, keys, values = (each.double().numpy() for each in (operands.query, keys, values))
    out = np.zeros_like(query)
    for b in range(s.requests):
        for i in range(s.query_tokens):
            seen = [
                *range(s.context),
                *(s.context + j for j in range(s.query_tokens) if operands.visible[i, j]),
            ]
            for h in range(s.heads):
                k, v = keys[b, seen, h // s.group], values[b, seen, h // s.group]
                weight = np.exp(k @ query[b, i, h] / math.sqrt(s.head_dim))
                out[b, i, h] = weight @ v / weight.sum()
    return out


@pytest.mark.parametrize("mask", ["causal", "tree"])
@pytest.mark.parametrize("layout", ["tokens", "heads"])
def test_the_reference_is_attention_by_hand(mask, layout):
    operands = AttentionOperands(replace(LAYER, mask=mask), CPU, torch.float32)
    np.testing.assert_allclose(
        operands.reference(layout).numpy(), by_hand(operands, layout), atol=2e-5
    )


def test_tree_rows_see_their_ancestors_only():
    seen = AttentionOperands(
        replace(LAYER, query_tokens=7, mask="tree"), CPU, torch.float32
    ).visible
    assert seen.sum(1).tolist() == [1, 2, 2, 3, 3, 3, 3]
    assert seen[5].nonzero().flatten().tolist() == [0, 2, 5]


@pytest.mark.parametrize("mask", ["causal", "tree"])
@pytest.mark.parametrize("name", ON_CPU)
def test_every_form_that_runs_here_is_right(name, mask):
    shape = replace(LAYER, mask=mask, context=32)
    assert (
        relative_error(FORMS[name], AttentionOperands(shape, CPU, torch.float32))
        < TOLERANCE["fp32"]
    )


@settings(max_examples=examples(25))
@given(
    parts=st.integers(1, 8),
    part=st.integers(1, 9),
    n=st.integers(1, 9),
    group=st.integers(1, 4),
    mask=st.sampled_from(["causal", "tree"]),
    kernel=st.sampled_from([split_attention.flash_partial, split_attention.matmul_partial]),
)
def test_any_split_of_the_cache_gives_the_same_answer(parts, part, n, group, mask, kernel):
    shape = AttentionShape(
        requests=2,
        query_tokens=n,
        context=parts * part,
        heads=2 * group,
        kv_heads=2,
        head_dim=8,
        mask=mask,
    )
    operands = AttentionOperands(shape, CPU, torch.float32)
    found = operands.unpacked(split_attention.split_call(operands, kernel, parts)())
    torch.testing.assert_close(found, operands.reference("heads"), atol=1e-4, rtol=1e-4)


def test_parts_divide_the_context_and_fill_the_device():
    shape = replace(LAYER, requests=1, context=4096)
    parts = split_attention.parts_to_fill(shape, 132)
    assert 4096 % parts == 0 and parts == 32  # 66 wanted, none shorter than 128 tokens
    assert split_attention.parts_to_fill(replace(shape, requests=200), 132) == 1
    assert split_attention.equal_parts(97, 50) == 1


def broken(operands):
    prepared = FORMS["sdpa"].prepare(operands)
    return PreparedCall(call=prepared.call, answer=lambda found: prepared.answer(found) * 1.01)


def raising(operands):
    raise RuntimeError("no kernel image is available")


def not_a_number(operands):
    return PreparedCall(call=lambda: operands.query * float("nan"), answer=lambda found: found)


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (broken, "wrong: relative error 0.01"),
        (raising, "no kernel image"),
        (not_a_number, "wrong: relative error inf"),
    ],
)
def test_a_wrong_or_failing_form_is_left_out_with_its_reason(monkeypatch, prepare, reason):
    forms = {**FORMS, "bad": Form(prepare=prepare, devices=("cpu",))}
    monkeypatch.setattr(attention, "FORMS", forms)
    right, wrong = checked_forms(["sdpa", "bad", "flash"], layer_shape("smollm2-135m"), CPU, "fp32")
    assert right == ["sdpa"] and reason in wrong["bad"] and "cpu" in wrong["flash"]


def test_forms_refuse_what_they_cannot_do():
    assert "tree" in FORMS["flash"].refusal(replace(LAYER, mask="tree"), "cuda")
    assert "installed" in FORMS["flash-attn-3"].refusal(LAYER, "cuda")
    assert "cached" in FORMS["split-flash"].refusal(replace(LAYER, context=0), "cuda")
    assert FORMS["efficient-packed"].refusal(replace(LAYER, mask="tree"), "cuda") == ""
    with pytest.raises(UnknownNameError):
        checked_forms(["flsh"], LAYER, CPU, "fp32")


def test_cases_count_the_cache_once_whatever_the_query_tokens():
    sizes = {"requests": [1, 2], "query_tokens": [1, 8], "context": [4096], "forms": ["sdpa"]}
    cases = attention_cases(
        layer_shape("llama-3.1-8b"), CPU, "bf16", operation="attention", **sizes
    )
    by_shape = {(c.shape["requests"], c.shape["query_tokens"]): c for c in cases}
    assert len(by_shape) == 4
    assert by_shape[1, 8].bytes < 1.1 * by_shape[1, 1].bytes
    assert by_shape[1, 8].flops == pytest.approx(8 * by_shape[1, 1].flops, rel=1e-2)
    assert by_shape[2, 1].bytes == 2 * by_shape[1, 1].bytes


def test_layers_come_from_models_by_name():
    shape = layer_shape("llama-3.1-70b", tensor_parallel=8)
    assert (shape.heads, shape.kv_heads, shape.head_dim) == (8, 1, 128)
    for model, parallel in (("deepseek-v3", 1), ("llama-3.1-8b", 3)):
        with pytest.raises(InputError):
            layer_shape(model, tensor_parallel=parallel)
    with pytest.raises(InputError):
        replace(LAYER, heads=5)


@pytest.mark.filterwarnings("ignore:flex_attention called without")
@pytest.mark.parametrize(
    "name", [name for name, form in FORMS.items() if "cuda" in form.devices and not form.module]
)
@pytest.mark.parametrize(("n", "context"), [(1, 512), (5, 96), (16, 0)])
def test_forms_for_gpus_are_called_as_torch_declares_them(monkeypatch, name, n, context):
    """On the meta device every operator checks its arguments and shapes, and computes nothing."""
    from torch.nn.attention.flex_attention import flex_attention

    from real_runs.kernels import attention_forms

    monkeypatch.setattr(attention_forms, "processors", lambda device: 132)
    monkeypatch.setattr(attention_forms, "_compiled_flex", lambda: flex_attention)
    shape = replace(LAYER, query_tokens=n, context=context, heads=32, kv_heads=8, head_dim=128)
    form = FORMS[name]
    if form.refusal(shape, "cuda"):
        assert (form.cached == "some") == (context == 0)
        return
    place = (
        CPU if name == "flex" else torch.device("meta")
    )  # FlexAttention knows no meta device, and is exact here
    operands = AttentionOperands(shape, place, torch.float32 if name == "flex" else torch.bfloat16)
    prepared = form.prepare(operands)
    found = prepared.answer(prepared.call())
    assert found.shape == operands.query.shape and found.dtype == operands.query.dtype
    if name == "flex":
        torch.testing.assert_close(found, operands.reference("tokens"), atol=1e-4, rtol=1e-4)
    if name.startswith("split") and context == 512:
        assert prepared.splits == 4
