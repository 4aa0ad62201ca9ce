"""Uploads: read in a process with limits, refused in words, and gone afterwards."""

import tempfile

import pytest

from app.dashboard import uploads
from app.dashboard.uploads import MOST_BYTES, parsed_upload, work
from hardware_profiles.errors import InputError
from traces.library import read_trace, shipped_traces


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_recording_comes_back_whole_and_leaves_nothing_behind(temporary):
    path = shipped_traces()[0]
    trace, given = parsed_upload("../../mine.PARQUET", path.read_bytes()), read_trace(path)
    assert trace.positions == given.positions
    assert (trace.emitted == given.emitted).all()
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "content", "rule"),
    [
        ("a.parquet", b"PAR1 and nothing else PAR1", "upload"), ("a.jsonl", b"{" * 1000, "upload"),
        ("a.exe", b"MZ", "must end in one of"), ("a", b"x", "must end in one of"), ("a.json", b"", "must hold 1 to"),
        ("a.log", b"\xff\x00" * 50, "upload"), ("a.json", b"[" * 100_000, "upload"),
    ],
)  # fmt: skip
def test_what_is_no_recording_is_refused_in_words(temporary, name, content, rule):
    with pytest.raises(InputError, match=rule) as caught:
        parsed_upload(name, content)
    assert str(temporary) not in str(caught.value), "no path of this machine is told"
    assert list(temporary.iterdir()) == []


def test_what_is_too_large_is_refused_before_anything_is_written(temporary, monkeypatch):
    monkeypatch.setattr(uploads, "MOST_BYTES", 10)
    with pytest.raises(InputError, match="11 bytes"):
        parsed_upload("a.parquet", b"x" * 11)
    assert list(temporary.iterdir()) == []
    assert MOST_BYTES <= 64 << 20


def test_what_takes_too_long_is_stopped(temporary):
    with pytest.raises(InputError, match=r"longer than 0\.05 s"):
        parsed_upload("a.parquet", shipped_traces()[0].read_bytes(), seconds=0.05)
    assert list(temporary.iterdir()) == []


def test_the_reading_tells_its_time_and_can_be_stopped(temporary, monkeypatch):
    class StoppedError(Exception):
        pass

    def stop(passed_s):
        assert passed_s > 0
        raise StoppedError

    monkeypatch.setattr(uploads, "BEAT_S", 0.01)
    with pytest.raises(StoppedError):
        parsed_upload("a.parquet", shipped_traces()[0].read_bytes(), report=stop)
    assert list(temporary.iterdir()) == []


def test_the_worker_tells_the_reason(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(uploads, "MOST_MEMORY_BYTES", -1)  # no limit for the process of the tests
    (tmp_path / "bad.json").write_text("{}")
    assert work(str(tmp_path / "bad.json"), str(tmp_path / "made.parquet")) == 2
    assert capsys.readouterr().out.strip()
    assert not (tmp_path / "made.parquet").exists()
