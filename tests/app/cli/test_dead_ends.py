"""What people type first has an answer, or a refusal that says what to type."""

import re

import pytest

PLACED = ("--model", "llama-3.1-8b", "--dtype", "fp8", "--tp", "2")
DRAFTER = ("--drafter", "eagle-3:0.7,0.5,0.4,0.3")
TRAFFIC = ("--prompt-tokens", "512", "--output-tokens", "64", "--count", "64")


@pytest.mark.parametrize("verb", ["models", "devices", "methods"])
def test_a_verb_that_lists_takes_the_word_list(rooftree, verb):
    assert rooftree(verb, "list", "--json").out == rooftree(verb, "--json").out


@pytest.mark.parametrize("device", ["4xh100-sxm", "4 x h100-sxm", "l4,4x h100-sxm"])
def test_a_number_of_devices_belongs_to_tp(rooftree, device):
    done = rooftree("predict", "--model", "llama-3.1-8b", "--device", device, *DRAFTER)
    assert done.code == 2 and "--device h100-sxm --tp 4" in done.err and "4" in done.err
    listed = rooftree("devices", "4xh100-sxm")
    assert listed.code == 2


def test_a_load_without_the_search_under_a_load_is_told_what_to_add(rooftree):
    done = rooftree("optimize", *PLACED, *DRAFTER, "--rate", "3")
    assert done.code == 2 and "--rate: " in done.err and "--search full --devices 2" in done.err


@pytest.mark.parametrize("verb", ["optimize", "predict", "simulate", "capacity"])
def test_help_begins_with_formats_and_devices(rooftree, verb):
    shown = rooftree(verb, "--help").out
    wanted = ["--dtype", "--tp", "--drafter"]
    wanted += ["--users", "--count", "--rate"] if verb == "simulate" else []
    assert all(f"{option} " in shown for option in wanted)
    assert "--method " not in shown


@pytest.mark.heavy
def test_a_file_of_optimize_is_predicted_at_its_own_batches(rooftree, tmp_path):
    words = ("optimize", *PLACED, *DRAFTER, "--batch", "3,20", "--context", "700")
    chosen = rooftree(*words, "--out", tmp_path, "--json").answer["choices"]
    rows = rooftree("predict", "--config", tmp_path / "recommendation.json", "--json").answer[
        "predictions"
    ]
    assert [(row["batch"], row["context"]) for row in rows] == [(3, 700), (20, 700)]
    assert [row["tokens_per_s"] for row in rows] == pytest.approx(
        [choice["tokens_per_s"] for choice in chosen], rel=1e-6
    )
    one = rooftree(
        "predict", "--config", tmp_path / "recommendation.json", "--batch", "3", "--json"
    )
    assert {row["batch"] for row in one.answer["predictions"]} == {3}


@pytest.mark.heavy
def test_draft_lengths_are_compared_at_a_number_of_users(rooftree):
    words = ("simulate", *PLACED, *DRAFTER, *TRAFFIC, "--users", "4")
    answer = rooftree(*words, "--draft-tokens", "0,3", "--json").answer
    cases = {case["name"]: case["metrics"] for case in answer["cases"]}
    assert list(cases) == ["off", "chain:3"]
    alone = rooftree(*words, "--draft-tokens", "3", "--json").answer["metrics"]
    assert cases["chain:3"]["tpot_s"] == alone["tpot_s"]
    assert cases["chain:3"]["tpot_s"]["mean"] < cases["off"]["tpot_s"]["mean"]
    refused = rooftree(*words, "--good-share", "0.9")
    assert refused.code == 2 and "--users" in refused.err and "--rate" in refused.err


