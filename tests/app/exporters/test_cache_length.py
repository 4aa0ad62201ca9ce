"""A server starts although its cache holds less than a request of the model's own length."""

from dataclasses import replace

import pytest

import rooftree
from app.exporters.cache_length import cache_length
from app.exporters.registry import ENGINES, export
from costmodel.answers.fit import room
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import geometric

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
    return DecodingConfiguration(deployment=names, method="eagle-3", draft_tokens=3)


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


def test_a_stated_length_is_kept_and_options_of_export_name_no_device():
    chosen = priced("llama-3.1-8b", "rtx-4090")
    assert words_of(export(replace(chosen, max_length=2048), "vllm"), "--max-model-len") == "2048"
    for model in ("llama-3.1-8b", "qwen3-32b"):
        stated = rooftree.export("vllm", model=model, method="eagle-3", draft_tokens=3, out=None)
        assert "--max-model-len" not in stated["command"]


def test_a_release_whose_own_length_is_not_known_takes_what_fits():
    chosen = priced("Qwen/Qwen3-30B-A3B-Instruct-2507", "h100-sxm")
    result = export(replace(chosen, draft_model="the/head"), "vllm")
    assert words_of(result, "--max-model-len") == "auto"
    assert any("was not looked up" in note for note in result.notes)


def test_what_was_searched_is_written_with_its_length_at_every_door(tmp_path):
    asked = {"model": "qwen3-32b", "device": "h100-sxm", "batch": [1, 16]}
    found = rooftree.optimize(**asked, drafter=["eagle-3"], out=tmp_path)
    script = (tmp_path / "vllm" / "vllm-serve.sh").read_text()
    assert "--max-model-len auto" in script and "40,960" in script
    exported = rooftree.export("vllm", config=tmp_path / "recommendation.json", out=None)
    assert "--max-model-len auto" in exported["command"]
    told = " ".join(str(found).split())
    assert "requests of up to " in told and "--max-model-len auto" in told
