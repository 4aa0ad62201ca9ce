"""`rooftree methods`: explanations, citations and coverage on the command line."""

import csv
import re
from collections import Counter

from costmodel.method_library import method_names


def test_one_method_is_explained(rooftree):
    shown = rooftree("methods", "ppd").out
    assert "ride on the verify pass" in shown and "arXiv:2405.18628" in shown
    assert "Predictions refuse it" in rooftree("methods", "hades").out


def test_a_group_is_listed_by_its_name(rooftree):
    done = rooftree("methods", "tree-drafters", "--json").answer
    assert {entry["group"] for entry in done["methods"]} == {"tree drafters"}
    assert len(done["methods"]) > 3
    assert "eagle-3" in rooftree("methods", "tree-drafters").out


def test_coverage_is_a_table_and_a_file(rooftree, tmp_path):
    file = tmp_path / "coverage.csv"
    answer = rooftree("methods", "--coverage", "--csv", str(file), "--json").answer
    with file.open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    assert [row["system"] for row in rows] == [row["system"] for row in answer["coverage"]]
    assert answer["counts"] == Counter(row["status"] for row in rows)
    (one,) = rooftree("methods", "sarathi", "--coverage", "--json").answer["coverage"]
    assert one["status"] == "works" and "test_schedules_of_chunked_prompts" in one["detail"]


def test_citations_are_bibtex(rooftree):
    assert rooftree("methods", "eagle-3", "--bibtex").out.startswith("@misc{eagle-3,")
    cited = rooftree("methods", "--bibtex", "--json").answer["bibtex"]
    assert re.findall(r"^@misc\{(.*),$", cited, re.MULTILINE) == [*method_names()]


def test_a_system_without_a_price_is_refused_with_its_reason(rooftree):
    for verb in ("predict", "optimize"):
        told = rooftree(verb, "--model", "llama-3.1-8b", "--method", "hades")
        assert told.code == 2 and "out of scope" in told.err


def test_an_entry_with_its_own_pace_needs_no_number(rooftree):
    asked = ("predict", "--model", "llada-8b", "--method", "fast-dllm", "--batch", "1", "--json")
    own, stated = rooftree(*asked).answer, rooftree(*asked, "--tokens-per-step", "2.77").answer
    assert own["predictions"] == stated["predictions"]
    assert [row["tokens_per_step"] for row in own["predictions"]] == [1.0, 2.77]


def test_simulations_run_no_method_that_sets_its_own_pace(rooftree):
    stated = ("--set", "speculation.acceptance=0.7", "--set", "speculation.draft_tokens=3")
    told = rooftree(
        "simulate", "--model", "llama-3.1-8b", "--set", "speculation.method=h-net", *stated
    )
    assert told.code == 2 and "rooftree predict" in told.err
