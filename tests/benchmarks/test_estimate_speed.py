"""A speculative-step estimate over a full batch x context x K grid, against the same model point by
point."""

import numpy as np

from costmodel.answers.settings import build_setting
from costmodel.answers.steps.step import chain_step
from costmodel.configuration import DecodingConfiguration, DeploymentNames

SETTING = build_setting(
    DecodingConfiguration(
        method="eagle-3", deployment=DeploymentNames(model="llama-3.1-8b", device="h100-sxm")
    )
)
BATCH = np.arange(1, 257, dtype=float)[:, None, None]
CONTEXT = np.linspace(0, 32_768, 128)[None, :, None]
K = np.arange(0, 16, dtype=float)[None, None, :]


def grid():
    return chain_step(
        SETTING.deployment,
        SETTING.drafter,
        SETTING.overhead,
        batch=BATCH,
        context=CONTEXT,
        draft_tokens=K,
    ).total_s


def test_grid_of_half_a_million_steps(benchmark, cpu_s, aim):
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
    print()
    aim("steps per CPU second", rate, least=2e6)
    aim("times one at a time", rate * per_point_s, least=20)


def _scattered(setting, count):
    generator = np.random.default_rng(0)
    batch, k = (
        generator.integers(1, 257, count).astype(float),
        generator.integers(0, 16, count).astype(float),
    )
    context = generator.uniform(0, 32_768, count)
    cost = chain_step(
        setting.deployment,
        setting.drafter,
        setting.overhead,
        batch=batch,
        context=context,
        draft_tokens=k,
    )
    return cost.total_s


def test_scattered_points(benchmark, cpu_s, aim):
    count = 100_000
    benchmark.pedantic(_scattered, args=(SETTING, count), rounds=3)
    rate = count / cpu_s(lambda: _scattered(SETTING, count))
    alone = 20 / cpu_s(lambda: [_scattered(SETTING, 1) for _ in range(20)])
    print(f"\n{rate / alone:.0f} times one at a time")
    aim("scattered steps per CPU second", rate, least=3e5)


LATENT = build_setting(
    DecodingConfiguration(
        method="mtp", deployment=DeploymentNames(model="deepseek-v3", device="h100-sxm")
    )
)


def test_scattered_points_of_experts_and_latent_attention(benchmark, cpu_s, aim):
    count = 100_000
    benchmark.pedantic(_scattered, args=(LATENT, count), rounds=3)
    rate = count / cpu_s(lambda: _scattered(LATENT, count))
    ratio = rate / (count / cpu_s(lambda: _scattered(SETTING, count)))
    print(f"\n{ratio:.2f} of the rate of a dense model")
    aim("scattered steps per CPU second", rate, least=1e6)


def test_grid_of_experts_and_latent_attention(benchmark, cpu_s, aim):
    setting = LATENT

    def experts():
        return chain_step(
            setting.deployment,
            setting.drafter,
            setting.overhead,
            batch=BATCH,
            context=CONTEXT,
            draft_tokens=K,
        ).total_s

    benchmark.pedantic(experts, rounds=2)
    rate = BATCH.size * CONTEXT.size * K.size / cpu_s(experts, rounds=3)
    alone = 20 / cpu_s(lambda: [_scattered(setting, 1) for _ in range(20)])
    print(f"\n{rate / alone:.0f} times one at a time")
    aim("steps per CPU second", rate, least=3e5)
