"""What `optimize` chose goes to every other verb as one file, and each of them means the same by
it."""

import json
from urllib.parse import parse_qs, urlparse

import pytest

from costmodel.configuration import DecodingConfiguration
from costmodel.configuration.file import read_configuration

TRACE = "smollm2-135m--prompt-lookup--greedy"
TRAFFIC = ("--users", "2", "--count", "4", "--prompt-tokens", "40", "--output-tokens", "16")


@pytest.fixture(scope="module")
def recommended(rooftree, tmp_path_factory):
    """The file that `optimize` leaves, and the configuration that it names."""
    from traces.library import trace_file

    folder = tmp_path_factory.mktemp("recommended")
    words = (
        "--trace",
        trace_file(TRACE),
        "--device",
        "cpu-generic",
        "--engine",
        "none",
        "--batch",
        "1,4",
    )
    done = rooftree(
        "optimize",
        *words,
        "--context",
        "256",
        "--draft-tokens",
        "1,3,5",
        "--out",
        folder,
        "--quiet",
    )
    assert done.code == 0, done.err
    path = folder / "recommendation.json"
    return path, read_configuration(path), json.loads(path.read_text())


def test_every_choice_and_schedule_names_its_configuration(recommended):
    _, chosen, answer = recommended
    for row in answer["choices"] + answer["alternatives"]:
        named = DecodingConfiguration.from_json(row["configuration"])
        assert (named.batch, named.context, named.method) == (
            row["batch"],
            row["context"],
            row["method"],
        )
        assert (named.draft_tokens, named.topology) == (row["draft_tokens"], row["topology"])
    assert chosen.schedule == tuple(map(tuple, answer["schedule"]))
    assert chosen.trace == TRACE and chosen.method == "n-gram" and chosen.speculates


def test_a_prediction_is_that_of_the_search(rooftree, recommended):
    path, chosen, answer = recommended
    rows = rooftree("predict", "--config", path, "--batch", "1,4", "--json").answer["predictions"]
    assert {row["batch"]: row["draft_tokens"] for row in rows} == {
        b: chosen.draft_tokens_at(b) for b in (1, 4)
    }
    for row, choice in zip(rows, answer["choices"], strict=True):
        if row["draft_tokens"] == choice["draft_tokens"]:
            assert row["tokens_per_s"] == pytest.approx(choice["tokens_per_s"])


def test_options_go_over_the_file_and_contradictions_are_refused(rooftree, recommended, tmp_path):
    path, _, _ = recommended
    rows = rooftree(
        "predict", "--config", path, "--batch", "1", "--draft-tokens", "2", "--json"
    ).answer["predictions"]
    assert [row["draft_tokens"] for row in rows] == [2]
    moved = rooftree("predict", "--config", path, "--device", "l4", "--json").answer["inputs"]
    assert (moved["device"], moved["engine"], moved["trace"]) == ("l4", "none", TRACE)
    tree = tmp_path / "tree.json"
    tree.write_text('{"parents": [-1, 0], "ranks": [0, 0]}')
    assert rooftree("predict", "--config", path, "--tree", tree, "--draft-tokens", "2").code == 2
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text("deployment: {model: gpt2}\n")
    refused = rooftree("simulate", "--config", path, "--scenario", scenario, *TRAFFIC)
    assert refused.code == 2 and "deployment" in refused.err


def test_limits_of_the_file_are_simulated_and_what_is_stated_beside_it_wins(
    rooftree, recommended, tmp_path
):
    path, chosen, _ = recommended
    limited = tmp_path / "limited.json"
    limited.write_text(json.dumps(chosen.to_json() | {"max_batch": 1, "token_budget": 24}))
    most = {
        name: rooftree("simulate", "--config", file, *TRAFFIC, "--json").answer
        for name, file in (("schedule", path), ("limits", limited))
    }
    assert chosen.max_batch is None and chosen.largest_batch == 4  # the largest batch is no limit
    assert most["schedule"]["scheduler"]["max_requests"] > 4
    found = most["limits"]
    assert (found["scheduler"]["max_requests"], found["scheduler"]["token_budget"]) == (1, 24)
    assert (
        "at most 1 requests in flight and 24 query tokens an iteration, as the configuration has it"
        in found["notes"]
    )
    assert set(found["metrics"]["tokens_per_step_by_batch"]) == {"1"}
    words = ("--set", "scheduler.max_requests=2", "--set", "scheduler.token_budget=24")
    over = rooftree("simulate", "--config", limited, *TRAFFIC, *words, "--json").answer
    assert (
        over["scheduler"]["max_requests"] == 2
        and "2" in over["metrics"]["tokens_per_step_by_batch"]
    )
    [said] = [note for note in over["notes"] if "configuration" in note]
    assert said == "scheduler.max_requests is 2, as stated beside the configuration, which has 1"


def test_it_is_exported_simulated_validated_and_linked(rooftree, recommended, tmp_path):
    path, chosen, _ = recommended
    command = rooftree("export", "vllm", "--config", path, "--out", tmp_path, "--json").answer[
        "command"
    ]
    assert (
        f'"num_speculative_tokens":{chosen.draft_tokens}' in command
        and '"method":"ngram"' in command
    )
    inputs = rooftree("simulate", "--config", path, *TRAFFIC, "--json").answer["inputs"]
    assert (
        inputs["speculation"]["trace"] == chosen.trace
        and inputs["deployment"]["device"] == "cpu-generic"
    )
    assert inputs["speculation"]["schedule"] == [list(row) for row in chosen.schedule]
    planned = rooftree("validate", "--config", path, "--dry-run", "--batch", "1,4", "--json").answer
    assert (
        DecodingConfiguration.from_json(planned["inputs"]["configuration"]).schedule
        == chosen.schedule
    )
    wanted = {
        b: f"prompt-lookup-{chosen.draft_tokens_at(b)}" if chosen.draft_tokens_at(b) else "plain"
        for b in (1, 4)
    }
    assert {each["batch"]: each["runs"] for each in planned["runs"]} == wanted
    query = parse_qs(urlparse(rooftree("dashboard", "--config", path, "--link").out.strip()).query)
    assert (query["device"], query["method"], query["trace"]) == (
        ["cpu-generic"],
        ["n-gram"],
        [TRACE],
    )


def test_an_answer_of_an_older_version_is_refused(rooftree, recommended, tmp_path):
    _, _, answer = recommended
    for row in answer["choices"] + answer["schedules"]:
        row.pop("configuration", None)
    old = tmp_path / "old.json"
    old.write_text(json.dumps(answer))
    for words in (
        ("export", "vllm"),
        ("predict",),
        ("simulate", *TRAFFIC),
        ("dashboard", "--link"),
    ):
        done = rooftree(*words, "--config", old)
        assert done.code == 2 and "older version" in done.err, words
