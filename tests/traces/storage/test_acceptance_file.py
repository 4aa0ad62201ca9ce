"""Files: what is written comes back, and nothing foreign or damaged gets through as anything but an
InputError."""

import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from tests.property_examples import examples
from traces.kinds.acceptance import AcceptanceTrace, Provenance, RequestTrace
from traces.kinds.arrays import leading_hits
from traces.kinds.summary import Summary, Window
from traces.storage.acceptance_file import (
    acceptance_table,
    describe,
    read_acceptance,
    read_requests,
    write_acceptance,
    write_requests,
)
from traces.storage.header import METADATA_KEY

ARRAYS = (
    "prompt_tokens",
    "offsets",
    "emitted",
    "drafted",
    "rank",
    "draft_ids",
    "draft_probs",
    "target_probs",
    "emitted_target_prob",
    "residual_mass",
)
PLAIN = (
    "provenance",
    "request_ids",
    "prompt_kinds",
    "first_step_position",
    "match_rate",
    "rank_width",
    "depth_invariant",
    "summary",
)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@st.composite
def traces(draw):
    """A recording of any level with everything optional drawn."""
    sizes = draw(st.lists(st.integers(0, 12), max_size=4))
    n, r, level = sum(sizes), len(sizes), draw(st.integers(0, 3))
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    parts = {
        "request_ids": tuple(draw(NAMES) for _ in sizes),
        "prompt_kinds": tuple(draw(NAMES) for _ in sizes),
        "prompt_tokens": generator.integers(0, 2**31 - 1, r),
        "first_step_position": draw(st.integers(0, 2)),
        "provenance": Provenance(
            model=draw(NAMES), sampling={"temperature": 0.8}, extra={draw(NAMES): [1, None, "x"]}
        ),
        "extra_columns": {
            "wall_s": generator.random(r).tolist(),
            "sha": [draw(NAMES) for _ in sizes],
        },
    }
    if level == 0 or draw(st.booleans()):
        windows = (
            Window(
                drafts=3,
                draft_tokens=6,
                accepted_tokens=2,
                batch_requests=draw(st.none() | st.just(4)),
            ),
        )
        parts["summary"] = Summary(
            acceptance_by_depth=(0.5, 0.25), sibling_vectors=((0.6, 0.1),), windows=windows
        )
    if level == 0:
        return AcceptanceTrace(provenance=parts["provenance"], summary=parts["summary"])
    offsets = np.cumsum([0, *sizes])
    invariant, width, depth = (
        draw(st.booleans()),
        draw(st.sampled_from([1, 5, 300])),
        draw(st.integers(1, 4)),
    )
    rank = generator.integers(-1, width, (n,) if invariant else (n, depth)) * generator.integers(
        0, 2
    )
    parts |= {"offsets": offsets, "emitted": leading_hits(rank, offsets) + 1}
    if draw(st.booleans()):
        parts["drafted"] = np.full(n, draw(st.integers(13, 40)))
    else:
        parts["match_rate"] = draw(st.none() | st.floats(0, 1))
    if level >= 2:
        parts |= {"rank": rank, "rank_width": width, "depth_invariant": invariant}
    if level == 3:
        parts["draft_ids"] = generator.integers(-1, 2**31 - 1, (n, 3))
        parts |= {name: generator.random((n, 3)) for name in ("draft_probs", "target_probs")}
        parts |= {name: generator.random(n) for name in ("emitted_target_prob", "residual_mass")}
    return AcceptanceTrace(**parts)


def assert_same(first, second):
    for name in ARRAYS:
        one, other = getattr(first, name), getattr(second, name)
        assert (one is None) == (other is None), name
        if one is not None:
            assert one.dtype == other.dtype and np.array_equal(one, other), name
    for name in PLAIN:
        assert getattr(first, name) == getattr(second, name), name
    assert {k: list(v) for k, v in first.extra_columns.items()} == dict(second.extra_columns)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


