"""A draft model that is named in a drafter's place is plain speculative decoding with it, at every door."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.architectures.library import hub_id, model_names
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.optimizers.drafters.competing import carried, competing
from costmodel.optimizers.drafters.named_drafters import drafter_source
from hardware_profiles.errors import InputError, UnknownNameError
from tests.agreement.doors import ask
from tests.property_examples import examples

PAIRS = [
    ("qwen3-8b", "qwen3-0.6b", 3),
    ("llama-3.3-70b", "llama-3.2-1b", 4),
    ("llama-3.1-8b", "meta-llama/Llama-3.2-1B-Instruct", 2),
]
SOURCES = ["", ":0.7", ":0.8,0.6,0.4", ":length=2.4@3", ":GSM8K"]
LOAD = ("--rate", "2", "--prompt-tokens", "512", "--output-tokens", "64")
VERBS = {
    "predict": ("--batch", "1,24"),
    "optimize": ("--batch", "1,24"),
    "breakeven": ("--batch", "1"),
    "capacity": LOAD,
    "simulate": (*LOAD, "--count", "8"),
}


def as_competing(model, text, draft=None):
    question = DecodingConfiguration(
        deployment=DeploymentNames(model=model), draft_model=draft, method="speculative-decoding"
    )
    (source,) = competing(question, [drafter_source(text, model=model)])
    return source.called, source.label, source.borrowed, carried(source)


@settings(max_examples=examples(40))
@given(
    st.sampled_from(model_names()),
    st.sampled_from(model_names()),
    st.booleans(),
    st.sampled_from(SOURCES),
)
def test_a_named_draft_model_is_speculative_decoding_with_it(model, draft, by_hub_id, source):
    name = hub_id(draft) if by_hub_id else draft
    named = as_competing(model, f"{name}{source}")
    assert named == as_competing(model, f"draft-model{source}", name)
    assert named[0] == name


@pytest.mark.heavy
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(("model", "draft", "length"), PAIRS)
def test_every_verb_answers_a_named_draft_model_alike(verb, model, draft, length):
    place = (verb, "--model", model, "--device", "h200-sxm", "--tp", "4", *VERBS[verb])
    drafts = (*place, "--draft-tokens", str(length))
    for source in ("", ":0.7"):
        named = ask((*drafts, "--drafter", f"{draft}{source}"))
        stated = ask((*drafts, "--drafter", f"draft-model{source}", "--draft", draft))
        assert named.code == stated.code == 0, (named.line, named.message, stated.message)
        assert {**named.body, "inputs": None} == {**stated.body, "inputs": None}


@pytest.mark.heavy
@pytest.mark.parametrize("verb", ["predict", "capacity", "simulate"])
@pytest.mark.parametrize("word", ["off", "autoregressive"])
def test_no_drafter_is_no_draft_tokens(verb, word):
    place = (verb, "--model", "llama-3.1-8b", *VERBS[verb])
    named, stated = ask((*place, "--drafter", word)), ask((*place, "--draft-tokens", "0"))
    assert named.code == stated.code == 0, named.message
    assert named.body == stated.body
    both = ask((*place, "--drafter", word, "--draft-tokens", "3"))
    assert both.code == 2 and "drafts nothing" in both.message


def test_two_draft_models_of_one_drafter_are_refused():
    with pytest.raises(InputError, match="another draft model"):
        as_competing("qwen3-8b", "qwen3-0.6b", "qwen3-1.7b")
    head = "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"
    question = DecodingConfiguration(
        deployment=DeploymentNames(model="llama-3.1-8b"), draft_model=head, method="eagle-3"
    )
    sources = [drafter_source(text, model="llama-3.1-8b") for text in ("llama-3.2-1b", "eagle-3")]
    assert [s.draft_model for s in competing(question, sources)] == ["llama-3.2-1b", head]


@pytest.mark.parametrize(
    ("text", "nearest"), [("eagle-33", "eagle-3"), ("qwen3-0.7b", "qwen3-0.6b")]
)
def test_the_nearest_methods_and_models_are_offered(text, nearest):
    with pytest.raises(UnknownNameError, match="unknown method or draft model") as caught:
        drafter_source(text)
    assert nearest in str(caught.value)
