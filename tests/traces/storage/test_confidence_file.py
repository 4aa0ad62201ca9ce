"""Confidence files: what is written comes back, and damage is an InputError that names the file."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from tests.property_examples import examples
from tests.traces.toy_masked import ANCHORS, EVERY_RULE, toy_trace
from traces.kinds.confidence import CANDIDATE_FIELDS, CELL_FIELDS, STEP_FIELDS
from traces.storage.acceptance_file import describe, read_acceptance
from traces.storage.confidence_file import confidence_table, read_confidence, write_confidence
from traces.storage.header import METADATA_KEY

ARRAYS = (
    "policy_of_run",
    "prompt_offsets",
    "prompt_ids",
    "final_ids",
    "committed_at",
    "step_offsets",
    "forward",
    *STEP_FIELDS,
    "wall_s",
    "top_ids",
    "doubt",
    *CELL_FIELDS,
    *CANDIDATE_FIELDS,
)
PLAIN = (
    "provenance",
    "vocabulary",
    "mask_id",
    "end_id",
    "canvas_tokens",
    "policies",
    "request_ids",
    "prompt_kinds",
)


@settings(max_examples=examples(25))
@given(
    st.sets(st.sampled_from(EVERY_RULE), min_size=1, max_size=4),
    st.integers(1, 4),
    st.booleans(),
    st.booleans(),
)
def test_a_file_read_back_equals_the_trace_written(
    tmp_path_factory, policies, prompts, timed, wide
):
    trace = toy_trace(sorted(policies, key=lambda each: each.name), prompts=prompts)
    changes = {} if timed else {"wall_s": None, "entropy": None}
    if wide:
        ids = np.stack([trace.top_ids, trace.top_ids], axis=1)
        changes |= {
            "candidate_ids": ids,
            "candidate_probs": np.full(ids.shape, 0.5, dtype=np.float16),
        }
    trace = toy_trace(trace.policies, prompts=prompts, **changes)
    path = tmp_path_factory.mktemp("traces") / "t.parquet"
    write_confidence(trace, path)
    again = read_confidence(path)
    for name in PLAIN:
        assert getattr(again, name) == getattr(trace, name), name
    for name in ARRAYS:
        mine, other = getattr(trace, name), getattr(again, name)
        assert (mine is None) == (other is None), name
        if mine is not None:
            assert mine.dtype == other.dtype, name
            assert np.array_equal(mine, other), name
    assert describe(path)["kind"] == "confidence"


@pytest.fixture
def table():
    return confidence_table(toy_trace(ANCHORS))


def written(table, path, **header):
    about = json.loads(table.schema.metadata[METADATA_KEY]) | header
    pq.write_table(table.replace_schema_metadata({METADATA_KEY: json.dumps(about).encode()}), path)
    return path


@pytest.mark.parametrize(
    ("key", "header"),
    [
        ("kind", {"kind": "acceptance"}),
        ("schema", {"schema": 9}),
        ("canvas_tokens", {"canvas_tokens": None}),
        ("canvas_tokens", {"canvas_tokens": 0}),
        ("canvas_tokens", {"canvas_tokens": 10**9}),
        ("final_ids", {"canvas_tokens": 8}),
        ("mask_id", {"mask_id": 3.5}),
        ("policies", {"policies": None}),
        ("policies", {"policies": []}),
        ("policy", {"policies": [3]}),
        ("runs", {"runs": 4}),
        ("runs", {"cells": 0}),
        ("provenance", {"provenance": 3}),
    ],
)
def test_headers_that_lie_are_refused(tmp_path, table, key, header):
    path = written(table, tmp_path / "t.parquet", **header)
    with pytest.raises(InputError) as caught:
        read_confidence(path)
    assert (caught.value.key, caught.value.file) == (key, str(path))


@pytest.mark.parametrize(
    "name", ["request", "policy", "committed_at", "forward", "cached_tokens", "top_ids", "doubt"]
)
def test_columns_that_are_missing_are_named(tmp_path, table, name):
    path = written(table.drop_columns([name]), tmp_path / "t.parquet")
    with pytest.raises(InputError) as caught:
        read_confidence(path)
    assert caught.value.key == name


def test_lists_moved_to_another_run_are_refused(tmp_path, table):
    names = ("top_ids", "doubt", "entropy", "logit_gap")
    order = pa.array([1, 0, *range(2, table.num_rows)])
    moved = {name: table.column(name).combine_chunks().take(order) for name in names}
    for name, column in moved.items():
        table = table.set_column(table.column_names.index(name), name, column)
    with pytest.raises(InputError):
        read_confidence(written(table, tmp_path / "t.parquet"))


def test_a_truncated_file_and_another_kind_are_refused(tmp_path, table):
    path = written(table, tmp_path / "t.parquet")
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match="no whole Parquet file"):
        read_confidence(path)
    with pytest.raises(InputError, match="must be a trace of kind acceptance"):
        read_acceptance(written(table, tmp_path / "t.parquet"))


def test_nothing_half_written_stays(tmp_path):
    (tmp_path / "folder.parquet").mkdir()
    with pytest.raises(InputError):
        write_confidence(toy_trace(ANCHORS), tmp_path / "folder.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["folder.parquet"]


@pytest.mark.parametrize(
    ("limit", "key"),
    [
        ("MOST_CELLS", "top_ids"),
        ("MOST_PASSES", "forward"),
        ("MOST_STEP_POSITIONS", "forward"),
        ("MOST_RUN_POSITIONS", "runs"),
    ],
)
def test_a_file_beyond_a_limit_is_refused_unread(tmp_path, table, monkeypatch, limit, key):
    path = written(table, tmp_path / "t.parquet")
    monkeypatch.setattr(f"traces.kinds.confidence.{limit}", 5)
    monkeypatch.setattr(pq.ParquetFile, "read", None)
    with pytest.raises(InputError, match="must hold at most 5 ") as caught:
        read_confidence(path)
    assert (caught.value.file, caught.value.key) == (str(path), key)
