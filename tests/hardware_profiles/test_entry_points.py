"""Objects that installed packages provide: a tiny package of every kind, and one that is broken."""

import logging
import os
import subprocess
import sys

import pytest

from hardware_profiles.entry_points import provided

MODULE = """
from dataclasses import replace

from costmodel.engine_library import load_engine
from costmodel.method_library import load_method
from hardware_profiles.loader import load_device
from traces.importers.recognition import Format

DEVICE = replace(load_device("l4"), name="toy-card", title="Toy card")
FORMAT = Format(name="toy-log", claims=lambda sample: "toy" in sample.text, read=print)


def method():
    from costmodel.citation import Citation

    labels = dict(slug="toy-head", title="Toy head", citation=Citation(title="Toy"), reported=())
    return replace(load_method("eagle-3"), engines={}, **labels)


def engine():
    return replace(load_engine("vllm"), name="toy-engine", aliases=())


def published():
    return replace(load_method("eagle-3"), host_s=1.0)
"""
ENTRY_POINTS = """
[rooftree.methods]
toy = toy_package:method
taken = toy_package:published
absent = no_such_module:METHOD
other = toy_package:DEVICE
[rooftree.engines]
toy = toy_package:engine
[rooftree.devices]
toy = toy_package:DEVICE
[rooftree.importers]
toy = toy_package:FORMAT
"""
ASKED = """
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.engine_library import engine_names, load_engine
from costmodel.method_library import load_method, method_names
from hardware_profiles.loader import device_names, load_device
from traces.importers.formats import acceptance_formats, format_named

assert "toy-head" in method_names() and load_method("toy-head").title == "Toy head"
assert load_method("eagle-3").host_s == 0.0
assert "toy-card" in device_names() and load_device("Toy Card").title == "Toy card"
assert "toy-engine" in engine_names() and load_engine("toy-engine").options is None
assert "toy-log" in acceptance_formats() and format_named("toy-log").read is print
where = DeploymentNames(model="llama-3.1-8b", device="toy-card", engine="toy-engine")
chosen = DecodingConfiguration(method="toy-head", deployment=where)
assert build_setting(chosen).deployment.device.name == "toy-card"
assert chosen.to_json()["entry"]["slug"] == "toy-head"
"""


@pytest.fixture
def package(tmp_path):
    """The folder of an installed package, as pip leaves it."""
    about = tmp_path / "toy_package-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-package\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRY_POINTS)
    (tmp_path / "toy_package.py").write_text(MODULE)
    return tmp_path


@pytest.mark.heavy
def test_what_packages_provide_is_known_by_name_and_what_is_broken_is_said(package):
    path = os.pathsep.join([str(package), *filter(None, sys.path)])
    asked = subprocess.run(
        [sys.executable, "-c", ASKED],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert asked.returncode == 0, asked.stderr
    absent, other, taken = sorted(asked.stderr.splitlines())
    assert absent == (
        "toy-package: entry point absent of rooftree.methods is left out: ModuleNotFoundError:"
        " No module named 'no_such_module'"
    )
    assert other.endswith("is of type Device, not Method")
    assert "is the name of a published method" in taken


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("raise SystemExit('bye')", "SystemExit: bye"),
        ("import no_such_module", "ModuleNotFoundError"),
        ("NAME = 3", "is of type int, not str"),
        ("def NAME():\n    return 1 / 0", "ZeroDivisionError"),
        ("NAME = 'refused'", "ValueError: cannot be"),
    ],
)
def test_a_broken_entry_point_is_one_line(source, reason, tmp_path, monkeypatch, caplog):
    about = tmp_path / "broken-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[toys]\nfirst = broken_toy:NAME\n")
    (tmp_path / "broken_toy.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "broken_toy", raising=False)

    def check(name):
        if name == "refused":
            raise ValueError("cannot be\ntaken in")

    with caplog.at_level(logging.WARNING, logger="rooftree"):
        assert list(provided("toys", str, check)) == []
    (record,) = caplog.records
    line = record.getMessage()
    assert line.startswith("broken: entry point first of toys is left out: ") and reason in line
    assert "\n" not in line
