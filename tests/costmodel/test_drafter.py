"""Drafters as data: sizes against known ones, and refusals."""

import pytest

from costmodel.drafter import build_drafter, custom_drafter
from costmodel.model_library import load_model
from hardware_profiles.errors import InputError

TARGET = load_model("llama-3.1-8b")


def test_no_network_no_passes():
    for kind in ("none", "ngram"):
        drafter = build_drafter(kind, TARGET)
        assert (drafter.architecture, drafter.passes, drafter.resident_values) == (None, "none", 0)


def test_eagle3_head_has_the_published_size():
    """The published head for Llama-3.1-8B has 425 million values without the embedding it shares."""
    drafter = build_drafter("eagle3", TARGET)
    assert drafter.resident_values == pytest.approx(425e6, rel=0.01)
    assert drafter.architecture.layers == 1
    assert drafter.rereads


def test_medusa_heads_by_hand():
    drafter = build_drafter("medusa", TARGET, heads=3)
    assert drafter.resident_values == 3 * (4096**2 + 128_256 * 4096)
    assert drafter.passes == "once"
    assert len(drafter.projections) == 6


def test_early_exit_shares_the_targets_layers():
    drafter = build_drafter("early_exit", TARGET, exit_layer=8)
    assert drafter.architecture.layers == 8
    assert drafter.resident_values == 4096**2  # the bridge alone
    assert build_drafter("early_exit", TARGET).architecture.layers == round(32 / 3)


@pytest.mark.parametrize("layer", [0, 32, 99, -1])
def test_an_exit_outside_the_target_is_refused(layer):
    with pytest.raises(InputError, match="exit_layer"):
        build_drafter("early_exit", TARGET, exit_layer=layer)


def test_draft_model_must_share_the_vocabulary():
    small = load_model("llama-3.2-1b")
    assert build_drafter("draft_model", TARGET, draft=small).resident_values == small.parameters
    with pytest.raises(InputError, match="vocabulary"):
        build_drafter("draft_model", TARGET, draft=load_model("smollm2-135m"))
    with pytest.raises(InputError, match="name one"):
        build_drafter("draft_model", TARGET)


def test_mtp_layer_of_a_mixture_is_a_mixture():
    drafter = build_drafter("mtp", load_model("deepseek-v3"))
    assert drafter.architecture.is_moe
    assert drafter.resident_values == pytest.approx(11.5e9, rel=0.02)  # the report: 14B with embedding and head


def test_eagle3_head_of_a_mixture_is_dense():
    assert not build_drafter("eagle3", load_model("qwen3-30b-a3b")).architecture.is_moe


def test_custom_drafter_reads_what_it_was_told():
    drafter = custom_drafter(TARGET, passes=1, bytes_read=1e9, weight_bytes=2.0)
    name, outputs, inputs = drafter.projections[0]
    assert name == "weights"
    assert 2.0 * outputs * inputs == pytest.approx(1e9, rel=1e-3)
    assert drafter.passes == "once"
    assert custom_drafter(TARGET, passes=4, bytes_read=1e9, weight_bytes=2.0).passes == "per_token"
    for passes, size in ((0, 1e9), (1, 0.0), (1, float("inf")), (1, float("nan"))):
        with pytest.raises(InputError, match="draft-bytes"):
            custom_drafter(TARGET, passes=passes, bytes_read=size, weight_bytes=2.0)
