"""The committed validation of masked decoding: its summary is that of its points, and says what the
README says."""

import json
from pathlib import Path
from statistics import median

import pandas as pd
import pytest

ROOT = Path(__file__).parents[4]
RESULTS = ROOT / "real_runs/results/cpu-intel-xeon--1-thread/2026-11-23/masked"


@pytest.fixture(scope="module")
def report():
    return json.loads((RESULTS / "validation.json").read_text())


def test_the_summary_is_that_of_the_points(report):
    errors = [abs(point["error_ratio"]) for point in report["points"]]
    assert (
        report["summary"]["configurations"]
        == len(errors)
        == len(pd.read_parquet(RESULTS / "validation.parquet"))
    )
    assert report["summary"]["median_error_ratio"] == pytest.approx(median(errors))
    for point in report["points"]:
        ratio = point["predicted"]["tokens_per_s"] / point["measured"]["tokens_per_s"] - 1.0
        assert point["error_ratio"] == pytest.approx(ratio)


def test_seventy_two_settings_were_foretold_within_six_percent(report):
    errors = sorted(abs(point["error_ratio"]) for point in report["points"])
    assert len(errors) >= 30 and median(errors) <= 0.06 and not report["left_out"]


def test_choices_lose_nothing_and_agree_as_was_estimated(report):
    assert {each["kind"] for each in report["regrets"]} >= {"agreement of 0.95", "agreement of 0"}
    assert all(each["regret_ratio"] <= 0.03 for each in report["regrets"])
    for choice in report["choices"]:
        assert abs(choice["agreement"] - choice["predicted_agreement"]) < 0.05
