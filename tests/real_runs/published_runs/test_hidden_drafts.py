"""Runs that speculated although no column says so: told by image and day, and taken as they stand
where both ran."""

import itertools

import pytest

from hardware_profiles.loader import device_names
from real_runs.published_runs.hidden_drafts import HIDDEN_DRAFTS, drafted

RUN = {
    "engine": "tensorrt-llm",
    "model": "deepseek-v3",
    "device": "h200-sxm",
    "precision": "fp8",
    "day": "2026-01-14",
    "image": "nvcr.io#nvidia/tensorrt-llm/release:1.1.0rc2.post2",
}


@pytest.mark.parametrize(
    ("changes", "speculated"),
    [
        ({}, True),
        ({"image": None}, True),  # nothing else ran on that day
        ({"day": "2026-01-28"}, False),  # both ways
        ({"day": "2025-12-15"}, False),  # before there was a script
        ({"day": None}, False),
        ({"model": "llama-3.1-70b"}, False),
        ({"engine": "sglang"}, False),
        (
            {
                "device": "b200-sxm",
                "image": "nvcr.io/nvidia/tensorrt-llm/release:1.2.0rc6.post3",
                "day": None,
            },
            True,
        ),
        (
            {
                "device": "b200-sxm",
                "image": "nvcr.io/nvidia/tensorrt-llm/release:1.2.0rc6.post3",
                "day": "2026-03-25",
            },
            True,
        ),
        (
            {
                "device": "b200-sxm",
                "image": "nvcr.io/nvidia/tensorrt-llm/release:1.2.0rc6.post2",
                "day": None,
            },
            False,
        ),
        ({"device": "b200-sxm", "image": None, "day": "2026-02-05"}, False),
        ({"device": "b200-sxm", "image": None, "day": None}, False),
    ],
)
def test_an_image_and_a_day_tell(changes, speculated):
    assert drafted(**(RUN | changes)) is speculated


@pytest.mark.parametrize("each", HIDDEN_DRAFTS, ids=lambda each: f"{each.engine} {each.tags[0]}")
def test_every_entry_holds_for_a_device_at_hand(each):
    runs = itertools.product(each.models, device_names(), each.tags)
    assert any(
        drafted(
            engine=each.engine,
            model=model,
            device=device,
            precision=each.precision,
            image=f"x:{tag}",
            day=each.first,
        )
        for model, device, tag in runs
    )


def test_what_the_development_rows_hide_is_told(reference_data):
    """`hidden_mtp` is a second reading of images and days; where it says no, no row is taken for a
    speculating one."""
    import pyarrow.parquet as pq

    rows = pq.read_table(reference_data / "serving" / "silicon_sample_2.parquet").to_pylist()
    told = {"no": 0, "possible": 0}
    for row in rows:
        engine = {"trtllm": "tensorrt-llm"}.get(row["backend"], row["backend"])
        told[row["hidden_mtp"]] += drafted(
            engine=engine,
            model=row["model_path"].split("/")[-1].lower(),
            device=row["system"].replace("_", "-"),
            precision=row["precision"],
            image=row["image"],
            day=(row["measured"] or "")[:10] or None,
        )
    assert told["no"] == 0
    assert told["possible"] == sum(
        row["hidden_mtp"] == "possible" and row["measured"].startswith("2026-01-14") for row in rows
    )
