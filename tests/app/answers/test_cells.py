"""Lists of models, devices and engines: every cell is its own question, and one that cannot be is a
row."""

import csv
import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.answers.cells import cells_of, names_of
from hardware_profiles.errors import InputError
from tests.property_examples import examples

MODELS = ("llama-3.1-8b", "llama-3.2-1b", "llama-3.1-70b")
DEVICES = ("h100-sxm", "l4", "mi300x", "a100-sxm-80")
STATED = ("predict", "--method", "eagle-3", "--acceptance", "0.7", "--draft-tokens", "0,3")


def some(names, most=2):
    return st.lists(st.sampled_from(names), min_size=1, max_size=most, unique=True)


@settings(max_examples=examples(10))
@given(some(MODELS), some(DEVICES), some(["vllm", "none"]), some(["0", "2048"]), some(["1", "256"]))
def test_a_cell_of_a_list_is_the_single_question(
    rooftree, models, devices, engines, contexts, batches
):
    listed = rooftree(
        *STATED,
        "--model",
        ",".join(models),
        "--device",
        ",".join(devices),
        "--engine",
        ",".join(engines),
        "--context",
        ",".join(contexts),
        "--batch",
        ",".join(batches),
        "--json",
    )
    rows = json.loads(listed.out)["predictions"]
    keys = [
        (r["model"], r["device"], r["engine"], r["context"], r["batch"])
        for r in rows
        if r["draft_tokens"] == 3
    ]
    wanted = itertools.product(
        models, devices, engines, sorted(map(int, contexts)), sorted(map(int, batches))
    )
    assert keys == list(wanted)
    assert listed.code == (0 if any(row["feasible"] for row in rows) else 3)
    for model, device, engine in itertools.product(models, devices, engines):
        single = rooftree(
            *STATED,
            "--model",
            model,
            "--device",
            device,
            "--engine",
            engine,
            "--context",
            ",".join(contexts),
            "--batch",
            ",".join(batches),
            "--json",
        )
        mine = [
            r for r in rows if (r["model"], r["device"], r["engine"]) == (model, device, engine)
        ]
        assert json.loads(single.out)["predictions"] == mine


def test_a_mark_names_changes_that_fit_when_they_are_asked(rooftree):
    words = (*STATED, "--model", "llama-3.1-8b", "--device", "l4", "--context", "4096")
    asked = {"--batch": "64"}
    rows = json.loads(rooftree(*words, "--batch", "64", "--json").out)["predictions"]
    assert [row["feasible"] for row in rows] == [False, False]
    for row in rows:
        assert {"--batch", "--context", "--tp"} <= {
            option for change in row["nearest"] for option in change
        }
        for change in row["nearest"]:
            options = {option: str(value) for option, value in (asked | change).items()}
            again = rooftree(
                *words,
                "--draft-tokens",
                row["draft_tokens"],
                *itertools.chain(*options.items()),
                "--json",
            )
            assert again.code == 0 and again.answer["predictions"][0]["feasible"], change


def test_a_cell_that_cannot_run_does_not_end_the_answer(rooftree):
    words = (*STATED, "--model", "llama-3.1-8b", "--batch", "1", "--dtype", "bf16")
    done = rooftree(*words, "--device", "h100-sxm,v100-sxm-32", "--json")
    can, cannot = done.answer["predictions"][0], done.answer["predictions"][-1]
    assert can["feasible"] and not cannot["feasible"] and "bf16" in cannot["reason"]
    shown = rooftree(*words, "--device", "h100-sxm,v100-sxm-32")
    assert "cannot run" in shown.out and "bf16" in shown.out
    alone = rooftree(*words, "--device", "v100-sxm-32")
    assert (alone.code, alone.out) == (2, "") and "bf16" in alone.err


def test_a_name_that_nothing_carries_ends_the_answer(rooftree):
    done = rooftree(*STATED, "--model", "llama-3.1-8b", "--device", "h100-sxm,h10")
    assert (done.code, done.out) == (2, "") and "unknown device 'h10'; nearest" in done.err


def test_lists_are_names_and_commas(tmp_path):
    assert names_of("a, b,a", "--model") == ["a", "b"]
    path = tmp_path / "one,two.json"
    path.write_text("{}")
    assert names_of(str(path), "--model") == [str(path)]
    with pytest.raises(InputError, match=r"--model: must be names separated by commas, got 'a,,b'"):
        names_of("a,,b", "--model")
    assert cells_of({"tp": 1}) == [{}]
    with pytest.raises(InputError, match="make 10000 cells"):
        cells_of(
            {"model": ",".join(map(str, range(100))), "device": ",".join(map(str, range(100)))}
        )


def test_three_models_on_four_devices_at_three_contexts_become_a_file(rooftree, tmp_path):
    path = tmp_path / "sub" / "cells.csv"
    words = (
        *STATED,
        "--model",
        ",".join(MODELS),
        "--device",
        ",".join(DEVICES),
        "--context",
        "512,4096,32768",
    )
    done = rooftree(*words, "--batch", "8", "--csv", path, "--json")
    with path.open(newline="") as file:
        lines = list(csv.DictReader(file))
    rows = done.answer["predictions"]
    assert len(lines) == len(rows) == 3 * 4 * 3 * 2
    for line, row in zip(lines, rows, strict=True):
        assert (line["model"], line["device"], int(line["context"])) == (
            row["model"],
            row["device"],
            row["context"],
        )
        assert line["feasible"] == str(row["feasible"])
        if row["feasible"]:
            assert float(line["tokens_per_s"]) == row["tokens_per_s"]
            assert [float(line["speedup_low"]), float(line["speedup_high"])] == row[
                "speedup_interval"
            ]
        else:
            assert line["tokens_per_s"] == "" and line["reason"] == row["reason"]


def test_a_csv_file_must_be_a_file(rooftree, tmp_path):
    done = rooftree(*STATED, "--model", "gpt2", "--csv", tmp_path)
    assert done.code == 2 and "--csv: must be a file to write" in done.err
