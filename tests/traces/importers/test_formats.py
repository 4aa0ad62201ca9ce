"""The table of formats: every reader is found by name and takes what it says."""

import importlib
import json
import subprocess
import sys

import pytest

from hardware_profiles.errors import InputError, UnknownNameError
from traces.importers.formats import READERS, REQUEST_READERS, import_trace, read_trace_any
from traces.kinds.acceptance import AcceptanceTrace
from traces.storage.acceptance_file import write_acceptance


@pytest.fixture
def lengths(tmp_path):
    file = tmp_path / "lengths.json"
    file.write_text(json.dumps({"requests": [{"emitted": [1, 2]}]}))
    return file


def test_every_reader_says_its_format_and_level():
    for name, module in READERS.items():
        text = " ".join(importlib.import_module(module).__doc__.split())
        assert f"`{name}`" in text and "ields level" in text and "cannot know" in text, name
    for name, module in REQUEST_READERS.items():
        assert f"`{name}`" in importlib.import_module(module).__doc__, name


def test_import_by_name(lengths):
    trace = import_trace("position-json", lengths, match_rate=0.5)
    assert trace.emitted.tolist() == [1, 2] and trace.match_rate == 0.5
    assert import_trace("position-json", [lengths]).match_rate is None


def test_refusals(lengths):
    with pytest.raises(UnknownNameError, match="position-json"):
        import_trace("position", lengths)
    for paths in ([], [lengths, lengths]):
        with pytest.raises(InputError, match="takes 1 to 1 files"):
            import_trace("position-json", paths)
    with pytest.raises(InputError, match="drafter"):
        import_trace("position-json", lengths, drafter="eagle")
    with pytest.raises(InputError, match="match_rate"):
        import_trace("vllm-log", lengths, match_rate=0.5)
    with pytest.raises(InputError, match="no such option"):
        import_trace("position-json", lengths, path="x")
    for name in READERS:
        with pytest.raises(InputError, match="no such file"):
            import_trace(name, lengths.with_name("absent"))


def test_read_any(lengths, tmp_path):
    assert read_trace_any(lengths).emitted.tolist() == [1, 2]
    file = tmp_path / "trace.parquet"
    write_acceptance(AcceptanceTrace(offsets=[0, 1], emitted=[3]), file)
    assert read_trace_any(file).emitted.tolist() == [3]
    assert read_trace_any(file, match_rate=0.25).match_rate == 0.25
    write_acceptance(AcceptanceTrace(offsets=[0, 1], emitted=[3], drafted=[2]), file)
    assert read_trace_any(file, match_rate=0.25).match_rate is None
    (tmp_path / "server.log").write_text("all is well")
    with pytest.raises(InputError, match="reads it with --format"):
        read_trace_any(tmp_path / "server.log")
    with pytest.raises(InputError, match="no SpecDecoding"):
        read_trace_any(lengths, "vllm-log")


def test_readers_and_parquet_load_only_when_used():
    code = (
        "import sys, traces.importers.formats; print([m for m in sys.modules if m in {'pyarrow',"
        " 'numba'}])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
