"""Drafters as data: sizes against known ones, and refusals."""

from dataclasses import replace

import numpy as np
import pytest

from costmodel.architectures.library import load_model
from costmodel.drafters.drafter import build_drafter, custom_drafter
from costmodel.drafters.passes import chain_passes
from costmodel.method_library import load_method
from hardware_profiles.errors import InputError

TARGET = load_model("llama-3.1-8b")


def test_no_network_no_passes():
    for slug in ("plain-decoding", "n-gram"):
        drafter = build_drafter(load_method(slug), TARGET)
        assert (drafter.architecture, drafter.resident_values) == (None, 0)
        assert all(chain_passes(stage.draft, np.array([4.0])) == [] for stage in drafter.stages)


def test_eagle3_head_has_the_published_size():
    """The published head for Llama-3.1-8B has 425 million values without the embedding it
    shares."""
    drafter = build_drafter(load_method("eagle-3"), TARGET)
    assert drafter.resident_values == pytest.approx(425e6, rel=0.01)
    assert drafter.architecture.layers == 1
    assert drafter.stages[0].draft.rereads


def test_medusa_heads_by_hand():
    medusa = load_method("medusa")
    drafter = build_drafter(replace(medusa, draft=(replace(medusa.draft[0], heads=3),)), TARGET)
    assert drafter.resident_values == 3 * (4096**2 + 128_256 * 4096)
    (only,) = chain_passes(drafter.stages[0].draft, np.array(3.0))
    assert (only.rows, only.sets, len(drafter.stages[0].projections)) == (1.0, 3.0, 2)


def test_early_exit_shares_the_targets_layers():
    drafter = build_drafter(load_method("early-exit"), TARGET, exit_layer=8)
    assert drafter.architecture.layers == 8
    assert drafter.resident_values == 4096**2  # the bridge alone
    assert build_drafter(load_method("early-exit"), TARGET).architecture.layers == round(32 / 3)


@pytest.mark.parametrize("layer", [0, 32, 99, -1])
def test_an_exit_outside_the_target_is_refused(layer):
    with pytest.raises(InputError, match="exit_layer"):
        build_drafter(load_method("early-exit"), TARGET, exit_layer=layer)


def test_draft_model_must_share_the_vocabulary():
    small = load_model("llama-3.2-1b")
    assert (
        build_drafter(load_method("speculative-decoding"), TARGET, draft=small).resident_values
        == small.parameters
    )
    with pytest.raises(InputError, match="vocabulary"):
        build_drafter(load_method("speculative-decoding"), TARGET, draft=load_model("smollm2-135m"))
    with pytest.raises(InputError, match="must be named"):
        build_drafter(load_method("speculative-decoding"), TARGET)


def test_mtp_layer_of_a_mixture_is_a_mixture():
    drafter = build_drafter(load_method("mtp"), load_model("deepseek-v3"))
    assert drafter.architecture.is_moe
    assert drafter.resident_values == pytest.approx(
        11.5e9, rel=0.02
    )  # the report: 14B with embedding and head


def test_eagle3_head_of_a_mixture_is_dense():
    assert not build_drafter(
        load_method("eagle-3"), load_model("qwen3-30b-a3b")
    ).architecture.is_moe


def test_custom_drafter_reads_what_was_stated():
    method = load_method("speculative-decoding")
    drafter = custom_drafter(
        method, TARGET, name="mine", passes=1, bytes_read=1e9, weight_bytes=2.0
    )
    name, outputs, inputs = drafter.stages[0].projections[0]
    assert (drafter.name, name) == ("mine", "weights")
    assert 2.0 * outputs * inputs == pytest.approx(1e9, rel=1e-3)
    for passes in (1, 4):
        stage = custom_drafter(
            method, TARGET, name="mine", passes=passes, bytes_read=1e9, weight_bytes=2.0
        ).stages[0]
        assert sum(float(each.often) for each in chain_passes(stage.draft, np.array(8.0))) == passes
    for passes, size in ((0, 1e9), (1, 0.0), (1, float("inf")), (1, float("nan"))):
        with pytest.raises(InputError, match="draft-bytes"):
            custom_drafter(
                method, TARGET, name="mine", passes=passes, bytes_read=size, weight_bytes=2.0
            )
