"""`optimize` and `breakeven` say of a policy of masked blocks the same: from which pace, by how much
and at which batches it beats the model decoded token by token."""

import pytest

from app.cli.door import ask
from app.questions.breakeven import BreakevenQuestion
from app.questions.optimize import OptimizeQuestion

ASKED = {
    "model": "llada-8b",
    "device": "h100-sxm",
    "method": "fast-dllm",
    "batch": (1, 8),
    "context": (256,),
}


@pytest.mark.parametrize("against", ["", "llama-3.1-8b"])
def test_both_verbs_agree_on_where_masked_blocks_pay(root, against):
    trace = root / "traces/recorded/confidence/masked-names--dual-cache.parquet"
    asked = ASKED | {"against": against}
    searched = {**asked, "trace": [trace], "quality_floor": 0.9, "out": None}
    optimized = ask(OptimizeQuestion, searched, silent=True)
    assert len(optimized.choices) == 2
    for place, row in enumerate(optimized.choices):
        thresholds = ",".join(f"{name}={value}" for name, value in row.at.items())
        stated = {
            "trace": trace,
            "commit": [f"{row.commit}:{thresholds}"],
            "block": (row.block_tokens,),
            "cache": row.cache,
            "canvas": optimized.quality.canvas_tokens,
        }
        alone = ask(BreakevenQuestion, asked | stated, silent=True)
        point = alone.points[place]
        assert point.least_tokens_per_step == row.needed_tokens_per_step
        assert tuple(point.least_tokens_per_step_interval) == row.needed_tokens_per_step_interval
        assert point.tokens_per_step == pytest.approx(row.tokens_per_step, rel=1e-12)
        assert point.speedup == pytest.approx(row.speedup, rel=1e-12)
        assert point.twin_tokens_per_s == pytest.approx(row.twin_tokens_per_s, rel=1e-12)
        assert point.pays == (row.speedup > 1.0)
        (pays,) = (pays for pays in optimized.ranking.pays if pays.policy == row.policy)
        (batches,) = alone.batches
        assert list(batches.ranges) == list(pays.ranges)
        assert batches.largest_batch == pays.largest_batch
