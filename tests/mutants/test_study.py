"""The lists of seeded defects can be tried: every one applies, and is looked for where its file is tested."""

import ast
import json
import subprocess

import pytest

from tests.mutants import study


@pytest.mark.parametrize("part", study.PARTS)
def test_every_mutant_changes_one_place_of_valid_code(root, part):
    """One that no longer applies says so in a study; here as many must as a share of nine in ten is told from."""
    listed, applied = study.mutants(part), 0
    for mutant in listed:
        text = (root / mutant.file).read_text()
        changed = mutant.changed(text)
        if changed is None:
            continue
        ast.parse(changed)
        assert changed != text, mutant
        looked = study.places(mutant)
        assert len(looked) > 1 and all((root / place).exists() for paths in looked for place in paths), mutant
        applied += 1
    assert applied >= 10
    assert len({(mutant.file, mutant.defect) for mutant in listed}) == len(listed)


def test_a_mutant_whose_text_is_gone_is_stale():
    mutant = study.Mutant(part="replay", file="x.py", defect="d", old="a", new="b")
    assert mutant.changed("a") == "b" and mutant.changed("c") is None and mutant.changed("aa") is None


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A repository of one function with one test, in the place of ours."""
    for name, text in {
        "one.py": "def double(x):\n    return 2 * x\n",
        "tests/test_one.py": "from one import double\n\ndef test_double():\n    assert double(2) == 4\n",
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
    [("2 * x", "3 * x", "normal", "tests/test_one.py::test_double"), ("2 * x", "x + x", "none", ""),
     ("4 * x", "x", "stale", ""), ("def double", "def triple", "normal", "tests/test_one.py")],
)  # fmt: skip
def test_a_defect_is_found_and_one_that_changes_nothing_is_not(small, old, new, suite, test):
    mutant = study.Mutant(part="replay", file="one.py", defect="d", old=old, new=new)
    assert small.tried(mutant) == {"suite": suite, "test": test}
    assert (small.folder / "one.py").read_text() == "def double(x):\n    return 2 * x\n"


def test_a_failure_that_the_unchanged_code_has_too_is_no_find(small):
    (small.folder / "tests" / "test_two.py").write_text("def test_red():\n    assert False\n")
    mutant = study.Mutant(part="replay", file="one.py", defect="d", old="2 * x", new="x + x")
    assert small.tried(mutant) == {"suite": "none", "test": ""}


def test_answers_become_a_table():
    answers = [{"part": "replay", "defect": name, "suite": suite} for name, suite in
               (("a", "fast"), ("b", "normal"), ("c", "none"), ("d", "fast"))]  # fmt: skip
    [_, replay, total] = study.summary(answers)
    assert replay.split() == ["replay", "4", "50%", "75%", "75%", "c"]
    assert total.split()[:5] == ["all", "4", "50%", "75%", "75%"]


def test_known_answers_are_not_tried_again(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(study, "copy_to", lambda folder: None)
    out = tmp_path / "found.jsonl"
    lines = [json.dumps({"file": m.file, "defect": m.defect, "part": "replay", "suite": "normal", "test": "t"})
             for m in study.mutants("replay")]  # fmt: skip
    out.write_text("\n".join(lines) + "\n")
    assert study.main(["--part", "replay", "--out", str(out)]) == 0
    assert "100%" in capsys.readouterr().out
