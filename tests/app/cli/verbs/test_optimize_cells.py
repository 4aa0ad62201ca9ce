"""`optimize` over lists of models, devices and engines, under plans, and where nothing is
allowed."""

import csv
import json

import pytest

from app.questions.optimize import DEFAULT_BATCHES

WORDS = (
    "optimize",
    "--method",
    "eagle-3",
    "--acceptance",
    "0.8,0.6,0.4",
    "--batch",
    "1,64",
    "--draft-tokens",
    "1,3",
)


def rows_of(body, **cell):
    keys = ("choices", "alternatives", "unmet")
    return {
        key: [row for row in body[key] if all(row[name] == value for name, value in cell.items())]
        for key in keys
    }


def test_usual_batches_that_do_not_fit_are_left_out_and_stated_ones_marked(rooftree):
    words = ("optimize", "--model", "llama-3.1-8b", "--device", "l4", "--drafter", "eagle-3")
    usual = rooftree(*words, "--json").answer
    stated = rooftree(*words, "--batch", ",".join(map(str, DEFAULT_BATCHES)), "--json").answer
    assert usual["dropped_batches"] and not usual["unmet"] and not stated["dropped_batches"]
    assert [row["batch"] for row in stated["unmet"]] == usual["dropped_batches"]
    assert stated["choices"] == usual["choices"]


def test_cells_of_a_list_are_single_questions(rooftree, tmp_path):
    models, devices = ("llama-3.1-8b", "llama-3.1-70b"), ("h100-sxm", "l4")
    listed = rooftree(
        *WORDS,
        "--model",
        ",".join(models),
        "--device",
        ",".join(devices),
        "--out",
        tmp_path / "all",
        "--json",
        "--csv",
        tmp_path / "all.csv",
    )
    assert {answer["folder"] for answer in listed.answer["answers"]} == {
        f"llama-3.1-8b--{device}--vllm" for device in devices
    }
    for model in models:
        for device in devices:
            out = tmp_path / model / device
            single = rooftree(*WORDS, "--model", model, "--device", device, "--out", out, "--json")
            mine = rows_of(listed.answer, model=model, device=device)
            assert rows_of(json.loads(single.out)) == mine
            assert single.code == (0 if mine["choices"] else 3)
            folder = tmp_path / "all" / f"{model}--{device}--vllm"
            assert folder.exists() == bool(mine["choices"])
            if mine["choices"]:
                assert (folder / "vllm").is_dir()
                exported = rooftree(
                    "export", "vllm", "--from", folder / "recommendation.json", "--out", out / "e"
                )
                assert exported.code == 0, exported.err
    with (tmp_path / "all.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == sum(
        len(listed.answer[key]) for key in ("choices", "alternatives", "unmet")
    )
    shown = rooftree(
        *WORDS,
        "--model",
        ",".join(models),
        "--device",
        ",".join(devices),
        "--out",
        tmp_path / "shown",
    )
    assert "does not" in shown.out and "llama-3.1-70b" in shown.out
    assert all(len(line) <= 100 for line in shown.out.splitlines()[:8])


@pytest.mark.parametrize("limits", [(), ("--slo-tpot", "30")])
def test_a_mark_names_changes_that_do_when_asked(rooftree, tmp_path, limits):
    words = (
        *WORDS,
        "--model",
        "llama-3.1-8b",
        "--device",
        "l4",
        *limits,
        "--out",
        tmp_path,
        "--json",
    )
    (row,) = rooftree(*words).answer["unmet"]
    assert (row["batch"], row["feasible"]) == (64, False) and row["nearest"]
    for change in row["nearest"]:
        asked = {"--batch": "64"} | {option: str(value) for option, value in change.items()}
        again = rooftree(*words, *(word for pair in asked.items() for word in pair))
        assert again.code == 0 and not again.answer["unmet"], change


def test_a_spread_model_reaches_a_file_of_several_nodes(rooftree, tmp_path):
    """DeepSeek-V3 on 16 H200: experts whole on every device, one multi-token head, two nodes."""
    words = (
        "optimize",
        "--model",
        "deepseek-v3",
        "--device",
        "h200-sxm",
        "--tp",
        "8",
        "--dp",
        "2",
        "--ep",
        "16",
        "--drafter",
        "mtp:0.85",
        "--draft-tokens",
        "1",
        "--batch",
        "16,256",
    )
    done = rooftree(*words, "--out", tmp_path, "--json")
    first = done.answer["choices"][0]
    assert first["method"] == "mtp" and first["speedup"] > 1.0
    low, high = first["speedup_interval"]
    assert low <= first["speedup"] <= high
    where = first["configuration"]["deployment"]
    assert (where["tensor_parallel"], where["data_parallel"], where["expert_parallel"]) == (
        8,
        2,
        16,
    )
    planned = rooftree(
        "predict",
        "--model",
        "deepseek-v3",
        "--device",
        "h200-sxm",
        "--tp",
        "8",
        "--dp",
        "2",
        "--ep",
        "16",
        "--method",
        "mtp",
        "--acceptance",
        "0.85",
        "--draft-tokens",
        "1",
        "--batch",
        "16",
        "--json",
    ).answer["predictions"][0]
    assert (
        first["step_s"]
        == pytest.approx(planned["step_s"])
        == pytest.approx(planned["plan"]["step_s"])
    )
    assert planned["plan"]["devices"] == 16
    command = "".join(path.read_text() for path in sorted((tmp_path / "vllm").iterdir()))
    assert "--data-parallel-size 2" in command and "--tensor-parallel-size 8" in command
    assert "--enable-expert-parallel" in command and '"mtp"' in command


def test_a_plan_that_does_not_divide_the_model_is_bad_input(rooftree, tmp_path):
    done = rooftree(*WORDS, "--model", "llama-3.1-8b", "--ep", "2", "--tp", "2", "--out", tmp_path)
    assert (done.code, done.out) == (2, "") and "has no experts" in done.err


def test_a_cell_that_cannot_run_stands_in_its_place(rooftree, tmp_path):
    words = (
        *WORDS,
        "--model",
        "llama-3.1-8b",
        "--dtype",
        "bf16",
        "--device",
        "v100-sxm-32,h100-sxm",
        "--out",
        tmp_path,
    )
    rows = rooftree(*words, "--json").answer
    assert {row["device"] for row in rows["choices"]} == {"h100-sxm"}
    assert {(row["device"], row["feasible"]) for row in rows["unmet"]} == {("v100-sxm-32", False)}
    shown = rooftree(*words).out
    assert shown.index("cannot run") < shown.index("eagle-3 chain:") and "no such peak" in shown
    alone = rooftree(*words[:-4], "--device", "v100-sxm-32", *words[-2:])
    assert (alone.code, alone.out) == (2, "") and "bf16" in alone.err
