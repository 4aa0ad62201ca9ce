"""The lists of seeded defects can be tried, and the table says which suite finds each, by a test
that is there."""

import ast
import re
import subprocess
from collections import Counter

import pytest

from tests.mutants import study


@pytest.mark.parametrize("part", study.PARTS)
def test_every_mutant_changes_one_place_of_valid_code(root, part):
    """One that no longer applies says so in a study; here as many must as a share of nine in ten is
    told from."""
    listed, applied = study.mutants(part), 0
    for mutant in listed:
        text = (root / mutant.file).read_text()
        changed = mutant.changed(text)
        if changed is None:
            continue
        ast.parse(changed)
        assert changed != text, mutant
        looked = study.places(mutant)
        assert len(looked) > 1 and all(
            (root / place).exists() for paths in looked for place in paths
        ), mutant
        applied += 1
    assert applied >= 10
    assert len({(mutant.file, mutant.defect) for mutant in listed}) == len(listed)


def test_a_mutant_whose_text_is_gone_is_stale():
    mutant = study.Mutant(part="replay", file="x.py", defect="d", old="a", new="b")
    assert (
        mutant.changed("a") == "b" and mutant.changed("c") is None and mutant.changed("aa") is None
    )


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A repository of one function with one test, in the place of ours."""
    for name, text in {
        "one.py": "def double(x):\n    return 2 * x\n",
        "tests/test_one.py": (
            "from one import double\n\ndef test_double():\n    assert double(2) == 4\n"
        ),
        "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["."]\nmarkers = ["slow"]\n',
    }.items():
        (tmp_path / "from" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "from" / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path / "from", check=True)
    monkeypatch.setattr(study, "ROOT", tmp_path / "from")
    monkeypatch.setattr(study, "AROUND", {"replay": ()})
    monkeypatch.setattr(study, "SUITES", {"normal": ("-m", "not slow"), "slow": ("-m", "slow")})
    (tmp_path / "to").mkdir()
    study.copy_to(tmp_path / "to")
    return study.Copy(tmp_path / "to")


@pytest.mark.parametrize(
    ("old", "new", "suite", "test"),
    [
        ("2 * x", "3 * x", "normal", "tests/test_one.py::test_double"),
        ("2 * x", "x + x", "none", ""),
        ("4 * x", "x", "stale", ""),
        ("def double", "def triple", "normal", "tests/test_one.py"),
    ],
)
def test_a_defect_is_found_and_one_that_changes_nothing_is_not(small, old, new, suite, test):
    mutant = study.Mutant(part="replay", file="one.py", defect="d", old=old, new=new)
    assert small.tried(mutant) == {"suite": suite, "test": test}
    assert (small.folder / "one.py").read_text() == "def double(x):\n    return 2 * x\n"


def test_a_failure_that_the_unchanged_code_has_too_is_no_find(small):
    (small.folder / "tests" / "test_two.py").write_text("def test_red():\n    assert False\n")
    mutant = study.Mutant(part="replay", file="one.py", defect="d", old="2 * x", new="x + x")
    assert small.tried(mutant) == {"suite": "none", "test": ""}


def test_answers_become_a_table():
    answers = [
        {"part": "replay", "defect": name, "suite": suite}
        for name, suite in (("a", "fast"), ("b", "normal"), ("c", "none"), ("d", "fast"))
    ]
    [_, replay, total] = study.summary(answers)
    assert replay.split() == ["replay", "4", "50%", "75%", "75%", "c"]
    assert total.split()[:5] == ["all", "4", "50%", "75%", "75%"]


def test_a_row_whose_test_no_longer_finds_it_is_searched_for_anew(small):
    (small.folder / "tests" / "test_two.py").write_text("def test_green():\n    assert True\n")
    mutant = study.Mutant(part="replay", file="one.py", defect="d", old="2 * x", new="3 * x")
    known = {"suite": "slow", "test": "tests/test_two.py::test_green"}
    assert small.tried(mutant, known) == {
        "suite": "normal",
        "test": "tests/test_one.py::test_double",
    }


def test_a_study_writes_a_row_for_every_defect_and_keeps_those_of_other_parts(
    small, tmp_path, monkeypatch, capsys
):
    one = study.Mutant(part="replay", file="one.py", defect="d", old="2 * x", new="3 * x")
    other = study.Mutant(part="scheduler", file="one.py", defect="e", old="2 * x", new="x")
    monkeypatch.setattr(
        study, "mutants", lambda part: [each for each in (one, other) if each.part == part]
    )
    table = tmp_path / "found.csv"
    kept = {
        "part": "scheduler",
        "file": "one.py",
        "defect": "e",
        "suite": "slow",
        "test": "tests/test_one.py::test_e",
    }
    gone = kept | {"defect": "of no list"}
    study.write_table(table, {("one.py", "e"): kept, ("one.py", "of no list"): gone})
    found = kept | {
        "part": "replay",
        "defect": "d",
        "suite": "normal",
        "test": "tests/test_one.py::test_double",
    }
    for places in (study.places, lambda *_: pytest.fail("its test alone is tried again")):
        monkeypatch.setattr(study, "places", places)
        assert study.main(["--part", "replay", "--table", str(table)]) == 0
        assert list(study.read_table(table).values()) == [found, kept]
    assert "100%" in capsys.readouterr().out


def test_the_table_has_a_row_for_every_defect_and_the_suite_finds_nine_in_ten():
    rows = study.read_table()
    listed = {
        (mutant.file, mutant.defect): mutant
        for part in study.PARTS
        for mutant in study.mutants(part)
    }
    assert rows.keys() == listed.keys()
    assert all(row["part"] == listed[key].part for key, row in rows.items())
    suites = Counter(row["suite"] for row in rows.values())
    assert set(suites) <= {*study.SUITES, "none"}
    assert suites["fast"] + suites["normal"] >= 0.9 * len(rows)


def test_the_tests_that_the_table_names_are_there_and_in_their_suite(root):
    conftest = ast.parse((root / "tests" / "conftest.py").read_text())
    known = {
        each.targets[0].id: each.value for each in conftest.body if isinstance(each, ast.Assign)
    }
    folders, left_out = (ast.literal_eval(known[name]) for name in ("FAST", "LEFT_OUT"))
    for row in study.read_table().values():
        if row["suite"] == "none":
            continue
        file, _, name = row["test"].partition("::")
        module = ast.parse((root / file).read_text())
        own = next(
            (each for each in module.body if name and name_of(each) == re.split(r"\[|::", name)[0]),
            None,
        )
        assert own is not None, row
        marks = {
            mark
            for each in (own, *module.body)
            if each is own or name_of(each) == "pytestmark"
            for mark in marked(each)
        }
        assert ("slow" in marks) == (row["suite"] == "slow"), row
        if row["suite"] == "fast":
            assert any(
                file.startswith(f"tests/{folder}/") for folder in folders
            ) and not marks & set(left_out), row


def name_of(statement):
    """What a statement of a module defines."""
    assigned = isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)
    return statement.targets[0].id if assigned else getattr(statement, "name", None)


def marked(statement):
    """Marks that a test's decorators, or the marks of a module, name."""
    parts = getattr(statement, "decorator_list", [statement])
    return {mark for each in parts for mark in re.findall(r"mark\.(\w+)", ast.unparse(each))}