@given(trace=traces())
def test_round_trip(folder, trace):
    file = folder / "trace.parquet"
    write_acceptance(trace, file)
    assert_same(trace, read_acceptance(file))
    about = describe(file)
    assert (about["kind"], about["level"], about["requests"]) == (
        "acceptance",
        trace.level,
        trace.requests,
    )
    assert about["metadata"]["schema"] == 1 and about["bytes"] == file.stat().st_size


@given(
    st.lists(
        st.tuples(
            st.floats(0, 1e6), st.integers(1, 9), st.integers(1, 9), st.lists(st.integers(0, 2**60))
        ),
        max_size=6,
    ),
    st.booleans(),
)
def test_requests_round_trip(folder, rows, with_blocks):
    rows.sort()
    trace = RequestTrace(
        arrival_s=[row[0] for row in rows],
        prompt_tokens=[row[1] for row in rows],
        output_tokens=[row[2] for row in rows],
        prefix_blocks=tuple(tuple(row[3]) for row in rows) if with_blocks else None,
        provenance=Provenance(dataset="made up"),
    )
    file = folder / "requests.parquet"
    write_requests(trace, file)
    again = read_requests(file)
    for name in ("arrival_s", "prompt_tokens", "output_tokens"):
        np.testing.assert_array_equal(getattr(trace, name), getattr(again, name))
    assert (again.prefix_blocks, again.provenance) == (trace.prefix_blocks, trace.provenance)
    assert describe(file)["kind"] == "requests" and describe(file)["level"] is None


@pytest.fixture(scope="module")
def sound(folder):
    rank = np.array([[0, 1], [1, 0], [-1, 2], [0, 0]])
    trace = AcceptanceTrace(
        offsets=[0, 3, 4],
        emitted=[2, 1, 1, 2],
        rank=rank,
        rank_width=3,
        prompt_kinds=("math", "chat"),
    )
    file = folder / "sound.parquet"
    write_acceptance(trace, file)
    return file


@settings(max_examples=examples(150))
@given(data=st.data())
def test_damaged_files_are_refused_or_unharmed(folder, sound, data):
    """Cut anywhere or change any bytes: an InputError that names the file, or the very same
    trace."""
    raw = bytearray(sound.read_bytes())
    if data.draw(st.booleans()):
        raw = raw[: data.draw(st.integers(0, len(raw) - 1))]
    else:
        places = st.tuples(st.integers(0, len(raw) - 1), st.integers(0, 255))
        for place, value in data.draw(st.lists(places, min_size=1, max_size=4)):
            raw[place] = value
    file = folder / "damaged.parquet"
    file.write_bytes(raw)
    try:
        again = read_acceptance(file)
    except InputError as error:
        assert "damaged.parquet" in str(error)
    else:
        np.testing.assert_array_equal(again.emitted, [2, 1, 1, 2])
        np.testing.assert_array_equal(again.rank, [[0, 1], [1, 0], [-1, 2], [0, 0]])


@pytest.mark.parametrize(
    "content", [b"", b"PAR1", b"PAR1PAR1", b"hello, world" * 50, b'{"requests": []}']
)
def test_foreign_files(tmp_path, content):
    file = tmp_path / "foreign.parquet"
    file.write_bytes(content)
    for read in (read_acceptance, read_requests, describe):
        with pytest.raises(InputError, match=r"foreign\.parquet: is no whole Parquet file"):
            read(file)


def test_absent_files_and_folders(tmp_path):
    for path in (tmp_path / "absent.parquet", tmp_path, "nul\0byte"):
        with pytest.raises(InputError):
            read_acceptance(path)


def test_parquet_of_another_program(tmp_path):
    file = tmp_path / "other.parquet"
    pq.write_table(pa.table({"emitted": [[1]]}), file)
    with pytest.raises(InputError, match="no rooftree trace"):
        read_acceptance(file)
    with pytest.raises(InputError, match="no rooftree trace"):
        describe(file)


