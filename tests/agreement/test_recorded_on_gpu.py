"""Where a drafter was recorded on a GPU for the target asked about, every door answers from that
recording, and where it was another target, every door says that it is borrowed.
"""

import json

import pytest

from app.dashboard.answers.hardware import answer_hardware
from app.dashboard.answers.run.page import answer_run
from app.dashboard.question import drafters
from app.dashboard.state import State
from tests.app.conftest import run

PAIRS = {
    ("vicuna-7b", "medusa"): ("gpu/vicuna-7b--medusa--greedy", 43754 / 17058, False),
    ("vicuna-13b", "medusa"): ("gpu/vicuna-13b--medusa--greedy", 44180 / 16743, False),
    ("vicuna-7b-v1.5", "rest"): ("gpu/vicuna-7b-v1.5--rest--greedy", 15980 / 8476, False),
    ("vicuna-7b", "rest"): ("gpu/vicuna-7b-v1.5--rest--greedy", 15980 / 8476, True),
    ("llama-3.1-8b", "medusa"): ("gpu/vicuna-7b--medusa--greedy", 43754 / 17058, True),
}
LOAD = ("--rate", 1, "--prompt-tokens", 128, "--output-tokens", 64)


def said(*words, folder):
    ended = run(*words, "--out", folder, "--json", "--quiet")
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


def shown(*words, folder):
    """What a person is shown; on one line, as tables break lines."""
    ended = run(*words, "--out", folder)
    assert ended.code == 0, ended.err
    return " ".join(ended.out.split())


@pytest.fixture(scope="module", params=PAIRS, ids=lambda pair: f"{pair[1]}-{pair[0]}")
def pair(request):
    return (*request.param, *PAIRS[request.param])


def test_every_verb_answers_from_the_same_recording(pair, tmp_path):
    model, method, name, mean, borrowed = pair
    where = ("--model", model, "--drafter", method)
    predicted = said("predict", *where, "--batch", 1, folder=tmp_path / "p")
    paying = said("breakeven", *where, "--batch", 1, folder=tmp_path / "b")
    planned = said("capacity", *where, *LOAD, folder=tmp_path / "c")
    for answer in (predicted, paying, planned):
        known = answer["acceptance"]
        assert known["source"].endswith(f"{name}.parquet") and known["borrowed"] == borrowed
        assert ("borrowed" in known["label"]) == borrowed
    drafted = predicted["predictions"][-1]
    assert drafted["tokens_per_step"] == pytest.approx(mean, rel=1e-12)
    chosen = said("optimize", *where, "--batch", 1, folder=tmp_path / "o")
    best = chosen["choices"][0]
    assert best["tokens_per_step"] == drafted["tokens_per_step"]
    assert best["tokens_per_s"] == pytest.approx(drafted["tokens_per_s"], rel=1e-9)
    assert paying["points"][0]["tokens_per_step"] == drafted["tokens_per_step"]
    again = said("predict", "--config", tmp_path / "o" / "recommendation.json", folder=tmp_path)
    assert again["predictions"][-1]["tokens_per_s"] == pytest.approx(
        drafted["tokens_per_s"], rel=1e-9
    )


def test_every_door_names_the_recording_and_says_what_is_borrowed(pair, tmp_path):
    model, method, name, _, borrowed = pair
    where = ("--model", model, "--drafter", method)
    lines = {
        "predict": ("predict", *where, "--batch", 1),
        "breakeven": ("breakeven", *where, "--batch", 1),
        "capacity": ("capacity", *where, *LOAD),
        "simulate": ("simulate", *where, "--count", 4, *LOAD),
        "optimize": ("optimize", *where, "--batch", 1),
    }

    for verb, line in lines.items():
        words = shown(*line, folder=tmp_path / verb)
        place = name if verb != "optimize" else name.removeprefix("gpu/")
        assert place in words and ("borrowed from" in words) == borrowed, words


def test_pages_answer_from_the_same_recording(pair):
    model, method, name, _, borrowed = pair
    state = State(model=model, method=method)
    assert drafters(state)[0].recorded_as == name
    for answer in (answer_run(state), answer_hardware(state)):
        notes = " ".join(answer.notes)
        assert f"({name})" in notes and ("is borrowed" in notes) == borrowed


def test_a_simulated_load_emits_the_recorded_mean(tmp_path):
    """Of a mean a recording is drawn, of lengths the recording itself is walked along."""
    for model, method in list(PAIRS)[:3]:
        where = ("--model", model, "--drafter", method)
        load = ("--rate", 2, "--count", 40, "--prompt-tokens", 64, "--output-tokens", 128)
        answer = said("simulate", *where, *load, folder=tmp_path / method)
        emitted = answer["metrics"]["tokens_per_step"]
        assert emitted == pytest.approx(PAIRS[model, method][1], rel=0.06)


def test_other_drafts_are_refused_where_one_was_recorded(tmp_path):
    where = ("--model", "vicuna-7b", "--drafter", "medusa")

    for verb in ("predict", "breakeven", "simulate"):
        ended = run(verb, *where, "--shape", "chain:3", "--out", tmp_path)
        assert ended.code == 2 and "was not recorded" in ended.err, ended.err


def test_numbers_and_traces_that_are_named_go_first(tmp_path):
    where = ("predict", "--model", "vicuna-7b", "--batch", 1, "--drafter")
    stated = said(*where, "medusa:length=2@3", folder=tmp_path / "s")
    assert stated["acceptance"]["kind"] == "stated"
    other = said(*where, "medusa:level-3/smollm2-135m--medusa-heads--greedy", folder=tmp_path / "t")
    assert "smollm2" in other["acceptance"]["source"] and other["acceptance"]["borrowed"]


def test_every_model_of_a_list_takes_its_own_recording(tmp_path):
    listed = said(
        "predict", "--model", "vicuna-7b,vicuna-13b", "--drafter", "medusa", "--batch", 1,
        folder=tmp_path,
    )  # fmt: skip
    means = {row["model"]: row["tokens_per_step"] for row in listed["predictions"]}
    assert means == pytest.approx({"vicuna-7b": 43754 / 17058, "vicuna-13b": 44180 / 16743})
