"""Names in published tables: systems, models, engines, prompts; and the table of what tables leave
out."""

import tomllib
from pathlib import Path

import pytest

from costmodel.architectures.library import model_names
from costmodel.engine_library import engine_names
from costmodel.method_library import method_names
from hardware_profiles.errors import UnknownNameError
from real_runs import published_numbers
from real_runs.published_numbers.causes import cause_of
from real_runs.published_numbers.reading.names import (
    ASSUMED_CONTEXT,
    context_of,
    engine_of,
    method_of_system,
    model_of,
    system_name,
)
from real_runs.published_numbers.reading.sources import RowFacts

FOLDER = Path(published_numbers.__file__).parent
TABLE = tomllib.loads((FOLDER / "reading" / "sources.toml").read_text(encoding="utf-8"))
CAUSES = tomllib.loads((FOLDER / "causes.toml").read_text(encoding="utf-8"))["causes"]


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("Sequoia (baseline in DySpec)", "sequoia"),
        ("Prompt lookup (Spec-Bench)", "n-gram"),
        ("EAGLE-2", "eagle-2"),
        ("Speculative Sampling (Chen, Chinchilla)", "speculative-sampling"),
        ("Vanilla (in PPD)", "plain-decoding"),
        ("Medusa", "medusa"),
        ("DFloat11", "dfloat11"),
        ("TriForce", "triforce"),
        ("Lookahead decoding", "lookahead"),
    ],
)
def test_systems_of_the_catalogue(text, slug):
    method, remark = method_of_system(text)
    assert (method.slug, remark) == (slug, "")


def test_a_system_that_is_priced_as_another_says_so():
    for name, entry in TABLE["systems"].items():
        method, remark = method_of_system(name)
        assert [method.slug] == list(entry.values())
        assert bool(remark) == ("like" in entry)


def test_a_system_that_nothing_prices_is_refused():
    with pytest.raises(UnknownNameError, match="unknown system 'Fastest Decoding Ever'"):
        method_of_system("Fastest Decoding Ever (as published)")
    assert system_name("SpecInfer (baseline in Sequoia)") == "SpecInfer"


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("Vicuna-13B", "vicuna-13b"),
        ("Llama2-7B", "llama-2-7b"),
        ("JackFram/llama-68m", "llama-68m"),
        ("Llama2-chat-70B", "llama-2-70b"),
        ("Llama2-7B-128K (Yarn)", "llama-2-7b"),
        ("Vicuna-7B-v1.3", "vicuna-7b"),
        ("Llama3.1-8B-128K", "llama-3.1-8b"),
        ("LLaMA-3.1-8B-Instruct", "llama-3.1-8b"),
        ("QwQ-32B", "qwen2.5-32b"),
        ("T5-XXL 11B", "t5-xxl"),
        ("T5-small 77M", "t5-v1.1-small"),
        ("t5-small", "t5-small"),
        ("Mixtral-8x7B-Instruct", "mixtral-8x7b"),
        ("MobileLLaMA-1.4B", "mobilellama-1.4b"),
    ],
)
def test_models(text, model):
    assert model_of(text).name == model


def test_a_model_of_the_same_shapes_says_so_and_an_unknown_one_is_refused():
    assert "LongChat is tuned LLaMA-7B" in model_of("LongChat-7B").remark
    assert model_of("Vicuna-7B").remark == ""
    for name in ("", "LaMDA 137B", "best pair per set"):
        with pytest.raises(UnknownNameError):
            model_of(name)


def test_the_table_names_what_is_shipped():
    assert {each["model"] for each in TABLE["models"].values()} <= set(model_names())
    assert {each["engine"] for each in TABLE["engines"]} <= set(engine_names())
    assert all(each["because"] for each in (*TABLE["engines"], *TABLE["models"].values()))
    assert {each["like"] for each in TABLE["systems"].values() if "like" in each} <= set(
        method_names()
    )


def test_an_engine_that_the_row_names_goes_before_that_of_its_source(row):
    assert engine_of(row()).name == "transformers"
    assert engine_of(row(notes="SGLang throughput improvement")).name == "transformers"
    assert engine_of(row(own_facts=RowFacts(engine="sglang"))).name == "sglang"
    assert engine_of(row(draft="EAGLE head .24B on gpt-fast")).name == "none"
    assert engine_of(row(engine="vllm", own_facts=RowFacts(engine="sglang"))).name == "vllm"
    unknown = engine_of(row(source="a blog"))
    assert (unknown.name, "not known" in unknown.remark) == ("none", True)


def test_contexts_are_stated_or_assumed_aloud(row):
    assert context_of(row(prompt="128"), 128) == (192, "")
    for prompt, data in (("", "GovReport"), ("", ""), ("image+text", "SEED")):
        tokens, remark = context_of(row(prompt=prompt, data=data, target="LLaVA-1.5-7B"), 0)
        assert tokens > 0
        assert remark
    assert context_of(row(prompt="", data=""), 0)[0] == ASSUMED_CONTEXT


def test_causes_are_of_the_rows_that_they_speak_of_alone(row):
    assert "theorem" in cause_of(
        row(system="Speculative Decoding (Leviathan)", source="arXiv:2211.17192 Table 2")
    )
    assert cause_of(row(system="EAGLE-2", source="a blog")) == ""
    assert "suspect" in cause_of(row(system="nobody", source="nowhere", notes="SUSPECT value"))
    known = {"systems", "sources", "hardware", "targets", "units", "words", "text"}
    assert all(set(each) <= known and len(each) > 1 and each["text"] for each in CAUSES)
