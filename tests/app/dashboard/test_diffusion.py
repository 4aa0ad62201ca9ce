"""The diffusion page says what the command line says, takes uploads, and refuses in words."""

import json
import shlex
from dataclasses import replace

import numpy as np
import pytest

from app.cli.main import main
from app.dashboard.answers.diffusion import recordings
from app.dashboard.answers.diffusion.page import answer_diffusion
from app.dashboard.answers.diffusion.recommended import (
    asked_policy,
    fallback,
    own_policy,
    recordings_of,
)
from app.dashboard.answers.diffusion.recordings import own_recording
from app.dashboard.controls.widgets import USUAL_RULE
from app.dashboard.state import State, to_query
from app.dashboard.uploads.reading import parsed_confidence
from app.dashboard.wording import error_words
from hardware_profiles.errors import InputError
from tests.traces.toy_masked import ANCHORS, toy_trace
from traces.kinds.refine_policy import COMMIT_RULES
from traces.library import shipped_confidence, shipped_traces, trace_name
from traces.replay.confidence import played
from traces.storage.confidence_file import write_confidence

PAGE = State(page="diffusion")


@pytest.fixture(scope="module")
def toy():
    return toy_trace(ANCHORS, prompts=4, length=32)


@pytest.mark.parametrize(
    "state",
    [
        replace(PAGE, batch=8, cache="dual"),
        replace(PAGE, threshold=0.5, device="a100-sxm-80", context=128),
        replace(PAGE, commit="capped", threshold=0.6, block=16, batch=4),
    ],
)
def test_the_page_says_what_predict_says(capsys, state):
    answer = answer_diffusion(state)
    capsys.readouterr()
    assert main([*shlex.split(answer.command)[1:], "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["predictions"]
    row = next(each for each in told if each["draft_tokens"])
    numbers = dict(answer.numbers)
    assert float(numbers["Tokens per pass"].split()[0]) == pytest.approx(
        row["tokens_per_step"], rel=5e-3
    )
    assert float(numbers["Whole batch"].split()[0].replace(",", "")) == pytest.approx(
        row["tokens_per_s"], rel=5e-3
    )
    assert float(numbers["Against the autoregressive twin"].rstrip("×")) == pytest.approx(
        row["speedup"], rel=5e-3
    )
    drawn = answer.cards[1].figure["data"][0]
    assert drawn["y"][drawn["x"].index(state.batch)] == pytest.approx(row["tokens_per_s"], rel=1e-6)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"batch": 8, "device": "l4", "agreement_ratio": 0.9},
        {"commit": "capped", "block": 16},
        {"threshold": 0.5},
        {"cache": "dual"},
        {"batch": 4, "cache": "dual", "slo_tpot": 40.0},
        {"batch": 4, "cache": "dual", "slo_tpot": 0.5},
    ],
)
def test_what_is_not_chosen_is_what_optimize_recommends(capsys, tmp_path, changes):
    state = replace(PAGE, **changes)
    answer = answer_diffusion(state)
    ((line,),) = [
        [row["command"] for row in rows] for title, rows in answer.tables if "recommends" in title
    ]
    assert line == asked_policy(state, [trace_name(r.path) for r in recordings_of(state)]).line
    capsys.readouterr()
    code = main([*shlex.split(line)[1:], "--json", "--out", str(tmp_path)])
    told = json.loads(capsys.readouterr().out)["choices"]
    assert ("as recommended" in answer.headline) == bool(told) == (code == 0)
    for row in told:
        numbers = dict(answer.numbers)
        assert float(numbers["Whole batch"].split()[0].replace(",", "")) == pytest.approx(
            row["tokens_per_s"], rel=5e-3
        )
        asked = answer.command
        assert f"--block {row['block_tokens']} " in asked and f"--cache {row['cache']}" in asked


def test_what_is_chosen_stays_and_all_chosen_asks_for_no_recommendation(toy):
    chosen = replace(PAGE, commit="capped", threshold=0.6, block=8, cache="none")
    answer = answer_diffusion(chosen, toy)
    assert "recommended" not in answer.headline and len(answer.tables) == 1
    assert to_query(PAGE) == {"page": "diffusion"}
    assert own_policy().commit == USUAL_RULE


