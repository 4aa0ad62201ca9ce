"""A kernel trace read back equals the one written; foreign, damaged and implausible files are
refused."""

import json
from dataclasses import fields, replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from traces.storage.acceptance_file import describe, read_acceptance
from traces.storage.header import METADATA_KEY
from traces.storage.kernels import (
    KernelProvenance,
    KernelRow,
    KernelTrace,
    kernel_table,
    read_kernels,
    write_kernels,
)

ROW = KernelRow(
    operation="attention",
    implementation="flash",
    dtype="bf16",
    mask="causal",
    requests=2,
    query_tokens=4,
    context=512,
    heads=32,
    kv_heads=8,
    head_dim=128,
    median_s=2e-5,
    low_s=1.9e-5,
    high_s=2.2e-5,
    repeats=9,
    cold=True,
    graph=True,
    flops=1e9,
    bytes=1e6,
)
TRACE = KernelTrace(
    rows=(
        ROW,
        replace(ROW, job="b", kernels="flash_fwd + combine", packed=True, splits=4, outliers=2),
    ),
    provenance=KernelProvenance(device="NVIDIA H100 80GB HBM3", threads=2, extra={"cuda": "13.0"}),
    skipped=({"implementation": "flex", "reason": "wrong"},),
)
times = st.floats(1e-9, 1e3)
counts = st.integers(0, 1 << 40)


@given(
    spread=st.lists(times, min_size=3, max_size=3).map(sorted),
    sizes=st.lists(counts, min_size=3, max_size=3),
    text=st.text(max_size=20).filter(lambda t: t.isprintable()),
    flags=st.tuples(st.booleans(), st.booleans(), st.booleans()),
)
def test_written_kernel_rows_come_back_equal(tmp_path_factory, spread, sizes, text, flags):
    row = replace(
        ROW,
        low_s=spread[0],
        median_s=spread[1],
        high_s=spread[2],
        requests=sizes[0],
        rows=sizes[1],
        outputs=sizes[2],
        implementation=text,
        cold=flags[0],
        graph=flags[1],
        packed=flags[2],
    )
    file = tmp_path_factory.mktemp("k") / "k.parquet"
    write_kernels(KernelTrace(rows=(row, ROW)), file)
    assert read_kernels(file).rows == (row, ROW)


def test_everything_beside_the_rows_comes_back(tmp_path):
    write_kernels(TRACE, tmp_path / "k.parquet")
    assert read_kernels(tmp_path / "k.parquet") == TRACE
    assert describe(tmp_path / "k.parquet")["kind"] == "kernels"


def test_a_trace_without_rows_is_whole(tmp_path):
    empty = replace(TRACE, rows=())
    write_kernels(empty, tmp_path / "k.parquet")
    assert read_kernels(tmp_path / "k.parquet") == empty


def test_files_from_before_passes_were_timed_are_read(tmp_path):
    table = kernel_table(TRACE)
    pq.write_table(table.drop_columns(["model", "layers"]), tmp_path / "k.parquet")
    assert read_kernels(tmp_path / "k.parquet") == TRACE
    pq.write_table(table.drop_columns(["splits"]), tmp_path / "k.parquet")
    with pytest.raises(InputError, match="splits"):
        read_kernels(tmp_path / "k.parquet")


def test_every_field_of_a_row_has_a_column():
    assert set(kernel_table(TRACE).column_names) == {each.name for each in fields(KernelRow)}


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"operation": "softmax"}, "operation"),
        ({"median_s": 0.0, "low_s": 0.0}, "median_s"),
        ({"median_s": float("nan")}, "median_s"),
        ({"high_s": 1e-6}, "median_s"),
        ({"low_s": 3e-5}, "median_s"),
        ({"repeats": 0}, "repeats"),
        ({"outliers": 10}, "repeats"),
        ({"flops": -1.0}, "flops"),
        ({"bytes": float("inf")}, "bytes"),
        ({"context": -1}, "context"),
    ],
)
def test_impossible_rows_are_refused(change, key):
    with pytest.raises(InputError) as caught:
        replace(ROW, **change)
    assert caught.value.key == key


def altered(path, table=None, **header):
    """Rewrite a file with some of its header, or its table, changed."""
    old = pq.read_table(path)
    known = json.loads(old.schema.metadata[METADATA_KEY]) | header
    new = (table or old).replace_schema_metadata({METADATA_KEY: json.dumps(known).encode()})
    pq.write_table(new, path)


@pytest.mark.parametrize(
    "header",
    [
        {"kind": "acceptance"},
        {"schema": 2},
        {"rows": 3},
        {"provenance": []},
        {"provenance": {"threads": "two"}},
        {"skipped": ["flex"]},
        {"skipped": {}},
    ],
)
def test_a_header_that_does_not_fit_is_refused(tmp_path, header):
    file = tmp_path / "k.parquet"
    write_kernels(TRACE, file)
    altered(file, **header)
    with pytest.raises(InputError, match=r"k\.parquet"):
        read_kernels(file)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("median_s", pa.array([1.0, None])),
        ("median_s", pa.array([-1.0, 1.0])),
        ("requests", pa.array([1.5, 2.0])),
        ("cold", pa.array([0, 2], pa.int8())),
        ("operation", pa.array([1, 2])),
        ("operation", pa.array(["gemm", "rm -rf"])),
    ],
)
def test_a_column_that_does_not_fit_is_refused(tmp_path, column, values):
    file = tmp_path / "k.parquet"
    write_kernels(TRACE, file)
    table = pq.read_table(file)
    altered(file, table.set_column(table.column_names.index(column), column, values))
    with pytest.raises(InputError, match=r"k\.parquet"):
        read_kernels(file)


def test_a_missing_column_a_truncated_and_an_absent_file_are_refused(tmp_path):
    file = tmp_path / "k.parquet"
    write_kernels(TRACE, file)
    whole = file.read_bytes()
    altered(file, pq.read_table(file).drop_columns(["bytes"]))
    for damage in (file.read_bytes(), whole[: len(whole) // 2], b"", b"PAR1" + whole[4:100]):
        file.write_bytes(damage)
        with pytest.raises(InputError):
            read_kernels(file)
    with pytest.raises(InputError, match="no such file"):
        read_kernels(tmp_path / "none.parquet")


def test_kinds_are_not_mixed_up(tmp_path):
    write_kernels(TRACE, tmp_path / "k.parquet")
    with pytest.raises(InputError, match="kind acceptance"):
        read_acceptance(tmp_path / "k.parquet")


def test_provenance_that_json_cannot_hold_is_refused(tmp_path):
    bad = replace(TRACE, provenance=KernelProvenance(extra={"a": float("nan")}))
    with pytest.raises(InputError, match="JSON"):
        write_kernels(bad, tmp_path / "k.parquet")
    assert list(tmp_path.iterdir()) == []
