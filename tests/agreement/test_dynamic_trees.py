"""Trees that every step picks anew: event simulations against the law and its price on one
recording."""

import numpy as np
import pytest

from costmodel.answers.settings import build_setting
from costmodel.answers.steps.dynamic_step import dynamic_step
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.drafting import dynamic_tree
from costmodel.method import Shape
from hardware_profiles.errors import InputError
from simulator.engine import simulate
from simulator.loop.options import Scenario, SchedulerOptions, SpeculationOptions
from simulator.loop.request import Workload
from simulator.timing.cost_timer import CostModelDraft, CostModelTimer
from traces.library import read_trace
from traces.replay.dynamic import TreePolicy

SHAPES = [
    Shape(kind="dynamic_tree", nodes=8, depth=3, width=4, beam=4),
    Shape(kind="dynamic_tree", nodes=12, least_probability=0.05),
]


@pytest.fixture(
    scope="module",
    params=[
        "level-3/smollm2-135m--layer-skip--greedy",
        "level-3-trees/smollm2-135m--layer-skip--t1",
    ],
)
def recording(root, request):
    return read_trace(root / f"traces/recorded/{request.param}.parquet")


@pytest.fixture(scope="module")
def setting():
    return build_setting(
        DecodingConfiguration(
            method="eagle-3",
            deployment=DeploymentNames(model="llama-3.1-8b", device="h100-sxm", engine="vllm"),
        )
    )


def policy(shape):
    return TreePolicy(
        nodes=shape.nodes,
        depth=shape.depth or None,
        width=shape.width or None,
        beam=shape.beam or None,
        least_probability=shape.least_probability,
    )


def simulated(recording, shape, timer, draft=None, users=6):
    work = Workload(
        arrival_s=np.zeros(users),
        prompt_tokens=np.full(users, 512),
        output_tokens=np.full(users, 2500),
    )
    speculation = SpeculationOptions(topology=policy(shape), trace=recording, draft=draft)
    scheduler = SchedulerOptions(kv_blocks=100_000)
    return simulate(
        Scenario(workload=work, scheduler=scheduler, timer=timer, speculation=speculation),
    )


@pytest.mark.parametrize("shape", SHAPES, ids=["beam and rerank", "best first"])
def test_simulated_dynamic_trees_emit_draft_and_take_what_their_law_says(recording, setting, shape):
    law = dynamic_tree(recording, shape, None)
    result = simulated(recording, shape, CostModelTimer(setting), CostModelDraft(setting))
    c = result.counters
    assert result.tokens_per_step == pytest.approx(float(law.tokens_per_step), rel=0.04)
    assert c["drafted"] / c["steps"] == pytest.approx(law.lengths.mean_tokens, rel=0.04)
    deployment = setting.deployment
    step = dynamic_step(
        deployment,
        setting.drafter,
        setting.overhead,
        law.lengths,
        batch=6.0,
        context=512.0 + 1250.0,
    )
    assert result.busy_s / result.iterations == pytest.approx(float(step.total_s), rel=0.06)


def test_what_a_recording_does_not_hold_is_refused(recording, root):
    def timer(*_):
        return 1e-2

    with pytest.raises(InputError, match="nodes recorded"):
        simulated(recording, Shape(kind="dynamic_tree", nodes=60), timer)
    drawn = read_trace(root / "traces/recorded/level-3/smollm2-135m--layer-skip--t1.parquet")
    with pytest.raises(InputError, match="expansions"):
        simulated(drawn, SHAPES[0], timer)
    with pytest.raises(InputError, match="tabulated"):
        simulated(recording, SHAPES[0], timer, lambda *_: 1e-3)
