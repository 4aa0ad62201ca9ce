"""The part file: what survives a crash, and what is not continued."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from real_runs.recording_log import RecordingLog

SETUP = {"model": "m", "temperatures": [0.0, 0.8], "seed": 1}
ENTRIES = [{"request": f"r{i}", "rank": [i, -1]} for i in range(5)]


def written(path, entries=ENTRIES):
    log = RecordingLog(path, SETUP, resume=False)
    for entry in entries:
        log.append(entry)
    return path


def test_finished_requests_come_back(tmp_path):
    path = written(tmp_path / "deep" / "x.part.jsonl")
    log = RecordingLog(path, SETUP, resume=True)
    assert log.finished == ENTRIES
    log.append({"request": "next"})
    assert RecordingLog(path, SETUP, resume=True).finished == [*ENTRIES, {"request": "next"}]
    log.remove()
    assert not path.exists()


@given(st.data())
def test_a_cut_anywhere_loses_the_cut_line_only(tmp_path_factory, data):
    path = written(tmp_path_factory.mktemp("cut") / "x.part.jsonl")
    whole = path.read_bytes()
    size = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:size])
    log = RecordingLog(path, SETUP, resume=True)
    lines = max(whole[:size].count(b"\n") - 1, 0)
    assert log.finished == ENTRIES[:lines]
    for entry in ENTRIES[lines:]:
        log.append(entry)
    assert path.read_bytes() == whole


def test_resuming_nothing_starts_afresh(tmp_path):
    assert RecordingLog(tmp_path / "x.part.jsonl", SETUP, resume=True).finished == []


def test_an_unfinished_recording_is_not_overwritten(tmp_path):
    path = written(tmp_path / "x.part.jsonl")
    before = path.read_bytes()
    with pytest.raises(InputError, match="resume it or delete it"):
        RecordingLog(path, SETUP, resume=False)
    assert path.read_bytes() == before


@pytest.mark.parametrize("changes", [{"seed": 2}, {"temperatures": [0.0]}, {"new": 1}])
def test_another_setup_is_refused_by_name(tmp_path, changes):
    path = written(tmp_path / "x.part.jsonl")
    with pytest.raises(InputError, match=next(iter(changes))):
        RecordingLog(path, {**SETUP, **changes}, resume=True)


def test_tuples_and_lists_are_the_same_setup(tmp_path):
    path = written(tmp_path / "x.part.jsonl")
    assert RecordingLog(path, {**SETUP, "temperatures": (0.0, 0.8)}, resume=True).finished == ENTRIES


@pytest.mark.parametrize("content", [b"\x00\xff\xfe\n", b"[1, 2]\n", b"hello\nworld\n"])
def test_foreign_files_are_refused_and_kept(tmp_path, content):
    path = tmp_path / "x.part.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError, match="not a part file"):
        RecordingLog(path, SETUP, resume=True)
    assert path.read_bytes() == content


def test_lines_are_json(tmp_path):
    lines = written(tmp_path / "x.part.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [SETUP, *ENTRIES]
    with pytest.raises(ValueError, match="JSON compliant"):
        RecordingLog(tmp_path / "x.part.jsonl", SETUP, resume=True).append({"wall_s": float("nan")})