@pytest.mark.heavy
def test_draft_lengths_are_compared_at_a_rate_and_beside_the_highest(rooftree):
    words = ("simulate", *PLACED, *DRAFTER, *TRAFFIC, "--rate", "3", "--draft-tokens", "0,3")
    answer = rooftree(*words, "--json").answer
    rows = {row["name"]: row for row in answer["load"]}
    assert list(rows) == ["off", "chain:3"] and {row["rate_per_s"] for row in rows.values()} == {3}
    assert rows["chain:3"]["metrics"]["tpot_s"]["mean"] < rows["off"]["metrics"]["tpot_s"]["mean"]
    for row in answer["highest_rates"]:
        assert row["rate_per_s"] == rows[row["name"]]["highest_per_s"] > 3
    first = rooftree(*words).out.splitlines()[1]
    assert "TPOT" in first and "up to requests/s" in first


@pytest.mark.heavy
def test_capacity_and_breakeven_take_the_lengths_that_optimize_compares(rooftree):
    load = ("--rate", "3", "--prompt-tokens", "512", "--output-tokens", "64")
    planned = rooftree("capacity", *PLACED, *DRAFTER, *load, "--json").answer
    assert planned["inputs"]["draft_tokens"] == "1,2,3,4"
    shown = " ".join(rooftree("capacity", *PLACED, *DRAFTER, *load).out.split())
    assert "as cheap: " in shown and "ms a token" in shown
    pays = rooftree("breakeven", *PLACED, *DRAFTER, "--batch", "8")
    assert "stated" in pays.out.splitlines()[2]


@pytest.mark.heavy
def test_breakeven_is_of_the_fastest_length_that_is_known(rooftree, tmp_path):
    words = (*PLACED, *DRAFTER, "--batch", "8", "--context", "1024", "--json")
    best = rooftree("optimize", *words, "--out", tmp_path).answer["choices"][0]
    (point,) = rooftree("breakeven", *words).answer["points"]
    assert point["draft_tokens"] == best["draft_tokens"]
    assert point["tokens_per_step"] == pytest.approx(best["tokens_per_step"])


LOAD = ("--prompt-tokens", "512", "--output-tokens", "64")


@pytest.mark.parametrize(
    "words",
    [
        ("optimize", "--device", "l4"),
        ("simulate", "--device", "l4"),
        ("capacity", "--device", "l4", "--rate", "1", *LOAD),
        ("capacity", "--tp", "4", "--rate", "1", "--slo-tpot", "1", *LOAD),
        ("simulate", "--pp", "99"),
        ("predict", "--tp", "7", "--draft-tokens", "0"),
        ("predict", "--drafter", "draft-model:0.7", "--draft", "qwen3-0.6b"),
    ],
    ids=" ".join,
)
def test_a_refusal_calls_a_model_what_the_question_calls_it(rooftree, words):
    record = "llama-3.1-70b"
    said = {
        name: rooftree(*words, "--model", name)
        for name in (record, "llama-3.3-70b", "meta-llama/Llama-3.3-70B-Instruct")
    }
    for name, done in said.items():
        assert done.code in (2, 3) and name in done.err
        assert done.err == said[record].err.replace(record, name)


@pytest.mark.parametrize("model", ["llada-8b", "GSAI-ML/LLaDA-8B-Instruct", "dream-7b"])
@pytest.mark.parametrize("verb", ["optimize", "predict"])
def test_a_masked_model_without_a_method_is_told_what_answers(rooftree, tmp_path, verb, model):
    refused = rooftree(verb, "--model", model)
    assert refused.code == 2 and refused.err.startswith("rooftree: --method: ")
    commands = [told.split()[1:] for told in re.findall("`(rooftree [^`]+)`", refused.err)]
    said = {"optimize": (), "predict": ("--method fast-dllm", "--draft-tokens 0")}[verb]
    assert all(option in refused.err for option in said)
    commands += [["predict", "--model", model, *option.split()] for option in said]
    assert len(commands) == 2
    for command in commands:
        done = rooftree(*command, "--batch", "1", "--out", tmp_path / command[0])
        assert done.code == 0, done.err
