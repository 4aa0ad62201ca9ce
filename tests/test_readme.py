"""The README's own examples run, and its promises about itself hold."""

import json
import re
import shlex
import subprocess
import sys

import pytest


@pytest.fixture(scope="module")
def readme(root):
    return (root / "README.md").read_text()


def test_install_by_line_20_and_a_number_by_line_25(readme):
    lines = readme.splitlines()
    assert any("make demo" in line for line in lines[:20])
    assert any(re.search(r"\d\.\d", line) for line in lines[:25])


def test_python_blocks_run(readme, root):
    blocks = re.findall(r"```python\n(.*?)```", readme, flags=re.DOTALL)
    assert blocks
    for block in blocks:
        done = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True, cwd=root, check=False)
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
        r"^    n-gram  batch +(\d+)  K=(\d+) +([\d.]+) .*? +([\d.]+) tokens/s .*?  "
        r"([\d.]+) \[([\d.]+), ([\d.]+)\]  (\w+)$",
        readme,
        flags=re.MULTILINE,
    )
    assert len(shown) == len(answer["choices"]) == 3
    for (batch, k, tokens, rate, speedup, low, high, limit), choice in zip(shown, answer["choices"], strict=True):
        assert (int(batch), int(k), limit) == (choice["batch"], choice["draft_tokens"], choice["limit"])
        assert f"{choice['tokens_per_step']:.2f}" == tokens
        assert float(f"{choice['tokens_per_s']:.{len(rate)}g}") == float(rate)
        assert f"{choice['speedup']:.2f}" == speedup
        assert [f"{bound:.2f}" for bound in choice["speedup_interval"]] == [low, high]


def test_every_verb_of_the_table_exists(readme):
    verbs = {shlex.split(match)[1] for match in re.findall(r"`(rooftree [^`]+)`", readme)}
    listed = subprocess.run(
        [sys.executable, "-c", "from app.cli.main import main; main()", "--help"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert verbs
    for verb in verbs:
        assert re.search(rf"^  {verb} ", listed, flags=re.MULTILINE), verb
