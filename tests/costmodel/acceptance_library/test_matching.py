"""Which published figure stands for a question."""

import pytest

from app.exporters.registry import export
from costmodel.acceptance_library import best_match, kinship, published
from costmodel.acceptance_library.matching import figure_kinship
from costmodel.architectures.library import hub_id
from costmodel.configuration import DecodingConfiguration, DeploymentNames

# of every figure whose target we know by a name of our own, those of another release than that name serves
OF_ANOTHER_RELEASE = {
    ("llama-2-70b", "LLaMA2-Chat 70B"),
    ("qwen3-30b-a3b", "Qwen3-30B-A3B-Instruct-2507"),
    ("qwen3-235b-a22b", "Qwen3-235B-A22B-Instruct-2507"),
}


def test_the_targets_own_comes_first_then_its_family():
    own = best_match("eagle-3", "meta-llama/Llama-3.1-8B-Instruct")
    assert (
        own.kinship == "own" and own.entry.target == "llama-3.1-8b" and own.entry.shape == "chain"
    )
    family = best_match("eagle-3", "llama-3.1-405b")
    assert family.kinship == "family" and family.entry.target.startswith("llama-3")
    assert best_match("eagle-3", "llama-3.1-70b").entry.target == "llama-3.3-70b"  # nearest in size
    borrowed = best_match("eagle-3", "phi-4")
    assert borrowed.kinship == "borrowed"
    assert best_match("plain-decoding", "phi-4") is None


def test_of_two_drafters_measured_alike_the_one_kept_more_often_is_taken():
    chosen = best_match("eagle-3", "llama-3.3-70b").entry
    rivals = published("eagle-3", "llama-3.3-70b", "mtbench", 0.0)
    means = [rival.mean_tokens_per_step for rival in rivals if rival.shape == "chain"]
    assert len(means) > 1 and chosen.mean_tokens_per_step == max(means)


def test_the_label_names_another_target():
    match = best_match("eagle-3", "phi-4")
    assert "borrowed" in match.label and match.entry.published_target in match.label
    assert "borrowed" not in best_match("eagle-3", "llama-3.1-8b").label


def test_kinship_ignores_sizes_and_minor_versions():
    assert kinship("llama-3.3-70b", "llama-3.1-8b") == "family"
    assert kinship("llama-3.1-8b", "llama-2-7b") == "borrowed"
    assert kinship("qwen3-4b", "qwen3-30b-a3b") == "family"
    assert kinship("gpt-oss-120b", "gpt-oss-20b") == "family"
    assert kinship("qwen3.5-397b-a17b", "qwen3-8b") == "borrowed"


def test_arguments_narrow_the_list_down():
    everything = published()
    some = published(method="eagle-3", target="llama-3.1-8b", data_set="GSM-8K", temperature=0.0)
    assert 0 < len(some) < len(published(method="eagle-3", target="llama-3.1-8b")) < len(everything)
    assert all("gsm8k" in entry.data_set.casefold() for entry in some)
    assert best_match("eagle-3", "llama-3.1-8b", data_set="gsm8k").entry in some


def test_chat_prompts_stand_for_traffic_that_nobody_described():
    for method, data_set in (
        ("eagle-3", "MT-Bench"),
        ("n-gram", "ShareGPT"),
        ("speculative-decoding", "UltraChat"),
    ):
        match = best_match(method, "llama-3.1-8b")
        assert match.kinship == "own" and match.entry.data_set.startswith(data_set)
    assert (
        best_match("speculative-decoding", "llama-3.1-8b", temperature=1.0).entry.temperature == 1.0
    )
    assert (
        best_match("speculative-decoding", "llama-3.1-8b", data_set="GSM8K").entry.data_set
        == "GSM8K"
    )


def test_a_figure_is_the_targets_own_only_where_its_very_release_is_served():
    borrowed = {
        (entry.target, entry.published_target)
        for entry in published()
        if figure_kinship(entry, entry.target) != "own"
    }
    assert borrowed == OF_ANOTHER_RELEASE
    assert all(figure_kinship(entry, entry.published_target) == "own" for entry in published())


@pytest.mark.parametrize(
    ("served", "own"),
    [
        ("qwen3-30b-a3b", False),
        ("Qwen/Qwen3-30B-A3B", False),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507", True),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507-FP8", True),
        ("Qwen/Qwen3-30B-A3B-Thinking-2507", False),
        ("llama-3.1-8b", True),
        ("meta-llama/Llama-3.1-8B", False),
        ("nvidia/Llama-3.1-8B-Instruct-FP8", True),
        ("kimi-k2", True),
        ("moonshotai/Kimi-K2-Base", False),
    ],
)
def test_what_was_published_of_one_release_is_borrowed_by_another(served, own):
    match = best_match("eagle-3", served)
    assert (match.kinship == "own") == own == (not match.label.startswith("borrowed"))
    assert match.kinship != "borrowed"


@pytest.mark.parametrize("model", ["qwen3-30b-a3b", "qwen3-235b-a22b"])
def test_files_serve_no_release_with_the_head_of_another_unsaid(model):
    entry = best_match("eagle-3", model).entry
    chosen = DecodingConfiguration(
        deployment=DeploymentNames(model=model), method="eagle-3", draft_tokens=3
    )
    command = export(chosen, "vllm").command
    assert hub_id(model) in command.split() and entry.drafter not in command
