"""Uploads: read in a process with limits, refused in words, and gone afterwards."""

import json
import tempfile

import pytest

from app.dashboard import uploads
from app.dashboard.answers.trace import answer_trace
from app.dashboard.state import State
from app.dashboard.uploads import MOST_BYTES, parsed_upload, work
from hardware_profiles.errors import InputError
from tests.traces.importers.samples import ACCEPTANCE, VLLM_LOG
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


@pytest.mark.parametrize("name", ["server.log", "server.txt", "run.LOG"])
def test_an_engines_log_is_read_and_shown(temporary, name):
    trace = parsed_upload(name, 3 * VLLM_LOG.encode())
    assert (trace.level, trace.file) == (0, name)
    answer = answer_trace(State(page="trace"), trace)
    assert "1.90 tokens per step" in answer.headline
    assert dict(answer.numbers)["Draft tokens accepted"] == "27 of 60"
    assert answer.cards[0].figure["data"][0]["y"] == pytest.approx([60.0, 30.0])
    assert "replayed" in answer.notes[-1]


@pytest.mark.parametrize("name", [n for n in ACCEPTANCE if isinstance(ACCEPTANCE[n][1], str)])
def test_what_engines_and_benchmarks_write_is_shown(tmp_path, name):
    (tmp_path / name).write_text(ACCEPTANCE[name][1])
    answer = answer_trace(State(page="trace"), read_trace(tmp_path / name))
    assert answer.headline.startswith("uploaded: ")
    json.dumps([card.figure for card in answer.cards], allow_nan=False)


def test_messages_name_the_persons_file(temporary):
    answers = b'{"prompt_tokens": 5, "accept_length": [3, 2, 1, 1]}\n'
    with pytest.raises(InputError) as caught:
        parsed_upload("/home/me/mine.jsonl", answers)
    assert "mine.jsonl" in str(caught.value) and "recording.jsonl" not in str(caught.value)
    assert "/home" not in str(caught.value)


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
