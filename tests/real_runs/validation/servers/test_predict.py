"""Predicted times are those of the passes and of what the server adds, of nothing else."""

from dataclasses import replace

import numpy as np
import pytest

from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.passes.forward import pass_cost
from real_runs.validation.servers.predict import first_token_s, predicted_group
from real_runs.validation.servers.steps import Path, drawn_path, group_steps

NAMES = DeploymentNames(model="smollm2-135m", device="cpu-generic", engine="llama.cpp")
SETTING = build_setting(DecodingConfiguration(deployment=NAMES, method="n-gram"))


def path(*steps, context=100):
    drafted, emitted = zip(*steps, strict=True)
    at = context + np.concatenate([[0], np.cumsum(emitted)[:-1]])
    return Path(drafted=np.array(drafted), emitted=np.array(emitted), context=at)


def pass_s(batch, query_tokens, context):
    return float(
        pass_cost(
            SETTING.deployment, batch=batch, query_tokens=query_tokens, context=context
        ).total_s
    )


def test_plain_steps_cost_a_pass_and_what_the_server_adds():
    steps = group_steps([path((0, 1), (0, 1)), path((0, 1), (0, 1))])
    found = predicted_group(SETTING, 0, [steps], draft_tokens=0)
    passes = pass_s(2, 1, 100) + pass_s(2, 1, 101)
    assert found.run.verify_s == pytest.approx(passes) and found.run.draft_s == 0.0
    assert found.run.rest_s == pytest.approx(2 * SETTING.plain_overhead.step_s)
    assert found.tpot_s == pytest.approx(found.run.decode_s / 2)
    assert found.ttft_s == pytest.approx(first_token_s(SETTING, requests=2, context=100))


def test_a_lone_draft_costs_a_second_pass():
    alone = predicted_group(SETTING, 0, [group_steps([path((8, 4)), path((0, 1))])], draft_tokens=8)
    assert alone.run.verify_s == pytest.approx(pass_s(2, 1, 100) + pass_s(1, 8, 101))
    assert alone.run.rest_s == pytest.approx(SETTING.overhead.step_s + SETTING.overhead.draft_s)


def test_a_draft_model_of_half_the_layers_costs_less_than_one_of_all():
    steps = group_steps([path((4, 3), (4, 5))], draft_model=True)
    half, whole = (
        predicted_group(SETTING, layers, [steps], draft_tokens=4).run for layers in (15, 30)
    )
    assert 0.0 < half.draft_s < whole.draft_s and half.verify_s == whole.verify_s


def test_intervals_widen_with_what_is_drawn():
    generator = np.random.default_rng(0)
    drawn = [group_steps([drawn_path([0.6, 0.3], 100, 40, generator)]) for _ in range(20)]
    single, several = (
        predicted_group(SETTING, 0, some, draft_tokens=2).spread_ratio
        for some in (drawn[:1], drawn)
    )
    assert several > single > 0.0
    sure = replace(SETTING, overhead=replace(SETTING.overhead, spread_ratio=0.0))
    assert predicted_group(sure, 0, drawn[:1], draft_tokens=2).spread_ratio <= single
