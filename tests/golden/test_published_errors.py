"""What is committed of errors on published runs is what the present cost model answers for a sample
of them."""

import json

import pytest

from app.answers.scoring.published import FILE, sampled

RENEWED_BY = """the cost model answers otherwise than when the summary was made; make it anew:
rooftree score TABLE.parquet... --out SCORE
python -m tests.golden.regenerate_published_errors SCORE/score.json --write"""


def test_the_committed_summary_is_of_the_present_model(sampled_score):
    kept, now = json.loads(FILE.read_text())["sample"], sampled(sampled_score["measurements"])
    common = sorted(kept.keys() & now.keys())
    assert len(common) >= 10
    moved = [name for name in common if now[name] != pytest.approx(kept[name], rel=0.01)]
    assert not moved, (
        f"{len(moved)} of {len(common)} runs moved by more than 1 %, such as {moved[0]}:"
        f" {RENEWED_BY}"
    )
