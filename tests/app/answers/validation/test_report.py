"""The report of `validate` says the same on the screen and in its file, and not where it lies."""

from pathlib import Path

import pytest

pytest.importorskip("torch")

from app.answers.answer import Table
from app.answers.validation.rows import Errors, ValidationReport, report_inputs
from app.questions.validate import ValidateQuestion
from app.render.files import write_files
from app.render.json import jsonable
from app.render.text import drawn
from real_runs.validation.score import Regret

ERRORS = Errors(
    configurations=4,
    median_error_ratio=0.02,
    p90_error_ratio=0.05,
    step_median_error_ratio=0.02,
    tokens_per_step_median_error_ratio=0.0,
    bias_ratio=-0.01,
    coverage_ratio=0.75,
    median_half_width_ratio=0.1,
    mean_regret_ratio=0.03,
    most_regret_ratio=0.03,
)
REGRET = Regret(
    kind="overlap",
    context=0,
    batch=4,
    chosen="plain",
    best="early-exit-2",
    chosen_tokens_per_s=97.0,
    best_tokens_per_s=100.0,
    plain_tokens_per_s=97.0,
    regret_ratio=0.03,
)


def report(out, **more):
    values = {
        "inputs": {"shape": "smollm2-135m"},
        "about": {},
        "summary": ERRORS,
        "by": {"drafter": {"plain": ERRORS}},
        "regrets": (REGRET,),
        "points": (),
        "costs": {},
        "missing_runs": 2,
        "left_out": ("a cell: no undisturbed run",),
        "out": out,
    }
    return ValidationReport(**(values | more))


def test_a_person_sees_the_errors_the_regret_and_what_was_left_out(tmp_path):
    outcome, groups, lost, left_out, place = report(tmp_path).shown()
    assert outcome.startswith("4 configurations: tokens per second off by 2.0% in the median")
    assert outcome.endswith("What was chosen is 3.0% slower than the best measured, on average.")
    assert isinstance(groups, Table) and drawn(groups).cells == [
        ["plain", "4", "2.0", "5.0", "-1.0%", "75"]
    ]
    assert drawn(lost).cells[0][:3] == ["overlap, as they are, batch 4", "plain", "early-exit-2"]
    assert drawn(lost).cells[0][-1] == "1.00"
    assert drawn(left_out).cells == [["a cell: no undisturbed run"], ["2 runs"]]
    assert place == f"report in {tmp_path / 'validation.json'}"


def test_the_file_has_neither_its_own_place_nor_what_a_mode_does_not_know(tmp_path):
    plain = jsonable(report(tmp_path))
    assert str(tmp_path) not in str(plain) and not {"out", "choices", "doctor"} & set(plain)
    assert plain["by"]["drafter"]["plain"] == plain["summary"] == jsonable(ERRORS)
    card = jsonable(report(tmp_path, profile_file="mine.toml", card_profile=tmp_path / "mine.toml"))
    assert card["profile_file"] == "mine.toml" and "card_profile" not in card


def test_files_of_a_question_stand_by_their_names():
    question = ValidateQuestion(model=Path("/somewhere/tiny.gguf"), out=Path("/somewhere/out"))
    inputs = report_inputs(question, rounds=4)
    assert (inputs["model"], inputs["rounds"]) == ("tiny.gguf", 4)
    assert "somewhere" not in str(inputs)


def test_command_lines_of_a_started_server_are_a_page_beside_it(tmp_path, monkeypatch):
    monkeypatch.setattr("app.render.html.validation_page.plots_available", lambda: False)
    commands = {"plain": "llama-server --model tiny.gguf"}
    write_files(report(tmp_path, about={"commands": commands}), tmp_path / "out")
    page = (tmp_path / "out" / "commands.md").read_text()
    assert "- plain\n\n      llama-server --model tiny.gguf" in page
    assert (tmp_path / "out" / "validation.json").is_file()
