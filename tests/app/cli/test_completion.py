"""Completion of words in a shell, the version, and sections and keys of files that nothing carries."""

import importlib.metadata
import subprocess
import sys

import pytest

from app.cli import completion
from costmodel.engine_library import engine_names
from hardware_profiles.loader import device_names

START = [sys.executable, "-c", "import sys; from app.cli.main import main; sys.exit(main())"]


def completed(monkeypatch, words):
    """What bash is offered for the last of the words."""
    line = f"rooftree {words}"
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
    monkeypatch.setenv("_ROOFTREE_COMPLETE", "complete_bash")
    done = subprocess.run(START, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.stdout.split()


def test_verbs_options_and_names_are_completed(monkeypatch):
    assert completed(monkeypatch, "opti") == ["optimize"]
    assert "--slo-tpot" in completed(monkeypatch, "optimize --slo-")
    assert completed(monkeypatch, "predict --device l40") == ["l40s"]
    assert completed(monkeypatch, "predict --engine vllm,sg") == ["vllm,sglang"]


@pytest.mark.parametrize(("names", "known"), [("devices", device_names()), ("engines", engine_names())])
def test_the_last_part_of_a_list_is_completed(names, known):
    complete = getattr(completion, names)
    assert sorted(complete("")) == sorted(known)
    for name in known:
        assert name in complete(name[:2]) and f"x,{name}" in complete(f"x,{name[:3]}")
    assert complete("no-such-thing") == []


def for_shell(monkeypatch, option, shell):
    """An option of completion for a shell that is named, since none runs this test."""
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    return subprocess.run([*START, option, shell], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_of_a_shell_is_shown(monkeypatch, shell):
    done = for_shell(monkeypatch, "--show-completion", shell)
    assert (done.returncode, done.stderr) == (0, "") and "_ROOFTREE_COMPLETE" in done.stdout


def test_completion_is_installed_for_a_shell(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    done = for_shell(monkeypatch, "--install-completion", "bash")
    assert done.returncode == 0 and "completion installed" in done.stdout
    assert any("_ROOFTREE_COMPLETE" in path.read_text() for path in tmp_path.rglob("*") if path.is_file())


def test_the_version_is_the_distribution_s(rooftree):
    done = rooftree("--version")
    assert (done.code, done.out) == (0, f"rooftree {importlib.metadata.version('rooftree')}\n")


REQUESTS = "requests: {count: 2, rate_per_s: 3, prompt_tokens: 10, output_tokens: 4}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("request: {count: 3}\n", "request: unknown section 'request'; nearest: requests"),
        (
            REQUESTS + "speculaton: {draft_tokens: 3}\n",
            "speculaton: unknown section 'speculaton'; nearest: speculation",
        ),
        (
            REQUESTS + "deployment: {model: gpt2, devise: l4}\n",
            "deployment.devise: unknown key 'devise'; nearest: device",
        ),
        (
            REQUESTS + "deployment: {model: gpt2}\nslo: {tttf_s: 1}\n",
            "slo.tttf_s: unknown key 'tttf_s'; nearest: ttft_s",
        ),
    ],
)
def test_an_unknown_section_or_key_is_answered_with_the_nearest(rooftree, tmp_path, text, said):
    path = tmp_path / "scenario.yaml"
    path.write_text(text)
    done = rooftree("simulate", "--scenario", path)
    assert (done.code, done.out) == (2, "") and f"{path}: {said}" in done.err
    assert rooftree("simulate", "--scenario", path).err.count("\n") == 1


def test_prompts_with_an_unknown_key_are_answered_with_the_nearest(rooftree, tmp_path):
    path = tmp_path / "prompts.toml"
    path.write_text('title = "t"\n[[prompts]]\nid = "a"\nkind = "chat"\ntexts = "hello"\ntext = "hello"\n')
    done = rooftree("record", "--out", tmp_path / "out", "--prompts", path)
    assert done.code == 2 and "prompts.0.texts: unknown key 'texts'; nearest: text" in done.err
