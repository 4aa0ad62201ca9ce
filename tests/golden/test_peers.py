"""Ours beside the public configurators', on rows and runs that both answer; nothing is fitted to
either."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from tests.golden.peers import beside, speedups

PEERS = Path(__file__).parent / "peers"
FILES = sorted(PEERS.glob("*.parquet"))


def test_every_stored_prediction_is_of_a_published_row(reference_data):
    known = set()
    for name in ("silicon_sample", "silicon_sample_2"):
        known |= set(
            pq.read_table(reference_data / "serving" / f"{name}.parquet", columns=["id"])[
                "id"
            ].to_pylist()
        )
    for file in FILES:
        table = pq.read_table(file)
        assert table.column_names == ["id", "ttft_ms", "tpot_ms"]
        ids = table["id"].to_pylist()
        assert len(ids) == len(set(ids)) and set(ids) <= known
        assert min(table["tpot_ms"].to_pylist()) > 0


def test_ours_is_nearer_on_what_all_answer(sampled_score):
    print("\n".join(["", *beside.lines(sampled_score, FILES)]))
    tools, rows = beside.tools_of(sampled_score, FILES)
    common = sorted(set.intersection(*(set(answers) for answers in tools.values())))
    assert len(common) > 40 and len(tools) == 5
    for quantity in beside.QUANTITIES:
        measured = np.array([rows[i][f"measured_{quantity}_ms"] for i in common])
        off = {
            t: abs(np.array([a[i][quantity] for i in common]) / measured - 1).mean()
            for t, a in tools.items()
        }
        assert off["rooftree"] == min(off.values()), off


def test_our_speedups_are_nearer_where_a_peer_has_any(reference_data):
    asked = [
        q
        for q in speedups.questions(reference_data)
        if q["source"].startswith(("vLLM", "SpecBundle, SGLang, L"))
    ]
    told = [
        json.loads(line)
        for line in (PEERS / "aisimulate-0.13.0.dev-speedups.jsonl").read_text().splitlines()
    ]
    answers = {row["id"]: row for row in told}
    print("\n".join(["", *speedups.lines(asked, answers)]))
    both = [q for q in asked if q["id"] in answers]
    assert len(both) == 92
    measured = np.array([q["measured"] for q in both])
    ours, theirs = (
        abs(np.array(predicted) / measured - 1)
        for predicted in (
            [q["rooftree"] for q in both],
            [answers[q["id"]]["speedup"] for q in both],
        )
    )
    assert np.median(ours) < np.median(theirs) and ours.mean() < theirs.mean()
