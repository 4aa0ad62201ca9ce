"""Sizes of decoded Parquet: what a few kilobytes would grow to is refused before any value is
read."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hardware_profiles.errors import InputError
from traces.storage import parquet_files
from traces.storage.parquet_files import LIMIT_VARIABLE, decoded_values, opened_parquet

pytestmark = pytest.mark.heavy

MANY = 40_000_000
BOMBS = {
    "numbers": lambda: pa.nulls(MANY, pa.int64()).fill_null(0),
    "one list": lambda: pa.LargeListArray.from_arrays(
        pa.array([0, MANY], pa.int64()), pa.nulls(MANY, pa.int64())
    ),
    "texts": lambda: pa.array(["x" * 1000]).take(pa.nulls(400_000, pa.int32()).fill_null(0)),
    "lists of a fixed size": lambda: pa.nulls(MANY // 100, pa.list_(pa.int64(), 100)),
}


@pytest.mark.parametrize("name", BOMBS)
def test_what_decodes_to_more_than_the_limit_is_refused_unread(tmp_path, monkeypatch, name):
    path = tmp_path / "small.parquet"
    pq.write_table(
        pa.table({"values": BOMBS[name]()}), path, compression="zstd", row_group_size=MANY
    )
    assert path.stat().st_size < 400_000
    monkeypatch.setattr(parquet_files, "MAX_ROWS", 2 * MANY)
    monkeypatch.setattr(pq.ParquetFile, "read", None)
    with pytest.raises(InputError, match=LIMIT_VARIABLE) as caught, opened_parquet(path):
        pass
    assert (caught.value.key, caught.value.file) == ("bytes of values", str(path))
    assert caught.value.value > parquet_files.MAX_VALUE_BYTES


def test_repeated_texts_within_the_limit_are_read(tmp_path, monkeypatch):
    """Their chunk times their number is beyond it; what they decode to is not."""
    path = tmp_path / "texts.parquet"
    texts = pa.array([f"prompt {at % 300} " + "x" * 300 for at in range(20_000)] + [None])
    pq.write_table(pa.table({"name": texts, "at": range(20_001)}), path)
    monkeypatch.setattr(parquet_files, "MAX_VALUE_BYTES", 8 << 20)
    with opened_parquet(path) as parquet:
        assert parquet.read().num_rows == 20_001
    monkeypatch.setattr(parquet_files, "MAX_VALUE_BYTES", 4 << 20)
    with pytest.raises(InputError, match="must decode to at most 4 MiB"), opened_parquet(path):
        pass


@pytest.mark.parametrize(("given", "taken"), [("400", True), ("100", False)])
def test_the_limit_may_be_set(tmp_path, monkeypatch, given, taken):
    path = tmp_path / "large.parquet"
    pq.write_table(pa.table({"values": pa.nulls(MANY, pa.int64())}), path)
    monkeypatch.setattr(parquet_files, "MAX_ROWS", 2 * MANY)
    monkeypatch.setenv(LIMIT_VARIABLE, given)
    if taken:
        with opened_parquet(path):
            assert decoded_values(path) == {"values": MANY}
    else:
        with (
            pytest.raises(InputError, match="must decode to at most 100 MiB"),
            opened_parquet(path),
        ):
            pass


@pytest.mark.parametrize("given", ["0", "-1", "many", "1e3", "9" * 30])
def test_a_limit_that_is_no_number_is_named(tmp_path, monkeypatch, given):
    pq.write_table(pa.table({"a": [1]}), tmp_path / "t.parquet")
    monkeypatch.setenv(LIMIT_VARIABLE, given)
    with pytest.raises(InputError) as caught, opened_parquet(tmp_path / "t.parquet"):
        pass
    assert caught.value.key == LIMIT_VARIABLE


def test_a_column_that_stands_twice_is_named(tmp_path):
    pq.write_table(
        pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]),
        tmp_path / "t.parquet",
    )
    with (
        pytest.raises(InputError, match="this column once") as caught,
        opened_parquet(tmp_path / "t.parquet"),
    ):
        pass
    assert caught.value.key == "a"
