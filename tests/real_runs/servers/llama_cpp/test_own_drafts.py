"""What llama.cpp's events say of its drafts is what its server counts of them."""

import pytest

from hardware_profiles.errors import InputError
from real_runs.servers.llama_cpp.launch import launched
from rooftree.questions import ask_verb
from traces.library import read_trace
from traces.replay.walk import replay_chain

pytestmark = [pytest.mark.model, pytest.mark.heavy]
LOOKED_UP = (
    "--spec-type",
    "ngram-simple",
    "--spec-ngram-simple-size-n",
    "2",
    "--spec-ngram-simple-size-m",
    "4",
)


def recorded(running, out):
    options = {"prompts_per_kind": 1, "max_new_tokens": 32, "users": 2}
    return ask_verb("record", (), {"server": running.url, "out": out, **options})


@pytest.mark.parametrize("drafter", ["ngram-simple", "draft-simple"])
def test_the_servers_counters_are_those_of_the_trace(shipped, few_layers, tmp_path, drafter):
    """Each drafter in turn: one that rarely drafts, and one that drafts in nearly every step."""
    words = ["--model", str(shipped), "--ctx-size", "2048", "--parallel", "2", *LOOKED_UP]
    if drafter == "draft-simple":
        own = ("--spec-draft-model", str(few_layers), "--spec-draft-n-max", "3")
        words[-len(LOOKED_UP) :] = ["--spec-type", drafter, *own]
    with launched(words, folder=tmp_path / "server") as running:
        answer = recorded(running, tmp_path / "run")
    assert answer.checked_by.endswith("which add up to the server's counters")
    assert answer.failed == {} and answer.trace.requests == 6 - sum(answer.left_out.values())
    trace = read_trace(tmp_path / "run" / "acceptance.parquet")
    assert trace.level == 1 and trace.provenance.extra["engine"] == "llama.cpp"
    # a walk at the draft length in use takes the steps that were recorded, and drafts where they did
    replay = replay_chain(trace, trace.provenance.extra["longest_draft_tokens"])
    assert int(replay.steps.sum()) == answer.trace.steps
    assert replay.proposal_ratio * answer.trace.steps == pytest.approx(answer.counts.drafts)


def test_a_server_that_decodes_plainly_is_refused(few_layers, tmp_path):
    words = ["--model", str(few_layers), "--ctx-size", "512", "--parallel", "1"]
    with (
        launched(words, folder=tmp_path / "server") as running,
        pytest.raises(InputError, match=r"without speculative decoding.*--spec-type"),
    ):
        recorded(running, tmp_path / "run")
