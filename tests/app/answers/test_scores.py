"""Scores that answers quote are those that the README states."""

from pathlib import Path

import pytest

from app.answers.scores import CPU, LLAMA_CPP, PUBLISHED, SCORES, VLLM_HOPPER, score_like
from hardware_profiles.loader import load_device

README = Path(__file__).parents[3] / "README.md"


@pytest.mark.skipif(not README.exists(), reason="runs from an installed wheel")
@pytest.mark.parametrize("score", SCORES)
def test_the_readme_says_the_same_numbers(score):
    table = README.read_text().partition("## How sure are we?")[2].partition("\n\n**")[0]
    rows = [line for line in table.splitlines() if line.startswith("|")]
    percents = [
        f"{100 * ratio:.1f}".removesuffix(".0") for ratio in (score.median_ratio, score.most_ratio)
    ]

    def says(row, text):
        return any(form in row for form in (f"{text} %", f"{text}.0 %"))

    assert any(all(says(row, text) for text in percents) and str(score.rows) in row for row in rows)


@pytest.mark.parametrize(
    ("device", "engine", "method", "expected"),
    [
        ("h100-sxm", "vllm", "eagle-3", VLLM_HOPPER),
        ("h100-sxm", "sglang", "eagle-3", PUBLISHED),
        ("mi300x", "vllm", "eagle-3", PUBLISHED),
        ("h100-sxm", "vllm", "plain-decoding", PUBLISHED),
        ("cpu-amd-epyc--1-thread", "llama.cpp", "n-gram", LLAMA_CPP),
        ("cpu-amd-epyc--1-thread", "none", "n-gram", CPU),
    ],
)
def test_what_is_quoted_was_measured_on_what_is_most_alike(device, engine, method, expected):
    assert score_like(load_device(device), engine, method) is expected


def test_every_score_is_a_sentence():
    assert VLLM_HOPPER.words.startswith(
        "this model's speedup was 1.8 % off in the median and all within 15.3 %"
    )
