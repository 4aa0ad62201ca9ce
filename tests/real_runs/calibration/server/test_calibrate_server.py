"""Constants of a server are found again, whatever else its machine does, and predictions rest on
them."""

import random
from dataclasses import replace
from itertools import pairwise

import pytest

pytest.importorskip("scipy")

from costmodel.answers.estimate import step_cost
from costmodel.answers.settings import build_setting
from costmodel.architectures.library import load_model
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.engine_library import load_engine
from costmodel.laws.acceptance import geometric
from costmodel.passes.forward import pass_cost
from hardware_profiles.errors import InputError
from hardware_profiles.loader import load_device
from real_runs.calibration.server.calibrate import CalibrationTarget, written
from real_runs.calibration.server.measure import decoded, measure
from real_runs.calibration.server.rows import faster_half, prompt_intake_s
from real_runs.calibration.server.shapes import RoundPlan, prompt_lengths
from real_runs.recording.log import RecordingLog
from real_runs.servers.client import Completion
from tests.real_runs.calibration.server import pretended_server as pretended
from tests.real_runs.calibration.server.pretended_server import (
    PretendedServer,
    launches,
    prompt_s,
    step_s,
)

PLAN = RoundPlan(
    contexts=(125, 700, 1900), drafts=(0, 4, 16, 1, 8, 2), requests=(1, 2, 4), rounds=4
)
MODEL = load_model("smollm2-135m")


def calibrated(folder, *, plan=PLAN, architecture=MODEL, **about):
    launch = launches(**about)
    with RecordingLog(folder / f"{architecture.layers}.part", {}, resume=False) as log:
        samples = measure(plan, launch, log, budget_s=1e9)
    model = replace(architecture, dtype="q4_1:0.79+q8_0:0.21")
    target = CalibrationTarget(architecture=model, engine="llama.cpp", launch=launch, plan=plan)
    return written(samples, target, load_device("cpu-generic"), folder)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """A calibration in which other work holds up a third of the times by a half."""
    rng = random.Random(5)
    return calibrated(
        tmp_path_factory.mktemp("calibration"), held_up=lambda: 1.5 if rng.random() < 0.3 else 1.0
    )


def test_the_law_of_a_held_up_machine_is_found_within_two_percent(found):
    law = found.law
    assert law.step_s == pytest.approx(pretended.STEP_S, rel=0.02)
    assert law.token_s == pytest.approx(pretended.TOKEN_S, rel=0.02)
    assert law.pair_s == pytest.approx(pretended.PAIR_S, rel=0.02)
    for shape in ((1, 1, 128), (4, 17, 1903), (2, 5, 703)):
        assert law.seconds(*shape) == pytest.approx(step_s(*shape), rel=0.02)
    assert law.prompt_token_s == pytest.approx(prompt_s(512, 0) / 512, rel=0.02)
    assert found.prompt_s == pytest.approx(pretended.PROMPT_S, rel=0.02)
    # eight of them are a twentieth of the step whose difference they are
    assert found.accepted_s == pytest.approx(pretended.ACCEPTED_S, rel=0.1)


def setting(found, **changes):
    names = {
        "model": "smollm2-135m",
        "device": str(found.profile),
        "engine": str(found.engine_file),
        "dtype": "q4_1",
        "fidelity": "measured",
    } | changes
    return build_setting(
        DecodingConfiguration(method="n-gram", deployment=DeploymentNames(**names))
    )


@pytest.mark.parametrize(
    ("requests", "drafts", "context"), [(1, 0, 128), (4, 16, 1903), (2, 3, 703), (1, 6, 1200)]
)
def test_predicted_steps_are_the_measured_ones_between_them_too(found, requests, drafts, context):
    step = step_cost(setting(found), geometric(0.5, drafts), batch=requests, context=context)
    kept = requests * (geometric(0.5, drafts).tokens_per_step - 1.0) * pretended.ACCEPTED_S
    assert float(step.total_s) == pytest.approx(
        step_s(requests, 1 + drafts, context) + kept, rel=0.03
    )


def test_accepted_tokens_add_what_sampling_and_sending_them_takes(found):
    none, most = (
        float(step_cost(setting(found), geometric(rate, 4), batch=2, context=300).total_s)
        for rate in (0.0, 1.0)
    )
    assert most - none == pytest.approx(2 * 4 * found.accepted_s)


