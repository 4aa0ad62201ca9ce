"""Runs of a plan are made once, in turn, within the time, and go on after an end."""

import json

import pytest

pytest.importorskip("torch")

from hypothesis import given
from hypothesis import strategies as st

from real_runs.trials.make import FAILED, TOOK_S, failures, run_key
from tests.real_runs.trials.pretended_decoding import Pretended, made


def test_runs_are_made_once_in_turn(tmp_path):
    pretended = Pretended()
    missing, entries = made(pretended, tmp_path)
    assert missing == 0 and len({run_key(entry) for entry in entries}) == len(entries) == 8
    first = {entry["round"]: entry["configuration"] for entry in reversed(entries[::2])}
    assert first[0] != first[1], "which configuration comes first goes round"
    assert all(entry["probe_s"] == 0.02 for entry in entries)
    assert pretended.warmed == [("plain", ("a",)), ("prompt-lookup-2", ("a",))]
    assert made(pretended, tmp_path, resume=True) == (0, entries)


@given(ends_after=st.integers(0, 7))
def test_a_later_call_goes_on_after_the_last_run(tmp_path_factory, ends_after):
    folder = tmp_path_factory.mktemp("ends")
    with pytest.raises(KeyboardInterrupt):
        made(Pretended(ends_after=ends_after), folder)
    later = Pretended()
    missing, entries = made(later, folder, resume=True)
    assert missing == 0 and len({run_key(entry) for entry in entries}) == 8
    assert len(later.ran) == 8 - ends_after


def test_no_run_is_begun_without_time_or_where_nothing_can_be_started_yet(tmp_path):
    for name, pretended, left_s in (
        ("late", Pretended(), -1.0),
        ("later", Pretended(later=True), 9.0),
    ):
        (tmp_path / name).mkdir()
        assert made(pretended, tmp_path / name, rounds=3, left_s=left_s) == (12, [])


@given(stops_after=st.integers(0, 8))
def test_no_run_is_begun_after_a_stop(tmp_path_factory, stops_after):
    pretended = Pretended()
    missing, entries = made(
        pretended,
        tmp_path_factory.mktemp("stops"),
        should_stop=lambda: len(pretended.ran) == stops_after,
    )
    assert len(entries) == stops_after == 8 - missing


def test_a_later_call_knows_how_long_runs_took(tmp_path):
    made(Pretended(), tmp_path, rounds=1)
    log = tmp_path / "r.part.jsonl"
    setup, *lines = log.read_text().splitlines()
    slow = json.loads(lines[0]) | {TOOK_S: 90.0}
    log.write_text("\n".join([setup, json.dumps(slow)]) + "\n")
    assert made(Pretended(), tmp_path, rounds=1, resume=True, left_s=60.0) == (3, [slow])
    assert made(Pretended(), tmp_path, rounds=1, resume=True, left_s=120.0)[0] == 0


def test_a_run_that_fails_is_noted_and_made_by_a_later_call(tmp_path):
    missing, entries = made(Pretended(refuses=[("b",)]), tmp_path, rounds=1)
    failed = [entry for entry in entries if FAILED in entry]
    assert missing == 0 and len(entries) == 4 and [entry["prompts"] for entry in failed] == [["b"]]
    later = Pretended()
    assert made(later, tmp_path, rounds=1, resume=True)[0] == 0
    assert later.ran == [(failed[0]["configuration"], ("b",))]


def test_failures_are_told_until_they_are_made_up_for(tmp_path):
    _, entries = made(Pretended(refuses=[("b",)]), tmp_path, rounds=1)
    (told,) = failures(entries)
    assert "it stopped" in told and entries[0]["cell"] in told
    assert not failures(made(Pretended(), tmp_path, rounds=1, resume=True)[1])
