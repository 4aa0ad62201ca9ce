"""Two recordings side by side: the sentence, the interval and the table say what the command line
says."""

import dataclasses
import json
import shlex

import numpy as np
import pytest

from app.cli.main import main
from app.dashboard.answers.trace.page import answer_trace
from app.dashboard.answers.trace.pair import pair_of, pair_words
from app.dashboard.state import State, from_query
from tests.app.conftest import lookup_trace, rank_trace
from traces.library import read_trace, recordings
from traces.replay.walk import replay_chain

RANKED = "smollm2-135m--early-exit--greedy"
LENGTHS = "smollm2-135m--prompt-lookup--greedy"


def test_the_table_is_that_of_traces_compare(capsys):
    answer = answer_trace(State(page="trace", trace=RANKED, other_trace=LENGTHS, draft_tokens=4))
    capsys.readouterr()
    assert main([*shlex.split(answer.command)[1:], "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["rows"]
    title, rows = answer.tables[0]
    assert title.startswith("Side by side")
    ours = [row[f"{name}: tokens per step"] for name in (RANKED, LENGTHS) for row in rows]
    assert ours == pytest.approx([row["tokens_per_step"] for row in told], abs=6e-4)
    assert answer.headline.startswith((RANKED, LENGTHS)) and "80 %" in answer.headline


@pytest.mark.parametrize(
    "name", [name for name in recordings() if name.startswith("level-3-trees/")][:2]
)
def test_recordings_of_folders_are_replayed_and_named_for_the_command_line(capsys, name):
    state, wrong = from_query({"page": "trace", "trace": name, "draft_tokens": "4"})
    answer = answer_trace(state)
    assert (
        not wrong
        and answer.headline.startswith(f"{name}: ")
        and dict(answer.numbers)["Level"] == "3"
    )
    capsys.readouterr()
    assert main([*shlex.split(answer.command)[1:], "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (
        f'"tokens_per_step": {replay_chain(read_trace(recordings()[name]), 4).tokens_per_step}'
        in json.dumps(told)
    )


def test_a_recording_that_is_not_shipped_is_left_out_of_a_link():
    for name in ("level-3/no-such", "../level-3/x", "confidence/llada"):
        assert from_query({"page": "trace", "trace": name})[1], name


def test_a_recording_beside_itself_is_no_better():
    trace = rank_trace()
    pair = pair_of(trace, dataclasses.replace(trace), 4, seed=0)
    assert pair.paired
    assert (pair.ratio, *pair.ratio_interval) == pytest.approx((1.0, 1.0, 1.0))
    assert "turn that round" in pair_words(["a", "b"], pair, 4)


def test_the_same_prompts_are_drawn_together():
    """Noise that both share leaves the ratio: its interval is narrower than that of prompts drawn
    apart."""
    trace = lookup_trace()
    other = dataclasses.replace(trace, emitted=np.maximum(trace.emitted - 1, 1))
    renamed = dataclasses.replace(other, request_ids=tuple(f"x{n}" for n in range(other.requests)))
    together, apart = (pair_of(trace, each, 8, seed=0) for each in (other, renamed))
    assert together.paired and not apart.paired
    assert together.ratio == apart.ratio > 1.0
    widths = [each.ratio_interval[1] - each.ratio_interval[0] for each in (together, apart)]
    assert widths[0] < widths[1]


def test_the_better_one_is_named_first_whichever_it_is():
    first, second = rank_trace(), lookup_trace()
    one, other = pair_of(first, second, 4, seed=0), pair_of(second, first, 4, seed=0)
    words = [pair_words(["a", "b"], one, 4), pair_words(["b", "a"], other, 4)]
    assert words[0].split(" emits")[0] == words[1].split(" emits")[0]
    assert one.ratio == pytest.approx(1 / other.ratio)
