"""`predict --transform`: compression by name, its refusals, and explanations that still add up."""

import pytest

WORDS = (
    "predict",
    "--model",
    "llama-3.2-1b",
    "--batch",
    "1,32",
    "--context",
    "16384",
    "--method",
    "eagle-3",
    "--acceptance",
    "0.7",
    "--draft-tokens",
    "0,3",
)


def steps(run):
    return [row["step_s"] for row in run.answer["predictions"]]


def test_a_smaller_cache_makes_every_step_shorter_at_long_context(rooftree):
    plain, small = (
        rooftree(*WORDS, "--json"),
        rooftree(*WORDS, "--json", "--transform", "LeanK, double-sparsity"),
    )
    assert small.answer["inputs"]["transform"] == ["leank", "double-sparsity"]
    assert plain.answer["inputs"]["transform"] == []
    assert steps(small)[-1] < 0.9 * steps(plain)[-1]
    assert "leank, double-sparsity" in rooftree(*WORDS, "--transform", "LeanK,double-sparsity").out


def test_no_names_are_no_transform(rooftree):
    assert steps(rooftree(*WORDS, "--json", "--transform", " , ")) == steps(
        rooftree(*WORDS, "--json")
    )


@pytest.mark.parametrize("name", ["dfloat11", "cskv", "free", "lora-drop"])
def test_explanations_add_up_under_transforms(rooftree, name):
    for row in rooftree(*WORDS, "--transform", name, "--explain", "--json").answer["predictions"]:
        told = row["explain"]
        assert sum(o["seconds"] for o in told["operations"]) == pytest.approx(row["step_s"])
        assert sum(told["by_roof_s"].values()) == pytest.approx(row["step_s"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--transform", "mustaf"), "unknown transform 'mustaf'; nearest: mustafar"),
        (("--transform", "leank,leank"), "given more than once"),
        (("--transform", "double-sparsity,top-k-attention"), "sparse only once"),
        (("--transform", "dfloat11", "--dtype", "fp8"), "is for weights in bf16"),
    ],
)
def test_refusals_are_one_line_with_exit_code_two(rooftree, words, message):
    run = rooftree(*WORDS, *words)
    assert (run.code, run.out) == (2, "")
    assert message in run.err
    assert "Traceback" not in run.err
