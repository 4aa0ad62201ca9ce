"""Trees whose candidates carry prompt tokens: event simulations, in which every request keeps its
own state, against the law of the states and its price."""

import numpy as np
import pytest

from costmodel.answers.estimate import estimate
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import drawn_ranks
from costmodel.laws.prompt_states import recorded_acceptance, state_acceptance
from costmodel.method_library import load_method
from costmodel.optimizers.trees.state_trees import best_state_trees
from simulator.engine import simulate
from simulator.loop.options import Scenario, SchedulerOptions, SpeculationOptions
from simulator.loop.request import Workload
from simulator.timing.cost_timer import CostModelDraft, CostModelTimer

VECTORS = [
    (0.48, 0.14, 0.07, 0.05, 0.03),
    (0.26, 0.15, 0.08, 0.06, 0.04),
    (0.16, 0.12, 0.08, 0.06, 0.05),
]
PROMPT, OUTPUT = 500, 6000
SHAPE = load_method("ppd").shape


@pytest.fixture(scope="module")
def setting():
    names = DeploymentNames(model="llama-3.1-8b", device="h100-sxm", engine="vllm")
    return build_setting(DecodingConfiguration(method="ppd", deployment=names))


@pytest.fixture(scope="module")
def recording():
    return drawn_ranks(VECTORS, generator=np.random.default_rng(1))


def simulated(trees, recording, setting, users):
    work = Workload(
        arrival_s=np.zeros(users),
        prompt_tokens=np.full(users, PROMPT),
        output_tokens=np.full(users, OUTPUT),
    )
    options = SpeculationOptions(topology=trees, trace=recording, draft=CostModelDraft(setting))
    scheduler = SchedulerOptions(kv_blocks=100_000, token_budget=100_000)
    return simulate(
        Scenario(
            workload=work, scheduler=scheduler, timer=CostModelTimer(setting), speculation=options
        ),
    )


@pytest.mark.parametrize("users", [1, 16])
@pytest.mark.parametrize("size", [12, 40])
def test_simulated_states_emit_verify_and_take_what_their_law_says(size, users, recording, setting):
    chosen = best_state_trees(VECTORS, size, 3)
    law = state_acceptance(chosen.states, chosen.law, SHAPE)
    result = simulated(chosen.states, recording, setting, users)
    # one request walks 2,700 steps of one text after another: its mean has a standard error of 0.8
    # %
    within = 0.02
    assert result.tokens_per_step == pytest.approx(law.tokens_per_step, rel=within)
    counted = result.counters
    assert counted["drafted"] / counted["steps"] == pytest.approx(
        law.lengths.mean_tokens, rel=within
    )
    price = estimate(setting, law, batch=float(users), context=PROMPT + OUTPUT / 2.0)
    assert result.busy_s / result.iterations == pytest.approx(float(price.step_s), rel=within)


def test_a_replay_visits_the_states_as_often_as_their_law_says(recording):
    chosen = best_state_trees(VECTORS, 24, 3)
    law = state_acceptance(chosen.states, chosen.law, SHAPE)
    replayed = recorded_acceptance(recording, chosen.states, None, SHAPE)
    assert replayed.tokens_per_step == pytest.approx(law.tokens_per_step, rel=0.01)
    assert replayed.lengths.tokens == pytest.approx(law.lengths.tokens, abs=0.01)
