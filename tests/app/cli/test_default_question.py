"""The question that `optimize` answers when nobody names a model, a drafter or a trace, and its
first table."""

import re
from itertools import pairwise

import pytest

# batch: winner, its K, tokens/s, speedup, the next best, its K
GOLDEN = {
    1: ("eagle-3", 7, 325.2, 2.337, "llama-3.2-1b", 4),
    8: ("eagle-3", 7, 2433.1, 2.311, "llama-3.2-1b", 4),
    64: ("eagle-3", 4, 11530.8, 2.015, "llama-3.2-1b", 3),
    256: ("eagle-3", 3, 16409.0, 1.535, "llama-3.2-1b", 2),
}


@pytest.fixture(scope="module")
def asked(rooftree, tmp_path_factory):
    folder = tmp_path_factory.mktemp("default")
    batches = ",".join(map(str, GOLDEN))
    return rooftree("optimize", "--batch", batches, "--out", folder, "--json").answer, folder


def test_the_answer_is_the_committed_one(asked):
    answer, _ = asked
    assert answer["inputs"]["model"] == "llama-3.1-8b" and answer["inputs"]["device"] == "h100-sxm"
    for cell in answer["cells"]:
        best, after = cell["winner"], cell["runner_up"]
        winner, k, rate, speedup, second, second_k = GOLDEN[cell["batch"]]
        assert (best["drafter"], best["draft_tokens"]) == (winner, k)
        assert (after["drafter"], after["draft_tokens"]) == (second, second_k)
        assert best["tokens_per_s"] == pytest.approx(rate, rel=0.01)
        assert best["speedup"] == pytest.approx(speedup, rel=0.01)


def test_nothing_is_faster_than_the_winner_and_the_loss_is_what_the_runner_up_lacks(asked):
    answer, _ = asked
    rows = answer["choices"] + answer["alternatives"]
    for cell in answer["cells"]:
        best, after = cell["winner"], cell["runner_up"]
        here = [row["tokens_per_s"] for row in rows if row["batch"] == cell["batch"]]
        assert best["tokens_per_s"] == max(here)
        assert cell["lost_ratio"] == pytest.approx(1 - after["tokens_per_s"] / best["tokens_per_s"])
        assert 0.0 <= cell["lost_ratio"] < 1.0
        assert best["speedup"] >= 1.0
        assert best["tokens_per_s"] / best["speedup"] == pytest.approx(
            after["tokens_per_s"] / after["speedup"]
        )
    for before, later in pairwise(answer["cells"]):
        assert later["winner"]["draft_tokens"] <= before["winner"]["draft_tokens"]
        assert later["winner"]["tokens_per_s"] > before["winner"]["tokens_per_s"]


def test_every_drafter_is_labelled_by_where_its_acceptance_comes_from(asked):
    answer, _ = asked
    assert [each["name"] for each in answer["drafters"]] == ["eagle-3", "llama-3.2-1b", "n-gram"]
    for cell in answer["cells"]:
        assert cell["winner"]["acceptance"]["kind"] == "published"


def test_what_engines_load_names_the_head(asked):
    _, folder = asked
    assert (
        "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"
        in (folder / "vllm" / "vllm-speculative-config.json").read_text()
    )


def test_the_first_table_has_one_row_a_batch_in_plain_numbers(rooftree, tmp_path):
    out = rooftree("optimize", "--out", tmp_path).out
    lines = out.splitlines()
    table = [line for line in lines if re.match(r" *\d[\d,]*  ", line)]
    assert [int(line.split()[0]) for line in table] == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    assert max(map(len, lines[: lines.index(table[-1]) + 1])) <= 100
    assert not re.search(r"\d[eE][+-]?\d", "\n".join(table))
    assert "1,257" in out and "14,664" in out
    assert not any(line.split()[1] == "off" for line in table)
    explained = rooftree("optimize", "--explain", "--out", tmp_path).out.splitlines()
    for name in ("eagle-3", "llama-3.2-1b", "n-gram"):
        whose = f"{name}: "
        assert any(line.startswith(whose) and "published" in line for line in explained), name
        assert any(line.startswith(whose) for line in lines) == (name == "eagle-3")


def test_off_wins_where_no_draft_pays(rooftree, tmp_path):
    words = (
        "optimize",
        "--drafter",
        "eagle-3:0.05",
        "--model",
        "llama-3.1-8b",
        "--batch",
        "1,64",
        "--out",
        tmp_path,
    )
    table = [
        line.split() for line in rooftree(*words).out.splitlines() if re.match(r" *\d+  ", line)
    ]
    assert [(row[0], row[1]) for row in table] == [("1", "off"), ("64", "off")]
    assert all("eagle-3" in row for row in table)  # the next best


def test_trees_and_stop_rules_are_asked_of_recordings(rooftree, tmp_path):
    answer = rooftree(
        "optimize", "--tree-nodes", "4", "--batch", "1", "--out", tmp_path, "--json"
    ).answer
    assert answer["inputs"]["model"].casefold().startswith("smollm2-135m")
    assert any(row["topology"] == "tree" for row in answer["by_topology"])
