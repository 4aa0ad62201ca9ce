"""Settings of a small masked model beside their predictions: forwards as the loop makes them,
costs, and the report."""

import json
from collections import Counter
from dataclasses import asdict, replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hardware_profiles.errors import InputError  # noqa: E402
from real_runs.masked.training import MaskedRecipe, masked_model  # noqa: E402
from real_runs.validation.masked import validate as module  # noqa: E402
from real_runs.validation.masked.predict import PassCosts, fit_costs, foretold  # noqa: E402
from real_runs.validation.masked.settings import CanvasSetting, fitted_settings, scored_settings  # noqa: E402
from real_runs.validation.masked.validate import MaskedOptions, validate_masked  # noqa: E402
from real_runs.validation.runs import Run  # noqa: E402
from real_runs.validation.subject import BenchOptions  # noqa: E402
from traces.kinds.refine_policy import CACHES, RefinePolicy  # noqa: E402
from traces.replay.confidence.anchors import pooled  # noqa: E402
from traces.storage.confidence_file import read_confidence  # noqa: E402

SMALL = MaskedRecipe(steps=3, rows=4, width=16, layers=1, heads=2, ffn_width=16)
SETTINGS = [
    CanvasSetting(RefinePolicy(commit=rule, at=at, cache=cache))
    for rule, at in (("static", {}), ("threshold", {"confidence": 0.06}))
    for cache in CACHES
]
PROMPT, WINDOW = SMALL.prompt_tokens, SMALL.corpus.window_tokens


