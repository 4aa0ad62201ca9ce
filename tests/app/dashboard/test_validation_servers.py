"""Loads of a live server on the validation page: what is drawn, what is absent, what is damaged."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.dashboard.answers.validation import page as validation
from app.dashboard.answers.validation.servers import replayed_loads
from app.dashboard.measured import measured_results
from app.dashboard.state import State
from app.render.charts.load_figures import MOST_POINTS, distribution_figure
from hardware_profiles.errors import InputError

PARTS = ("mean", "p50", "p90", "p99")


def load_of(name, rate, measured, error):
    sides = {"measured": measured, "simulated": measured * (1 + error), "error_ratio": error}
    metrics = {f"{key}_s": dict.fromkeys(PARTS, sides) for key in ("ttft", "tpot", "itl", "e2e")}
    return {
        "name": name,
        "requests": 30,
        "rate_per_s": rate,
        "notes": [f"{name} was warm"],
        "metrics": metrics,
    }


@pytest.fixture
def served(tmp_path):
    """Results of an engine with two loads, as `simulate --beside --out` leaves them."""
    folder = tmp_path / "cpu" / "2026-11-22" / "llama.cpp" / "loads"
    folder.mkdir(parents=True)
    loads = [load_of("plain", 0.5, 0.2, 0.05), load_of("<b>drafts</b>", 1.0, 0.1, -0.1)]
    (folder / "replay.json").write_text(json.dumps({"schema": 1, "loads": loads}))
    rng = np.random.default_rng(2)
    columns = {
        f"{key}_{side}_s": rng.uniform(0.1, 2, 60)
        for key in ("ttft", "tpot", "e2e")
        for side in ("measured", "simulated")
    }
    columns["tpot_simulated_s"][0] = np.nan
    names = [each["name"] for each in loads for _ in range(30)]
    table = {"load": names, "request": [*range(30), *range(30)], **columns}
    pq.write_table(
        pa.table({k: pa.array(v, from_pandas=True) for k, v in table.items()}),
        folder / "replay.parquet",
    )
    return folder.parent


def test_two_loads_are_drawn_measured_beside_simulated(served):
    loads = replayed_loads(served)
    assert [card.title.split(" of ")[0] for card in loads.cards] == [
        "Time to first token",
        "Time per output token",
    ]
    lines = loads.cards[0].figure["data"]
    assert [line["line"]["dash"] for line in lines] == ["solid", "dash"] * 2
    assert len({line["line"]["color"] for line in lines}) == 2
    assert not any("<b>" in line["name"] for line in lines)
    assert "10.0% off" in loads.sentence
    assert loads.notes == ["plain: plain was warm.", "<b>drafts</b>: <b>drafts</b> was warm."]
    row = loads.rows[0]
    assert (row["measured (ms)"], row["simulated (ms)"], row["error (%)"]) == (200.0, 210.0, 5.0)


def test_a_distribution_is_that_of_the_times():
    line = distribution_figure({"a": ([0.4, 0.1, np.nan, 0.2], [])}, "wait")["data"]
    assert len(line) == 1 and line[0]["x"] == pytest.approx([100.0, 200.0, 400.0])
    assert line[0]["y"] == pytest.approx([100 / 3, 200 / 3, 100.0])
    many = distribution_figure({"a": (np.linspace(1, 2, 10_000), [])}, "wait")["data"][0]
    assert len(many["x"]) == MOST_POINTS and many["x"][-1] == 2000.0
    assert distribution_figure({"a": ([np.nan], [])}, "wait") is None


def test_results_of_an_engine_alone_are_a_page(served, monkeypatch):
    root = served.parents[2]
    assert measured_results(root) == {"cpu.2026-11-22.llama.cpp": served}
    monkeypatch.setattr(validation, "measured_results", lambda: measured_results(root))
    answer = validation.answer_validation(State())
    assert answer.headline.startswith("Under 2 loads") and len(answer.cards) == 2
    assert [title for title, _ in answer.tables] == ["A real server under load"]
    assert "cpu, 2026-11-22.llama.cpp" in answer.notes[-1]
    assert "--beside" in answer.command


def test_what_is_absent_is_left_out_and_what_is_damaged_is_said(served, tmp_path):
    assert replayed_loads(tmp_path) is None
    (served / "loads" / "replay.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"replay\.parquet"):
        replayed_loads(served)
    (served / "loads" / "replay.json").write_text("{}")
    with pytest.raises(InputError, match=r"replay\.json"):
        replayed_loads(served)
