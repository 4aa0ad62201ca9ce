"""Sections and keys of files that nothing carries, and the version."""

import importlib.metadata

import pytest


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
    path.write_text(
        'title = "t"\n[[prompts]]\nid = "a"\nkind = "chat"\ntexts = "hello"\ntext = "hello"\n'
    )
    done = rooftree("record", "--out", tmp_path / "out", "--prompts", path)
    assert done.code == 2 and "prompts.0.texts: unknown key 'texts'; nearest: text" in done.err
