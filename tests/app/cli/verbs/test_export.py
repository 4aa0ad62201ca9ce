"""`export` from the command line: a stated configuration, where it runs, a what-if, and trees
alone."""

import json
import shlex
from pathlib import Path

import pytest

from costmodel.laws.acceptance.decay import usual_ratio
from traces.kinds.tree import Tree, read_tree

STATED = ("--model", "llama-3.1-8b", "--method", "eagle-3")


@pytest.fixture
def written(rooftree, tmp_path):
    """Run `export` into a folder and return the answer; a refusal is an assertion error with its
    text."""

    def run(*words):
        done = rooftree("export", *words, "--out", tmp_path, "--json")
        assert done.code == 0, done.err
        return done.answer

    return run


@pytest.fixture
def refused(rooftree, tmp_path):
    def run(*words):
        done = rooftree("export", *words, "--out", tmp_path / "nothing", "--json")
        assert (done.code, done.out) == (2, "") and not (tmp_path / "nothing").exists()
        return done.err

    return run


def config_in(answer):
    words = shlex.split(answer["command"])
    return json.loads(words[words.index("--speculative-config") + 1])


def test_a_stated_plan_reaches_the_command(written):
    answer = written(
        "vllm",
        *STATED,
        "--draft-tokens",
        "3",
        "--tp",
        "2",
        "--dp",
        "8",
        "--ep",
        "16",
        "--kv-dtype",
        "fp8",
        "--max-batch",
        "64",
        "--max-length",
        "8192",
    )
    for words in (
        "--tensor-parallel-size 2 --data-parallel-size 8 --enable-expert-parallel --nnodes 2",
        "--kv-cache-dtype fp8 --max-model-len 8192 --max-num-seqs 8",
    ):
        assert words in answer["command"]
    assert (
        "--nnodes"
        not in written(
            "vllm", *STATED, "--draft-tokens", "3", "--tp", "16", "--node-devices", "16"
        )["command"]
    )
    assert answer["inputs"]["ep"] == 16


def test_a_stated_schedule_is_written(written, refused):
    config = config_in(written("vllm", *STATED, "--schedule", "1-16:5,17-64:3,65-512:0"))
    assert config["num_speculative_tokens_per_batch_size"] == [
        [1, 16, 5],
        [17, 64, 3],
        [65, 512, 0],
    ]
    assert "must be ranges" in refused("vllm", *STATED, "--schedule", "1:5")
    assert "exclude each other" in refused(
        "vllm", *STATED, "--schedule", "1-2:5", "--draft-tokens", "5"
    )
    assert "exists from 0.24.0" in refused(
        "vllm", *STATED, "--schedule", "1-2:5,3-9:0", "--engine-version", "0.20.1"
    )


def test_ngram_lengths_and_other_implementations_are_options(written, refused):
    lookup = ("--model", "llama-3.1-8b", "--method", "n-gram", "--draft-tokens", "4")
    config = config_in(
        written("vllm", *lookup, "--ngram-min", "2", "--ngram-max", "5", "--variant", "ngram_gpu")
    )
    assert (config["method"], config["prompt_lookup_min"], config["prompt_lookup_max"]) == (
        "ngram_gpu",
        2,
        5,
    )
    assert "looks up one length" in refused("llama.cpp", *lookup)
    assert (
        "--spec-ngram-mod-n-match 3"
        in written("llama.cpp", *lookup, "--approximate", "--variant", "ngram-mod")["command"]
    )


@pytest.mark.parametrize(
    ("told", "rates"),
    [
        (("--acceptance", "0.8"), [0.8, 0.64, 0.512]),
        (("--acceptance", "0.8,0.6,0.5"), [0.8, 0.6, 0.5]),
        (("--acceptance", "0.8,0.6"), [0.8, 0.6, 0.45 * usual_ratio("head", 2)]),
        (("--tokens-per-step", "2.75"), None),
    ],
)
def test_a_plan_is_tried_before_there_is_a_drafter(written, told, rates):
    plan = (*STATED, "--draft-tokens", "3", "--synthetic", *told)
    config = config_in(written("vllm", *plan))
    if rates is not None:
        assert config["synthetic_acceptance_rates"] == pytest.approx(rates)
    mean = 1.0 + sum(config["synthetic_acceptance_rates"])
    assert mean == pytest.approx(2.75) or rates is not None
    assert f"SGLANG_SIMULATE_ACC_LEN={mean:.6g} " in written("sglang", *plan)["command"]
    assert f"ACCEPTED_TOKENS={mean - 1:.6g} " in written("tensorrt-llm", *plan)["command"]
    assert "--spec-synth-rates" in written("llama.cpp", *plan)["command"]


def test_a_rate_beyond_what_is_known_is_said_in_the_file(written):
    answer = written(
        "vllm", *STATED, "--draft-tokens", "3", "--synthetic", "--acceptance", "0.8,0.6"
    )
    (script,) = [path for path in answer["files"] if path.endswith(".sh")]
    text = Path(script).read_text()
    assert "acceptance is known to K=2" in text


def test_one_way_to_say_what_is_accepted(refused):
    plan = (*STATED, "--draft-tokens", "3", "--synthetic")
    assert "exclude each other" in refused(
        "vllm", *plan, "--acceptance", "0.8", "--tokens-per-step", "2"
    )
    assert "one rate per draft token" in refused("vllm", *plan)


def test_trees_go_through_every_form_and_come_back(written, refused, tmp_path):
    tree = Tree.from_paths([(0,), (1,), (0, 0), (1, 0)])
    path = tmp_path / "tree.json"
    path.write_text(json.dumps(tree.to_json()))
    for form in ("medusa-choices", "eagle-choices", "sequoia-growmap", "vllm-tree", "samd-json"):
        answer = written(form, "--tree", path)
        (path,) = answer["files"]
        assert answer["command"] == "" and read_tree(path) == tree
    assert "needs a tree" in refused("samd-json")
    assert "medusa-choice" in refused("medusa-choice", "--tree", path)
