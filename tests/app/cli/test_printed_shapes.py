"""What `optimize` prints can be asked again, word for word, and has the same numbers."""

import json

import pytest

LEVEL_3 = "traces/recorded/level-3/smollm2-135m--"
LOAD = ("--rate", "5", "--prompt-tokens", "500", "--output-tokens", "200")
NUMBERS = ("tokens_per_step", "tokens_per_s", "tokens_per_s_interval", "speedup", "step_s")
QUESTIONS = {
    "ranks and expansions": ("smollm2-135m", "--trace", f"{LEVEL_3}medusa-heads--greedy.parquet"),
    "sampled drafts": ("smollm2-135m", "--trace", f"{LEVEL_3}medusa-heads--t1.parquet"),
    "published chains": ("llama-3.1-8b", "--drafter", "eagle-2"),
    "the method's own tree": ("llama-3.1-8b", "--drafter", "eagle-2:length=4.0"),
    "rates": ("llama-3.1-8b", "--drafter", "eagle-3:0.8,0.7,0.6"),
    "prompt tokens": ("llama-3.1-8b", "--drafter", "ppd:0.6,0.5,0.4"),
}


@pytest.mark.parametrize("words", QUESTIONS.values(), ids=QUESTIONS)
def test_what_optimize_prints_is_what_predict_is_asked(rooftree, tmp_path, words):
    model, *drafter = words
    asked = ("--model", model, *drafter, "--batch", "1,16", "--json")
    answer = rooftree("optimize", *asked, "--out", tmp_path).answer
    rows = answer["by_topology"]
    assert len({row["draft"] for row in rows}) > 1
    again = rooftree("predict", *asked, "--shape", ",".join({row["draft"] for row in rows})).answer
    told = {(row["batch"], row["draft"]): row for row in again["predictions"]}
    for row in rows:
        same = told[row["batch"], row["draft"]]
        for name in ("tokens_per_step", "tokens_per_s", "speedup"):
            assert same[name] == pytest.approx(row[name], rel=1e-12), (row["draft"], name)
    for choice in answer["choices"]:
        same = told[choice["batch"], choice["draft"]]
        for name in NUMBERS:
            assert same[name] == pytest.approx(choice[name]), (choice["draft"], name)


@pytest.mark.parametrize("words", QUESTIONS.values(), ids=QUESTIONS)
def test_a_shape_alone_is_compared_with_plain_decoding_as_among_others(rooftree, tmp_path, words):
    model, *drafter = words
    asked = ("--model", model, *drafter, "--batch", "1", "--json", "--out", tmp_path)
    among = {row["draft"]: row for row in rooftree("optimize", *asked).answer["by_topology"]}
    for draft in among.keys() - {"off"}:
        alone = rooftree("optimize", *asked, "--shape", draft).answer["by_topology"]
        assert {row["draft"] for row in alone} == {"off", draft}
        for row in alone:
            assert row["tokens_per_s"] == pytest.approx(among[row["draft"]]["tokens_per_s"])


@pytest.mark.parametrize("shape", ["chain:3", "tree:8", "dynamic:8x3", "chain:4+probability:0.4"])
def test_simulated_requests_draft_the_shape_that_was_asked(rooftree, shape):
    """Tokens per step of a simulation are those of the replay that `predict` rests on."""
    trace = f"{LEVEL_3}medusa-heads--greedy.parquet"
    asked = ("--model", "smollm2-135m", "--trace", trace, "--shape", shape, "--json")
    load = ("--rate", "5", "--count", "400", "--prompt-tokens", "64", "--output-tokens", "64")
    simulated = rooftree("simulate", *asked, *load).answer
    [row] = rooftree("predict", *asked, "--batch", "1").answer["predictions"]
    emitted = json.dumps(simulated["metrics"])
    assert simulated["metrics"]["tokens_per_step"] == pytest.approx(
        row["tokens_per_step"], rel=0.05
    ), emitted


@pytest.mark.parametrize(
    "words",
    [
        ("predict", "--batch", "8"),
        ("breakeven", "--batch", "8"),
        ("capacity", *LOAD),
    ],
    ids=lambda words: words[0],
)
def test_a_chain_is_the_same_by_its_shape_and_by_its_length(rooftree, words):
    verb, *load = words
    asked = (verb, "--model", "llama-3.1-8b", "--drafter", "eagle-3", *load, "--json")
    by_shape = rooftree(*asked, "--shape", "chain:3").answer
    by_length = rooftree(*asked, "--draft-tokens", "3").answer
    for answer in (by_shape, by_length):
        del answer["inputs"]
    assert by_shape == by_length


