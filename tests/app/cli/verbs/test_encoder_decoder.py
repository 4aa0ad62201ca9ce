"""Encoder-decoders on the command line: every verb that prices one, and what is refused of it."""

import pytest

T5 = ("--model", "t5-v1.1-large", "--device", "h100-sxm")
DRAFT = ("--draft", "t5-v1.1-small")


def test_the_least_rate_is_predicted_to_break_even(rooftree):
    words = (*T5, *DRAFT, "--draft-tokens", "3", "--batch", "1", "--context", "256", "--json")
    (point,) = rooftree("breakeven", *words).answer["points"]
    (row,) = rooftree("predict", *words, "--acceptance", repr(point["least_acceptance"])).answer[
        "predictions"
    ]
    assert row["speedup"] == pytest.approx(1.0, abs=1e-6)


def test_a_simulation_finishes_and_says_so(rooftree):
    words = ("--rate", "4", "--count", "20", "--prompt-tokens", "200", "--output-tokens", "20")
    metrics = rooftree("simulate", *T5, *words, "--json").answer["metrics"]
    assert metrics["finished"] == 20
    assert 0.0 < metrics["tpot_s"]["mean"] < metrics["ttft_s"]["mean"] < 0.1


def test_inspection_counts_the_encoder(rooftree):
    model = rooftree("models", "inspect", "t5-xxl", "--json").answer["model"]
    parts = model["parameters_by_part"]
    assert sum(parts.values()) == model["parameters"]
    assert 0.4 < parts["encoder"] / model["parameters"] < 0.5


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (("predict", *T5, *DRAFT, "--acceptance", "0.8", "--pp", "2"), "one stack of layers"),
        (("predict", *T5, *DRAFT, "--acceptance", "0.8", "--shared-prefix", "64"), "both ways"),
        (
            (
                "simulate",
                "--model",
                "whisper-large-v2",
                "--rate",
                "1",
                "--count",
                "2",
                "--prompt-tokens",
                "4",
                "--output-tokens",
                "9",
            ),
            "fixed length",
        ),
    ],
)
def test_refusals_say_why(rooftree, words, rule):
    refused = rooftree(*words)
    assert refused.code == 2
    assert rule in " ".join(refused.err.split())
