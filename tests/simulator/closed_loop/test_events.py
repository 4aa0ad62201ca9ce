"""What users see, against the same services with an event for every iteration of every worker."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.closed_loop import pools, serve
from simulator.closed_loop.table_rows import answer_rows
from simulator.engine import collect
from tests.property_examples import examples
from tests.simulator.closed_loop.test_pools import seen
from tests.simulator.plain_service import Service

pytestmark = pytest.mark.heavy

DEEPSEEK = {
    "model_path": "deepseek-ai/DeepSeek-R1-0528",
    "system": "mi355x",
    "backend": "sglang",
    "precision": "fp8",
    "isl": 1024,
    "osl": 40,
    "concurrency": 6,
}
ROWS = (
    {
        "model_path": "Qwen/Qwen3-32B",
        "system": "h100_sxm",
        "backend": "vllm",
        "isl": 500,
        "osl": 60,
        "concurrency": 5,
        "tp_size": 2,
    },
    DEEPSEEK | {"tp_size": 8},
    DEEPSEEK
    | {
        "mode": "disagg",
        "launch": "inferencex-2026-03",
        "prefill_tp_size": 8,
        "decode_tp_size": 8,
        "prefill_num_workers": 1,
        "decode_num_workers": 2,
        "speculation": "mtp",
    },
)


def by_events(scenario):
    service = Service(scenario)
    service.run()
    return collect(scenario, service.stages)


@pytest.fixture
def events(monkeypatch):
    """From here on an event for every iteration."""

    def patch():
        for module in (pools, serve):
            monkeypatch.setattr(module, "simulate", by_events)

    return patch


def test_rows_equal_an_event_per_iteration(events):
    """One pool, prompts apart, and requests that draft."""
    rows = [{"id": str(index), **row} for index, row in enumerate(ROWS)]
    fast = answer_rows(rows, file="t.csv")
    events()
    for answer, plain in zip(fast, answer_rows(rows, file="t.csv"), strict=True):
        assert answer.reason is None
        assert answer.ttft_ms == pytest.approx(plain.ttft_ms, rel=1e-9)
        assert answer.ttft_median_ms == pytest.approx(plain.ttft_median_ms, rel=1e-9)
        assert answer.tpot_ms == pytest.approx(plain.tpot_ms, rel=1e-9)


@given(
    workers=st.integers(1, 3),
    users=st.integers(1, 7),
    prompt=st.integers(1, 3000),
    output=st.integers(1, 12),
    spread=st.sampled_from([0.0, 0.2]),
)
@settings(max_examples=examples(6))
def test_workers_that_take_turns_equal_an_event_per_iteration(
    workers, users, prompt, output, spread
):
    """Of any numbers of workers for prompts and of users. Several that decode may end requests of
    equal users at the very same time, which then go on one after another in the direct run.
    """
    way = {
        "prefill": f"{workers}xtp1",
        "decode": "1xtp1",
        "users": users,
        "prompt": prompt,
        "output": output,
        "requests_per_user": 3,
        "length_spread": spread,
    }
    direct = seen(**way).result
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pools, "simulate", by_events)
        events = seen(**way).result
    for name in ("arrival_s", "scheduled_s", "first_token_s", "last_token_s"):
        np.testing.assert_allclose(getattr(direct, name), getattr(events, name), rtol=1e-9)
