"""`record --masked`: options arrive, and the policies of what was recorded are shown."""

import json

import pytest

from tests.traces.toy_masked import ANCHORS, toy_trace
from traces.storage.confidence_file import write_confidence

pytest.importorskip("torch")


def test_recorded_policies_are_shown(rooftree, tmp_path, monkeypatch):
    asked = []

    def recorded(options, *, progress):
        asked.append(options)
        write_confidence(toy_trace(ANCHORS), options.out / "toy.parquet")
        return (options.out / "toy.parquet",)

    monkeypatch.setattr("app.answers.recordings.masked.record_masked", recorded)
    done = rooftree("record", "--masked", "--out", tmp_path, "--seed", "7", "--resume", "--json")
    assert done.code == 0, done.err
    answer = json.loads(done.out)
    assert answer["traces"] == [str(tmp_path / "toy.parquet")]
    assert [row["commit"] for row in answer["policies"]] == ["static", "threshold", "threshold"]
    assert asked[0].recipe.seed == 7
    assert (
        asked[0].resume and asked[0].prompts == 64 and asked[0].caches == ("none", "prefix", "dual")
    )
    shown = rooftree("record", "--masked", "--out", tmp_path)
    assert shown.code == 0 and "agreement" in shown.out


@pytest.mark.parametrize(
    "words",
    [
        ("--drafter", "all"),
        ("--level", "2"),
        ("--candidates", "4"),
        ("--dtype", "float32"),
        ("--device", "cpu"),
        ("--threads", "1"),
        ("--max-new-tokens", "64"),
        ("--no-skip-bridge",),
        ("--prompts-per-kind", "1"),
    ],
)
def test_what_a_masked_recording_does_not_take_is_refused(rooftree, tmp_path, words):
    """Also where the value is the option's own default."""
    done = rooftree("record", "--masked", "--out", tmp_path / "new", *words)
    assert done.code == 2 and words[0] in done.err
    assert not (tmp_path / "new").exists()


def test_a_file_in_the_place_of_the_folder_is_refused(rooftree, tmp_path):
    (tmp_path / "file").write_text("")
    done = rooftree("record", "--masked", "--out", tmp_path / "file")
    assert done.code == 2 and "must be a folder" in done.err
