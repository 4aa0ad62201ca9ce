"""The tab key: verbs, options and names complete in a shell, after one command that installs it."""

import os
import subprocess
import sys

import pytest

COMMAND = "import sys; from app.cli.main import main; sys.exit(main())"


def answered(root, folder, **asked):
    """What the command prints where a shell asks it through the environment."""
    done = subprocess.run(
        [sys.executable, "-c", COMMAND],
        env=os.environ | asked | {"PYTHONPATH": str(root)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture
def completed(root, tmp_path):
    """What bash offers for the last of some words."""

    def complete(line):
        at = str(len(line.split(" ")) - 1)
        return set(
            answered(
                root, tmp_path, _ROOFTREE_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=at
            ).split()
        )

    return complete


def test_verbs_and_options_complete(completed):
    assert completed("rooftree opt") == {"optimize"}
    assert completed("rooftree traces i") >= {"import", "inspect"}
    assert completed("rooftree optimize --slo") >= {"--slo-ttft", "--slo-tpot"}


def test_names_complete_and_so_does_the_last_of_a_list(completed):
    assert "h100-sxm" in completed("rooftree optimize --device h1")
    assert completed("rooftree predict --model llama-3.1-8b,qwen3-8") == {"llama-3.1-8b,qwen3-8b"}
    assert "eagle-3" in completed("rooftree breakeven --method eag")


def test_one_command_installs_it(user):
    said = user("rooftree --help").out
    assert "--install-completion" in said and "--show-completion" in said


@pytest.mark.parametrize(
    ("shell", "begins"), [("bash", "complete "), ("zsh", "compdef "), ("fish", "complete ")]
)
def test_the_script_for_a_shell_asks_rooftree(root, tmp_path, shell, begins):
    script = answered(root, tmp_path, _ROOFTREE_COMPLETE=f"source_{shell}")
    assert f"complete_{shell}" in script and "rooftree" in script[script.rindex(begins) :]
