"""The README's and the guide's own examples run, and their promises about themselves hold."""

import json
import os
import re
import shlex
import subprocess
import sys

import pytest

PACKAGES = ("hardware_profiles", "traces", "costmodel", "simulator", "real_runs", "app")


@pytest.fixture(scope="module")
def readme(root):
    return (root / "README.md").read_text()


def test_a_picture_then_a_claim_then_the_installation(readme):
    lines = readme.splitlines()
    assert any(line.startswith("![") for line in lines[:5])
    assert any(re.search(r"\d\.\d", line) for line in lines[:10])
    assert any("make demo" in line for line in lines[:15])


def test_every_link_of_a_readme_leads_somewhere(root):
    for page in (*root.glob("*.md"), *root.glob("*/README.md")):
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), (page, target)


def test_every_folder_has_a_readme(root):
    assert all((root / package / "README.md").is_file() for package in PACKAGES)


def test_the_readme_is_short(readme):
    """A person reads what it is, runs it, and sees how good it is and where to go on."""
    headings = re.findall(r"^## (.*)$", readme, flags=re.MULTILINE)
    assert headings == ["How good is it?", "How it works", "Next"]


def test_the_next_commands_run(readme, tmp_path):
    commands = [
        line.partition("#")[0].strip()
        for line in readme.partition("## Next")[2].splitlines()
        if line.startswith("    rooftree ")
    ]
    code = "from app.cli.main import main; main()"
    assert len(commands) == 5
    for command in commands:
        words = shlex.split(command)[1:]
        words = [*words, "--help"] if words == ["dashboard"] else words
        done = subprocess.run(
            [sys.executable, "-c", code, *words],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            check=False,
        )
        assert done.returncode == 0, (command, done.stderr)


def test_python_blocks_of_the_guide_run(root, tmp_path):
    guide = (root / "GUIDE.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", guide, flags=re.DOTALL)
    assert blocks
    found = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (root, root / "app" / "python")))}
    for block in blocks:
        done = subprocess.run(
            [sys.executable, "-c", block],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=found,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert re.search(r"\d", done.stdout)


def test_the_shown_answer_is_the_answer(readme, tmp_path):
    """The table's numbers are those of the command above it, to the digits shown."""
    command = re.search(r"^    (rooftree optimize .*)$", readme, flags=re.MULTILINE).group(1)
    code = "from app.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *shlex.split(command)[1:], "--out", str(tmp_path), "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    answer = json.loads(done.stdout)
    shown = re.findall(
        r"^\| (\d+) \| (\S+) (\S+) \| ([\d.]+) \| ([\d,]+) \[([\d,]+), ([\d,]+)\] "
        r"\| ([\d.]+) \[([\d.]+), ([\d.]+)\] \| (\S+) (\S+) \| (\d+) % \|$",
        readme,
        flags=re.MULTILINE,
    )
    assert len(shown) == len(answer["cells"]) == 3
    for row, cell in zip(shown, answer["cells"], strict=True):
        best, after = cell["winner"], cell["runner_up"]
        assert row == (
            str(cell["batch"]),
            best["drafter"],
            best["draft"],
            f"{best['tokens_per_step']:.2f}",
            *(f"{rate:,.0f}" for rate in (best["tokens_per_s"], *best["tokens_per_s_interval"])),
            *(f"{gain:.2f}" for gain in (best["speedup"], *best["speedup_interval"])),
            after["drafter"],
            after["draft"],
            f"{100 * cell['lost_ratio']:.0f}",
        )


def test_every_verb_of_the_tables_exists(readme, root):
    pages = "".join(
        page.read_text()
        for page in (root / "README.md", root / "GUIDE.md", root / "app" / "README.md")
    )
    verbs = {shlex.split(match)[1] for match in re.findall(r"`(rooftree [^`]+)`", pages)} - {
        "--help"
    }
    listed = subprocess.run(
        [sys.executable, "-c", "from app.cli.main import main; main()", "--help"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert verbs
    for verb in verbs:
        assert re.search(rf"^  {verb} ", listed, flags=re.MULTILINE), verb
