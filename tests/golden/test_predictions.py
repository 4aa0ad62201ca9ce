"""Committed predictions, each with laws beside it that hold whatever the numbers are."""

import importlib.util
import json
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent


@pytest.fixture(scope="module")
def golden():
    spec = importlib.util.spec_from_file_location("golden_regenerate", FOLDER / "regenerate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_predictions_are_the_committed_ones(golden):
    committed = json.loads((FOLDER / "predictions.json").read_text())
    assert golden.moved(committed, golden.predictions()) == []


def test_committed_predictions_obey_the_laws(golden):
    """No speculation is exactly 1; K bounds the speedup; steps grow with K, context and batch."""
    committed = json.loads((FOLDER / "predictions.json").read_text())
    assert len(committed) == len(golden.SCENARIOS) * len(golden.POINTS)
    for name, (step_s, speedup) in committed.items():
        front, k = name.rsplit("K=", 1)
        assert step_s > 0
        assert speedup == pytest.approx(1.0) if k == "0" else 0 < speedup < int(k) + 1
        assert step_s >= committed[f"{front}K=0"][0]
        larger = name.replace("b=1 ", "b=32 ").replace("c=512 ", "c=16384 ")
        assert committed[larger][0] >= step_s


def test_a_move_is_reported(golden):
    before = {"a": [1.0, 2.0], "b": [1.0, 1.0]}
    after = {"a": [1.1, 2.0], "c": [1.0, 1.0]}
    assert golden.moved(before, after) == ["a: step +10.00%, speedup +0.00%", "gone b", "new  c"]
