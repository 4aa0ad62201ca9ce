"""The validation page with published runs and with a masked model's runs."""

import json

import pytest

from app.dashboard.answers.validation import page as validation
from app.dashboard.answers.validation.page import answer_validation
from app.dashboard.measured import PUBLISHED, measured_results
from app.dashboard.state import State

POINT = {
    "kind": "names",
    "context": 0,
    "batch": 4,
    "configuration": "threshold 0.9",
    "drafter": "masked",
    "topology": "chain",
    "draft_tokens": 0,
    "chosen": False,
    "runs": 2,
    "disturbed": 0,
    "differing": 0,
    "measured": {"tokens_per_s": 100.0},
    "predicted": {"tokens_per_s": 103.0},
    "error_ratio": 0.03,
    "interval": [90.0, 110.0],
    "covered": True,
}
REPORT = {
    "about": {},
    "points": [POINT, {**POINT, "configuration": "one a pass"}],
    "summary": {
        "configurations": 2,
        "median_error_ratio": 0.03,
        "p90_error_ratio": 0.03,
        "coverage_ratio": 1.0,
        "mean_regret_ratio": 0.0,
    },
    "choices": [
        {
            "batch": 4,
            "floor": 0.95,
            "chosen": "threshold 0.9",
            "allowed": 2,
            "predicted_agreement": 0.96,
            "agreement": 0.93,
        }
    ],
    "regrets": [{"kind": "agreement of 0.95", "batch": 4, "regret_ratio": 0.012}],
    "replays": [],
    "missing_runs": 0,
    "left_out": ["score: names: 0 of 3 batches ran undisturbed"],
}


def test_published_runs_on_gpus_come_first(root):
    names = list(measured_results())
    assert names[0] == PUBLISHED
    kinds = [name.startswith("cpu-") for name in names[1:] if name.count(".") == 1]
    assert kinds == sorted(kinds), "ours on GPUs before ours on CPUs"
    assert not any(name.endswith(".validation") for name in names), (
        "they belong to the results around them"
    )
    answer = answer_validation(State())
    assert answer.headline == answer_validation(State(measured=PUBLISHED)).headline
    readme = (root / "README.md").read_text(encoding="utf-8")
    assert answer.headline in readme, "one sentence of how good it is"
    (_, families), (_, seen) = answer.tables
    answered, _, measured = dict(answer.numbers)["Runs answered"].partition(" of ")
    for column, whole in (("answered", answered), ("runs", measured)):
        assert f"{sum(row[column] for row in families):,}" == whole, "counts add up"
    assert f"the {sum(row['runs'] for row in seen):,} runs" in answer.cards[0].note
    later = answer.deferred()
    assert later.cards and later.tables[0][1]


def test_a_masked_models_runs_are_shown_with_their_choices(tmp_path, monkeypatch):
    folder = tmp_path / "cpu-x" / "2026-11-23" / "masked"
    folder.mkdir(parents=True)
    (folder / "validation.json").write_text(json.dumps(REPORT))
    found = measured_results(tmp_path)
    assert list(found) == ["cpu-x.2026-11-23.masked"]
    monkeypatch.setattr(validation, "measured_results", lambda: found)
    answer = answer_validation(State(seed=7, measured="cpu-x.2026-11-23.masked"))
    tables = dict(answer.tables)
    assert len(tables["Predicted and measured decoding"]) == 2
    assert tables["What would be chosen, and what it kept live"] == [
        {
            "batch": 4,
            "least agreement (%)": 95.0,
            "chosen": "threshold 0.9",
            "out of": 2,
            "agreement, replayed (%)": 96.0,
            "agreement, live (%)": 93.0,
            "slower than the best (%)": 1.2,
        }
    ]
    assert "2 configurations" in answer.headline
    assert any("1 settings" in note for note in answer.notes)
    assert answer.command == "rooftree validate --method fast-dllm"


@pytest.mark.parametrize("results", [name for name in measured_results() if "masked" in name])
def test_shipped_masked_results_have_their_page(results):
    assert "What would be chosen, and what it kept live" in dict(
        answer_validation(State(measured=results)).tables
    )
