"""What `predict` adds where the target is spread by a plan."""

import json

import pytest

from app.answers.feasible import require_cell
from app.answers.planned import planned_answer
from costmodel.answers.estimate import estimate
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import geometric
from costmodel.parallel.plan import ParallelPlan, plan_of
from hardware_profiles.errors import InfeasibleError, InputError

LLAMA = build_setting(
    DecodingConfiguration(
        deployment=DeploymentNames(model="llama-3-70b", device="h100-sxm", tensor_parallel=4)
    )
)


def planned(tp=1, pp=1, ep=1, dp=1, cp=1):
    return plan_of(
        DeploymentNames(
            model="gpt2",
            tensor_parallel=tp,
            pipeline_parallel=pp,
            expert_parallel=ep,
            data_parallel=dp,
            context_parallel=cp,
        )
    )


def test_one_tensor_group_is_no_plan():
    assert planned(tp=8) is None


def test_options_become_a_plan():
    assert planned(tp=2, pp=3, ep=8, dp=4, cp=1) == ParallelPlan(
        tensor=2, pipeline=3, expert=8, data=4
    )


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"pp": 0}, "deployment.pipeline_parallel"),
        ({"dp": -1}, "deployment.data_parallel"),
        ({"cp": 0}, "deployment.context_parallel"),
        ({"ep": 0}, "deployment.expert_parallel"),
        ({"dp": 2, "ep": 4}, "ep"),
    ],
)
def test_wrong_sizes_name_their_field(wrong, field):
    with pytest.raises(InputError) as refused:
        planned(tp=1, **wrong)
    assert refused.value.key == field


def test_an_answer_is_plain_numbers_that_agree():
    taken, plan = geometric(0.7, 0), planned(tp=4, dp=2)
    answer = planned_answer(LLAMA, taken, plan, batch=16, context=1024)
    assert json.loads(json.dumps(answer)) == answer
    assert answer["devices"] == 8
    half = estimate(LLAMA, taken, batch=8, context=1024)
    assert answer["step_s"] == pytest.approx(float(half.step_s))
    assert answer["tokens_per_s"] == pytest.approx(2 * float(half.tokens_per_s))
    parts = answer["breakdown_s"]
    assert sum(parts["verify"].values()) + parts["draft"] + parts["overhead"] == pytest.approx(
        answer["step_s"]
    )


def test_a_plan_may_fit_what_one_group_cannot():
    def require(tp, pp=1, dp=1):
        names = DeploymentNames(
            model="llama-3-70b", tensor_parallel=tp, pipeline_parallel=pp, data_parallel=dp
        )
        asked = DecodingConfiguration(deployment=names)
        require_cell(asked, build_setting(asked), geometric(0.7, 0), batch=64, context=16_384)

    require(4, pp=2)
    with pytest.raises(InfeasibleError, match="--tp 2, --dp 2"):
        require(2, dp=2)
