"""Packing gives the same bytes every time and back what went in; archives from outside are not
trusted."""

import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow")

from hardware_profiles.errors import InputError
from real_runs.campaigns import results
from real_runs.campaigns.packing import packed, unpacked

NAMES = st.from_regex(r"\A[a-z0-9_-]{1,12}(/[a-z0-9_-]{1,12})?\.(parquet|jsonl|safetensors)\Z")


@given(st.dictionaries(NAMES, st.binary(max_size=200), max_size=6))
def test_what_goes_in_comes_back_and_order_does_not_matter(tmp_path_factory, files):
    folder = tmp_path_factory.mktemp("zip")
    size = packed(files, folder / "a.zip")
    packed(dict(reversed(files.items())), folder / "b.zip")
    assert unpacked(folder / "a.zip") == files
    assert (folder / "a.zip").read_bytes() == (folder / "b.zip").read_bytes()
    assert size == (folder / "a.zip").stat().st_size <= results._archived_bytes(files)
    assert len(list(folder.iterdir())) == 2


@pytest.mark.parametrize(
    "name", ["../x.parquet", "/etc/x", "a/../b", "a b", "", "a//b", "x\\y", "a/b/c/d/e"]
)
def test_names_that_are_not_plain_are_refused_both_ways(tmp_path, name):
    with pytest.raises(InputError, match="plain"):
        packed({name: b""}, tmp_path / "a.zip")
    assert list(tmp_path.iterdir()) == []
    if name:
        with zipfile.ZipFile(tmp_path / "b.zip", "w") as archive:
            archive.writestr(name, b"x")
        with pytest.raises(InputError):
            unpacked(tmp_path / "b.zip")


def test_bombs_and_broken_archives_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(1 << 20))
    with pytest.raises(InputError, match="together"):
        unpacked(tmp_path / "bomb.zip", most_bytes=1 << 19)
    (tmp_path / "cut.zip").write_bytes((tmp_path / "bomb.zip").read_bytes()[:-30])
    for name in ("cut.zip", "absent.zip"):
        with pytest.raises(InputError, match="whole zip"):
            unpacked(tmp_path / name)


def test_recordings_are_replaced_job_by_job_and_split_where_they_grow(tmp_path):
    results.merge_recordings(
        tmp_path, "a", {"x.parquet": b"1" * 400, "old.parquet": b"2"}, limit_bytes=1500
    )
    results.merge_recordings(tmp_path, "a", {"x.parquet": b"3" * 400}, limit_bytes=1500)
    assert results.read_recordings(tmp_path) == {"a/x.parquet": b"3" * 400}
    results.merge_recordings(tmp_path, "b", {"y.parquet": b"4" * 900}, limit_bytes=1500)
    assert [path.name for path in results.recording_files(tmp_path)] == [
        "recordings.zip",
        "recordings-2.zip",
    ]
    before = results.read_recordings(tmp_path)
    assert set(before) == {"a/x.parquet", "b/y.parquet"}
    for files in ({"z.parquet": b"5" * 2000}, {f"{n}.parquet": b"6" * 900 for n in range(3)}):
        with pytest.raises(InputError, match="archives"):
            results.merge_recordings(tmp_path, "c", files, limit_bytes=1500)
    assert results.read_recordings(tmp_path) == before
    results.merge_recordings(tmp_path, "b", {"y.parquet": b"7"}, limit_bytes=1500)
    assert [path.name for path in results.recording_files(tmp_path)] == ["recordings.zip"]


def test_unfinished_work_is_kept_and_brought_back(tmp_path):
    work = tmp_path / "work" / "job-1"
    work.mkdir(parents=True)
    (work / "runs.part.jsonl").write_text("{}\n" * 100)
    (work / "bridge.safetensors").write_bytes(b"8" * 5000)
    assert results.keep_unfinished(tmp_path, limit_bytes=2000) == ["job-1/bridge.safetensors"]
    assert [path.name for path in tmp_path.iterdir()] == ["unfinished.zip"]
    results.bring_back_unfinished(tmp_path)
    assert (work / "runs.part.jsonl").read_text() == "{}\n" * 100
    assert not (tmp_path / "unfinished.zip").exists() and not (work / "bridge.safetensors").exists()
    assert results.keep_unfinished(tmp_path / "elsewhere") == []
