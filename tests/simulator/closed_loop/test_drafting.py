"""Rows of runs that speculated: which drafts, and what their acceptance does to the answer."""

import pytest

from hardware_profiles.errors import InputError, UnknownNameError
from simulator.closed_loop.drafting import published_drafting
from simulator.closed_loop.table_rows import answer_rows

pytestmark = pytest.mark.heavy

ROW = {
    "backend": "trtllm",
    "model_path": "deepseek-ai/DeepSeek-R1",
    "system": "h200_sxm",
    "precision": "fp8",
    "isl": 512,
    "osl": 128,
    "concurrency": 4,
    "tp_size": 8,
    "moe_ep_size": 8,
    "launch": "inferencex-2026-01-14",
}
APART = {
    "mode": "disagg",
    **{
        f"{side}_{name}": value
        for side in ("prefill", "decode")
        for name, value in (("num_workers", 1), ("tp_size", 8), ("moe_ep_size", 8))
    },
}


def one(**changes):
    return answer_rows([ROW | changes], file="t.csv")[0]


def test_longer_drafts_go_on_at_falling_rates():
    one_draft, three = (
        published_drafting("mtp", model="deepseek-v3", draft_tokens=k).rates for k in (None, 3)
    )
    assert one_draft == three[:1]
    assert 1.0 > three[0] > three[1] > three[2] > 0.0


def test_drafting_without_published_acceptance_is_refused_by_its_column():
    with pytest.raises(InputError, match=r"^speculation: .*gpt-oss-120b"):
        published_drafting("mtp", model="gpt-oss-120b", draft_tokens=1)
    with pytest.raises(UnknownNameError):
        published_drafting("guessing", model="deepseek-v3", draft_tokens=1)
    assert "guessing" in one(speculation="guessing").reason


@pytest.mark.parametrize("changes", [{}, APART])
def test_drafts_shorten_the_time_per_token_by_less_than_their_tokens(changes):
    plain, drafted = one(**changes), one(**changes, speculation="mtp")
    emitted = 1.0 + sum(published_drafting("mtp", model="deepseek-v3", draft_tokens=3).rates)
    assert plain.tpot_ms / emitted < drafted.tpot_ms < plain.tpot_ms
    assert drafted.ttft_ms == pytest.approx(plain.ttft_ms, rel=0.5)


def test_copies_of_attention_draft_as_their_scripts_say():
    """TensorRT-LLM's scripts draft one token where attention is copied and three where it is not."""
    copied = {"tp_size": 1, "attention_dp_size": 8}
    plain, drafted = one(**copied), one(**copied, speculation="mtp")
    assert plain.tpot_ms / 1.85 < drafted.tpot_ms < plain.tpot_ms
