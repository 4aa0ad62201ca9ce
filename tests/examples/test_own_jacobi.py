"""A researcher's own Jacobi decoder: from printed passes to where it beats one token a pass."""

import re

import pytest

from tests.traces.importers.test_jacobi_passes import decoded, lines


def test_from_printed_passes_to_where_they_pay(user, tmp_path):
    text = [(7 * at * at + 3 * at) % 50 for at in range(200)]
    rows, settled = decoded(text, lambda at, done: (at + done) % 2, 6)
    (tmp_path / "own.jsonl").write_text(lines(rows))
    imported = user("rooftree traces import own.jsonl --model vicuna-7b")
    assert "read as jacobi-passes" in imported.out
    asked = "--model vicuna-7b --method jacobi-decoding --trace own.parquet --batch 1"
    refused = user(f"rooftree optimize {asked}", code=2).err
    instead = re.search(r"`(rooftree breakeven [^`]*)`", refused).group(1)
    shown = user(f"{instead} --batch 1,64").out
    pace = len(text) / len(settled)
    assert f"{pace:.4g} tokens per pass of windows of up to 6" in shown
    (predicted,) = user(f"rooftree predict {asked} --json").answer["predictions"][-1:]
    stated = f"rooftree predict --model vicuna-7b --method jacobi-decoding --batch 1 --tokens-per-step {pace!r}"
    assert predicted["tokens_per_step"] == pytest.approx(pace)
    assert (
        predicted["tokens_per_s"]
        == user(f"{stated} --json").answer["predictions"][-1]["tokens_per_s"]
    )
