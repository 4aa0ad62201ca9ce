"""`predict --tokens-per-step`: stated tokens need no recording, and a shape that can emit them."""

import json

import pytest

PREDICT = ("predict", "--model", "llama-3.1-8b", "--batch", "1,8")


def rows(rooftree, *words):
    return rooftree(*PREDICT, *words, "--json").answer["predictions"]


def test_tokens_are_taken_as_stated(rooftree, tmp_path):
    found = rows(
        rooftree, "--method", "eagle-3", "--tokens-per-step", "3.1", "--draft-tokens", "0,5"
    )
    assert [row["tokens_per_step"] for row in found] == [1.0, 3.1, 1.0, 3.1]
    assert found[1]["speedup"] > 1.0 == found[0]["speedup"]
    shape = tmp_path / "shape.json"
    shape.write_text(
        json.dumps({"parents": [-1, 0, 0, 1, 3], "ranks": [0, 0, 1, 0, 0], "root_included": True})
    )
    (tree, _) = rows(
        rooftree, "--method", "eagle-3", "--tokens-per-step", "3.1", "--tree", str(shape)
    )
    assert (tree["draft_tokens"], tree["tokens_per_step"]) == (4, 3.1)


def test_the_methods_own_shape_stands_in(rooftree):
    found = rows(rooftree, "--method", "eagle-2", "--tokens-per-step", "4.2")
    assert [row["draft_tokens"] for row in found] == [0, 59, 0, 59]
    blocks = rows(rooftree, "--method", "fast-dllm", "--tokens-per-step", "2.77")
    assert [row["draft_tokens"] for row in blocks] == [0, 32, 0, 32]


def test_explanations_add_up_where_phases_overlap(rooftree):
    pearl = (
        "--method",
        "pearl",
        "--draft",
        "llama-3.2-1b",
        "--acceptance",
        "0.8",
        "--draft-tokens",
        "4",
    )
    for row in rows(rooftree, *pearl, "--explain"):
        assert sum(each["seconds"] for each in row["explain"]["operations"]) == pytest.approx(
            row["step_s"]
        )
        parts = row["breakdown_s"]
        assert parts["draft"] + parts["verify"] + parts["overhead"] - parts[
            "hidden"
        ] == pytest.approx(row["step_s"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--method", "eagle-3", "--tokens-per-step", "0.9", "--draft-tokens", "3"), "[1, 4]"),
        (("--method", "eagle-3", "--tokens-per-step", "4.5", "--draft-tokens", "3"), "[1, 4]"),
        (("--method", "dyspec", "--draft", "llama-3.2-1b", "--tokens-per-step", "3"), "no shape"),
        (("--method", "mtp", "--tokens-per-step", "1.5", "--acceptance", "0.5"), "exactly one of"),
        (("--method", "gear", "--acceptance", "0.5"), "drafts nothing"),
    ],
)
def test_what_no_shape_can_emit_is_refused(rooftree, words, said):
    done = rooftree(*PREDICT, *words)
    assert done.code == 2 and said in done.err
