"""`simulate --beside`: measured loads and their simulations, one report over several calls, and
misuse."""

import json
import shutil

import numpy as np
import pytest

from real_runs.servers.measured import write_rows

SERVED = (
    "simulate",
    "--model",
    "smollm2-135m",
    "--device",
    "cpu-amd-epyc--1-thread",
    "--engine",
    "llama.cpp",
)


@pytest.fixture
def load(tmp_path):
    """A folder as `load --out` leaves it: 20 requests, whose tokens came every 50 ms."""
    rng = np.random.default_rng(5)
    rows = []
    for i, arrival in enumerate(np.cumsum(rng.exponential(2.0, 20)).tolist()):
        first, count = arrival + 0.5, int(rng.integers(4, 12))
        times = first + 0.05 * np.arange(count)
        rows.append(
            {
                "request": i,
                "input_tokens": int(rng.integers(20, 90)),
                "output_tokens": count,
                "arrival_s": arrival,
                "sent_s": arrival,
                "scheduled_s": None,
                "first_token_s": times[0],
                "last_token_s": times[-1],
                "cached_tokens": 0,
                "draft_tokens": None,
                "accepted_tokens": None,
                "token_times_s": times.tolist(),
            }
        )
    folder = tmp_path / "plain"
    folder.mkdir()
    write_rows(rows, folder / "requests.parquet", model="m", engine="llama.cpp", notes="")
    return folder


def test_what_users_saw_stands_beside_what_is_simulated(rooftree, load):
    answer = rooftree(*SERVED, "--beside", load, "--json").answer
    (found,) = answer["loads"]
    assert found["name"] == "plain" and found["requests"] == 20
    assert found["metrics"]["tpot_s"]["mean"]["measured"] == pytest.approx(0.05)
    for each in (
        part
        for key in ("ttft_s", "tpot_s", "itl_s", "e2e_s")
        for part in found["metrics"][key].values()
    ):
        assert each["error_ratio"] == pytest.approx(each["simulated"] / each["measured"] - 1.0)
    assert "TTFT mean" in rooftree(*SERVED, "--beside", load).out


def test_slots_are_asked_for_as_the_server_is(rooftree, load):
    one, four = (
        rooftree(
            *SERVED, *("--set", f"scheduler.max_requests={slots}"), "--beside", load, "--json"
        ).answer["loads"][0]
        for slots in (1, 4)
    )
    assert (
        one["metrics"]["ttft_s"]["mean"]["simulated"]
        > four["metrics"]["ttft_s"]["mean"]["simulated"]
    )
    assert "scheduler.max_requests" in rooftree(*SERVED, "--parallel", "4").err


def test_calls_add_to_one_report(rooftree, load, tmp_path):
    other = shutil.copytree(load, tmp_path / "drafting")
    drafts = (
        "--acceptance",
        "0.5,0.3",
        "--draft-tokens",
        "2",
        "--set",
        "speculation.method=n-gram",
    )
    assert rooftree(*SERVED, "--beside", load, "--out", tmp_path / "report").code == 0
    assert rooftree(*SERVED, *drafts, "--beside", other, "--out", tmp_path / "report").code == 0
    report = json.loads((tmp_path / "report" / "replay.json").read_text())
    assert {each["name"]: bool(each["inputs"]["speculation"]) for each in report["loads"]} == {
        "plain": False,
        "drafting": True,
    }


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--rate", "2"), "--rate"),
        (("--count", "3"), "--count"),
        (("--rates", "1,2"), "--rates"),
        (("--compare", "chunked"), "--compare"),
        (("--seeds", "3"), "--seeds"),
        (("--beside", "nowhere"), "nowhere"),
    ],
)
def test_what_a_load_says_already_is_refused(rooftree, load, words, named):
    ended = rooftree(*SERVED, "--beside", load, *words)
    assert ended.code == 2 and named in ended.err


def test_two_loads_of_one_name_are_refused(rooftree, load):
    ended = rooftree(*SERVED, "--beside", load, "--beside", load)
    assert ended.code == 2 and "one name" in ended.err
