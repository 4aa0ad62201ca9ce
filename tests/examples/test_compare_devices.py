"""A purchase: three models on four devices at three contexts, in one spreadsheet."""

import csv
import itertools
import time

MODELS = ("llama-3.1-8b", "qwen3-32b", "llama-3.1-70b")
DEVICES = ("h100-sxm", "h200-sxm", "b200-sxm", "mi300x")
CONTEXTS = (1024, 8192, 32768)
LISTS = (
    f"--model {','.join(MODELS)} --device {','.join(DEVICES)} --context"
    f" {','.join(map(str, CONTEXTS))}"
)
ASKED = f"rooftree predict {LISTS} --batch 8 --method eagle-3 --acceptance 0.7 --draft-tokens 0,3"


def test_every_cell_is_a_row_of_numbers_or_says_why_not(user, tmp_path, capsys):
    started = time.process_time()
    user(f"{ASKED} --csv cells.csv")
    spent = time.process_time() - started
    with capsys.disabled():
        print(f" 36 cells, 2 draft lengths: {spent:.1f} s of CPU (10 s asked) ", end="")
    with (tmp_path / "cells.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    cells = {(row["model"], row["device"], int(row["context"])) for row in rows}
    assert cells == set(itertools.product(MODELS, DEVICES, CONTEXTS))
    for row in rows:
        if row["feasible"] == "True":
            assert (
                float(row["tokens_per_s_low"])
                <= float(row["tokens_per_s"])
                <= float(row["tokens_per_s_high"])
            )
        else:
            assert row["reason"] and not row["tokens_per_s"]


def test_cells_agree_with_what_is_known_of_the_devices(user, tmp_path):
    """Twice 70 billion bytes of weights do not fit 80 GB; more bandwidth is faster; each cell is
    the one of its own."""
    user(f"{ASKED} --csv cells.csv")
    with (tmp_path / "cells.csv").open(newline="") as file:
        rows = {
            (row["model"], row["device"], int(row["context"]), int(row["draft_tokens"])): row
            for row in csv.DictReader(file)
            if row["draft_tokens"]
        }
    feasible = {key for key, row in rows.items() if row["feasible"] == "True"}
    assert ("llama-3.1-70b", "h100-sxm", 1024, 0) not in feasible
    assert ("llama-3.1-8b", "h100-sxm", 1024, 0) in feasible
    for model, context in itertools.product(MODELS[:2], CONTEXTS[:1]):
        slow, fast = (
            float(rows[model, device, context, 0]["tokens_per_s"])
            for device in ("h200-sxm", "b200-sxm")
        )
        assert slow < fast
    alone = user(
        "rooftree predict --model qwen3-32b --device h200-sxm --context 8192 --batch 8 --method"
        " eagle-3 --acceptance 0.7 --draft-tokens 3 --json"
    ).answer["predictions"][0]
    assert float(rows["qwen3-32b", "h200-sxm", 8192, 3]["tokens_per_s"]) == alone["tokens_per_s"]


def test_what_to_run_on_each_of_them_in_one_spreadsheet(user, tmp_path):
    """The best configuration of every cell; what `optimize` picks is at least as fast as any that
    was asked about."""
    user(
        f"rooftree optimize {LISTS} --batch 8 --drafter eagle-3:0.7 --out plans --csv runs.csv"
        " --quiet"
    )
    with (tmp_path / "runs.csv").open(newline="") as file:
        best = {
            (row["model"], row["device"], int(row["context"])): row
            for row in reversed(list(csv.DictReader(file)))
        }
    assert set(best) == set(itertools.product(MODELS, DEVICES, CONTEXTS))
    for row in user(f"{ASKED} --json").answer["predictions"]:
        found = best[row["model"], row["device"], row["context"]]
        if row["feasible"]:
            assert float(found["tokens_per_s"]) >= 0.999 * row["tokens_per_s"]
    assert len(list((tmp_path / "plans").glob("*/vllm/vllm-serve.sh"))) >= 8
