"""Rows of published tables are stated to be of the launch that their lengths, image and day tell."""

import pytest

from real_runs.published_runs.stated_launches import with_stated_launches

ROW = {
    "backend": "vllm",
    "model_path": "meta-llama/Llama-3.1-8B-Instruct",
    "system": "h200_sxm",
    "isl": 1024,
    "osl": 1024,
    "concurrency": 16,
}
OWN = "vllm/vllm-openai:v0.18.0"
DYNAMO = "nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.8.0"


def stated(**changes):
    return with_stated_launches([ROW | changes], file="t.csv")[0]


@pytest.mark.parametrize(
    ("changes", "launch"),
    [
        ({}, None),
        ({"measured": "2025-10-29T00:00:00.000Z"}, "inferencex-2025-10-29"),
        ({"image": OWN}, "inferencex"),
        ({"image": OWN, "measured": "2026-03-27"}, "inferencex-2026-03-27"),
        ({"batch_size": 16}, "aiconfigurator"),
        ({"batch_size": 16, "image": DYNAMO}, "aiconfigurator"),
        ({"batch_size": 16, "image": OWN}, "inferencex"),
        ({"batch_size": 16, "image": OWN, "isl": 2000}, None),
        ({"launch": "inferencex", "batch_size": 16}, "inferencex"),
    ],
)
def test_lengths_image_and_day_tell_the_launch(changes, launch):
    assert stated(**changes).get("launch") == launch


def test_nothing_else_of_a_row_changes():
    row = stated(batch_size=16, note="x")
    assert row == ROW | {"batch_size": 16, "note": "x", "launch": "aiconfigurator"}


def test_drafts_that_no_column_tells_of_are_stated():
    hidden = {
        "backend": "trtllm",
        "model_path": "deepseek-ai/DeepSeek-R1",
        "precision": "fp8",
        "measured": "2026-01-14",
    }
    assert stated(**hidden)["speculation"] == "mtp"
    for other in ({"measured": "2025-12-15"}, {"mode": "disagg"}, {"model_path": "acme/none"}):
        assert "speculation" not in stated(**(hidden | other))
    assert stated(**hidden, speculation="eagle")["speculation"] == "eagle"


def test_records_of_inferencex_are_named_by_their_date():
    raw = {
        "engine": "vllm",
        "hardware": "h100",
        "model": "openai/gpt-oss-120b",
        "date": "2025-12-15",
        "isl": 1024,
        "osl": 1024,
    }
    assert with_stated_launches([raw], file="t")[0]["launch"] == "inferencex-2025-12-15"
