"""A speculative-step estimate over a full batch x context x K grid, against the same model point by point."""

import numpy as np

from costmodel.scenario import Scenario, build_setting
from costmodel.step import chain_step

SETTING = build_setting(Scenario(model="llama-3.1-8b", device="h100-sxm", method="eagle-3"))
BATCH = np.arange(1, 257, dtype=float)[:, None, None]
CONTEXT = np.linspace(0, 32_768, 128)[None, :, None]
K = np.arange(0, 16, dtype=float)[None, None, :]


def grid():
    return chain_step(
        SETTING.deployment, SETTING.drafter, SETTING.overhead, batch=BATCH, context=CONTEXT, draft_tokens=K
    ).total_s


def test_grid_of_half_a_million_steps(benchmark, cpu_s):
    points = BATCH.size * CONTEXT.size * K.size
    result = benchmark.pedantic(grid, rounds=5)
    assert result.shape == (256, 128, 16)
    grid_s = cpu_s(grid)

    def few():
        for b, c, k in ((1, 0, 3), (7, 500, 0), (64, 4000, 5), (256, 32_000, 15)):
            chain_step(
                SETTING.deployment,
                SETTING.drafter,
                SETTING.overhead,
                batch=b,
                context=c,
                draft_tokens=float(k),
            )

    per_point_s = cpu_s(few) / 4
    rate = points / grid_s
    print(f"\n{rate / 1e6:.1f} million steps per CPU second, {rate * per_point_s:.0f} times one at a time")
    assert rate >= 1e6
    assert rate * per_point_s >= 20