def changed(sound, tmp_path, *, header=None, columns=None, drop=()):
    """The sound file with header keys or columns replaced."""
    table = pq.read_table(sound)
    document = json.loads(table.schema.metadata[METADATA_KEY])
    document.update(header or {})
    for name in drop:
        table = table.drop_columns([name])
    for name, values in (columns or {}).items():
        if name in table.column_names:
            table = table.drop_columns([name])
        table = table.append_column(name, values)
    file = tmp_path / "changed.parquet"
    pq.write_table(
        table.replace_schema_metadata({METADATA_KEY: json.dumps(document).encode()}), file
    )
    return file


@pytest.mark.parametrize(
    ("header", "key"),
    [
        ({"schema": 2}, "schema"),
        ({"schema": True}, "schema"),
        ({"schema": "1"}, "schema"),
        ({"kind": "confidence"}, "kind"),
        ({"kind": "requests"}, "kind"),
        ({"kind": ["acceptance"]}, "kind"),
        ({"first_step_position": -1}, "first_step_position"),
        ({"first_step_position": 0.5}, "first_step_position"),
        ({"rank_width": 2}, "rank"),
        ({"rank_width": "3"}, "rank_width"),
        ({"rank_depth": 3}, "rank"),
        ({"rank_depth": None}, "rank"),
        ({"rank_depth": 0}, "rank"),
        ({"depth_invariant": None}, "depth_invariant"),
        ({"match_rate": "high"}, "match_rate"),
        ({"match_rate": 7}, "match_rate"),
        ({"provenance": None}, "provenance"),
        ({"provenance": {"model": 3}}, "provenance.model"),
        ({"provenance": {"extra": "x"}}, "provenance.extra"),
        ({"summary": []}, "summary"),
        ({"summary": {"drafts": 1.5}}, "summary"),
        ({"summary": {"drafts": -1}}, "summary.drafts"),
        ({"summary": {"windows": [{"surprise": 1}]}}, "summary"),
        ({"summary": {"windows": 3}}, "summary"),
        ({"summary": {"acceptance_by_depth": ["a"]}}, "summary"),
        ({"summary": {"sibling_vectors": [[2.0]]}}, "summary.sibling_vectors"),
        ({"level": 3}, None),
        ({"requests": 7}, None),
    ],
)
def test_wrong_headers(sound, tmp_path, header, key):
    file = changed(sound, tmp_path, header=header)
    with pytest.raises(InputError) as caught:
        read_acceptance(file)
    assert caught.value.key == key and "changed.parquet" in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "drop", "key"),
    [
        ({"emitted": pa.array([[2, 1, 0], [2]])}, (), "emitted"),
        ({"emitted": pa.array([[2, 1, None], [2]])}, (), "emitted"),
        ({"emitted": pa.array([[2, 1, 1], None])}, (), "emitted"),
        ({"emitted": pa.array([2, 1])}, (), "emitted"),
        ({"emitted": pa.array([["a"], ["b"]])}, (), "emitted"),
        ({"emitted": pa.array([[2.5, 1, 1], [2]])}, (), "emitted"),
        ({"emitted": pa.array([[70_000, 1, 1], [2]])}, (), "emitted"),
        ({"emitted": pa.array([[3, 1, 1], [2]])}, (), "emitted"),
        ({"rank": pa.array([[0, 1, 1, 0, -1, 3], [0, 0]])}, (), "rank"),
        ({"rank": pa.array([[0, 1, 1, 0], [0, 0]])}, (), "rank"),
        ({"drafted": pa.array([[1, 1, 1], [-1]])}, (), "drafted"),
        ({"drafted": pa.array([[1, 1], [1, 1]])}, (), "drafted"),
        ({"prompt_tokens": pa.array([1.5, 2.0])}, (), "prompt_tokens"),
        ({"prompt_tokens": pa.array([1, -2])}, (), "prompt_tokens"),
        ({"request": pa.array([1, 2])}, (), "request"),
        ({"request": pa.array(["a", None])}, (), "request"),
        ({"nested": pa.array([{"a": 1}, {"a": 2}])}, (), "nested"),
        ({}, ("prompt_kind",), "prompt_kind"),
        ({}, ("rank",), None),
        ({}, ("emitted",), "emitted"),
    ],
)
def test_wrong_columns(sound, tmp_path, columns, drop, key):
    file = changed(sound, tmp_path, columns=columns, drop=drop)
    with pytest.raises(InputError) as caught:
        read_acceptance(file)
    assert caught.value.key == key and "changed.parquet" in str(caught.value)


