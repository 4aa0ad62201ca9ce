"""Column chunks by a footer of our own reading: those that pyarrow sees, and damaged footers that
end no process."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from traces.storage.parquet_footer import column_chunks

ROOT = Path(__file__).parents[3]
EVERY_BIT = """
import sys
from hardware_profiles.errors import RooftreeError
from traces.storage.parquet_files import opened_parquet

path, damaged = sys.argv[1:]
raw = open(path, "rb").read()
refused = 0
for at in range(len(raw) - 8 - int.from_bytes(raw[-8:-4], "little"), len(raw) - 8):
    for bit in range(8):
        flipped = bytearray(raw)
        flipped[at] ^= 1 << bit
        open(damaged, "wb").write(flipped)
        try:
            with opened_parquet(damaged) as parquet:
                parquet.read()
        except RooftreeError:
            refused += 1
print(refused)
"""


@pytest.fixture
def table():
    return pa.table({"a": [1, 2, 3], "b": ["x", "yy", "z"], "c": [[1.0], [2.0, 3.0], []]})


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_chunks_are_those_that_pyarrow_sees(table, tmp_path, rows):
    path = tmp_path / "t.parquet"
    pq.write_table(table, path, row_group_size=rows)
    footer = pq.ParquetFile(path).metadata
    seen = [
        footer.row_group(g).column(c)
        for g in range(footer.num_row_groups)
        for c in range(footer.num_columns)
    ]
    found = column_chunks(path.read_bytes())
    assert [(c.column, c.values, c.unpacked_bytes, c.bytes) for c in found] == [
        (
            c.path_in_schema.partition(".")[0],
            c.num_values,
            c.total_uncompressed_size,
            c.total_compressed_size,
        )
        for c in seen
    ]
    assert [c.is_text for c in found] == [c.physical_type == "BYTE_ARRAY" for c in seen]
    assert [c.first_page for c in found] == [
        c.dictionary_page_offset or c.data_page_offset for c in seen
    ]


@pytest.mark.heavy
def test_a_footer_with_any_bit_flipped_ends_no_process(table, tmp_path):
    """pyarrow's own view of a chunk aborts on some of these."""
    path = tmp_path / "t.parquet"
    pq.write_table(table, path)
    words = [sys.executable, "-c", EVERY_BIT, str(path), str(tmp_path / "damaged.parquet")]
    done = subprocess.run(words, check=False, capture_output=True, text=True, cwd=ROOT, timeout=600)
    assert done.returncode == 0, done.stderr[-500:]
    assert int(done.stdout) > 1000


@pytest.mark.parametrize(
    "data", [b"", b"PAR1", b"\xff\xff\xff\x7fPAR1", b"\x00\x00\x00\x00\x00PAR1", bytes(64)]
)
def test_what_is_no_footer_is_refused(data):
    with pytest.raises((ValueError, IndexError)):
        column_chunks(data)
