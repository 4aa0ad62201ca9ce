"""Block decoders in event simulations against the cost model's answer, at a steady batch.

Entries whose caches are exact, which scenarios can state: every pass computes the open block over
what was finished.
"""

import numpy as np
import pytest

from costmodel.answers.estimate import estimate
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.refining import refined
from costmodel.method_library import load_method, priced_alike
from simulator.engine import simulate
from simulator.loop.block_options import BlockOptions
from simulator.loop.options import Scenario, SchedulerOptions
from simulator.loop.request import Workload
from simulator.scenario.block_laws import even_commits, random_commits
from simulator.timing.cost_timer import CostModelTimer

PROMPT, FEW, MANY = 500, 10, 40  # blocks of the shorter and of the longer answers


def is_exact(method):
    r = method.refine
    return (
        r is not None
        and r.forward == "block"
        and r.canvas_tokens == method.shape.nodes
        and not (
            r.full_passes
            or r.full_every
            or r.copies > 1
            or r.auxiliary
            or r.vocab_state_bytes
            or method.host_s
        )
    )


EXACT = [slug for slug in sorted(set(priced_alike().values())) if is_exact(load_method(slug))]


def setting_of(slug, engine="vllm"):
    names = DeploymentNames(model="llama-3.1-8b", device="h100-sxm", engine=engine)
    return build_setting(DecodingConfiguration(method=slug, deployment=names))


def clock_s(setting, options, batch, blocks):
    size = options.block_tokens
    work = Workload(
        arrival_s=np.zeros(batch),
        prompt_tokens=np.full(batch, PROMPT),
        output_tokens=np.full(batch, blocks * size),
    )
    scheduler = SchedulerOptions(kv_blocks=200_000, token_budget=200_000)
    scenario = Scenario(
        workload=work, scheduler=scheduler, timer=CostModelTimer(setting), blocks=options
    )
    return simulate(scenario).clock_s


def block_s(setting, options, batch):
    """Seconds in which every request commits one block, between the ends of shorter and of longer
    answers."""
    few, many = (clock_s(setting, options, batch, blocks) for blocks in (FEW, MANY))
    return (many - few) / (MANY - FEW)


def priced_s(setting, passes, batch):
    """The same by the law, over the context in the middle of those blocks."""
    method = setting.drafter.method
    size = method.shape.nodes
    step = estimate(
        setting,
        refined(method, size / passes),
        batch=float(batch),
        context=PROMPT + size * (FEW + MANY) / 2.0,
    ).step
    return float(step.total_s) * passes


@pytest.mark.parametrize("batch", [1, 16])
@pytest.mark.parametrize("slug", EXACT)
def test_a_simulated_block_costs_what_the_estimate_says(slug, batch):
    setting, method = setting_of(slug), load_method(slug)
    size = method.shape.nodes
    passes = max(round(size / method.refine.tokens_per_pass), 1)
    commits = even_commits(size, passes)
    options = BlockOptions(
        block_tokens=size,
        commits=commits,
        query_tokens=np.full(passes, size),
        closing_passes=method.refine.closing_passes,
    )
    assert block_s(setting, options, batch) == pytest.approx(
        priced_s(setting, passes, batch), rel=0.02
    )


@pytest.mark.parametrize("slug", ["sdar", "fast-dllm-v2"])
def test_drawn_blocks_cost_the_mean_of_their_passes(slug):
    """Blocks of one request that differ: the law knows their mean alone."""
    setting, method = setting_of(slug), load_method(slug)
    size = method.shape.nodes
    commits = random_commits(size, 0.08, np.random.default_rng(3))
    used = np.count_nonzero(commits, axis=1)
    options = BlockOptions(
        block_tokens=size,
        commits=commits,
        query_tokens=np.full(commits.shape[1], size),
        closing_passes=method.refine.closing_passes,
    )
    blocks = commits.shape[0]
    alone = clock_s(setting, options, 1, blocks + 1) - clock_s(setting, options, 1, 1)
    step = estimate(
        setting,
        refined(method, size / used.mean()),
        batch=1.0,
        context=PROMPT + size * (blocks + 2) / 2.0,
    ).step
    assert alone / blocks == pytest.approx(float(step.total_s) * used.mean(), rel=0.02)


def test_entries_that_scenarios_can_state():
    assert {"sdar", "fast-dllm-v2", "wedlm", "bacd", "cllm", "jacobi-decoding"} <= set(EXACT)
