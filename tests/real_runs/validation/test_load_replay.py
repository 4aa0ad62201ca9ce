"""Measured loads beside simulations: percentiles, errors, and the report that several calls add
to."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hardware_profiles.errors import InputError
from real_runs.servers.measured import write_rows
from real_runs.validation import load_replay
from simulator.engine import simulate
from simulator.loop.options import Scenario, SchedulerOptions
from simulator.loop.request import Workload


def timer(decode_requests, query_tokens, decode_context_tokens, prefill, longest_context=0.0):
    return 0.01 + 0.001 * sum(new for new, _ in prefill)


def simulated(requests=30, **changes):
    rng = np.random.default_rng(4)
    workload = Workload(
        arrival_s=np.sort(rng.uniform(0, 3, requests)),
        prompt_tokens=rng.integers(5, 60, requests),
        output_tokens=rng.integers(1, 20, requests),
    )
    return simulate(
        Scenario(
            workload=workload,
            scheduler=SchedulerOptions(kv_blocks=4000),
            timer=changes.pop("timer", timer),
        ),
    )


def rows_of(result, stretched=1.0, cached=0):
    """What a client would have measured of a simulated run, every wait so many times as long."""
    rows = []
    for i in range(result.request.size):
        arrival, count = float(result.arrival_s[i]), int(result.output_tokens[i])
        first, last = (
            arrival + stretched * float(getattr(result, name)[i] - arrival)
            for name in ("first_token_s", "last_token_s")
        )
        rows.append(
            {
                "request": i,
                "input_tokens": int(result.input_tokens[i]),
                "output_tokens": count,
                "arrival_s": arrival,
                "sent_s": arrival,
                "scheduled_s": None,
                "first_token_s": first,
                "last_token_s": last,
                "cached_tokens": cached,
                "draft_tokens": None,
                "accepted_tokens": None,
                "finish_reason": "length",
                "token_times_s": np.linspace(first, last, count).tolist(),
            }
        )
    return rows


def load_of(folder, rows):
    folder.mkdir(parents=True, exist_ok=True)
    write_rows(rows, folder / "requests.parquet", model="m", engine="llama.cpp", notes="")
    return folder / "requests.parquet"


def test_a_load_that_behaves_as_the_simulation_has_no_error(tmp_path):
    result = simulated()
    rows = load_replay.read_load(load_of(tmp_path / "one", rows_of(result)))
    found = load_replay.compared("one", rows, result)
    for key in ("ttft_s", "tpot_s", "e2e_s"):
        for part, each in found.metrics[key].items():
            assert each["error_ratio"] == pytest.approx(0.0, abs=1e-9), (key, part)
    assert found.rate_per_s == pytest.approx(29 / float(np.ptp(result.arrival_s)))
    assert found.notes == ()


def test_a_server_that_is_slower_by_a_quarter_is_underestimated_by_a_fifth(tmp_path):
    result = simulated()
    found = load_replay.compared(
        "slow", load_replay.read_load(load_of(tmp_path, rows_of(result, 1.25))), result
    )
    for key in ("ttft_s", "tpot_s", "e2e_s"):
        assert found.metrics[key]["mean"]["error_ratio"] == pytest.approx(-0.2)
    assert found.metrics["totals"]["tokens_per_s"]["error_ratio"] > 0.0


def test_a_slower_machine_is_reported_by_requests_that_met_no_other(tmp_path):
    result = simulated(requests=80, timer=lambda *counted, **_: 0.1 * timer(*counted))
    rows = load_replay.read_load(load_of(tmp_path, rows_of(result, 1.25)))
    found = load_replay.compared("slow", rows, result)
    assert found.pace["alone"] >= load_replay.LEAST_ALONE and found.pace["ratio"] == pytest.approx(
        1.25
    )
    for key in ("ttft_s", "tpot_s"):
        assert found.pace[key]["mean"]["error_ratio"] == pytest.approx(0.0, abs=1e-9)
    assert f"{found.pace['alone']} requests that met no other took 1.25 times" in found.notes[-1]


def test_who_is_alone():
    arrival_s, spent_s = np.array([0.0, 1.0, 1.5, 4.0]), np.array([0.5, 2.0, 0.1, np.nan])
    assert load_replay._alone(arrival_s, spent_s).tolist() == [True, False, False, True]
    assert load_replay._alone(arrival_s, np.array([0.5, np.nan, 0.1, 1.0])).tolist() == [
        True,
        False,
        False,
        False,
    ]


def test_what_was_cached_is_said(tmp_path):
    result = simulated()
    rows = load_replay.read_load(load_of(tmp_path, rows_of(result, cached=3)))
    (note,) = load_replay.compared("one", rows, result).notes
    assert note.startswith("the server found 90 of ")


def test_another_workload_is_refused(tmp_path):
    rows = load_replay.read_load(load_of(tmp_path, rows_of(simulated())))
    with pytest.raises(InputError, match="same requests"):
        load_replay.compared("one", rows[:-1], simulated())


def test_reports_grow_by_load_and_are_read_back(tmp_path):
    result = simulated()
    rows = load_replay.read_load(load_of(tmp_path / "one", rows_of(result)))
    first, second, again = (
        load_replay.compared(
            name, load_replay.read_load(load_of(tmp_path / "x", rows_of(result, slower))), result
        )
        for name, slower in (("one", 1.0), ("two", 2.0), ("one", 4.0))
    )
    for each in (first, second, again):
        load_replay.write_replays(tmp_path / "report", [each], inputs={"seed": 0})
    report = load_replay.read_report(tmp_path / "report")
    assert [load["name"] for load in report["loads"]] == ["one", "two"]
    assert report["loads"][0]["metrics"]["e2e_s"]["mean"]["error_ratio"] == pytest.approx(-0.75)
    times = load_replay.read_times(tmp_path / "report")
    assert times.num_rows == 2 * len(rows)
    own = times.filter(pa.compute.equal(times["load"], "one"))
    np.testing.assert_allclose(own["e2e_measured_s"], 4 * np.asarray(own["e2e_simulated_s"]))


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"loads": [{"name": 1}]}', "[" * 100_000])
def test_damaged_reports_are_refused(tmp_path, text):
    (tmp_path / "replay.json").write_text(text)
    with pytest.raises(InputError, match=r"replay\.json"):
        load_replay.read_report(tmp_path)


def test_files_that_hold_no_load_are_refused(tmp_path):
    with pytest.raises(InputError, match="holds no requests"):
        load_replay.load_file(tmp_path)
    pq.write_table(pa.table({"arrival_s": [0.0]}), tmp_path / "other.parquet")
    with pytest.raises(InputError, match="first_token_s"):
        load_replay.read_load(tmp_path / "other.parquet")
    with pytest.raises(InputError, match="no such file"):
        load_replay.read_load(tmp_path / "absent.parquet")
    (tmp_path / "replay.parquet").write_bytes((tmp_path / "other.parquet").read_bytes())
    with pytest.raises(InputError, match="no times of loads"):
        load_replay.read_times(tmp_path)


def test_reports_are_plain_json(tmp_path):
    result = simulated()
    replay = load_replay.compared(
        "one", load_replay.read_load(load_of(tmp_path, rows_of(result))), result
    )
    load_replay.write_replays(tmp_path, [replay], inputs={})
    text = (tmp_path / "replay.json").read_text()
    assert json.loads(text) == load_replay.read_report(tmp_path)
    assert "NaN" not in text
