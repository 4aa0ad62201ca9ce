"""A context beyond the positions that a model has learned is bad input to every verb."""

import pytest

MODEL = ("--model", "gpt2", "--device", "h100-sxm")
DRAFTS = ("--method", "medusa", "--acceptance", "0.6", "--draft-tokens", "3")
POINT = ("--batch", "1", "--context", "{length}")
LOAD = ("--rate", "1", "--prompt", "{length}", "--output", "2")
SERVED = ("--prompt-tokens", "{length}", "--output-tokens", "2")
ASKED = {
    "predict": ("predict", *MODEL, *DRAFTS, *POINT),
    "optimize": ("optimize", *MODEL, *DRAFTS, *POINT),
    "breakeven": ("breakeven", *MODEL, "--method", "medusa", *POINT),
    "capacity": ("capacity", *MODEL, *LOAD),
    "capacity --search full": ("capacity", *MODEL, *LOAD, "--search", "full", "--devices", "1"),
    "optimize --search full": (
        "optimize",
        *MODEL,
        *DRAFTS,
        *SERVED,
        "--search",
        "full",
        "--no-simulate",
    ),
    "simulate": ("simulate", *MODEL, *SERVED, "--users", "1", "--count", "1"),
}


@pytest.mark.parametrize("words", ASKED.values(), ids=ASKED)
def test_the_last_position_is_answered_and_the_next_one_is_refused(rooftree, tmp_path, words):
    def ended(length):
        folder = ("--out", tmp_path) if words[0] == "optimize" else ()
        return rooftree(*(word.format(length=length) for word in words), *folder)

    within, beyond = ended(1000), ended(1100)
    assert within.code == 0, within.err
    assert (beyond.code, beyond.out) == (2, "")
    assert "must be at most the 1,024 positions that gpt2 has learned" in beyond.err


def test_a_cell_of_a_sweep_says_so_and_the_others_are_answered(rooftree, tmp_path):
    import pyarrow.parquet as pq

    lists, out = tmp_path / "lists.yaml", tmp_path / "cells.parquet"
    lists.write_text(
        "{models: [gpt2], drafters: ['medusa:0.6'], batches: [1], contexts: [1000, 1100]}"
    )
    assert rooftree("sweep", lists, "--out", out, "--workers", "1").code == 0
    within, beyond = sorted(pq.read_table(out).to_pylist(), key=lambda row: row["context"])
    assert within["feasible"] and not beyond["feasible"]
    assert "1,024 positions that gpt2 has learned" in beyond["reason"]
