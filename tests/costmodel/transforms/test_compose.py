"""Composition: identities, commuting kinds, orders and conflicts."""

from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.architectures.library import load_model
from costmodel.method_library import named_transforms, transform_names
from costmodel.passes.forward import Deployment, pass_cost
from costmodel.passes.memory import kv_bytes, weight_bytes
from costmodel.passes.precision import Precision, precision
from costmodel.passes.transform import apply
from costmodel.transforms.declared import (
    CacheTransform,
    EncoderSplit,
    FusedFeedForward,
    LayerSchedule,
    SparseAttention,
    WeightTransform,
)
from hardware_profiles.errors import InputError, UnknownNameError
from hardware_profiles.loader import load_device

PLAIN = Deployment(
    architecture=load_model("llama-3.1-8b"), device=load_device("h100-sxm"), precision=Precision()
)
SHARES = st.floats(0.05, 1.0)
PRUNED = CacheTransform(name="pruned", key_ratio=0.5, value_ratio=0.4, mask_bits=1.0, kernels=1)
QUANTISED = CacheTransform(name="quantised", bits=4.0, scale_bits=0.5)
SPARSE = WeightTransform(name="sparse", kept_ratio=0.5, index_bits=2.0, skips_zeros=True)
CODED = WeightTransform(name="coded", coded_ratio=0.7, unpack_bytes_per_s=1e9)


def costs(d, batch=4, context=8192):
    cost = pass_cost(d, batch=batch, query_tokens=1, context=context)
    held = (
        weight_bytes(d.architecture, d.precision),
        float(kv_bytes(d.architecture, d.precision, batch=1, context=99)),
    )
    return {
        **{name: float(value) for name, value in cost.seconds.items()},
        "held": held,
        "bytes": float(cost.bytes),
    }


@given(
    index=st.integers(0, 3),
    tokens=st.integers(0, 100),
    together=st.booleans(),
    keeps=st.booleans(),
    parts=st.integers(1, 5),
)
def test_identities_change_nothing_at_all(index, tokens, together, keeps, parts):
    identity = (
        WeightTransform(name="none"),
        CacheTransform(name="none", dense_tokens=tokens),
        SparseAttention(name="none", least_tokens=tokens),
        LayerSchedule(name="none", shares=(1.0,) * parts, together=together, keeps_cache=keeps),
    )[index]
    assert apply(PLAIN, [identity]) == PLAIN
    assert apply(PLAIN, [identity, identity]) == PLAIN
    assert apply(PLAIN, []) is PLAIN


@given(a=SHARES, b=SHARES, c=SHARES, shares=st.lists(SHARES, min_size=1, max_size=3))
def test_kinds_commute(a, b, c, shares):
    chosen = [
        WeightTransform(name="w", kept_ratio=a),
        CacheTransform(name="k", key_ratio=b, value_ratio=a),
        SparseAttention(name="s", token_ratio=c),
        LayerSchedule(name="l", shares=tuple(shares)),
    ]
    first = apply(PLAIN, chosen)
    assert all(apply(PLAIN, order) == first for order in permutations(chosen))
    assert apply(apply(PLAIN, chosen[:2]), chosen[2:]) == first


@given(a=SHARES, b=SHARES, bits=st.sampled_from((0.0, 1.0, 2.0)))
def test_prunings_multiply_and_commute(a, b, bits):
    one, two = (
        WeightTransform(name="p", kept_ratio=a, index_bits=bits),
        WeightTransform(name="p", kept_ratio=b),
    )
    here, there = (apply(PLAIN, order).precision for order in ((one, two), (two, one)))
    assert here.weight_bytes == pytest.approx(there.weight_bytes)
    assert here.weight_bytes == pytest.approx(a * b * (2.0 + bits / 8.0))
    keys = [CacheTransform(name="k", key_ratio=x) for x in (a, b)]
    assert apply(PLAIN, keys).precision.kv_bytes == pytest.approx(
        apply(PLAIN, keys[::-1]).precision.kv_bytes
    )


