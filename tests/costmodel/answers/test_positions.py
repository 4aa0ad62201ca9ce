"""Contexts beyond a model's positions: refused where these are learned, remarked where they are
computed."""

import pytest

from costmodel.answers.positions import context_remark, require_positions
from costmodel.architectures.library import load_model, model_names
from hardware_profiles.errors import InputError


@pytest.mark.parametrize("name", ["gpt2", "llama-3.1-8b", "vicuna-7b", "deepseek-v3"])
def test_contexts_that_a_model_was_published_for_pass(name):
    model = load_model(name)
    assert context_remark(model, 0) == context_remark(model, model.max_context) == ""


def test_learned_positions_end():
    with pytest.raises(
        InputError, match="at most the 1,024 positions that gpt2 has learned"
    ) as caught:
        context_remark(load_model("gpt2"), 1025)
    assert (caught.value.key, caught.value.value) == ("context", 1025)


def test_a_context_that_is_required_fits_or_is_refused_under_its_key():
    require_positions(load_model("gpt2"), 1024.0)
    require_positions(load_model("vicuna-7b"), 10**6)
    with pytest.raises(InputError, match="requests: must be at most the 1,024 positions") as caught:
        require_positions(load_model("gpt2"), 1024.5, "requests")
    assert caught.value.value == 1025


def test_computed_positions_are_stretched():
    assert "context 2,049 is beyond the 2,048 tokens that vicuna-7b" in context_remark(
        load_model("vicuna-7b"), 2049
    )


def test_states_and_encoders_have_no_such_end():
    models = [load_model(name) for name in model_names()]
    without = [model for model in models if model.is_recurrent or model.encoder is not None]
    assert len(without) >= 3
    assert not any(context_remark(model, 10**6) for model in without)
