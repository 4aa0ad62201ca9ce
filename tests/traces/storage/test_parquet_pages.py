"""Values of pages, whatever the footer says of them."""

import io
import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from tests.property_examples import examples
from traces.storage.parquet_files import LIMIT_VARIABLE, opened_parquet
from traces.storage.parquet_pages import page_sizes

pytestmark = pytest.mark.heavy

MANY = 40_000_000


@settings(max_examples=examples(25))
@given(
    st.lists(st.lists(st.integers(-9, 9), max_size=30), min_size=1, max_size=40),
    st.sampled_from(["none", "snappy", "zstd"]),
    st.sampled_from(["1.0", "2.0"]),
    st.booleans(),
    st.integers(1, 200),
)
def test_pages_hold_what_an_honest_footer_says(rows, compression, version, checksums, page_bytes):
    stream = io.BytesIO()
    table = pa.table(
        {"lists": pa.array(rows, pa.list_(pa.int64())), "texts": [str(row) for row in rows]}
    )
    pq.write_table(
        table,
        stream,
        compression=compression,
        data_page_version=version,
        write_page_checksum=checksums,
        data_page_size=page_bytes,
        row_group_size=7,
    )
    footer = pq.ParquetFile(stream).metadata
    for group in range(footer.num_row_groups):
        for column in range(footer.num_columns):
            chunk = footer.row_group(group).column(column)
            start = min(filter(None, (chunk.dictionary_page_offset, chunk.data_page_offset)))
            values, _ = page_sizes(stream.getvalue(), start, chunk.total_compressed_size)
            assert values == chunk.num_values


def whole(number, width=0):
    """A whole number as Thrift's compact protocol writes it, in at least so many bytes."""
    number, written = number << 1, []
    while number >= 128 or len(written) + 1 < width:
        written.append(number & 127 | 128)
        number >>= 7
    return bytes([*written, number])


def test_a_footer_that_states_fewer_values_is_not_believed(tmp_path):
    """Less than a thousand bytes whose footer says 10 values, and whose page holds 320 MB of
    them."""
    path = tmp_path / "small.parquet"
    values = pa.LargeListArray.from_arrays(
        pa.array([0, MANY], pa.int64()), pa.array(np.zeros(MANY, dtype=np.int64))
    )
    pq.write_table(
        pa.table({"a": values}),
        path,
        compression="zstd",
        row_group_size=MANY,
        write_statistics=False,
        store_schema=False,
    )
    content = path.read_bytes()
    end = len(content) - 8 - struct.unpack("<I", content[-8:-4])[0]
    honest = whole(MANY)
    assert content[end:].count(honest)
    path.write_bytes(content[:end] + content[end:].replace(honest, whole(10, len(honest))))
    assert (
        pq.ParquetFile(path).metadata.row_group(0).column(0).num_values == 10
        and path.stat().st_size < 1000
    )
    with pytest.raises(InputError, match=LIMIT_VARIABLE), opened_parquet(path):
        pass


@settings(max_examples=examples(200))
@given(st.binary(max_size=60))
def test_what_is_no_page_is_refused_or_counted(content):
    try:
        values, unpacked = page_sizes(content, 0, len(content))
    except (ValueError, IndexError):
        return
    assert values >= 0 and unpacked >= 0
