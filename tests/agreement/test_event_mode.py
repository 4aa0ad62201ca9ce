"""A busy engine, event by event, decodes as the analytic steady state says, whatever runs where and
whoever drafts."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from costmodel.answers.estimate import step_cost
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import Acceptance, geometric
from hardware_profiles.errors import InfeasibleError, InputError
from simulator.engine import simulate
from simulator.loop.options import Scenario, SchedulerOptions, SpeculationOptions
from simulator.loop.request import Workload
from simulator.timing.cost_timer import CostModelDraft, CostModelTimer
from tests.property_examples import examples
from tests.simulator.timing.test_cost_timer import recording
from traces.replay.walk import replay_chain

TRACE = recording()
PROMPT = 64


@settings(max_examples=examples(40))
@given(
    model=st.sampled_from(["llama-3.1-8b", "qwen3-30b-a3b", "gemma-2-9b", "smollm2-135m"]),
    device=st.sampled_from(["h100-sxm", "a100-sxm-80", "mi300x", "l40s"]),
    engine=st.sampled_from(["vllm", "none"]),
    method=st.sampled_from(["eagle-3", "n-gram"]),
    draft_tokens=st.integers(0, 6),
    users=st.sampled_from([1, 3, 8, 24]),
    output=st.integers(400, 900),
)
def test_events_take_the_time_of_the_steady_state(
    model, device, engine, method, draft_tokens, users, output
):
    names = DeploymentNames(model=model, device=device, engine=engine)
    try:
        setting = build_setting(DecodingConfiguration(method=method, deployment=names))
    except (
        InputError,
        InfeasibleError,
    ):  # a drafter that this model lacks, an engine that does not run there
        assume(False)
    count = users * -(-2 * TRACE.requests // users)  # every recorded request is walked
    workload = Workload(
        arrival_s=np.zeros(count),
        prompt_tokens=np.full(count, PROMPT),
        output_tokens=np.full(count, output),
        users=users,
    )
    speculation, acceptance = None, geometric(0.0, 0)
    if draft_tokens:
        replay = replay_chain(TRACE, draft_tokens)
        speculation = SpeculationOptions(
            topology=draft_tokens, trace=TRACE, draft=CostModelDraft(setting)
        )
        acceptance = Acceptance(
            draft_tokens=draft_tokens,
            tokens_per_step=replay.tokens_per_step,
            proposed_tokens=float(draft_tokens),
        )
    options = SchedulerOptions(kv_blocks=40_000, max_requests=64)
    found = simulate(
        Scenario(
            workload=workload,
            scheduler=options,
            timer=CostModelTimer(setting),
            speculation=speculation,
        )
    )
    assert found.finished.all()
    contexts = np.linspace(PROMPT, PROMPT + output, 65)  # kernels change with the context
    steady_s = float(step_cost(setting, acceptance, batch=users, context=contexts).total_s.mean())
    assert found.tokens_per_step == pytest.approx(acceptance.tokens_per_step, rel=0.05)
    assert np.nanmean(found.tpot_s) == pytest.approx(steady_s / found.tokens_per_step, rel=0.04)
