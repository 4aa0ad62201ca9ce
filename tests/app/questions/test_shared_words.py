"""Words that are the same wherever they are taken: devices of a group, no draft, engines' names."""

from dataclasses import fields

import pytest

from app.cli.main import VERBS
from app.questions.values import MethodName
from hardware_profiles.errors import UnknownNameError

ONE_DEVICE = {
    "calibrate": "fits kernels that one device ran",
    "campaign": "runs on one device of this machine",
    "doctor": "looks at one device of this machine",
    "kernels": "times kernels on one device of this machine",
    "record": "decodes on one device of this machine",
}
ENGINES_NAMES = {
    "NEXTN": "mtp",
    "nextn": "mtp",
    "deepseek_mtp": "mtp",
    "qwen3_next_mtp": "mtp",
    "draft-mtp": "mtp",
    "EAGLE3": "eagle-3",
    "Eagle3": "eagle-3",
    "draft-eagle3": "eagle-3",
    "STANDALONE": "speculative-decoding",
    "Draft_Target": "speculative-decoding",
    "draft-simple": "speculative-decoding",
    "draft_model": "speculative-decoding",
    "NGRAM": "n-gram",
    "ngram_gpu": "n-gram",
    "prompt_lookup": "n-gram",
    "SA": "sam-decoding",
    "DFLASH": "dflash",
    "PARD": "pard",
}


def names(verb):
    return {field.name for field in fields(VERBS[verb])}


def test_wherever_a_device_is_priced_so_is_a_group_of_them():
    asked = {verb for verb in VERBS if {"device", "tp"} & names(verb)}
    assert {verb for verb in asked if "tp" not in names(verb)} == set(ONE_DEVICE)


@pytest.mark.parametrize("name", ENGINES_NAMES)
def test_methods_are_known_as_engines_call_them(name):
    assert MethodName().read(name) == ENGINES_NAMES[name]


def test_what_no_engine_calls_a_method_is_unknown():
    with pytest.raises(UnknownNameError):
        MethodName().read("next-in-line")


@pytest.mark.parametrize(
    "words",
    [
        ("methods", "nextn"),
        ("acceptance", "show", "nextn", "deepseek-v3"),
        ("acceptance", "list", "--method", "NEXTN"),
        (
            *("export", "sglang", "--model", "deepseek-v3", "--method", "NEXTN"),
            *("--draft-tokens", "1"),
        ),
        (
            *("predict", "--model", "deepseek-v3", "--tp", "8", "--device", "h200-sxm"),
            *("--drafter", "deepseek_mtp:0.8", "--batch", "1"),
        ),
        (
            *("simulate", "--model", "llama-3.1-8b", "--method", "NGRAM", "--acceptance", "0.5"),
            *("--draft-tokens", "2", "--rate", "1", "--count", "5"),
        ),
    ],
    ids=" ".join,
)
def test_every_verb_takes_them(rooftree, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    ended = rooftree(*words)
    assert ended.code == 0, ended.err


TRACE = "smollm2-135m--prompt-lookup--greedy"


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("traces", "inspect", TRACE, "--draft-tokens", "0,3"), " off "),
        (("traces", "list", "--method", "n-gram", "--draft-tokens", "0"), " off "),
        (("replay", TRACE, "--draft-tokens", "0"), "off "),
        (("predict", "--model", "llama-3.1-8b", "--draft-tokens", "0"), "draft off"),
        (
            ("export", "vllm", "--model", "llama-3.1-8b", "--draft-tokens", "0"),
            "nothing is drafted",
        ),
    ],
    ids=lambda words: " ".join(words[:2]) if isinstance(words, tuple) else "",
)
def test_no_draft_tokens_are_plain_decoding(rooftree, tmp_path, monkeypatch, words, shown):
    monkeypatch.chdir(tmp_path)
    ended = rooftree(*words)
    assert ended.code == 0 and shown in ended.out, ended.err


def test_a_group_of_devices_is_validated_where_a_server_runs(rooftree):
    ended = rooftree("validate", "--profile", "cpu-epyc", "--tp", "2")
    assert ended.code == 2 and "--tp: goes with --server" in ended.err


@pytest.mark.heavy
def test_losses_of_a_group_of_devices_are_its_own(rooftree):
    asked = ("traces", "losses", TRACE, "--batch", "1,64", "--device", "l4", "--json")
    alone, three = (rooftree(*asked, "--tp", tp).answer["losses"] for tp in ("1", "3"))
    assert [row["batch"] for row in alone] == [row["batch"] for row in three]
    assert three[0]["tokens_per_s"] != alone[0]["tokens_per_s"]
