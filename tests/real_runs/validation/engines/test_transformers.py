"""Transformers' lookup takes the steps that the walk says, and its speedup stands beside a
predicted one."""

from dataclasses import replace

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("scipy")

import torch

from hardware_profiles.errors import InputError
from real_runs.models.loading.transformers_model import transformers_model
from real_runs.validation.cells import KINDS
from real_runs.validation.engines.lookup_walk import lookup_walk
from real_runs.validation.engines.timed_transformers import TimedTransformers
from real_runs.validation.engines.validate import TransformersOptions, validate_transformers
from real_runs.validation.subject import BenchOptions
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


@pytest.mark.parametrize("draft_tokens", [1, 4, 9])
@pytest.mark.parametrize("prompt", PROMPTS, ids=str)
def test_transformers_takes_the_steps_of_the_walk(model, prompt, draft_tokens):
    forward = model.forward
    timed = TimedTransformers(model, {}, ngram=2, new_tokens=20)
    plain, times = timed.generate(prompt, 20, {})
    assert times["steps"] == len(plain) - 1 == 19
    walk = lookup_walk(prompt, plain, draft_tokens, 2)
    output, times = timed.generate(prompt, 20, {**LOOKUP, "prompt_lookup_num_tokens": draft_tokens})
    assert output == plain
    assert [n for _, n, _, _ in times["passes"]] == walk.query_tokens.tolist()
    assert [c for _, _, c, _ in times["passes"]] == walk.context.tolist()
    assert 0 < times["verify_s"] <= times["decode_s"]
    model.forward = forward


def test_no_draft_is_a_step_per_token():
    walk = lookup_walk([1, 2, 3], [4, 5, 6, 7], 0, 2)
    assert (
        walk.steps == walk.tokens == 3
        and (walk.query_tokens == 1).all()
        and walk.context.tolist() == [3, 4, 5]
    )


def options(out, **changes):
    return TransformersOptions(
        **{
            "bench": BenchOptions(out=out, rounds=2, keep_disturbed=True),
            "profile": "cpu-generic",
            "config": LOOKUP,
            "fidelity": "calibrated",
            "max_new_tokens": 8,
        }
        | changes
    )


def test_other_configs_and_the_fitted_length_are_refused(tmp_path):
    for config, message in (
        ({"num_assistant_tokens": 4}, "config of prompt lookup"),
        ({**LOOKUP, "prompt_lookup_num_tokens": 3}, "fitted on"),
    ):
        with pytest.raises(InputError, match=message):
            options(tmp_path, config=config)


@pytest.fixture(scope="module")
def asked(tiny_folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("transformers")
    text = "".join(
        f'[[prompts]]\nid = "{kind}-{n}"\nkind = "{kind}"\ntext = "{kind} ab ab {n}"\n'
        for kinds in KINDS.values()
        for kind in kinds
        for n in range(2)
    )
    (out / "p.toml").write_text(f'title = "few"\n{text}')
    return options(out / "out", model_file=tiny_folder, prompts=out / "p.toml")


def test_plain_decoding_and_lookup_of_every_kind_stand_beside_predictions(asked):
    found = validate_transformers(asked)
    assert not found.missing and not found.left_out
    assert [(point.kind, point.configuration, point.runs) for point in found.points] == [
        (kind, name, 8) for kind in ("overlap", "ordinary") for name in ("plain", "prompt-lookup-4")
    ]
    for point in found.points:
        assert point.measured["tokens_per_step"] == pytest.approx(
            point.predicted["tokens_per_step"]
        )
        assert point.differing == 0 and point.interval[0] < point.predicted["tokens_per_s"]
    again = validate_transformers(replace(asked, bench=replace(asked.bench, resume=True)))
    assert [point.measured for point in again.points] == [point.measured for point in found.points]


def test_kinds_without_prompts_and_formats_that_were_not_measured_are_refused(asked, tmp_path):
    (tmp_path / "p.toml").write_text(
        'title = "one"\n[[prompts]]\nid = "a"\nkind = "chat"\ntext = "a"\n'
    )
    with pytest.raises(InputError, match="no prompts of this kind"):
        validate_transformers(replace(asked, prompts=tmp_path / "p.toml"))
    with pytest.raises(InputError, match="no passes of smollm2-135m"):
        validate_transformers(replace(asked, fidelity="measured"))
