"""Uploads: read in a process with limits, refused in words, and gone afterwards."""

import json
import tempfile

import pytest

from app.dashboard.answers.trace.page import answer_trace
from app.dashboard.state import State
from app.dashboard.uploads import reading
from app.dashboard.uploads.reading import (
    MOST_BYTES,
    PASTED,
    UnclearFormatError,
    parsed_drop,
    work,
)
from hardware_profiles.errors import InputError
from tests.traces.importers.engines.test_running import SGLANG
from tests.traces.importers.samples import ACCEPTANCE, VLLM_LOG, VLLM_SCRAPES
from traces.importers.engines.ran import running_of
from traces.importers.formats import READERS
from traces.library import read_trace, shipped_confidence, shipped_traces

SGLANG_TREES = SGLANG.format(nodes=16)


def parsed_upload(name, content, **options):
    """The recording in one file."""
    return parsed_drop([(name, content)], **options).trace


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
        ("a.parquet", b"PAR1 and nothing else PAR1", "upload"),
        ("a.jsonl", b"{" * 1000, "upload"),
        ("a.exe", b"MZ", "shows nothing of any format"),
        ("a", b"x", "shows nothing of any format"),
        ("a.json", b"", "must hold 1 to"),
        ("a.json", b'{"parents": [-1], "ranks": [0]}', "tree of rooftree's own"),
        ("a.log", b"\xff\x00" * 50, "upload"),
        ("a.json", b"[" * 100_000, "upload"),
    ],
)
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
    assert answer.headline.startswith(f"{name}: ")
    json.dumps([card.figure for card in answer.cards], allow_nan=False)


@pytest.mark.parametrize("name", ["metrics", "no ending at all.", "server.gz.html", "strange.%~$"])
def test_the_content_says_what_a_file_is(temporary, name):
    assert parsed_upload(name, VLLM_SCRAPES[1].encode()).summary.accepted_tokens == 116
    assert parsed_upload(name, shipped_traces()[0].read_bytes()).positions > 0


def test_pasted_lines_are_read_and_called_so(temporary):
    assert parsed_upload(PASTED, VLLM_LOG.encode()).file == PASTED
    with pytest.raises(UnclearFormatError) as caught:
        parsed_upload(PASTED, b"nothing that anybody prints")
    assert str(caught.value).startswith("upload: pasted text: shows nothing")
    assert set(caught.value.formats) == set(READERS)


def test_a_format_that_is_in_doubt_is_asked_for_and_then_taken(temporary, monkeypatch):
    counters = (
        b"llamacpp:spec_decode_num_draft_tokens_total"
        b" 20\nllamacpp:spec_decode_num_accepted_tokens_total 7\n"
    )
    both = counters + VLLM_LOG.encode()
    with pytest.raises(UnclearFormatError, match="several formats") as caught:
        parsed_upload("both.txt", both)
    assert {"llama-cpp-metrics", "vllm-log"} <= set(caught.value.formats) < set(READERS)
    assert parsed_upload("both.txt", both, format="vllm-log").summary.accepted_tokens == 9
    assert parsed_upload("both.txt", both, format="llama-cpp-metrics").summary.accepted_tokens == 7


def test_requests_and_confidence_traces_are_said_to_be_such(temporary):
    table = b"TIMESTAMP,ContextTokens,GeneratedTokens\n2024-01-01 00:00:00,100,20\n"
    with pytest.raises(InputError, match=r"requests \(azure\)"):
        parsed_upload("a.csv", table)
    with pytest.raises(InputError, match="diffusion page"):
        parsed_upload("a.parquet", shipped_confidence()[0].read_bytes())


def test_two_scrapes_are_one_recording_of_what_lies_between(temporary):
    early, late = (("one", VLLM_SCRAPES[0].encode()), ("other", VLLM_SCRAPES[1].encode()))
    given = [parsed_drop(files) for files in ([early, late], [late, early])]
    assert given[0].trace.summary == given[1].trace.summary
    ran = [running_of(drop.trace, "") for drop in given]
    assert ran[0].files == ran[1].files == ("one", "other")
    assert (ran[0].reordered, ran[1].reordered) == (False, True)
    assert list(temporary.iterdir()) == []


def test_why_nothing_is_said_of_a_server_is_told(temporary):
    trees = SGLANG_TREES.encode()
    drop = parsed_drop([("trees.prom", trees)])
    assert drop.trace.summary.tokens_per_step and running_of(drop.trace, "") is None
    assert drop.unjudged.startswith("trees.prom") and "counts trees" in drop.unjudged


def test_messages_name_the_persons_file(temporary):
    answers = b'{"prompt_tokens": 5, "accept_length": [3, 2, 1, 1]}\n'
    with pytest.raises(InputError) as caught:
        parsed_upload("/home/me/mine.jsonl", answers)
    assert "mine.jsonl" in str(caught.value) and "recording.jsonl" not in str(caught.value)
    assert "/home" not in str(caught.value)


def test_what_is_too_large_is_refused_before_anything_is_written(temporary, monkeypatch):
    monkeypatch.setattr(reading, "MOST_BYTES", 10)
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

    monkeypatch.setattr(reading, "BEAT_S", 0.01)
    with pytest.raises(StoppedError):
        parsed_upload("a.parquet", shipped_traces()[0].read_bytes(), report=stop)
    assert list(temporary.iterdir()) == []


def test_the_worker_tells_the_reason(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(reading, "MOST_MEMORY_BYTES", -1)  # no limit for the process of the tests
    (tmp_path / "bad.json").write_text('{"parents": [-1], "ranks": [0]}')
    made, bad = str(tmp_path / "made.parquet"), str(tmp_path / "bad.json")
    assert work(made, "acceptance", "", bad) == 2
    assert capsys.readouterr().out.strip()
    assert not (tmp_path / "made.parquet").exists()
