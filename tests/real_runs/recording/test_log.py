"""The part file: what survives a crash, and what is not continued."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from real_runs.recording.log import RecordingLog

SETUP = {"model": "m", "temperatures": [0.0, 0.8], "seed": 1}
ENTRIES = [{"request": f"r{i}", "rank": [i, -1]} for i in range(5)]


def written(path, entries=ENTRIES):
    with RecordingLog(path, SETUP, resume=False) as log:
        for entry in entries:
            log.append(entry)
    return path


def read(path):
    with RecordingLog(path, SETUP, resume=True) as log:
        return list(log.finished)


def test_finished_requests_come_back(tmp_path):
    path = written(tmp_path / "deep" / "x.part.jsonl")
    with RecordingLog(path, SETUP, resume=True) as log:
        assert list(log.finished) == ENTRIES
        log.append({"request": "next"})
        assert (len(log.finished), log.finished[-1]) == (6, {"request": "next"})
        assert log.finished[1:3] == ENTRIES[1:3]
    assert read(path) == [*ENTRIES, {"request": "next"}]
    with RecordingLog(path, SETUP, resume=True) as log:
        log.remove()
    assert not path.exists()


@given(st.data())
def test_a_cut_anywhere_loses_the_cut_line_only(tmp_path_factory, data):
    path = written(tmp_path_factory.mktemp("cut") / "x.part.jsonl")
    whole = path.read_bytes()
    size = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:size])
    with RecordingLog(path, SETUP, resume=True) as log:
        lines = max(whole[:size].count(b"\n") - 1, 0)
        assert list(log.finished) == ENTRIES[:lines]
        for entry in ENTRIES[lines:]:
            log.append(entry)
    assert path.read_bytes() == whole


def test_one_process_at_a_time(tmp_path):
    path = written(tmp_path / "x.part.jsonl")
    with RecordingLog(path, SETUP, resume=True) as first:
        for resume in (True, False):
            with pytest.raises(InputError, match="another process is recording"):
                RecordingLog(path, SETUP, resume=resume)
        first.append({"request": "next"})
    assert read(path) == [*ENTRIES, {"request": "next"}]


def test_a_refused_log_lets_go_of_the_file(tmp_path):
    path = written(tmp_path / "x.part.jsonl")
    with pytest.raises(InputError, match="seed"):
        RecordingLog(path, {**SETUP, "seed": 2}, resume=True)
    assert read(path) == ENTRIES


def test_what_cannot_be_opened_is_refused(tmp_path):
    with pytest.raises(InputError, match="cannot be opened"):
        RecordingLog(tmp_path, SETUP, resume=True)


def test_resuming_nothing_starts_afresh(tmp_path):
    assert read(tmp_path / "x.part.jsonl") == []


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
    with RecordingLog(path, {**SETUP, "temperatures": (0.0, 0.8)}, resume=True) as log:
        assert list(log.finished) == ENTRIES


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
    with RecordingLog(tmp_path / "x.part.jsonl", SETUP, resume=True) as log:
        with pytest.raises(ValueError, match="JSON compliant"):
            log.append({"wall_s": float("nan")})
        assert list(log.finished) == ENTRIES
