"""A method that drafts with layers that the target's checkpoint lacks is priced, as a question before
training, and every verb says that nobody can run it as published."""

import pytest

ASKED = {
    "predict": ("--draft-tokens", "3", "--batch", "1"),
    "optimize": ("--batch", "1"),
    "breakeven": ("--batch", "1"),
    "capacity": ("--users", "4", "--prompt-tokens", "256", "--output-tokens", "32"),
    "simulate": ("--rate", "2", "--count", "8", "--output-tokens", "16"),
}
OWN = ("--draft-name", "ours", "--draft-passes", "3", "--draft-bytes", "350MB")


@pytest.fixture
def said(rooftree, tmp_path):
    def said(verb, model, drafter, *more):
        out = ("--out", tmp_path) if verb == "optimize" else ()
        words = ("--model", model, "--drafter", drafter, *ASKED[verb], *more, *out)
        return " ".join(rooftree(verb, *words).out.split())

    return said


@pytest.mark.heavy
@pytest.mark.parametrize("verb", ASKED)
@pytest.mark.parametrize("drafter", ["mtp", "mtp:0.8"])
def test_every_verb_says_that_a_checkpoint_lacks_what_drafts(said, verb, drafter):
    lacking = "nobody can run it as published: the checkpoint of llama-3.1-8b holds no layers"
    assert lacking in said(verb, "llama-3.1-8b", drafter)


@pytest.mark.heavy
@pytest.mark.parametrize("verb", ["predict", "optimize", "breakeven", "capacity"])
def test_nothing_is_said_of_a_drafter_that_somebody_describes(said, verb):
    shown = said(verb, "llama-3.1-8b", "mtp:0.8", *OWN)
    assert shown and "nobody can run it" not in shown


def test_nothing_is_said_where_the_checkpoint_or_the_reader_has_the_layers(said):
    for model, more in (("deepseek-v3", ("--tp", "8", "--device", "h200-sxm")), ("kimi-k2", ())):
        head = () if more else ("--draft", "org/a-head", "--tp", "16", "--device", "b200-sxm")
        shown = said("predict", model, "mtp:0.8", *more, *head)
        assert "mtp" in shown and "nobody can run it" not in shown
