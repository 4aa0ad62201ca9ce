"""The repository keeps its own rules: folders, sizes, imports, words."""

import ast
import re
import subprocess

import pytest

PACKAGES = ("hardware_profiles", "traces", "costmodel", "simulator", "real_runs", "app")
FORBIDDEN_NAMES = re.compile(r"(^|_)(utils?|helpers?|manager)(_|$)")


def tracked(root):
    listed = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    return [root / line for line in listed.stdout.splitlines() if (root / line).is_file()]


def test_top_level_folders_are_the_fixed_ones(root):
    folders = {path.relative_to(root).parts[0] for path in tracked(root) if len(path.relative_to(root).parts) > 1}
    assert {name for name in folders if not name.startswith(".")} <= {*PACKAGES, "tests"}


def test_files_are_small_and_well_named(root):
    for path in tracked(root):
        if path.suffix != ".py":
            continue
        assert len(path.read_text().splitlines()) <= 400, path
        assert not FORBIDDEN_NAMES.search(path.stem), path


def test_every_module_says_what_it_is_for(root):
    for package in PACKAGES:
        for path in (root / package).rglob("*.py"):
            assert ast.get_docstring(ast.parse(path.read_text())), path


def test_nothing_under_app_bears_a_top_level_name(root):
    for path in (root / "app").rglob("*.py"):
        if path.parent.name != "cli":
            assert path.stem not in PACKAGES, path


def test_invariants_name_tests_that_exist(root):
    """Every test named in INVARIANTS.md is defined somewhere below tests/."""
    text = (root / "tests" / "INVARIANTS.md").read_text()
    named = set(re.findall(r"`(test_\w+)`", text))
    defined = set()
    for path in (root / "tests").rglob("test_*.py"):
        defined |= set(re.findall(r"def (test_\w+)", path.read_text()))
    assert len(named) >= 30
    assert named <= defined, sorted(named - defined)
