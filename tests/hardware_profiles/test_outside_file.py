"""Files from outside: regular ones alone, at most so many bytes, and nothing waits for a pipe's
writer."""

import os

import pytest

from app.answers.sweep.file import read_sweep
from app.questions.record_files import read_records
from costmodel.architectures.gguf.header import read_header
from costmodel.architectures.hf.files import json_object
from costmodel.calibration.tables import read_measurements
from costmodel.configuration.file import read_configuration
from costmodel.engines.record.file import parse_engine_file
from costmodel.optimizers.acceptance_vectors import read_acceptance as read_vectors
from hardware_profiles.errors import InputError
from hardware_profiles.loader import load_device
from hardware_profiles.outside_file import open_regular, read_bounded
from real_runs.campaigns.file import read_campaign
from simulator.scenario.file import read_scenario
from traces.importers.formats import read_requests_any
from traces.kinds.tree import read_tree
from traces.library import read_trace
from traces.storage.confidence_file import read_confidence

READERS = {
    "acceptance": (read_vectors, ".json"),
    "campaign": (read_campaign, ".yaml"),
    "confidence": (read_confidence, ".parquet"),
    "configuration": (read_configuration, ".json"),
    "device": (load_device, ".toml"),
    "engine": (parse_engine_file, ".toml"),
    "gguf": (read_header, ".gguf"),
    "kernels": (read_measurements, ".csv"),
    "model": (json_object, ".json"),
    "requests": (read_requests_any, ".csv"),
    "rows": (read_records, ".csv"),
    "scenario": (read_scenario, ".yaml"),
    "sweep": (read_sweep, ".yaml"),
    "trace": (read_trace, ".parquet"),
    "tree": (read_tree, ".json"),
}
UNTRUSTED = ("pipe", "loop", "folder", "device")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    if not hasattr(os, "mkfifo"):
        pytest.skip("no pipes with names here")

    def of(kind, ending):
        path = tmp_path_factory.mktemp(kind) / f"given{ending}"
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "folder":
            path.mkdir()
        else:
            path.symlink_to(path if kind == "loop" else "/dev/zero")
        return path

    return of


@pytest.mark.parametrize("kind", UNTRUSTED)
@pytest.mark.parametrize("name", READERS)
def test_every_reader_refuses_what_is_no_regular_file(place, name, kind):
    read, ending = READERS[name]
    with pytest.raises(InputError, match=r"regular file|Too many levels"):
        read(place(kind, ending))


def test_a_file_is_read_up_to_its_limit(tmp_path):
    path = tmp_path / "given"
    path.write_bytes(b"12345")
    assert read_bounded(path, 5) == b"12345"
    with pytest.raises(InputError, match="must be at most 4 bytes") as caught:
        read_bounded(path, 4)
    assert caught.value.file == str(path)


@pytest.mark.parametrize(
    ("name", "said"),
    [("absent", "no such file"), ("x" * 5000, "cannot be read"), ("a\x00b", "cannot be read")],
)
def test_a_name_that_leads_nowhere_is_refused(tmp_path, name, said):
    with pytest.raises(InputError, match=said):
        open_regular(tmp_path / name)


def test_what_became_a_pipe_is_refused(tmp_path, monkeypatch):
    """Between the look and the opening: the open file itself is looked at."""
    path, other = tmp_path / "given", tmp_path / "file"
    other.write_bytes(b"")
    os.mkfifo(path)
    state = other.stat()
    monkeypatch.setattr(os, "stat", lambda *given, **options: state)
    with pytest.raises(InputError, match="regular file"):
        open_regular(path)
