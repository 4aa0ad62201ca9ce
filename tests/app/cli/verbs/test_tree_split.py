"""`rooftree tree --split-over`: nodes of a batch by request, against every split, and what equal
requests gain."""

import itertools
import json

import numpy as np
import pytest

TRACE = "smollm2-135m--early-exit--greedy"
SURVIVALS = [[0.9, 0.8, 0.7, 0.6], [0.5, 0.2], [0.3, 0.05, 0.01], [0.95, 0.9]]


@pytest.fixture
def survivals(tmp_path):
    file = tmp_path / "survivals.json"
    file.write_text(json.dumps(SURVIVALS))
    return file


def emitted(counts):
    return len(SURVIVALS) + sum(
        sum(row[:count]) for row, count in zip(SURVIVALS, counts, strict=True)
    )


def test_stated_survivals_are_split_as_by_brute_force(rooftree, survivals):
    rows = rooftree("tree", "--split-over", survivals, "--nodes", "4,7,10,40", "--json").answer[
        "splits"
    ]
    for row, total in zip(rows, (0, 3, 6, 11), strict=True):
        every = itertools.product(*(range(len(each) + 1) for each in SURVIVALS))
        assert row["tokens_per_step"] == pytest.approx(
            max(emitted(c) for c in every if sum(c) == total)
        )
        assert row["tokens_per_step"] == pytest.approx(emitted(row["draft_tokens"]))
        assert sum(row["draft_tokens"]) + row["unused_nodes"] + row["requests"] == row["nodes"]
        assert row["gain_by_chance_ratio"] is None
    # six draft tokens, as many for each: 2, 2, 1 and 1
    assert rows[2]["uniform_tokens_per_step"] == pytest.approx(emitted((2, 2, 1, 1)))
    assert rows[2]["gain_ratio"] > 0


def test_requests_of_a_recording_gain_more_than_equal_ones_would(rooftree):
    words = ("tree", "--acceptance", TRACE, "--split-over", "6", "--nodes", "12,30", "--depth", "6")
    rows = rooftree(*words, "--json").answer["splits"]
    for row in rows:
        assert len(row["draft_tokens"]) == 6 and sum(row["draft_tokens"]) == row["nodes"] - 6
        assert row["gain_ratio"] >= -1e-12 and row["gain_by_chance_ratio"] >= -1e-12
    assert max(row["gain_ratio"] - row["gain_by_chance_ratio"] for row in rows) > 0
    printed = " ".join(rooftree(*words).out.split())
    assert "what equal requests would seem to gain" in printed


def test_equal_requests_gain_nothing(rooftree, tmp_path):
    file = tmp_path / "equal.json"
    file.write_text(json.dumps([[0.8, 0.5, 0.3]] * 5))
    (row,) = rooftree("tree", "--split-over", file, "--nodes", "15", "--json").answer["splits"]
    assert row["draft_tokens"] == [2] * 5 and row["gain_ratio"] == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "lists of"),
        ("[[0.5, 0.6]]", "never increase"),
        ("[[2]]", "probabilities"),
        ("{", "must be JSON"),
        ("[[]]", "lists of"),
        ('[["a"]]', "probabilities"),
    ],
)
def test_bad_survivals_are_named(rooftree, tmp_path, text, message):
    file = tmp_path / "bad.json"
    file.write_text(text)
    done = rooftree("tree", "--split-over", file)
    assert done.code == 2 and message in done.err and str(file) in done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--split-over", "4"), "--split-over: draws requests of a recording"),
        (
            ("--split-over", "4", "--acceptance", "0.6"),
            "--split-over: draws requests of a recording",
        ),
        (("--split-over", "100000", "--acceptance", TRACE), "the requests of the recording"),
        (("--split-over", "6", "--acceptance", TRACE, "--nodes", "3"), "6 roots need 6 nodes"),
        (
            ("--split-over", "6", "--acceptance", TRACE, "--robust"),
            "--robust: goes without --split-over",
        ),
        (("--split-over", "absent.json"), "absent.json"),
    ],
)
def test_misuse_is_named(rooftree, words, message):
    done = rooftree("tree", *words)
    assert done.code == 2 and message in done.err


def test_chance_is_what_counting_gains():
    from app.answers.trees.batch_splits import VerifiedBatch, node_splits

    vectors = np.tile(np.array([[0.6, 0.2]]), (8, 3, 1))
    few, many = (
        node_splits(VerifiedBatch(vectors=vectors, counted=np.full(8, count)), [32], 1)[0]
        for count in (20, 20_000)
    )
    assert few.gain_ratio == many.gain_ratio == pytest.approx(0.0, abs=1e-9)
    assert (
        few.gain_by_chance_ratio > 0.001
        and many.gain_by_chance_ratio < 0.2 * few.gain_by_chance_ratio
    )
