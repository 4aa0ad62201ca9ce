"""Which drafters are compared where none is named."""

import pytest

from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.optimizers.drafters.default_drafters import default_drafters
from costmodel.optimizers.drafters.named_drafters import published_source
from hardware_profiles.errors import InputError


def compared(model):
    question, drafters = default_drafters(
        DecodingConfiguration(deployment=DeploymentNames(model=model))
    )
    return question.deployment.model, {drafter.method: drafter for drafter in drafters}


def test_the_default_question_has_the_drafters_that_exist_for_it():
    model, drafters = compared("")
    assert model == "llama-3.1-8b"
    assert set(drafters) == {"eagle-3", "speculative-decoding", "n-gram"}
    assert all(
        drafter.kind == "published" and not drafter.borrowed for drafter in drafters.values()
    )
    assert (
        drafters["speculative-decoding"].called
        == drafters["speculative-decoding"].draft_model
        == "llama-3.2-1b"
    )
    assert drafters["eagle-3"].draft_model == "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"
    assert all(source.label.startswith("published:") for source in drafters.values())


@pytest.mark.parametrize("name", ["smollm2-135m", "HuggingFaceTB/SmolLM2-135M-Instruct"])
def test_our_recordings_answer_for_the_model_that_wrote_them(name):
    model, drafters = compared(name)
    assert model == name
    assert set(drafters) == {"early-exit", "n-gram"}
    assert all(drafter.positions is not None for drafter in drafters.values())


def test_what_is_borrowed_says_so_and_brings_no_head_of_another_target():
    _, drafters = compared("llama-3.1-70b")
    assert drafters["eagle-3"].borrowed and drafters["eagle-3"].draft_model is None
    assert (
        "borrowed within the family, published of Llama-3.3-70B-Instruct"
        in drafters["eagle-3"].label
    )
    assert (
        drafters["speculative-decoding"].draft_model == "llama-3.2-1b"
    )  # a tokenizer of the family suits it
    assert drafters["n-gram"].borrowed


def test_a_draft_model_is_much_smaller_than_its_target():
    assert "speculative-decoding" not in compared("llama-3.2-1b")[1]
    assert "speculative-decoding" in compared("qwen3-32b")[1]


def test_a_target_without_published_drafters_still_has_n_gram():
    _, drafters = compared("phi-4")
    assert set(drafters) == {"n-gram"} and drafters["n-gram"].label.startswith(
        "borrowed, published of"
    )


def test_a_mean_over_all_steps_says_what_is_assumed_of_the_others():
    assert "without a proposal" in published_source("n-gram", "llama-3.1-8b").rates.remark
    assert published_source("eagle-3", "llama-3.1-8b").rates.remark == ""


MASKED = ["llada-8b", "dream-7b", "llada2.0-mini"]


@pytest.mark.parametrize("name", MASKED)
def test_for_a_masked_model_no_drafter_is_offered(name):
    with pytest.raises(InputError, match="one that refines masked blocks") as refused:
        compared(name)
    assert refused.value.key == "method"


@pytest.mark.parametrize("name", MASKED)
def test_a_masked_model_verifies_no_drafts(name):
    deployment = DeploymentNames(model=name)
    for method in ("n-gram", "eagle-3", "speculative-decoding"):
        with pytest.raises(InputError, match="decodes masked blocks"):
            build_setting(DecodingConfiguration(method=method, deployment=deployment))
    for method in ("plain-decoding", "fast-dllm"):
        build_setting(DecodingConfiguration(method=method, deployment=deployment))


def test_drafters_recorded_on_gpus_of_the_very_target_compete():
    _, drafters = compared("vicuna-7b")
    assert drafters["medusa"].recorded_as == "gpu/vicuna-7b--medusa--greedy"
    assert "rest" not in drafters  # recorded of another version of the model
    _, drafters = compared("llama-2-7b")
    assert "medusa" not in drafters