def test_bolder_thresholds_commit_more_a_pass_and_agree_less(toy):
    found = [answer_diffusion(replace(PAGE, block=8, threshold=t), toy) for t in (0.99, 0.9, 0.5)]
    tokens = [float(dict(each.numbers)["Tokens per pass"].split()[0]) for each in found]
    agreement = [
        float(dict(each.numbers)["Agreement with one token a pass"].split()[0]) for each in found
    ]
    assert tokens == sorted(tokens) and tokens[0] < tokens[-1]
    assert agreement == sorted(agreement, reverse=True)


def test_the_heat_map_marks_every_commit_once(toy):
    heat, block, commits = (
        answer_diffusion(replace(PAGE, block=8, threshold=0.5, recorded_prompt=3), toy)
        .cards[0]
        .figure["data"]
    )
    assert sorted(commits["x"]) == list(range(1, 33))
    confidence = np.array([[np.nan if v is None else v for v in row] for row in heat["z"]])
    assert confidence.shape == (len(heat["y"]), 32)
    for position, step in zip(commits["x"], commits["y"], strict=True):
        column = confidence[:, position - 1]
        assert np.isfinite(column[:step]).all() and np.isnan(column[step:]).all(), (
            "masked until it is committed"
        )
    assert len(block["x"]) == len(heat["y"])
    assert (np.diff(block["x"]) >= 0).all(), "blocks are finished from left to right"


@pytest.fixture(scope="module")
def searched(toy):
    """The answer for a policy that the grid has not, and what the search says."""
    answer = answer_diffusion(
        replace(PAGE, block=8, threshold=0.62, batch=4, agreement_ratio=0.6), toy
    )
    return answer, answer.deferred()


def test_the_chosen_policy_is_a_point_of_the_front_figure(searched):
    answer, later = searched
    drawn = {each["name"]: each for each in later.cards[0].figure["data"]}
    numbers = dict(answer.numbers)
    (speed,), (agreement,) = drawn["chosen"]["y"], drawn["chosen"]["x"]
    assert speed == pytest.approx(
        float(numbers["Whole batch"].split()[0].replace(",", "")), rel=5e-3
    )
    assert 100 * agreement == pytest.approx(
        float(numbers["Agreement with one token a pass"].split()[0]), abs=0.06
    )
    twin = answer.cards[1].figure["data"][1]
    assert drawn["autoregressive twin"]["y"][0] == pytest.approx(twin["y"][twin["x"].index(4)])
    assert drawn["floor"]["x"] == [0.6, 0.6]


def test_nothing_beats_the_front_in_speed_and_agreement(searched):
    drawn = {each["name"]: each for each in searched[1].cards[0].figure["data"]}
    front, others = (
        list(zip(drawn[name]["x"], drawn[name]["y"], strict=True))
        for name in ("Pareto front", "other policies")
    )
    points = [*front, *others]
    assert len(points) > 10
    assert not any(x > fx and y > fy for fx, fy in front for x, y in points)


def test_the_fastest_policy_agrees_as_asked(searched):
    later = searched[1]
    rows = later.tables[0][1]
    assert all(row["agreement (%)"] >= 60.0 for row in rows)
    assert rows[0]["tokens/s"] == max(row["tokens/s"] for row in rows)
    assert f"{rows[0]['tokens per pass']:.2f} tokens a pass" in later.notes[0]
    assert "would equal the twin" in later.notes[0] or "no pace equals" in later.notes[0]


def test_a_limit_says_who_is_served_and_that_nothing_is_within_it(toy):
    asked = replace(PAGE, agreement_ratio=0.6, slo_tpot=40.0)
    served, fastest = answer_diffusion(asked, toy).deferred().notes[1], []
    users = int(served.split("up to ")[1].split()[0])
    for batch, within in ((users, True), (users + 1, False)):
        answer = answer_diffusion(replace(asked, batch=batch), toy)
        fastest.append(answer.deferred().notes[0])
        assert ("as recommended" in answer.headline) == within
        nothing = "Nothing that is open here reaches agreement 0.6 or more within 40 ms a token"
        assert any(note.startswith(nothing) for note in answer.notes) != within
    assert ["none is within the limit" in note for note in fastest] == [False, True]