@pytest.mark.parametrize("raw", [b"[]", b"{", b"\xff", b"[" * 100_000])
def test_headers_that_are_no_object(sound, tmp_path, raw):
    file = tmp_path / "header.parquet"
    pq.write_table(pq.read_table(sound).replace_schema_metadata({METADATA_KEY: raw}), file)
    with pytest.raises(InputError, match="must be a JSON object"):
        read_acceptance(file)


def test_requests_are_no_acceptance(sound, tmp_path):
    with pytest.raises(InputError, match="of kind requests"):
        read_requests(sound)
    file = tmp_path / "requests.parquet"
    write_requests(
        RequestTrace(arrival_s=[2.0, 3.0], prompt_tokens=[1, 1], output_tokens=[1, 1]), file
    )
    table = pq.read_table(file)
    unsorted = table.set_column(0, "arrival_s", pa.array([3.0, 2.0]))
    pq.write_table(unsorted, file)
    with pytest.raises(InputError, match=r"requests\.parquet: arrival_s: arrivals must be sorted"):
        read_requests(file)


def test_too_many_rows(sound, monkeypatch):
    monkeypatch.setattr("traces.storage.parquet_files.MAX_ROWS", 1)
    with pytest.raises(InputError, match="at most 1 rows, got 2"):
        read_acceptance(sound)


def test_too_large_a_file(sound, monkeypatch):
    monkeypatch.setattr("traces.storage.parquet_files.MAX_FILE_BYTES", 100)
    with pytest.raises(InputError, match="must be at most 100 bytes"):
        read_acceptance(sound)


def test_writing_is_all_or_nothing(tmp_path, monkeypatch):
    file = tmp_path / "trace.parquet"
    old = AcceptanceTrace(offsets=[0, 1], emitted=[1])
    write_acceptance(old, file)
    before = file.read_bytes()

    def full_disk(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("traces.storage.parquet_files.pq.write_table", full_disk)
    with pytest.raises(OSError, match=r"No space left on device: .*trace\.parquet"):
        write_acceptance(AcceptanceTrace(offsets=[0, 1], emitted=[2]), file)
    assert file.read_bytes() == before and list(tmp_path.iterdir()) == [file]
    with pytest.raises(InputError, match="cannot be written"):
        write_acceptance(old, tmp_path / "absent" / "trace.parquet")


def test_what_cannot_be_stored():
    trace = {"offsets": [0, 1], "emitted": [1]}
    for extra, key in (({"x": [object()]}, "x"), ({"rank": [1]}, "rank")):
        with pytest.raises(InputError) as caught:
            acceptance_table(AcceptanceTrace(**trace, extra_columns=extra))
        assert caught.value.key == key
    for value in (object(), float("nan")):
        with pytest.raises(InputError, match="JSON values"):
            acceptance_table(AcceptanceTrace(**trace, provenance=Provenance(extra={"x": value})))


def test_what_is_no_plain_file_is_never_replaced(tmp_path):
    """A trace written over a pipe or a folder would take its place; both stay as they were."""
    pipe, folder = tmp_path / "pipe", tmp_path / "folder"
    os.mkfifo(pipe)
    folder.mkdir()
    trace = AcceptanceTrace(offsets=np.array([0, 2]), emitted=np.array([2, 1]))
    for place in (pipe, folder):
        with pytest.raises(InputError, match="plain file"):
            write_acceptance(trace, place)
    assert pipe.is_fifo()
    with pytest.raises(InputError, match="regular file"):
        read_acceptance(pipe)  # opening it would wait for a writer that never comes
    assert sorted(tmp_path.iterdir()) == [folder, pipe]
    with pytest.raises(InputError, match="cannot be written"):
        write_acceptance(trace, tmp_path / ("x" * 300))
