"""Declared transforms: bytes by hand, identities, refusals, and the published presets."""

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.method_library import load_method, named_transforms, transform_names
from costmodel.transforms.declared import (
    CacheTransform,
    ContextTransform,
    EncoderSplit,
    FusedFeedForward,
    LayerSchedule,
    SparseAttention,
    SparseFeedForward,
    WeightTransform,
)
from hardware_profiles.errors import InputError, UnknownNameError

KINDS = (
    WeightTransform,
    CacheTransform,
    SparseAttention,
    ContextTransform,
    SparseFeedForward,
    LayerSchedule,
    EncoderSplit,
    FusedFeedForward,
)
SHARES = st.floats(0.01, 1.0)


def test_bytes_by_hand():
    pruned = WeightTransform(name="2:4", kept_ratio=0.5, index_bits=2.0)
    assert pruned.stored_bytes(2.0) == pruned.read_bytes(2.0) == 0.5 * (2.0 + 0.25)
    coded = WeightTransform(name="coded", coded_ratio=0.68, unpack_bytes_per_s=1e9)
    assert (coded.stored_bytes(2.0), coded.read_bytes(2.0)) == (0.68 * 2.0, 2.0)
    gear = CacheTransform(
        name="gear", bits=4.0, scale_bits=0.5, rank_ratio=0.03, outlier_ratio=0.02
    )
    assert gear.stored_bytes(2.0) == pytest.approx(4.5 / 8 + 0.03 * 2 + 0.02 * 6)
    lean = CacheTransform(name="lean", key_ratio=0.3, value_ratio=0.83)
    assert lean.stored_bytes(2.0) == pytest.approx((0.3 + 0.83) / 2 * 2.0)
    masked = CacheTransform(name="masked", key_ratio=0.3, value_ratio=0.3, mask_bits=1.0)
    assert masked.stored_bytes(2.0) == pytest.approx(0.6 + 1 / 8)
    sparse = SparseAttention(name="s", token_ratio=1 / 16, label_ratio=1 / 16, label_bits=4.0)
    assert sparse.label_bytes == 1 / 16 * 0.5 / 2  # keys alone have labels


@pytest.mark.parametrize("kind", KINDS)
def test_defaults_change_nothing(kind):
    assert kind(name="nothing").is_identity


@given(kept=SHARES, coded=SHARES, width=st.sampled_from((0.5, 1.0, 2.0, 4.0)))
def test_weights_are_never_stored_wider_than_their_format(kept, coded, width):
    t = WeightTransform(name="t", kept_ratio=kept, coded_ratio=coded)
    assert t.stored_bytes(width) <= width
    assert t.is_identity == (kept == coded == 1.0)


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=9).filter(any))
def test_the_mean_share_lies_between_the_shares(shares):
    schedule = LayerSchedule(name="s", shares=tuple(shares))
    assert min(shares) - 1e-12 <= schedule.mean_share <= max(shares) + 1e-12


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        (WeightTransform, {"kept_ratio": 0.0}),
        (WeightTransform, {"kept_ratio": 1.5}),
        (WeightTransform, {"coded_ratio": float("nan")}),
        (WeightTransform, {"index_bits": -1.0}),
        (WeightTransform, {"unpack_bytes_per_s": 0.0}),
        (CacheTransform, {"key_ratio": 0.0}),
        (CacheTransform, {"bits": 0.0}),
        (CacheTransform, {"dense_tokens": -1}),
        (CacheTransform, {"outlier_ratio": float("inf")}),
        (SparseAttention, {"token_ratio": 0.0}),
        (SparseAttention, {"label_ratio": 2.0}),
        (SparseAttention, {"label_bits": 64.0}),
        (LayerSchedule, {"shares": ()}),
        (LayerSchedule, {"shares": (0.0, 0.0)}),
        (LayerSchedule, {"shares": (1.0, 1.1)}),
        (LayerSchedule, {"unique_ratio": 0.0}),
        (LayerSchedule, {"substitute_rank": -1}),
        (EncoderSplit, {"encoder_ratio": 1.0}),
        (EncoderSplit, {"encoder_ratio": -0.1}),
        (FusedFeedForward, {"attention_ratio": 0.0}),
        (FusedFeedForward, {"fused_ratio": 0.0}),
        (FusedFeedForward, {"width_ratio": 1.5}),
    ],
)
def test_numbers_out_of_range_are_refused_by_name(kind, change):
    (key,) = change
    with pytest.raises(InputError, match="must") as caught:
        kind(name="odd", **change)
    assert caught.value.key == f"odd.{key}"


@pytest.mark.parametrize("name", transform_names())
def test_entries_change_something(name):
    for transform in load_method(name).target:
        assert not transform.is_identity
        assert transform.name == name
        assert type(transform) in KINDS


def test_presets_carry_the_published_figures():
    def one(name):
        (transform,) = load_method(name).target
        return transform

    assert one("mustafar").stored_bytes(2.0) / 2.0 == pytest.approx(0.45)
    assert 1 - one("leank").key_ratio == pytest.approx(0.70)
    assert 0.16 <= 1 - one("leank").value_ratio <= 0.18
    assert one("cskv").stored_bytes(2.0) / 2.0 == pytest.approx(0.20)
    assert one("double-sparsity").token_ratio == 1 / 16
    eight_tokens = 1 - (1 - one("blockffn").active_ratio) ** (
        1 + 7 * (1 - one("blockffn").correlation)
    )
    assert eight_tokens == pytest.approx(0.3, abs=1e-3)
    assert 0.45 <= 1 - one("lora-drop").mean_share <= 0.55
    assert one("sparse-2-4").stored_bytes(2.0) == 1.125
    assert [name for name in transform_names() if load_method(name).exactness == "bit_exact"] == [
        "dfloat11"
    ]


def test_unknown_presets_are_answered_with_the_nearest():
    with pytest.raises(UnknownNameError, match="nearest: dfloat11"):
        named_transforms(["dfloat"])
    with pytest.raises(UnknownNameError, match="transform"):
        named_transforms(["eagle-3"])
    assert named_transforms(["DFloat11"]) == load_method("dfloat11").target


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_but_the_name_has_a_default(kind):
    assert [f.name for f in fields(kind) if f.default is f.default_factory] == ["name"]
