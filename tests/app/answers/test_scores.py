"""Scores that answers quote are those of the committed results, as VALIDATION.md shows them."""

import pytest

from app.answers.scores import CPU, LLAMA_CPP, PUBLISHED, VLLM_HOPPER, score_like
from hardware_profiles.loader import load_device
from tests.validation_page.page import own_runs
from tests.validation_page.summaries import read


@pytest.mark.parametrize(
    ("score", "table", "row", "most"),
    [
        (VLLM_HOPPER, "vllm_speedups", {"method": "both"}, "most_error_ratio"),
        (PUBLISHED, "published_numbers", {"value": "both"}, "p90_error_ratio"),
    ],
)
def test_scores_on_published_runs_are_the_committed_results(score, table, row, most):
    (found,) = [r for r in read(table) if row.items() <= r.items()]
    assert (score.rows, score.median_ratio, score.most_ratio) == (
        found.get("predicted", found["rows"]),
        round(found["median_error_ratio"], 3),
        round(found[most], 3),
    )


@pytest.mark.parametrize(
    ("score", "place", "what"),
    [
        (LLAMA_CPP, "cpu-intel-xeon--1-thread", "llama.cpp"),
        (CPU, "cpu-amd-epyc--1-thread", "validation"),
    ],
)
def test_scores_of_our_own_runs_are_the_committed_results(score, place, what):
    (found,) = [run for run in own_runs() if (run["place"], run["what"]) == (place, what)]
    assert (score.rows, score.median_ratio, score.most_ratio) == (
        found["configurations"],
        round(found["median_error_ratio"], 3),
        round(found["p90_error_ratio"], 3),
    )


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
        "this model's speedup was 1.5 % off in the median and all within 15.2 %"
    )
