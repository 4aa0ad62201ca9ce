"""Drafting takes memory that requests then lack, and delivers tokens in bursts."""

import pytest

from app.answers.drafting_cost import drafting_cost
from costmodel.answers.fit import room
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import geometric


def setting(method="eagle-3", **where):
    names = DeploymentNames(model="llama-3.1-8b", **where)
    return build_setting(DecodingConfiguration(method=method, deployment=names))


def test_requests_that_fit_are_those_of_capacity():
    at, drafts = setting(), geometric(0.7, 5)
    cost = drafting_cost(at, drafts, batch=1, context=2048, step_s=0.01)
    own, off = (room(at, a, context=2048) for a in (drafts, geometric(0.0, 0)))
    assert cost.fitting_requests == own.largest_batch
    assert cost.fewer_requests == off.largest_batch - own.largest_batch > 0
    assert cost.fewer_cached_tokens == cost.fewer_requests * 2048
    assert cost.drafter_bytes == own.drafter_bytes > 0
    assert cost.tokens_per_delivery == pytest.approx(drafts.tokens_per_step)


def test_more_devices_hold_less_of_the_drafter_each_and_nothing_is_said_of_no_drafts():
    one, two = (
        drafting_cost(
            setting(tensor_parallel=tp), geometric(0.7, 5), batch=1, context=512, step_s=0.01
        )
        for tp in (1, 2)
    )
    assert two.drafter_request_bytes < one.drafter_request_bytes
    assert drafting_cost(setting(), geometric(0.0, 0), batch=1, context=512, step_s=0.01) is None


def test_look_ups_have_no_weights():
    cost = drafting_cost(setting("n-gram"), geometric(0.5, 3), batch=1, context=512, step_s=0.01)
    assert cost.drafter_bytes == cost.drafter_request_bytes == 0.0
    assert "neither weights nor a cache" in cost.words


@pytest.mark.heavy
def test_optimize_and_predict_say_the_same_cost(rooftree, tmp_path):
    words = ("--model", "llama-3.1-8b", "--drafter", "eagle-3:0.7,0.5", "--batch", "8")
    answer = rooftree("optimize", *words, "--out", tmp_path, "--json").answer
    (cell,) = answer["cells"]
    k = str(cell["winner"]["draft_tokens"])
    (cost,) = rooftree("predict", *words, "--draft-tokens", k, "--json").answer["drafting_costs"]
    assert cost == pytest.approx(cell["drafting_cost"])
    for verb, more in (("optimize", ("--out", tmp_path)), ("predict", ("--draft-tokens", k))):
        assert "what drafting costs: " in rooftree(verb, *words, *more).out


def test_the_batch_of_the_deliveries_is_said(rooftree):
    words = (
        "predict",
        "--model",
        "llama-3.1-8b",
        "--drafter",
        "eagle-3:0.7",
        "--draft-tokens",
        "3",
    )
    shown = " ".join(rooftree(*words, "--batch", "4,64").out.split())
    (cost,) = rooftree(*words, "--batch", "4,64", "--json").answer["drafting_costs"]
    assert cost["batch"] == 4 and "tokens at once every" in shown and "ms at batch 4 " in shown
