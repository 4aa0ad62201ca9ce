"""What an engine ran is kept in a recording and comes back the same; what cannot be is refused."""

from dataclasses import replace

import pytest

from hardware_profiles.errors import InputError
from tests.traces.importers.engines.test_running import SGLANG_LOG, STARTED, vllm, vllm_log
from traces.importers.engines.ran import RUNNING_KEY, with_extra, with_running
from traces.importers.engines.running import read_running
from traces.importers.engines.started import read_engine_facts
from traces.importers.formats import import_trace
from traces.storage.acceptance_file import read_acceptance, write_acceptance

FILES = {
    "vllm-metrics": vllm(),
    "vllm-log": STARTED + vllm_log(),
    "sglang-log": SGLANG_LOG,
}


@pytest.fixture
def kept(tmp_path):
    def write(format):
        source, place = tmp_path / "source.txt", tmp_path / "kept.parquet"
        source.write_text(FILES[format])
        running = read_running(source)
        write_acceptance(with_running(import_trace(format, source), running), place)
        return running, place

    return write


@pytest.mark.parametrize("format", FILES)
def test_it_comes_back_as_it_was(kept, format):
    running, place = kept(format)
    back = read_running(place)
    assert back.summary == running.summary and back.reported_by == running.reported_by
    names = ("model", "method")
    about = [[getattr(one.trace.provenance, name) for name in names] for one in (back, running)]
    assert about[0] == about[1]
    assert replace(back, trace=running.trace) == running


def test_the_recording_is_that_of_its_importer(kept, tmp_path):
    _, place = kept("vllm-log")
    plain = import_trace("vllm-log", tmp_path / "source.txt")
    recording = read_acceptance(place)
    assert recording.summary == plain.summary
    assert recording.provenance.model == plain.provenance.model == ""


def test_it_states_the_cache_as_the_log_did(kept):
    _, place = kept("vllm-log")
    assert read_engine_facts(place).cache_tokens == 812_000


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("engine", "no-such-engine"),
        ("draft_tokens", "3"),
        ("draft_tokens", 1 << 20),
        ("batch", -1.0),
        ("batch", True),
        ("files", "one"),
        ("drafting", ["x" * 5000]),
        ("facts", [1]),
        ("facts", {"cache_tokens": 0}),
        ("model", "m" * 5000),
    ],
)
def test_what_cannot_be_is_refused(kept, key, value):
    _, place = kept("vllm-metrics")
    trace = read_acceptance(place)
    said = dict(trace.provenance.extra[RUNNING_KEY]) | {key: value}
    write_acceptance(with_extra(trace, {RUNNING_KEY: said}), place)
    with pytest.raises(InputError, match=RUNNING_KEY):
        read_running(place)


def test_any_other_recording_is_no_server(tmp_path):
    from traces.library import shipped_traces

    with pytest.raises(InputError, match="holds no counters"):
        read_running(shipped_traces()[0])
