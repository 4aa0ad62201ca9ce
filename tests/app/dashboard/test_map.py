"""The break-even map: its cut is that of `predict`, and what does not hold is said with what
would."""

import json
import re
import shlex
from dataclasses import replace

import pytest

from app.cli.main import main
from app.dashboard.answers.map import BATCHES, CONTEXTS, answer_map
from app.dashboard.answers.unmet import TITLE
from app.dashboard.state import State

RANKED = "smollm2-135m--early-exit--greedy"


@pytest.fixture
def optimized(capsys, tmp_path):
    """The choice of a command line that the page hands out."""

    def ask(line):
        capsys.readouterr()
        words = [*shlex.split(line)[1:], "--json", "--out", str(tmp_path)]
        assert main(words) == 0
        (choice,) = json.loads(capsys.readouterr().out)["choices"]
        return choice

    return ask


def test_the_best_of_the_cut_through_the_map_is_that_of_optimize(optimized):
    state = State(
        batch=16,
        context=4096,
        method="eagle-3",
        known_by="rate",
        acceptance="0.65",
    )
    answer = answer_map(state)
    choice = optimized(answer.command)
    line = answer.deferred().cards[0].figure["data"][1]
    best = max(range(len(line["y"])), key=line["y"].__getitem__)
    assert (line["x"][best], line["y"][best]) == (
        choice["draft_tokens"],
        pytest.approx(choice["speedup"]),
    )


def test_the_map_holds_the_cut_and_leaves_out_what_does_not_fit():
    answer = answer_map(State(batch=8, context=1024))
    lengths, speedups = (card.figure["data"][0]["z"] for card in answer.cards[:2])
    row, column = CONTEXTS.index(1024), BATCHES.index(8)
    line = answer.deferred().cards[0].figure["data"][1]
    cut = dict(zip(line["x"], line["y"], strict=True))
    assert lengths[row][column] == max(cut, key=cut.__getitem__)
    assert speedups[row][column] == pytest.approx(max(cut.values()))
    assert lengths[-1][-1] is None, "512 requests of 65,536 tokens are too large for any device"
    known = [value for line in speedups for value in line if value is not None]
    assert min(known) >= 1.0 - 1e-12, "off is always among the choices"


def test_no_acceptance_draws_drafting_off_everywhere():
    lengths = (
        answer_map(State(method="eagle-3", known_by="rate", acceptance="0"))
        .cards[0]
        .figure["data"][0]["z"]
    )
    assert {value for line in lengths for value in line} <= {0, None}


def test_a_recording_names_the_method_of_the_map():
    answer = answer_map(State(known_by="recording", trace=RANKED))
    assert "early-exit" in answer.headline
    assert "--acceptance" not in answer.command


@pytest.mark.parametrize(
    ("state", "misses"),
    [
        (State(batch=512, context=8192), "does not fit"),
        (State(batch=64, slo_tpot=4.0), "misses the limits"),
        (State(batch=64, slo_ttft=25.0), "misses the limits"),
        (State(batch=512, context=65536), "does not fit"),
    ],
)
def test_a_point_that_does_not_hold_is_a_marked_row_with_changes_that_do(state, misses):
    answer = answer_map(state)
    assert f"Batch {state.batch} {misses} at context {state.context:,}" in answer.headline
    assert answer.headline.startswith("Within") == (misses == "misses the limits")
    assert answer.numbers[0][1] == misses
    later = answer.deferred()
    assert not later.cards
    ((title, (row,)),) = later.tables
    assert (title, row["batch"]) == (TITLE, state.batch)
    for change in later.changes:
        there = answer_map(replace(state, **change.values))
        assert re.search("(^|[.] )(At|Leave) ", there.headline), change.label
        assert change.label in row["nearest that holds"] and change.label in later.notes[0]
    assert bool(later.changes) == ("nothing" not in row["nearest that holds"])


def test_points_that_miss_a_limit_are_empty_and_those_that_meet_it_are_optimizes(optimized):
    free, limited = (answer_map(State(slo_tpot=limit)) for limit in (0.0, 4.0))
    lengths, kept = (each.cards[0].figure["data"][0]["z"] for each in (free, limited))
    row, own = lengths[CONTEXTS.index(1024)], kept[CONTEXTS.index(1024)]
    assert own[0] == row[0] and own[-1] is None, "512 requests take longer"
    edge = own.index(None)
    words = [
        limited.cards[0].figure["data"][0]["hovertext"][CONTEXTS.index(1024)][at]
        for at in (edge - 1, edge)
    ]
    assert "misses the limits" in words[1] and "misses" not in words[0]
    point = answer_map(State(batch=BATCHES[edge]))
    choice = optimized(point.command)
    assert choice["step_s"] / choice["tokens_per_step"] * 1e3 > 4.0


@pytest.mark.parametrize(("model", "borrowed"), [("llama-3.1-8b", True), ("smollm2-135m", False)])
def test_the_map_says_whose_acceptance_it_is(model, borrowed):
    notes = answer_map(State(known_by="recording", trace=RANKED, model=model)).notes
    assert any("borrowed" in note for note in notes) == borrowed


def test_a_model_that_fits_nowhere_on_its_device_is_a_marked_row():
    answer = answer_map(State(model="llama-3.1-405b", device="l4"))
    assert "no batch and context of the map does" in answer.headline and not answer.cards
    ((_, (row,)),) = answer.deferred().tables
    assert row["nearest that holds"] == "int4 weights with tp 16" and "756" in row["why"]
