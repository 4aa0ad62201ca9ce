"""A server starts although its cache holds less than a request of the model's own length."""

from dataclasses import replace

import pytest

from app.answers.deployables import deployables, file_lines
from app.exporters.cache_length import cache_length
from app.exporters.registry import ENGINES, export
from costmodel.answers.fit import room
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import geometric
from costmodel.optimizers.drafters.named_drafters import drafter_source
from costmodel.optimizers.recommend import recommend

SHORT = [
    ("llama-3.1-8b", "rtx-4090", {}, 131072),
    ("qwen3-32b", "h100-sxm", {}, 40960),
    ("llama-3.3-70b", "h100-sxm", {"tensor_parallel": 2}, 131072),
    ("llama-3.1-8b", "l4", {"dtype": "fp8"}, 131072),
]
LONG = [
    ("llama-3.1-8b", "h100-sxm", {}),
    ("qwen3-32b", "h100-sxm", {"tensor_parallel": 2}),
    ("llama-3.3-70b", "h200", {"tensor_parallel": 4}),
]
STARTS_WITH_LESS = [
    ("sglang", "qwen3-32b", "h100-sxm"),
    ("tensorrt-llm", "llama-3.1-8b", "rtx-4090"),
    ("llama.cpp", "llama-3.1-8b", "rtx-4090"),
]


def priced(model, device, engine="vllm", **where):
    names = DeploymentNames(model=model, device=device, engine=engine, **where)
    return DecodingConfiguration(
        deployment=names, method="eagle-3", draft_tokens=3, provenance={"device": device}
    )


def words_of(result, flag):
    words = result.command.split()
    return words[words.index(flag) + 1] if flag in words else None


@pytest.mark.parametrize(("model", "device", "where", "published"), SHORT)
def test_vllm_takes_what_fits_where_the_models_own_length_does_not(model, device, where, published):
    chosen = priced(model, device, **where)
    new, old = export(chosen, "vllm"), export(chosen, "vllm", "0.11.2")
    assert words_of(new, "--max-model-len") == "auto"
    tokens = int(words_of(old, "--max-model-len"))
    assert chosen.deployment.dtype or 1024 < tokens < published
    for result in (new, old):
        (told,) = (note for note in result.notes if note.startswith("requests of up to "))
        assert f"{tokens:,}" in told and f"{published:,}" in told and device in told
        assert told in result.files["vllm-serve.sh"]


@pytest.mark.parametrize(("model", "device", "where", "published"), SHORT)
def test_what_fits_is_what_the_account_of_memory_holds_of_one_request(
    model, device, where, published
):
    chosen = priced(model, device, **where)
    held = cache_length(chosen, "vllm")
    setting = build_setting(chosen)
    block = setting.engine.memory.block_tokens
    assert held.tokens % block == 0

    def requests(tokens):
        return room(setting, geometric(0.0, 3), context=tokens).largest_batch

    # which takes half a block lost per request
    assert requests(held.tokens - block) >= 1 and requests(held.tokens + block) < 1


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("model", "device", "where"), LONG)
def test_the_engines_own_length_is_left_where_it_fits(engine, model, device, where):
    chosen = replace(priced(model, device, **where), method="plain-decoding", draft_tokens=0)
    if engine in ("llama.cpp", "transformers"):
        chosen = replace(chosen, deployment=replace(chosen.deployment, tensor_parallel=1))
    result = export(chosen, engine)
    flags = ("--max-model-len", "--context-length", "--max_seq_len", "--ctx-size")
    assert not any(flag in result.command for flag in flags)
    if engine not in ("llama.cpp", "transformers"):
        assert not any(note.startswith("requests of up to ") for note in result.notes)


@pytest.mark.parametrize(("engine", "model", "device"), STARTS_WITH_LESS)
def test_engines_that_start_with_less_are_given_no_length_and_it_is_said(engine, model, device):
    result = export(priced(model, device), engine)
    flags = ("--context-length", "--max_seq_len", "--ctx-size")
    assert not any(flag in result.command for flag in flags)
    assert any(note.startswith("requests of up to ") for note in result.notes)


def test_older_builds_of_llama_cpp_are_given_a_cache_that_all_slots_share():
    chosen = replace(
        priced("llama-3.1-8b", "rtx-4090", "llama.cpp"), method="plain-decoding", draft_tokens=0
    )
    old = export(chosen, "llama.cpp", "old")
    several = export(replace(chosen, batch=4), "llama.cpp", "old")
    assert words_of(old, "--ctx-size") == words_of(several, "--ctx-size") is not None
    assert int(words_of(old, "--ctx-size")) < 131072


def test_a_stated_length_is_kept_and_a_stated_configuration_is_of_no_device():
    chosen = priced("llama-3.1-8b", "rtx-4090")
    assert words_of(export(replace(chosen, max_length=2048), "vllm"), "--max-model-len") == "2048"
    assert words_of(export(replace(chosen, provenance={}), "vllm"), "--max-model-len") is None


def test_a_release_whose_own_length_is_not_known_takes_what_fits():
    chosen = priced("Qwen/Qwen3-30B-A3B-Instruct-2507", "h100-sxm")
    result = export(replace(chosen, draft_model="the/head"), "vllm")
    assert words_of(result, "--max-model-len") == "auto"
    assert any("was not looked up" in note for note in result.notes)


def test_what_was_searched_is_written_with_its_length_and_told_on_screen(tmp_path):
    where = DeploymentNames(model="qwen3-32b", device="h100-sxm")
    found = recommend(
        DecodingConfiguration(deployment=where),
        [drafter_source("eagle-3", model="qwen3-32b")],
        batches=[1, 16],
    )
    entries = deployables(found, context=1024, engines=["vllm"])
    assert words_of(entries[0].result, "--max-model-len") == "auto"
    told = " ".join(" ".join(file_lines(entries, tmp_path)).split())
    assert "requests of up to " in told and "40,960" in told and "--max-model-len auto" in told
