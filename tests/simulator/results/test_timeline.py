"""Trace events: every request once, lanes without overlap, counters in order, and a file that is
whole."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from simulator.engine import simulate
from simulator.loop.options import Scenario, SchedulerOptions
from simulator.loop.request import Workload
from simulator.results.timeline import lanes, timeline_events, write_timeline


def timer(decode_requests, query_tokens, decode_context_tokens, prefill, longest_context=0.0):
    return 1e-3 + 1e-6 * sum(new for new, _ in prefill)


@pytest.fixture(scope="module")
def result():
    generator = np.random.default_rng(2)
    workload = Workload(
        arrival_s=np.sort(generator.uniform(0.0, 0.4, 40)),
        prompt_tokens=generator.integers(1, 300, 40, dtype=np.int32),
        output_tokens=generator.integers(1, 60, 40, dtype=np.int32),
    )
    # one prompt that no replica can ever hold is rejected
    workload.prompt_tokens[5] = 5000
    options = SchedulerOptions(kv_blocks=64, token_budget=256, max_requests=6)
    return simulate(Scenario(workload=workload, scheduler=options, timer=timer, replicas=2))


def test_every_request_is_shown_once(result):
    events = list(timeline_events(result))
    for name in ("prompt", "decode"):
        shown = sorted(e["args"]["request"] for e in events if e["name"] == name)
        assert shown == np.nonzero(np.isfinite(result.scheduled_s))[0].tolist()
    rejected = [e for e in events if e["ph"] == "i"]
    assert [e["name"] for e in rejected] == ["request 5 rejected"]
    assert {e["pid"] for e in events} == {0, 1}


def test_times_are_those_of_the_result_in_microseconds(result):
    for event in timeline_events(result):
        if event["name"] == "prompt":
            index = event["args"]["request"]
            assert event["ts"] == pytest.approx(result.scheduled_s[index] * 1e6, abs=1e-3)
            assert event["ts"] + event["dur"] == pytest.approx(
                result.first_token_s[index] * 1e6, abs=2e-3
            )
        if event["name"] == "decode":
            end = event["ts"] + event["dur"]
            assert end == pytest.approx(
                result.last_token_s[event["args"]["request"]] * 1e6, abs=2e-3
            )


def test_waiting_begins_and_ends(result):
    events = [e for e in timeline_events(result) if e["name"] == "waiting"]
    begun = {e["id"]: e["ts"] for e in events if e["ph"] == "b"}
    ended = {e["id"]: e["ts"] for e in events if e["ph"] == "e"}
    assert begun.keys() == ended.keys() and len(events) == 2 * len(begun) > 0
    assert all(ended[i] > begun[i] for i in begun)


def test_counters_rise_in_time_and_stay_in_bounds(result):
    for replica in (0, 1):
        own = [e for e in timeline_events(result) if e["ph"] == "C" and e["pid"] == replica]
        times = [e["ts"] for e in own]
        assert times == sorted(times) and times
        assert all(0 <= e["args"]["running"] <= 6 for e in own if e["name"] == "requests")
        assert all(0.0 <= e["args"]["used"] <= 100.0 for e in own if e["name"] == "cache used, %")


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20)), max_size=30))
def test_lanes_do_not_overlap_and_are_few(spans):
    starts = np.array([a for a, _ in spans], dtype=float)
    ends = starts + np.array([b for _, b in spans], dtype=float)
    chosen = lanes(starts, ends)
    for lane in set(chosen):
        own = sorted((starts[i], ends[i]) for i in range(len(spans)) if chosen[i] == lane)
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(own))
    deepest = max(
        (sum(1 for a, b in zip(starts, ends, strict=True) if a <= t < b) for t in starts), default=0
    )
    assert len(set(chosen)) == deepest


def test_the_file_is_whole_json(result, tmp_path):
    file = tmp_path / "t.json"
    write_timeline(result, file, title="a test")
    content = json.loads(file.read_text())
    assert content["otherData"] == {"title": "a test", "requests": 40, "requests_left_out": 0}
    assert content["traceEvents"] == json.loads(json.dumps(list(timeline_events(result))))
    assert [path.name for path in tmp_path.iterdir()] == ["t.json"]
    with pytest.raises(InputError, match="cannot be written"):
        write_timeline(result, tmp_path / "absent" / "t.json")


def test_of_very_many_requests_the_first_are_shown(result, tmp_path, monkeypatch):
    monkeypatch.setattr("simulator.results.timeline.MOST_SHOWN_REQUESTS", 10)
    monkeypatch.setattr("simulator.results.timeline.MOST_SHOWN_STATES", 5)
    events = list(timeline_events(result))
    assert max(e["args"]["request"] for e in events if e["name"] == "prompt") < 10
    assert sum(e["ph"] == "C" for e in events) <= 2 * 2 * 5
    write_timeline(result, tmp_path / "t.json")
    assert json.loads((tmp_path / "t.json").read_text())["otherData"]["requests_left_out"] == 30