def test_a_front_needs_one_token_a_pass(toy):
    alone = toy_trace(ANCHORS[1:], prompts=2, length=32)
    later = answer_diffusion(replace(PAGE, block=8), alone).deferred()
    assert not later.cards and "one token a pass" in later.notes[0]


@pytest.mark.parametrize("commit", COMMIT_RULES)
def test_every_rule_is_answered_or_refused_in_words(toy, commit):
    try:
        answer = answer_diffusion(replace(PAGE, commit=commit, block=8), toy)
    except InputError as error:
        assert COMMIT_RULES[commit].own_anchor, error
        return
    assert commit.replace("_", " ") in answer.headline
    assert len(answer.cards[0].figure["data"][2]["x"]) == 32, "every position is committed"


@pytest.mark.parametrize("commit", COMMIT_RULES)
def test_every_rule_has_a_threshold_that_the_page_can_ask_for(commit):
    policy = fallback(replace(PAGE, commit=commit))
    assert policy.at == {name: about.default for name, about in COMMIT_RULES[commit].at.items()}


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"recorded_prompt": 65}, r"1\.\.64"),
        ({"block": 48}, "divide the canvas"),
        ({"threshold": 4.0}, r"\[0, 1\]"),
        ({"commit": "entropy_bound", "threshold": 0.3}, None),
        ({"cache": "dual", "confidence": "masked-names--plain"}, "as recorded"),
        ({"confidence": "none-such"}, "no shipped"),
    ],
)
def test_what_a_recording_cannot_answer_is_refused_in_words(changes, rule):
    if rule is None:
        assert "nearest recorded states" in " ".join(
            answer_diffusion(replace(PAGE, **changes)).notes
        )
        return
    with pytest.raises(InputError, match=rule) as caught:
        answer_diffusion(replace(PAGE, **changes))
    assert "at.confidence" not in error_words(caught.value)


def test_an_upload_stands_in_for_the_recording(toy, tmp_path):
    write_confidence(toy, tmp_path / "mine.parquet")
    read = parsed_confidence("mine.parquet", (tmp_path / "mine.parquet").read_bytes())
    answer = answer_diffusion(replace(PAGE, block=8), read)
    assert answer.headline == answer_diffusion(replace(PAGE, block=8), toy).headline
    assert "YOUR-FILE" in answer.command
    assert len(answer.tables[0][1]) == len(ANCHORS)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.parquet", b"PAR1 and nothing else PAR1"),
        ("a.json", b"{}"),
        ("a.parquet", b""),
        ("a.parquet", shipped_traces()[0].read_bytes()),
        ("a.parquet", shipped_confidence()[0].read_bytes()[:-100]),
    ],
)
def test_uploads_that_are_no_confidence_trace_are_refused_in_words(name, content):
    with pytest.raises(InputError, match="upload"):
        parsed_confidence(name, content)


def test_a_replay_is_kept_with_its_recording(toy, monkeypatch):
    """Another device, model or batch changes costs alone, on the page and in its search."""
    known, replays = own_recording(toy), []
    several, replayed = played.replay_policies, recordings.replay_policy
    monkeypatch.setattr(
        played, "replay_policies", lambda *args: replays.append(args[1]) or several(*args)
    )
    monkeypatch.setattr(
        recordings, "replay_policy", lambda *args: replays.append(args[1]) or replayed(*args)
    )
    state = replace(PAGE, block=8)
    answer_diffusion(state, known).deferred()
    assert len(replays) >= 2
    for changed in (
        {"device": "a100-sxm-80"},
        {"model": "llama-3.2-1b"},
        {"batch": 4},
        {"context": 2048},
    ):
        del replays[:]
        again = answer_diffusion(replace(state, **changed), known)
        notes = again.deferred().notes
        assert replays == [], changed
        fresh = answer_diffusion(replace(state, **changed), toy)
        assert (again.headline, notes) == (fresh.headline, fresh.deferred().notes)
