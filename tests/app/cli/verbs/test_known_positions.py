"""Every verb says where acceptance is used beyond what is known of it, and its interval holds how
it may go on."""

import pyarrow.parquet as pq
import pytest

SAID = "acceptance is known to K=1 and used to K=3"
WORDS = ("--model", "deepseek-v3", "--device", "h200-sxm", "--drafter", "mtp")
PLACED = (*WORDS, "--tp", "8", "--batch", "8")


def flat(text):
    """A printed page without its line ends."""
    return " ".join(text.split())


@pytest.mark.parametrize("verb", ["predict", "optimize", "breakeven"])
def test_verbs_say_it(rooftree, verb):
    assert SAID in flat(rooftree(verb, *PLACED, "--draft-tokens", "1,3").out)
    assert SAID not in flat(rooftree(verb, *PLACED, "--draft-tokens", "1").out)


def test_capacity_says_it(rooftree):
    words = (*WORDS, "--tp", "8", "--rate", "2", "--prompt", "512", "--output", "128")
    answer = rooftree("capacity", *words, "--draft-tokens", "3", "--json").answer["acceptance"]
    assert SAID in answer["remark"] and "goes on" in answer["interval_covers"]
    assert (
        "remark"
        not in rooftree("capacity", *words, "--draft-tokens", "1", "--json").answer["acceptance"]
    )


def test_simulations_say_it(rooftree):
    words = (
        "simulate",
        *WORDS,
        "--set",
        "deployment.tensor_parallel=8",
        "--set",
        "requests.count=20",
    )
    said = rooftree(*words, "--draft-tokens", "3", "--rate", "2")
    assert SAID in flat(said.out), said.err


def test_a_configuration_that_was_written_says_it_again(rooftree, tmp_path):
    """What a file carries is known as far as before: one rate of one position is not the law of one
    rate."""
    rooftree("optimize", *PLACED, "--draft-tokens", "3", "--out", tmp_path)
    file = next(
        path
        for path in tmp_path.rglob("*.json")
        if "known_tokens" in path.read_text(encoding="utf-8")
    )
    assert '"known_tokens": 1' in file.read_text(encoding="utf-8")


def test_the_interval_holds_how_acceptance_may_go_on(rooftree):
    rows = rooftree("predict", *PLACED, "--draft-tokens", "1,3", "--json").answer["predictions"]
    low, high = rows[1]["tokens_per_step_interval"]
    assert low < rows[1]["tokens_per_step"] < high and rows[1]["tokens_per_step"] < 3.15
    assert rows[0]["tokens_per_step_interval"] == [1.85, 1.85]


def test_sweeps_stay_within_what_is_known(rooftree, tmp_path):
    """They choose the draft length themselves, and a longer one than was measured is none of their
    choices."""
    file = tmp_path / "sweep.yaml"
    file.write_text(
        "models: [deepseek-v3]\ndevices: [h200-sxm]\ntensor_parallel: [8]\ndrafters:"
        " [mtp]\nbatches: [1, 8]\n",
        encoding="utf-8",
    )
    answer = rooftree(
        "sweep", file, "--out", tmp_path / "cells.parquet", "--workers", "1", "--json"
    )
    assert answer.code == 0, answer.err
    rows = pq.read_table(tmp_path / "cells.parquet").to_pylist()
    assert [row["draft_tokens"] for row in rows] == [1, 1] and not any(
        row["remark"] for row in rows
    )


def test_the_dashboard_says_it():
    pytest.importorskip("streamlit")
    from app.dashboard.question import acceptance_words
    from costmodel.optimizers.drafters.named_drafters import published_source

    source = published_source("mtp", "deepseek-v3")
    assert SAID.removeprefix("acceptance") in acceptance_words(source, 3)
    assert SAID.removeprefix("acceptance") not in acceptance_words(source, 1)
