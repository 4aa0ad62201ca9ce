"""What is known of a method that nobody says more of: its recording on the target's GPU run, then
what was published, then a recording of another target."""

import pytest

from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.optimizers.drafters.competing import competing
from costmodel.optimizers.drafters.named_drafters import drafter_source, known_source
from hardware_profiles.errors import InputError

NAMED = {
    ("medusa", "vicuna-7b"): ("gpu/vicuna-7b--medusa--greedy", False),
    ("medusa", "lmsys/vicuna-7b-v1.3"): ("gpu/vicuna-7b--medusa--greedy", False),
    ("medusa", "vicuna-13b"): ("gpu/vicuna-13b--medusa--greedy", False),
    ("medusa", "vicuna-33b"): ("gpu/vicuna-13b--medusa--greedy", True),
    ("medusa", "llama-3.1-8b"): ("gpu/vicuna-7b--medusa--greedy", True),
    ("medusa", ""): ("gpu/vicuna-13b--medusa--greedy", True),
    ("rest", "lmsys/vicuna-7b-v1.5"): ("gpu/vicuna-7b-v1.5--rest--greedy", False),
    ("rest", "vicuna-7b"): ("gpu/vicuna-7b-v1.5--rest--greedy", True),
    ("rest", "llama-2-7b"): ("gpu/vicuna-7b-v1.5--rest--greedy", True),
}


@pytest.mark.parametrize(("method", "model"), NAMED)
def test_the_nearest_recording_is_taken_and_others_are_borrowed(method, model):
    source = known_source(method, model)
    assert (source.recorded_as, source.borrowed) == NAMED[method, model]
    assert source.looked_up and source.own_draft is not None
    assert ("borrowed from" in source.label) == source.borrowed
    assert source.asked_on(model) == source


@pytest.mark.parametrize(
    ("method", "model"), [("eagle-3", "llama-3.1-8b"), ("n-gram", "vicuna-7b"), ("mtp", "mixtral")]
)
def test_published_chains_answer_where_nothing_was_recorded(method, model):
    source = known_source(method, model)
    assert source.kind == "published" and source.looked_up and source.trace is None


def test_what_was_neither_recorded_nor_published_of_a_chain_is_refused():
    with pytest.raises(InputError, match="tree only"):
        known_source("hydra", "vicuna-7b")


def test_a_stated_source_is_not_looked_up():
    for text in ("medusa:0.7", "medusa:length=2@3", "medusa:gpu/vicuna-13b--medusa--greedy"):
        assert not drafter_source(text, model="vicuna-7b").looked_up


def test_a_described_drafter_takes_no_acceptance_that_was_recorded_of_another():
    question = DecodingConfiguration(
        deployment=DeploymentNames(model="vicuna-7b"),
        method="medusa",
        draft_passes=1,
        draft_bytes=1e8,
    )
    with pytest.raises(InputError, match="of a drafter of its own"):
        competing(question, [known_source("medusa", "vicuna-7b")])