@pytest.fixture(scope="module")
def validated(tmp_path_factory):
    out = tmp_path_factory.mktemp("masked")
    options = MaskedOptions(
        bench=BenchOptions(out=out, rounds=1, keep_disturbed=True),
        recipe=SMALL,
        anchor_prompts=3,
        prompts=4,
        batches=(1, 2),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_FIT_PROMPTS", 4)
        patch.setattr(module, "scored_settings", lambda batch, named: SETTINGS)
        patch.setattr(
            module, "fitted_settings", lambda batch, rules: fitted_settings(batch, rules=rules)[:4]
        )
        yield options, validate_masked(options)


def test_settings_are_scored_at_every_batch_and_the_report_is_json(validated):
    options, report = validated
    assert [(point.batch, point.configuration) for point in report.validation.points] == [
        (batch, each.name) for batch in (1, 2) for each in SETTINGS
    ]
    assert not report.validation.missing and not report.validation.left_out
    again = json.loads(
        json.dumps(
            [
                report.validation.costs,
                report.validation.about,
                [asdict(setting) for setting in report.replays],
            ]
        )
    )
    assert (
        report.validation.summary.configurations == len(report.validation.points) == len(again[2])
    )
    assert (options.bench.out / "validation.parquet").is_file()


def test_one_token_a_pass_takes_the_same_forwards_predicted_and_live(validated):
    _, report = validated
    for point in report.validation.points:
        if "static" in point.configuration:
            assert point.predicted["tokens_per_step"] == point.measured["tokens_per_step"] == 1.0
            assert point.error_ratio == pytest.approx(
                point.measured["step_s"] / point.predicted["step_s"] - 1.0, abs=1e-9
            )


def test_a_budget_that_ends_early_scores_what_was_measured(validated, tmp_path):
    options, whole = validated[0], validated[1].validation
    setup, *lines = (options.bench.out / "runs.part.jsonl").read_text().splitlines()
    kinds = [name.partition(",")[0] for name in json.loads(setup)["plan"]]
    assert kinds == ["fit"] * 4 + ["names"] * 2
    cells = list(dict.fromkeys(json.loads(line)["cell"] for line in lines))
    for left, word in (
        (cells[:5], "0 of 2 batches ran"),
        ([*cells[:1], *cells[4:]], "was not timed"),
    ):
        kept = [setup, *(line for line in lines if json.loads(line)["cell"] in left)]
        out = tmp_path / word
        out.mkdir()
        (out / "runs.part.jsonl").write_text("\n".join(kept) + "\n")
        bench = replace(options.bench, out=out, budget_s=0.0, resume=True)
        ended = replace(options, bench=bench, model=options.bench.out / "model")
        found = validate_masked(ended).validation
        assert [point.configuration for point in found.points] == [
            point.configuration for point in whole.points if point.batch == 1
        ]
        assert len(found.left_out) == len(SETTINGS) and all(word in each for each in found.left_out)
        assert found.missing == len(lines) + 1 - len(kept)


def test_choices_are_predicted_fastest_among_those_that_keep_to_the_floor(validated):
    _, report = validated
    agreement = {(each.batch, each.configuration): each.agreement for each in report.replays}
    rate = {
        (point.batch, point.configuration): point.predicted["tokens_per_s"]
        for point in report.validation.points
    }
    for choice in report.choices:
        allowed = [
            key
            for key, held in agreement.items()
            if key[0] == choice.batch and held >= choice.floor
        ]
        assert rate[choice.batch, choice.chosen] == max(rate[key] for key in allowed)
        assert len(allowed) == choice.allowed
    assert {choice.floor for choice in report.choices} == {0.99, 0.95, 0.9, 0.8, 0.0}
    assert all(0.0 <= each.regret_ratio < 1.0 for each in report.validation.regrets)


def test_prompts_of_anchors_costs_and_scores_are_three_parts(validated):
    options, _ = validated
    anchors = set(
        read_confidence(options.bench.out / "model" / "masked-names--plain.parquet").request_ids
    )
    _, *lines = (options.bench.out / "runs.part.jsonl").read_text().splitlines()
    runs = [json.loads(line) for line in lines]
    fit, score = (
        {name for run in runs if run["cell"].startswith(kind) for name in run["prompts"]}
        for kind in ("fit", "names")
    )
    assert (len(anchors), len(fit), len(score)) == (3, 4, 4)
    assert not anchors & fit and not anchors & score and not fit & score


def test_replayed_forwards_of_a_recorded_policy_are_those_of_the_live_batch(validated):
    """Anchors' own prompts, decoded live in batches: forwards by shape are what the replay says."""
    options, _ = validated
    model = masked_model(options.bench.out / "model", SMALL)
    prompts = SMALL.corpus.prompts(3)
    states = pooled(
        read_confidence(options.bench.out / "model" / "masked-names--prefix-cache.parquet")
    )
    live = module.MaskedDecoder(model=model, recipe=SMALL, prompts=prompts)
    setting = CanvasSetting(
        RefinePolicy(commit="threshold", at={"confidence": 0.9}, cache="prefix")
    )
    forwards = Counter((b, n, c) for b, n, c, _ in live.decoded(setting, list(prompts)).forwards)
    costs = PassCosts(
        forward_s=dict.fromkeys(forwards, 1.0), rest_s={("threshold", 3): 0.0}, spread=0.0
    )
    found = foretold(states, states.final_ids[:3], setting, 3, costs, prompt_tokens=PROMPT)
    assert found.run.steps == found.run.verify_s == sum(forwards.values())
    assert found.how == "recorded"


def run(seconds, *, rest_s=0.5, shape=(1, WINDOW, 0)):
    passes = tuple((*shape, each) for each in seconds)
    return Run(
        cell="c",
        configuration="x",
        round=0,
        prompts=("a",),
        tokens=64,
        steps=len(passes),
        request_steps=len(passes),
        drafted_tokens=0,
        decode_s=sum(seconds) + rest_s,
        cpu_s=1.0,
        draft_s=0.0,
        verify_s=sum(seconds),
        passes=passes,
        output_sha256="",
    )


def test_costs_are_medians_and_what_was_not_timed_is_refused():
    costs = fit_costs(
        [("static", 1, run([1.0, 2.0, 9.0], rest_s=0.3)), ("static", 1, run([2.0], rest_s=0.1))]
    )
    assert costs.forward_s == {(1, WINDOW, 0): 2.0}
    assert costs.rest_s == {("static", 1): pytest.approx(0.1)}
    assert costs.seconds({(1, WINDOW, 0): 3}, "static", 1) == (6.0, pytest.approx(0.3))
    assert costs.spread > 0
    with pytest.raises(InputError, match="was not timed: canvases"):
        costs.seconds({(2, WINDOW, 0): 1}, "static", 1)
    with pytest.raises(InputError, match="was not timed at batch 4"):
        costs.seconds({}, "static", 4)


def test_thresholds_that_costs_are_fitted_on_are_not_scored():
    for batch in (1, 4):
        scored, fitted = scored_settings(batch), fitted_settings(batch, rules=True)
        both = {each.name for each in scored} & {each.name for each in fitted}
        assert both == {each.name for each in fitted if each.policy.commit == "static"}
        assert {each.policy.commit for each in scored} <= {each.policy.commit for each in fitted}
        assert len({each.name for each in scored}) == len(scored) >= 30


def test_what_is_refused(tmp_path):
    for changes, word in (
        ({"batches": (1, 3)}, "full batches"),
        ({"batches": ()}, r"\[1, 16\]"),
        ({"prompts": 444}, "must be 1 to 4[0-9]{2}"),
    ):
        with pytest.raises(InputError, match=word):
            MaskedOptions(bench=BenchOptions(out=tmp_path, rounds=1), **changes)


def test_agreement_is_with_one_token_a_pass_without_a_cache(validated):
    _, report = validated
    exact = {each.configuration: each.agreement for each in report.replays if each.batch == 1}
    assert exact[SETTINGS[0].name] == 1.0
    assert all(np.isfinite(each) and 0.0 <= each <= 1.0 for each in exact.values())
