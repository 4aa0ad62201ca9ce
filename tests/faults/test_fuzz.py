"""A slice of the fuzzing that `make fuzz` runs in full, and proof that it would see a fault."""

import random

import pytest

from hardware_profiles.errors import RooftreeError
from tests.faults import fuzz
from tests.faults.targets import targets

CASES = 60
SLOW = {"confidence-bytes": 20, "confidence-command": 6}
"""Cases of targets of which one takes a tenth of a second and more."""


@pytest.fixture(scope="module")
def readers(tmp_path_factory):
    return targets(tmp_path_factory.mktemp("seeds"))


NAMES = [
    "adapters",
    "import",
    "import-json",
    "import-named",
    "requests",
    "traces",
    "request-traces",
    "scenario",
    "sweep",
    "device",
    "model",
    "configuration",
    "tree",
    "words",
    "profile",
    "method",
    "masked-passes",
    "engine-settings",
    "measured-runs",
    "command",
    "confidence-traces",
    "confidence-bytes",
    "confidence-command",
    "running",
    "running-recording",
]


@pytest.mark.parametrize("name", NAMES)
def test_mutated_files_are_read_or_refused(readers, tmp_path, name):
    target = readers[name]
    file = tmp_path / f"case{target.ending}"
    read = 0
    for number in range(SLOW.get(name, CASES)):
        content = target.make(random.Random(f"slice:{name}:{number}"))
        file.write_bytes(
            content
            if isinstance(content, bytes)
            else content.encode("utf-8", errors="surrogatepass")
        )
        try:
            target.play(file)
            read += 1
        except RooftreeError:
            continue
    assert read, "the seeds of a target can be read, so some of its cases can"


def test_every_target_has_its_slice(readers):
    assert {*NAMES} >= {name for name in readers if name != "engine"}


def test_a_run_counts_its_cases_in_a_limited_process(capsys):
    assert fuzz.main(["--cases", "30", "--only", "tree"]) == 0
    said = capsys.readouterr().out
    assert "30 cases, 0 faults" in said and "read" in said


def test_a_fault_is_seen_named_and_kept(tmp_path, monkeypatch):
    """A reader that breaks on every third case: each is a fault, and its file stays."""

    class Broken:
        ending = ".txt"

        @staticmethod
        def make(generator):
            return "x" * generator.randrange(3)

        @staticmethod
        def play(path):
            if path.read_text() == "xx":
                raise KeyError("no such key")

    monkeypatch.setattr("tests.faults.targets.targets", lambda folder: {"broken": Broken})
    monkeypatch.setattr(fuzz, "_limit_memory", lambda: None)
    state = tmp_path / "state.json"
    order = {
        "target": "broken",
        "first": 0,
        "last": 12,
        "seed": 0,
        "folder": str(tmp_path),
        "state": str(state),
        "out": str(tmp_path / "kept"),
    }
    assert fuzz._work(order) == 0
    report = fuzz.json.loads(state.read_text())
    assert report["cases"] == 12 and 0 < len(report["faults"]) < 12
    assert "KeyError: 'no such key'" in report["faults"][0]["what"]
    assert len(list((tmp_path / "kept").iterdir())) == len(report["faults"])