def test_a_full_search_drafts_the_shapes_that_are_named(rooftree, tmp_path):
    asked = (
        "--model",
        "llama-3.1-8b",
        "--drafter",
        "eagle-3",
        "--rate",
        "2",
        "--device",
        "h100-sxm",
    )
    words = ("optimize", *asked, "--search", "full", "--shape", "chain:3", "--json")
    answer = rooftree(*words, "--out", tmp_path).answer
    designs = [row for name in ("choices", "alternatives", "front") for row in answer[name]]
    assert {design["draft"] for design in designs} == {"off", "chain:3"}


@pytest.mark.parametrize(
    "words",
    [
        ("predict", "--shape", "chain:3", "--draft-tokens", "3"),
        ("predict", "--shape", "chain:3", "--stop", "ema"),
        ("predict", "--shape", "K=3"),
        ("predict", "--shape", "dynamic:16"),
        ("optimize", "--shape", "chain:3", "--draft-tokens", "3"),
        ("optimize", "--shape", "chain:3", "--tree-nodes", "8"),
        ("optimize", "--shape", "tree:16"),
        ("simulate", "--shape", "dynamic:0", "--rate", "1"),
        ("breakeven", "--shape", "chain:x"),
        ("capacity", "--shape", "tree:8", *LOAD),
    ],
    ids=" ".join,
)
def test_what_no_source_tells_or_two_options_name_is_refused_by_name(rooftree, words):
    verb, *asked = words
    ended = rooftree(verb, "--model", "llama-3.1-8b", "--drafter", "eagle-3:0.8,0.6", *asked)
    assert ended.code == 2 and "shape" in ended.err and len(ended.err.splitlines()) == 1


WHERE = ("--model", "llama-3.1-8b", "--device", "h100-sxm")
LOAD = ("--rate", "2", "--prompt-tokens", "500", "--output-tokens", "200")


@pytest.mark.parametrize("beside", [("--draft-tokens", "3"), ("--tree", "some.json")])
@pytest.mark.parametrize("verb", [("breakeven",), ("capacity", *LOAD)])
def test_what_names_shapes_is_refused_beside_a_shape(rooftree, verb, beside):
    known = ("--drafter", "eagle-3:0.7")
    done = rooftree(*verb, *WHERE, *known, "--shape", "chain:3", *beside)
    assert done.code == 2
    assert f"leave out {beside[0]}" in done.err


def test_break_even_asks_about_the_shape_where_nothing_is_known(rooftree):
    done = rooftree(
        "breakeven", *WHERE, "--method", "eagle-3", "--shape", "chain:7", "--batch", "1", "--json"
    )
    assert done.code == 0, done.err
    answer = json.loads(done.out)
    assert [point["draft_tokens"] for point in answer["points"]] == [7]
    assert answer["inputs"]["draft_tokens"] is None
    refused = rooftree("breakeven", *WHERE, "--method", "eagle-3", "--shape", "dynamic:16x4")
    assert refused.code == 2
    assert "dynamic:16x4" in refused.err


def test_a_shape_is_all_that_a_full_search_plans_with(rooftree):
    drafter = ("--drafter", "eagle-3:0.7")
    done = rooftree(
        "capacity", *WHERE, *LOAD, *drafter, "--search", "full", "--shape", "chain:2", "--json"
    )
    assert done.code == 0, done.err
    plans = [plan for plan in json.loads(done.out)["plans"] if plan["feasible"]]
    assert {plan["draft"] for plan in plans} <= {"off", "chain:2"}
    assert any(plan["draft"] == "chain:2" for plan in plans)


def test_plans_say_what_is_drafted_as_it_is_asked(rooftree):
    drafter = ("--drafter", "eagle-3:0.7", "--shape", "chain:2")
    answer = json.loads(rooftree("capacity", *WHERE, *LOAD, *drafter, "--json").out)
    assert [plan["draft"] for plan in answer["plans"]] == ["off", "chain:2"]
    assert answer["best"]["draft"] in ("off", "chain:2")


def test_masked_blocks_have_no_shape(rooftree):
    stated = ("--commit", "threshold:0.9", "--tokens-per-step", "3")
    words = ("--method", "fast-dllm", *stated, "--shape", "chain:3")
    done = rooftree("predict", "--model", "llada-8b", *words)
    assert done.code == 2
    assert "--shape: masked blocks have no draft tokens" in done.err
