"""Modules that lie where a user happens to stand never take the place of ours or of the
libraries'."""

import ast
import json

import pytest

from real_runs.campaigns.process import StopSignal, run_child

PACKAGES = ("app", "costmodel", "hardware_profiles", "real_runs", "simulator", "traces")


@pytest.fixture
def among_shadows(tmp_path, monkeypatch):
    folder = tmp_path / "work"
    folder.mkdir()
    for name in ("json", "real_runs", "torch", "numpy"):
        (folder / f"{name}.py").write_text("raise SystemExit('shadowed')\n")
    monkeypatch.chdir(folder)
    return tmp_path


def test_a_job_imports_what_is_installed(among_shadows):
    run_child(
        {"a": 1},
        among_shadows,
        module="json.tool",
        title="t",
        limit_s=60,
        stop=StopSignal(),
        lock=None,
    )  # a module of Python's own, which imports the name that is shadowed
    log = (among_shadows / "log.txt").read_text()
    assert json.loads(log.removeprefix("== t\n")) == {"a": 1}


def test_no_process_of_ours_looks_for_modules_where_the_user_stands(root):
    """A rule of form, for processes that no test starts: a word list that begins with an interpreter
    and runs a module has -P, which leaves the folder out."""
    seen = 0
    for file in (path for package in PACKAGES for path in (root / package).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if (
                isinstance(node, ast.List)
                and node.elts
                and not isinstance(node.elts[0], ast.Constant)
            ):
                words = [each.value for each in node.elts if isinstance(each, ast.Constant)]
                if "-m" in words:
                    seen += 1
                    assert words[0] == "-P", f"{file}:{node.lineno}"
    assert seen >= 6
