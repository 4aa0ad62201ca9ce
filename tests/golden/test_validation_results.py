"""A change of the cost model must not time the committed measurements worse than the bounds say."""

import importlib.util
import json
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("scipy")

_spec = importlib.util.spec_from_file_location(
    "regenerate_validation", Path(__file__).parent / "regenerate_validation.py"
)
golden = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(golden)


def test_committed_measurements_are_timed_no_worse_than_before():
    if not golden.FILE.exists():
        pytest.skip("no measurements of a shipped profile are committed")
    bounds = json.loads(golden.FILE.read_text(encoding="utf-8"))
    present = golden.errors()
    assert golden.worse(bounds, present) == []
    for (
        folder,
        scores,
    ) in present.items():  # the invariant beside the numbers: a median lies below its p90
        assert all(0 <= each["median"] <= each["p90"] for each in scores.values()), folder
    assert set(present) <= set(bounds), "results were added: regenerate the bounds"


def test_a_worse_model_and_missing_results_are_reported():
    bound = {"d/x": {"passes": {"rows": 5, "median": 0.05, "p90": 0.1}}}
    assert golden.worse(bound, bound) == []
    slower = {"d/x": {"passes": {"rows": 5, "median": 0.06, "p90": 0.1}}}
    assert golden.worse(bound, slower) == ["d/x: passes: median 0.0600 exceeds 0.0500"]
    assert len(golden.worse(bound, {})) == 1
    assert (
        len(golden.worse(bound, {"d/x": {"passes": {"rows": 4, "median": 0.0, "p90": 0.0}}})) == 1
    )
    assert golden.worse(bound, {"d/x": {"passes": {"rows": 5, "median": 0.04, "p90": 0.1}}}) == []
