"""`traces list`: every shipped recording, with what its own replay says."""

import csv

import pytest

from app.answers.recordings.listed import short_device
from traces.library import is_confidence, recordings, shipped


@pytest.fixture(scope="module")
def listed(rooftree):
    return rooftree("traces", "list", "--json").answer["traces"]


def test_every_shipped_trace_is_a_row(listed):
    assert [row["name"] for row in listed] == list(shipped())
    confidence = {name for name, path in shipped().items() if is_confidence(path)}
    assert {row["name"] for row in listed if row["kind"] == "confidence"} == confidence
    assert set(recordings()) == {row["name"] for row in listed} - confidence


def test_every_row_says_what_it_is_of(listed):
    for row in listed:
        assert row["target"] and row["method"] and row["device"] and row["licence"], row["name"]
        is_gpu = row["name"].startswith("gpu/")
        assert is_gpu == row["device"].startswith("NVIDIA") == bool(row["source"]), row["name"]
        assert row["drafter"] or row["method"] in ("plain-decoding", "masked"), row["name"]
        if row["kind"] == "acceptance":
            low, high = row["tokens_per_step_interval"]
            assert low <= row["tokens_per_step"] <= high, row["name"]


@pytest.mark.parametrize(
    "name",
    ["gpu/vicuna-13b--medusa--greedy", "gpu/vicuna-7b-v1.5--rest--greedy"],
)
def test_replay_says_the_same(listed, rooftree, name):
    row = next(row for row in listed if row["name"] == name)
    (replayed,) = rooftree("replay", name, "--json").answer["trees"]
    assert replayed["draft"] == row["draft"]
    assert replayed["tokens_per_step"] == row["tokens_per_step"]
    assert replayed["interval"] == pytest.approx(row["tokens_per_step_interval"], rel=1e-12)


def test_chains_are_those_of_replay(listed, rooftree):
    name = "level-3/smollm2-135m--feature-head--t0.8"
    row = next(row for row in listed if row["name"] == name)
    (chain,) = rooftree("replay", name, "--draft-tokens", 5, "--json").answer["chains"]
    assert (row["draft"], row["tokens_per_step"]) == ("chain:5", chain["tokens_per_step"])


def test_repeated_runs_say_how_far_they_are_apart(listed, rooftree):
    repeated = {row["name"]: row for row in listed if "repeat_tokens_ratio" in row}
    assert len(repeated) == 4
    for row in repeated.values():
        assert row["repeat_tokens_ratio"] == 0.0 and 0.01 < row["repeat_seconds_ratio"] < 0.02
    words = " ".join(rooftree("traces", "list", "--method", "medusa").out.split())
    assert "differ by 0.0 % in tokens per step and by 1.3 % in seconds per token" in words
    assert words.count("differ by") == 2, "once for each pair"


def test_filters_narrow_the_list(rooftree, tmp_path):
    rooftree("traces", "list", "--model", "vicuna-7b", "--csv", tmp_path / "l.csv")
    with (tmp_path / "l.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert {row["target"] for row in rows} == {"vicuna-7b-v1.3"} and len(rows) == 2
    ended = rooftree("traces", "list", "--model", "vicuna-7b", "--method", "rest")
    assert (
        ended.code == 2 and "--model and --method" in ended.err and "vicuna-7b, rest" in ended.err
    )


@pytest.mark.parametrize(
    ("name", "level"),
    [("gpu/vicuna-7b--medusa--greedy", 0), ("gpu/vicuna-7b-v1.5--rest--greedy", 1)],
)
def test_inspect_knows_shipped_names(rooftree, name, level):
    answer = rooftree("traces", "inspect", name, "--json").answer
    assert answer["level"] == level
    about = answer["metadata"]["provenance"]
    assert about["extra"]["licence"] == "Apache-2.0" and about["extra"]["dropped"]


def test_devices_are_named_in_short():
    assert short_device("CPU: Intel(R) Xeon(R) Processor, 1 thread(s)") == "CPU"
    assert short_device("NVIDIA RTX A6000, 96 CPU cores") == "NVIDIA RTX A6000"