def test_pruning_then_quantising_a_cache_multiplies():
    both = apply(PLAIN, [PRUNED, QUANTISED]).precision
    assert both.kv_bytes == pytest.approx(0.45 * 4.5 / 8 + 1 / 8)
    assert both.cache_transform.kernels == 1


@pytest.mark.parametrize(
    ("transforms", "rule"),
    [
        ((QUANTISED, PRUNED), "dropped goes before"),
        ((QUANTISED, QUANTISED), "quantised once"),
        ((CODED, SPARSE), "comes last"),
        ((CODED, CODED), "comes last"),
        ((SPARSE, CODED), "unpacked weights are dense"),
        ((SPARSE, SPARSE), "one pattern"),
        (
            (
                SparseAttention(name="a", token_ratio=0.5),
                SparseAttention(name="b", token_ratio=0.5),
            ),
            "only once",
        ),
        (
            (LayerSchedule(name="a", shares=(0.5,)), LayerSchedule(name="b", shares=(0.5,))),
            "one schedule",
        ),
        ((replace(PRUNED, dense_tokens=8), replace(PRUNED, dense_tokens=16)), "different tokens"),
        ((replace(PRUNED, expands=True), replace(PRUNED, expands=True)), "low-rank product once"),
    ],
)
def test_conflicts_and_wrong_orders_are_refused(transforms, rule):
    with pytest.raises(InputError, match=rule) as caught:
        apply(PLAIN, transforms)
    assert caught.value.key == transforms[1].name
    assert transforms[0].name in str(caught.value)


def test_some_transforms_need_formats_devices_or_models():
    coded = replace(CODED, formats=("bf16",))
    apply(PLAIN, [coded])
    with pytest.raises(InputError, match="is for weights in bf16"):
        apply(replace(PLAIN, precision=precision("fp8")), [coded])
    cpu = replace(PLAIN, device=load_device("cpu-generic"), precision=precision("fp32"))
    with pytest.raises(InputError, match="skip zeros"):
        apply(cpu, [SPARSE])
    latent = replace(PLAIN, architecture=load_model("deepseek-v2-lite"))
    with pytest.raises(InputError, match="one vector"):
        apply(latent, [PRUNED])
    assert apply(latent, [QUANTISED]).precision.kv_bytes == 4.5 / 8


@pytest.mark.parametrize("name", transform_names())
def test_presets_apply_to_dense_and_hybrid_models(name):
    models = ["llama-3.1-8b", "qwen3-30b-a3b", "qwen3-next-80b-a3b"]
    if isinstance(
        named_transforms([name])[0], EncoderSplit | FusedFeedForward
    ):  # of stacks of attention alone
        hybrid = replace(PLAIN, architecture=load_model(models.pop()))
        with pytest.raises(InputError, match="only"):
            apply(hybrid, named_transforms([name]))
        models = models[:1] if name == "ffn-fusion" else models
    for model in models:
        d = apply(replace(PLAIN, architecture=load_model(model)), named_transforms([name]))
        assert 0 < float(pass_cost(d, batch=3, query_tokens=2, context=5000).total_s) < 1
        assert (
            0
            < float(
                pass_cost(
                    d, batch=1, query_tokens=512, context=0, prefill=True, logits="last"
                ).total_s
            )
            < 1
        )


def test_names_are_applied_in_order_and_only_once():
    both = named_transforms(["leank", "double-sparsity"])
    assert [t.name for t in both] == ["leank", "double-sparsity"]
    assert costs(apply(PLAIN, both)) == costs(apply(PLAIN, both[::-1]))
    with pytest.raises(InputError, match="more than once"):
        named_transforms(["leank", "leank"])
    with pytest.raises(UnknownNameError):
        named_transforms(["lean"])
    assert named_transforms([]) == ()