def test_prompts_are_measured_and_the_engine_adds_what_is_beyond_them(found):
    deployment = setting(found).deployment
    for tokens, context in ((512, 0), (200, 300), (1000, 0), (512, 1500)):
        cost = pass_cost(
            deployment, batch=1, query_tokens=tokens, context=context, prefill=True, logits="last"
        )
        assert float(cost.total_s) == pytest.approx(prompt_s(tokens, context), rel=0.05)
    engine = load_engine(str(found.engine_file))
    assert engine.host.prompt_s == pytest.approx(pretended.PROMPT_S, rel=0.02)
    assert engine.overhead("ngram").step_s == engine.overhead("none").request_s == 0.0


def test_the_profile_alone_is_near_and_says_how_near(found):
    device = load_device(found.profile)
    assert set(device.formats["q4_1"]) == {"gemm", "prefill"}
    assert (
        device.constants.gemm.compute_efficiency
        == load_device("cpu-generic").constants.gemm.compute_efficiency
    )
    assert "llama.cpp" in device.provenance["formats.q4_1.gemm.compute_efficiency"].source
    plain = setting(found, fidelity="calibrated").deployment
    cost = float(pass_cost(plain, batch=1, query_tokens=1, context=128).total_s)
    assert cost == pytest.approx(step_s(1, 1, 128), rel=0.1)
    assert found.score.median < 0.05


def test_a_server_of_others_is_measured_without_slots_to_keep(tmp_path):
    plan = RoundPlan(contexts=(128, 600), drafts=(0,), requests=(1, 2), rounds=2)
    found = calibrated(tmp_path, plan=plan, keeps=False)
    assert found.law.seconds(2, 1, 600) == pytest.approx(step_s(2, 1, 600), rel=0.03)


def test_a_draft_model_is_measured_into_the_folder_of_its_target(tmp_path):
    few = RoundPlan(contexts=(125, 700), drafts=(0,), requests=(1, 2), rounds=1)
    slow = calibrated(tmp_path, plan=few, architecture=MODEL.with_layers(10), held_up=lambda: 2.0)
    both = calibrated(tmp_path, plan=few)
    assert slow.trace == both.trace
    names = {"batch": 1, "query_tokens": 1, "context": 128}
    deployment = setting(both).deployment
    draft = replace(deployment, architecture=deployment.architecture.with_layers(10))
    assert float(pass_cost(deployment, **names).total_s) == pytest.approx(step_s(1, 1, 128))
    assert float(pass_cost(draft, **names).total_s) == pytest.approx(2.0 * step_s(1, 1, 128))


def test_a_calibration_goes_on_where_it_was_stopped(tmp_path):
    plan = RoundPlan(contexts=(125,), drafts=(0, 2), requests=(1, 2), rounds=1)
    launch, spent = launches(), iter([0.0, 0.0, 99.0, 99.0])
    part = tmp_path / "samples.part"
    with RecordingLog(part, {}, resume=False) as log:
        first = measure(plan, launch, log, budget_s=10.0, clock=lambda: next(spent))
    assert {each.query_tokens for each in first if each.part == "causal"} == {1}
    with RecordingLog(part, {}, resume=True) as log:
        whole = measure(plan, launch, log, budget_s=10.0)
    assert whole[: len(first)] == first
    with RecordingLog(tmp_path / "other.part", {}, resume=False) as log:
        assert len(measure(plan, launches(), log, budget_s=10.0)) == len(whole)


def test_a_request_that_fails_ends_the_measurement_by_name(tmp_path):
    plan = RoundPlan(contexts=(125,), drafts=(0,), requests=(1,), rounds=1)
    with (
        RecordingLog(tmp_path / "samples.part", {}, resume=False) as log,
        pytest.raises(InputError, match="the stream ended"),
    ):
        measure(plan, launches(error="the stream ended"), log, budget_s=10.0)


def test_steps_with_missing_drafts_are_no_sample():
    server = PretendedServer(drafts=2)
    answers = server.ask([Completion(prompt=(1, 2), max_tokens=9)])
    assert decoded(answers, 2, 100).query_tokens == 3
    assert decoded(answers, 4, 100) is None
    assert decoded(answers, None, 100).query_tokens == 3


def test_only_the_faster_half_counts():
    assert faster_half([3.0, 1.0, 2.0]) == [1.0, 2.0]
    assert prompt_intake_s([]) == 0.0


def test_plans_are_checked_and_grow_with_the_budget():
    with pytest.raises(InputError, match="drafts"):
        RoundPlan(drafts=(1, 2))
    with pytest.raises(InputError, match="contexts"):
        RoundPlan(contexts=())
    assert (
        RoundPlan.within(60).contexts[-1]
        < RoundPlan.within(200).contexts[-1]
        < RoundPlan.within(600).contexts[-1]
    )
    assert max(b - a for a, b in pairwise(prompt_lengths((128, 5000)))) <= 512
