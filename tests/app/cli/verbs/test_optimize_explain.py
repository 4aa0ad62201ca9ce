"""optimize --explain: why each choice and not its neighbours, on the screen, in the object and in
the report."""

import json

from app.answers.numbers import digits

ASK = (
    "optimize",
    "--model",
    "llama-3.1-8b",
    "--device",
    "h100-sxm",
    "--batch",
    "1,64",
    "--drafter",
    "eagle-3:0.75,0.52,0.38,0.3",
    "--drafter",
    "n-gram:0.5",
)


def test_the_screen_says_it_where_it_is_asked(rooftree, tmp_path):
    plain, explained = (rooftree(*ASK, *more, "--out", tmp_path) for more in ((), ("--explain",)))
    assert "why not its neighbours" not in plain.out and explained.code == 0
    said = " ".join(explained.out.split())
    for words in (
        "why not its neighbours",
        "off loses",
        "fewer tokens",
        "at batch 64 it",
        "nothing longer was compared",
    ):
        assert words in said


def test_explaining_adds_sentences_and_the_winner_alone_is_said_without(rooftree, tmp_path):
    plain, explained = (
        rooftree(*ASK, *more, "--out", tmp_path).out for more in ((), ("--explain",))
    )
    whole = " ".join(explained.split())
    for line in plain.splitlines():
        if not line.startswith(("how sure: ", "  ", "more: ")):
            assert line.strip() in explained or line.strip() in whole, line
    assert "eagle-3: acceptance stated" in plain and "n-gram: acceptance stated" not in plain
    assert "n-gram: acceptance stated" in explained
    assert len(explained.splitlines()) > 1.5 * len(plain.splitlines())


def test_the_first_sentence_is_that_of_the_report(rooftree, tmp_path):
    said = " ".join(rooftree(*ASK, "--out", tmp_path).out.split())
    page = (tmp_path / "report.html").read_text()
    headline = page.partition("<h1>")[2].partition("<span>")[0]
    assert headline.startswith("Run eagle-3 with ") and said.startswith(headline)
    row = rooftree(*ASK, "--out", tmp_path, "--json").answer["choices"][0]
    assert f" {digits(row['tokens_per_s'])} tokens/s, {digits(row['speedup'])}× the speed" in said


def test_the_object_and_the_report_hold_it(rooftree, tmp_path):
    answer = rooftree(*ASK, "--out", tmp_path, "--json").answer
    for cell in answer["cells"]:
        for each in cell["neighbours"]:
            assert sum(each["lost_by"].values()) - each["lost_ratio"] < 1e-9
        assert [each["kind"] for each in cell["neighbours"]].count("drafter") == 1
    page = (tmp_path / "report.html").read_text()
    assert "Why not its neighbours" in page
    kept = json.loads((tmp_path / "recommendation.json").read_text())
    assert kept["cells"] == answer["cells"]


def test_an_answer_that_does_not_say_has_a_report(rooftree, tmp_path):
    """Answers of an earlier release are read back."""
    from app.render.html.report import report_page

    answer = rooftree(*ASK, "--out", tmp_path, "--json").answer
    older = answer | {
        "cells": [
            {k: v for k, v in cell.items() if k not in ("neighbours", "carried")}
            for cell in answer["cells"]
        ]
    }
    assert "Why not its neighbours" not in report_page(older)
