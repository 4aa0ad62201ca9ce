"""A deployment is said alike by every verb, with its formats and its devices."""

import pytest

from app.answers.deployment_words import deployment_words

ASKED = {"model": "llama-3.3-70b", "device": "h100-sxm", "engine": "vllm"}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, "llama-3.3-70b on h100-sxm, vllm"),
        ({"dtype": "fp8", "tp": 4}, "llama-3.3-70b in fp8 on 4 x h100-sxm, vllm"),
        (
            {"dtype": "fp8", "kv_dtype": "fp8", "tp": "2"},
            "llama-3.3-70b in fp8 with a cache in fp8 on 2 x h100-sxm, vllm",
        ),
        ({"tp": 1, "dp": 8, "ep": 8}, "llama-3.3-70b on 8 x h100-sxm (tp1dp8ep8), vllm"),
        ({"tp": "2,4"}, "llama-3.3-70b on h100-sxm, vllm"),
        (
            {"device": "h100-sxm,l4", "engine": "vllm,sglang", "tp": 2},
            "llama-3.3-70b on 2 each of 2 devices, 2 engines",
        ),
    ],
)
def test_formats_and_devices_are_part_of_the_words(more, words):
    assert deployment_words(ASKED | more) == words


@pytest.mark.heavy
@pytest.mark.parametrize("verb", ["optimize", "predict", "simulate", "breakeven", "capacity"])
def test_titles_of_verbs_say_the_same_deployment(rooftree, tmp_path, verb):
    options = {
        "optimize": ("--batch", "4", "--out", tmp_path),
        "predict": ("--batch", "4"),
        "simulate": ("--users", "4", "--count", "32", "--draft-tokens", "3"),
        "breakeven": (
            "--batch",
            "4",
        ),
        "capacity": ("--rate", "1", "--prompt-tokens", "512", "--output-tokens", "64"),
    }[verb]
    where = ("--model", "llama-3.1-8b", "--dtype", "fp8", "--tp", "2")
    done = rooftree(verb, *where, "--drafter", "eagle-3:0.7,0.5,0.4", *options)
    words = "llama-3.1-8b in fp8 on 2 x h100-sxm, vllm"
    (title, *_) = [line for line in done.out.splitlines() if words in line]
    if verb == "simulate":
        assert title.endswith("eagle-3 with 3 draft tokens, 4 users")
