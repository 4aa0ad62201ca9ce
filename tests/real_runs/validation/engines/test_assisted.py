"""Transformers' lookup takes the steps that the walk says, and its speedup stands beside a
predicted one."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("scipy")

import torch

from costmodel.architectures.library import load_model
from costmodel.passes.deployment import Deployment
from costmodel.passes.precision import Precision
from hardware_profiles.errors import InputError
from hardware_profiles.loader import load_device
from real_runs.models.loading.transformers_model import transformers_model
from real_runs.validation.engines.assisted import TimedTransformers, lookup_walk, validate_assisted
from tests.real_runs.random_weights import random_weights

LOOKUP = {"prompt_lookup_num_tokens": 4, "max_matching_ngram_size": 2}
PROMPTS = (
    [5, 9, 2, 5, 9, 2, 5, 9],
    [1, 2, 3, 4, 5, 6, 7],
    [11, 11, 11, 11],
    [7, 30, 7, 31, 7, 30, 7],
)


@pytest.fixture(scope="module")
def model(tiny_config):
    return transformers_model(random_weights(tiny_config, seed=3, scale=0.2), "sdpa", torch.float32)


@pytest.fixture(scope="module")
def deployment():
    return Deployment(
        architecture=load_model("smollm2-135m"),
        device=load_device("cpu-generic"),
        precision=Precision(weights="fp32", activations="fp32", kv="fp32"),
    )


@pytest.mark.parametrize("draft_tokens", [1, 4, 9])
@pytest.mark.parametrize("prompt", PROMPTS, ids=str)
def test_transformers_takes_the_steps_of_the_walk(model, prompt, draft_tokens):
    forward = model.forward
    timed = TimedTransformers(model)
    plain, times = timed.generate(prompt, 20, {})
    assert times["steps"] == len(plain) - 1 == 19
    walk = lookup_walk(prompt, plain, draft_tokens, 2)
    output, times = timed.generate(prompt, 20, {**LOOKUP, "prompt_lookup_num_tokens": draft_tokens})
    assert output == plain
    assert [n for _, n, _, _ in times["passes"]] == walk.query_tokens.tolist()
    assert [c for _, _, c, _ in times["passes"]] == walk.context.tolist()
    assert 0 < times["verify_s"] <= times["decode_s"]
    model.forward = forward


def test_speedups_stand_beside_predictions(model, deployment):
    forward = model.forward
    found = validate_assisted(
        model,
        {"overlap": PROMPTS[:1], "ordinary": PROMPTS[1:2]},
        PROMPTS[2:],
        deployment,
        LOOKUP,
        new_tokens=16,
        rounds=2,
        keep_disturbed=True,
    )
    model.forward = forward
    assert [point.kind for point in found] == ["overlap", "ordinary"]
    for point in found:
        assert point.tokens_per_step == pytest.approx(point.predicted_tokens_per_step)
        assert point.error_ratio == pytest.approx(point.predicted_speedup / point.speedup - 1)
        assert 0.05 < point.speedup < 20 and point.draft_tokens == 4


def test_no_draft_is_a_step_per_token():
    walk = lookup_walk([1, 2, 3], [4, 5, 6, 7], 0, 2)
    assert (
        walk.steps == walk.tokens == 3
        and (walk.query_tokens == 1).all()
        and walk.context.tolist() == [3, 4, 5]
    )


def test_other_configs_and_the_fitted_length_are_refused(model, deployment):
    for config, message in (
        ({"num_assistant_tokens": 4}, "config of prompt lookup"),
        ({**LOOKUP, "prompt_lookup_num_tokens": 3}, "fitted on"),
    ):
        with pytest.raises(InputError, match=message):
            validate_assisted(model, {}, PROMPTS, deployment, config)


def test_prompts_of_every_kind_are_run_with_an_exported_config(tiny_folder, tmp_path):
    from real_runs.validation.engines.assisted_setup import run_assisted

    text = "".join(
        f'[[prompts]]\nid = "{kind}-{n}"\nkind = "{kind}"\ntext = "{kind} ab ab {n}"\n'
        for kind in "xyz"
        for n in range(2)
    )
    (tmp_path / "p.toml").write_text(f'title = "few"\n{text}')
    asked = {
        "profile": "cpu-generic",
        "config": LOOKUP,
        "fitted_kinds": ("z",),
        "model_file": tiny_folder,
        "prompts": tmp_path / "p.toml",
        "fidelity": "calibrated",
        "new_tokens": 8,
        "rounds": 1,
        "keep_disturbed": True,
    }
    found = run_assisted(kinds={"one": ("x",), "two": ("x", "y")}, **asked)
    assert [(each.kind, each.prompts) for each in found] == [("one", 2), ("two", 4)]
    with pytest.raises(InputError, match="no prompts of this kind"):
        run_assisted(kinds={"one": ("absent",)}, **asked)
    with pytest.raises(InputError, match="no passes of smollm2-135m"):
        run_assisted(kinds={"one": ("x",)}, **{**asked, "fidelity": "measured"})
