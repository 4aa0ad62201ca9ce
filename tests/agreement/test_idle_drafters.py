"""Steps that draft nothing beside a drafter that is loaded: event simulations against the price of
such a step."""

from dataclasses import replace

import numpy as np
import pytest

from costmodel.answers.estimate import step_cost
from costmodel.answers.settings import build_setting
from costmodel.answers.steps.step import chain_step
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import geometric
from simulator.engine import simulate
from simulator.loop.length_policies import LengthPolicy
from simulator.loop.options import Scenario, SchedulerOptions, SpeculationOptions
from simulator.loop.request import Workload
from simulator.scenario.build import prepare
from simulator.scenario.file import checked_scenario
from simulator.timing.cost_timer import CostModelDraft, CostModelTimer
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.tree import Tree

USERS, PROMPT, OUTPUT, K = 4, 512, 4000, 3
WITHIN = 0.002
"""Of a step: the prompts of the first iteration are among the mean, and contexts are looked up."""


def setting_of(method, engine, **names):
    where = {"model": "llama-3.1-8b", "device": "h100-sxm"} | names
    deployment = DeploymentNames(**where, engine=engine)
    return build_setting(DecodingConfiguration(method=method, deployment=deployment))


def lengths(drafted):
    """A recording of one request that drafts a number of tokens at each of its positions, of which
    the target keeps none, and whose rank is known."""
    count = len(drafted)
    return AcceptanceTrace(
        offsets=np.array([0, count]),
        emitted=np.ones(count, dtype=np.int64),
        drafted=np.asarray(drafted, dtype=np.int64),
        rank=np.full((count, K), -1),
        rank_width=2,
    )


def seconds_a_step(setting, trace, **options):
    """Mean seconds of the iterations of users who decode together."""
    work = Workload(
        arrival_s=np.zeros(USERS),
        prompt_tokens=np.full(USERS, PROMPT),
        output_tokens=np.full(USERS, OUTPUT),
    )
    speculation = SpeculationOptions(trace=trace, draft=CostModelDraft(setting), **options)
    result = simulate(
        Scenario(
            workload=work,
            scheduler=SchedulerOptions(kv_blocks=100_000),
            timer=CostModelTimer(setting),
            speculation=speculation,
        )
    )
    return result.busy_s / result.iterations


@pytest.mark.parametrize("ratio", [0.0, 0.25])
@pytest.mark.parametrize(
    ("method", "engine"),
    [("n-gram", "sglang"), ("suffix-decoding", "vllm"), ("n-gram", "llama.cpp"), ("rest", "vllm")],
)
def test_a_step_without_a_proposal_is_set_up_as_one_with_it(method, engine, ratio):
    setting = setting_of(method, engine)
    proposes = np.random.default_rng(0).random(20_000) < ratio
    simulated = seconds_a_step(setting, lengths(np.where(proposes, K, 0)), topology=K)
    law = chain_step(
        setting.deployment,
        setting.drafter,
        setting.overhead,
        batch=float(USERS),
        context=PROMPT + OUTPUT / 2.0,
        draft_tokens=K,
        proposal_ratio=ratio,
    )
    # a third of the steps have proposals: their share in one run, and compositions of four requests
    assert simulated == pytest.approx(float(law.total_s), rel=0.01 if ratio else WITHIN)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm"])
@pytest.mark.parametrize("topology", [K, Tree(parents=(-1, 0, 0, 1), ranks=(0, 0, 1, 0))])
@pytest.mark.parametrize("method", ["eagle-3", "n-gram"])
def test_a_schedule_of_no_drafts_costs_what_its_drafter_does(method, engine, topology):
    kept = replace(setting_of(method, engine), keeps_drafter=True)
    simulated = seconds_a_step(
        kept, lengths([K] * 100), topology=topology, schedule=((1, USERS, 0),)
    )
    law = step_cost(kept, geometric(0.0, 0), batch=float(USERS), context=PROMPT + OUTPUT / 2.0)
    assert simulated == pytest.approx(float(law.total_s), rel=WITHIN)


@pytest.mark.parametrize("engine", ["vllm", "tensorrt-llm"])
@pytest.mark.parametrize("method", ["eagle-3", "n-gram"])
@pytest.mark.parametrize(
    "policy",
    [
        LengthPolicy(rule="expected", gains=(1.0, 1.0, 1.0, 1.0), rereads=False),
        LengthPolicy(rule="gate", least_share=1.0, pace=1, rereads=False),
    ],
    ids=["drafts that gain nothing", "a gate that closes at once"],
)
def test_a_controller_that_drafts_nothing_costs_what_its_drafter_does(method, engine, policy):
    kept = replace(setting_of(method, engine), keeps_drafter=True)
    simulated = seconds_a_step(kept, lengths([K] * 100), topology=K, policy=policy)
    law = step_cost(kept, geometric(0.0, 0), batch=float(USERS), context=PROMPT + OUTPUT / 2.0)
    assert simulated == pytest.approx(float(law.total_s), rel=WITHIN)


def test_drafters_of_scenarios_stay_loaded():
    """Whatever ends drafting: a schedule, a rule that stops or a policy."""
    speculation = {"method": "eagle-3", "acceptance": [0.7, 0.5], "draft_tokens": 2}
    sections = {
        "requests": {"count": 4, "users": 1, "prompt_tokens": "64", "output_tokens": "16"},
        "deployment": {"model": "llama-3.1-8b", "device": "h100-sxm", "engine": "vllm"},
        "speculation": speculation,
    }
    draft = prepare(checked_scenario(sections, None)).speculation.draft
    assert draft(1, 0, 512.0, 0) > 0.3 * draft(1, 1, 512.0, 0)
