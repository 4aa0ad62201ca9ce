"""Ranks in step against the law for the same deployment: both price one pass of a full batch
alike."""

import numpy as np
import pytest

from costmodel.parallel.passes import plan_cost
from simulator.engine import simulate
from simulator.scenario.build import prepare
from simulator.scenario.file import checked_scenario

PROMPT, OUTPUT = 512, 400


@pytest.mark.parametrize(
    ("tp", "dp", "users"),
    [
        (1, 2, 16),
        (2, 4, 32),
        *(pytest.param(*many, marks=pytest.mark.slow) for many in ((1, 2, 32), (2, 4, 128))),
    ],
)
def test_a_closed_loop_takes_the_time_of_the_law(tp, dp, users):
    model = "qwen3-30b-a3b"
    deployment = {
        "model": model,
        "device": "h200-sxm",
        "tensor_parallel": tp,
        "data_parallel": dp,
        "expert_parallel": tp * dp,
    }
    # everybody comes at once, and all outputs are as long: every rank decodes the same batch for
    # nearly all the time
    requests = {"count": users, "users": users, "prompt_tokens": PROMPT, "output_tokens": OUTPUT}
    scheduler = {"overlapped_scheduling": False, "prefix_cache": False}
    asked = {"requests": requests, "deployment": deployment, "scheduler": scheduler}
    prepared = prepare(checked_scenario(asked))
    assert prepared.copies.in_step and prepared.copies.schedulers == dp
    found = simulate(prepared.scenario())
    assert np.bincount(found.replica).tolist() == [users // dp] * dp
    setting = prepared.setting
    middle = PROMPT + OUTPUT / 2
    law = plan_cost(
        setting.deployment, prepared.copies.plan, batch=users, query_tokens=1.0, context=middle
    ).step_s()
    law = float(law) + setting.plain_overhead.step_s + setting.plain_overhead.request_s * users / dp
    # the median token: the prompts of the beginning are no part of the law
    step = found.itl.percentile_s(50)
    print(f"\n{model} tp {tp} dp {dp}: law {law * 1e3:.3f} ms, simulated {step * 1e3:.3f} ms")
    assert step == pytest.approx(law, rel=0.03)


def test_copies_that_share_nothing_are_replicas():
    requests = {"count": 40, "rate_per_s": 20.0, "prompt_tokens": 128, "output_tokens": 32}
    model = {"model": "llama-3.1-8b", "device": "h100-sxm"}
    copied = prepare(
        checked_scenario({"requests": requests, "deployment": model | {"data_parallel": 2}})
    )
    apart = prepare(checked_scenario({"requests": requests, "deployment": model, "replicas": 2}))
    for name in ("first_token_s", "last_token_s", "replica"):
        np.testing.assert_array_equal(
            getattr(simulate(copied.scenario()), name), getattr(simulate(apart.scenario()), name)
        )
