"""What verbs say, word for word but for the numbers, and laws beside it that hold whatever the
numbers are."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

from app.answers.numbers import fixed, plain, ranged
from app.answers.sentences import WIDEST

FOLDER = Path(__file__).parent
_SPEC = importlib.util.spec_from_file_location("golden_outputs", FOLDER / "regenerate_outputs.py")
golden = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(golden)
NO_TABLES = ("help", "export", "acceptance", "methods")
TABLES = [case for case in golden.CASES if case not in NO_TABLES]


@pytest.fixture(scope="module")
def outputs():
    return {case: golden.ended(case) for case in golden.CASES}


@pytest.mark.parametrize("case", golden.CASES)
def test_outputs_are_the_committed_ones(outputs, case):
    code, out, err = outputs[case]
    now = f"exit code {code}\n{golden.without_numbers(out)}{golden.without_numbers(err)}"
    assert now == (FOLDER / "outputs" / f"{case}.txt").read_text(), (
        "`make golden` shows and writes what changed"
    )


@pytest.mark.parametrize("case", golden.CASES)
def test_numbers_are_plain_and_errors_one_line(outputs, case):
    code, out, err = outputs[case]
    assert code == (3 if case == "predict-infeasible" else 0)
    assert not re.search(r"\d[eE][+-]\d", out), "no exponents beside plain numbers"
    assert "Traceback" not in err and err.count("\n") == (code != 0)


@pytest.mark.parametrize("case", TABLES)
def test_tables_keep_within_a_page(outputs, case):
    _, out, _ = outputs[case]
    lines = out.splitlines()
    rules = [at for at, line in enumerate(lines) if line.startswith("──")]
    assert rules
    for at in rules:
        block = [
            line for line in lines[max(at - 3, 0) : at + 4] if line.rstrip() != line or "─" in line
        ]
        assert all(len(line) <= WIDEST for line in block), block


def answer(case):
    code, out, _ = golden.ended(case, "--json")
    assert code in (0, 3)
    return json.loads(out)


@pytest.mark.parametrize("case", [case for case in golden.CASES if case.startswith("predict")])
def test_predictions_shown_are_those_of_the_object(outputs, case):
    shown = " ".join(outputs[case][1].split())
    rows = answer(case)["predictions"]
    for row in rows:
        if row["feasible"]:
            assert ranged(row["tokens_per_s"], row["tokens_per_s_interval"]) in shown
            assert ranged(row["speedup"], row["speedup_interval"], 2) in shown
        elif row["draft_tokens"] == min(other["draft_tokens"] for other in rows):
            assert row["reason"] in shown


@pytest.mark.parametrize("case", ["optimize", "optimize-lists"])
def test_winners_shown_are_those_of_the_object(outputs, case):
    shown, body = " ".join(outputs[case][1].split()), answer(case)
    assert body["choices"] and body["unmet"]
    for row in body["choices"]:
        assert ranged(row["tokens_per_s"], row["tokens_per_s_interval"]) in shown
        assert ranged(row["speedup"], row["speedup_interval"], 2) in shown
    for row in body["unmet"]:
        assert row["reason"] in shown


def test_the_other_tables_show_their_numbers(outputs):
    shown = {case: " ".join(text.split()) for case, (_, text, _) in outputs.items()}
    for row in answer("capacity")["plans"]:
        assert (fixed(row["usd_per_hour"], 2) if row["feasible"] else row["reason"]) in shown[
            "capacity"
        ]
    for row in answer("breakeven")["points"]:
        assert (
            ranged(row["least_tokens_per_step"], row["least_tokens_per_step_interval"], 2)
            in shown["breakeven"]
        )
    for row in answer("replay")["chains"]:
        assert ranged(row["tokens_per_step"], row["interval"], 3) in shown["replay"]
    for row in answer("tree")["trees"]:
        assert fixed(row["tokens_per_step"], 4) in shown["tree"]
    assert plain(answer("simulate")["metrics"]["tokens_per_s"]) in shown["simulate"]
    for row in answer("traces-compare")["rows"]:
        assert fixed(row["tokens_per_step"], 3) in shown["traces-compare"]


def test_what_is_kept_changes_with_words_and_not_with_numbers():
    one, two = (
        "speedup  1.82 [1.66–2.03]  of 1,741 at K=16\n",
        "speedup 11.8 [9.66–12.3]   of 74 at K=3\n",
    )
    assert golden.without_numbers(one) == "speedup  # [#–#]  of # at K=#\n"
    assert golden.without_numbers(one).split() == golden.without_numbers(two).split()
    assert golden.without_numbers("llama-3.1-8b on h100-sxm") == "llama-3.1-8b on h100-sxm"
