"""A file is whole or as it was before, and nothing is left beside it."""

import errno
import os
import re
import subprocess
import sys

import pytest

from hardware_profiles.errors import InputError
from hardware_profiles.whole_file import _swept, require_room, whole_file, whole_folder


@pytest.mark.parametrize("synced", [False, True])
def test_the_new_file_takes_the_place_of_the_old_one(tmp_path, synced):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with whole_file(path, synced=synced) as part:
        part.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_what_fails_halfway_leaves_the_old_file_and_nothing_beside_it(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), whole_file(path) as part:
        part.write_text("half")
        _ = 1 / 0
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    with (
        pytest.raises(InputError, match="cannot be written"),
        whole_file(tmp_path / "no" / "a.txt") as part,
    ):
        part.write_text("x")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="folder"), whole_file(tmp_path / "folder") as part:
        part.write_text("x")
    assert [each.name for each in tmp_path.iterdir()] == ["folder"]


@pytest.mark.heavy
def test_two_writers_never_tear_a_file(tmp_path):
    """Processes that write one path: what stands there is always one writer's whole content."""
    path = tmp_path / "a.txt"
    path.write_text("0" * 4096)
    code = (
        "import sys; from pathlib import Path; from hardware_profiles.whole_file import"
        " whole_file\nfor _ in range(60):\n    with whole_file(Path(sys.argv[1])) as part:\n       "
        " with part.open('w') as stream:\n            for _ in range(8): stream.write(sys.argv[2] *"
        " 512); stream.flush()\n"
    )
    about = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    writers = [
        subprocess.Popen([sys.executable, "-c", code, str(path), digit], env=about)
        for digit in "123"
    ]
    seen = set()
    while any(writer.poll() is None for writer in writers):
        seen.add(path.read_text())
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    assert {*seen, path.read_text()} <= {digit * 4096 for digit in "0123"}
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.heavy
def test_parts_of_the_dead_are_swept_and_those_of_the_living_stay(tmp_path):
    code = (
        "import sys, time; from pathlib import Path\nfrom hardware_profiles.whole_file import"
        " whole_file, whole_folder\nwith whole_folder(Path(sys.argv[1]) / 'set') as stage,"
        " whole_file(Path(sys.argv[1]) / 'b.txt') as part:\n    (stage / 'x').write_text('x');"
        " part.write_text('half'); print('begun', flush=True); time.sleep(600)\n"
    )
    about = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    def writer():
        child = subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path)], env=about, stdout=subprocess.PIPE
        )
        assert child.stdout.readline() == b"begun\n"
        return child

    with writer() as dead:
        dead.kill()
    left = {*tmp_path.iterdir()}
    assert len(left) == 2
    mine = tmp_path / ".notes.part"  # no part of ours
    mine.write_text("mine")
    with writer() as alive:
        try:
            parts = {*tmp_path.iterdir()} - left - {mine}
            assert len(parts) == 2, "its own sweep left nothing of the dead and began two parts"
            assert not any(part.exists() for part in left)
            _swept.cache_clear()
            with whole_file(tmp_path / "a.txt") as part:
                part.write_text("a")
            assert {*tmp_path.iterdir()} == parts | {mine, tmp_path / "a.txt"}
        finally:
            alive.kill()


def test_links_are_replaced_and_never_followed(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept.txt").write_text("kept")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.txt").symlink_to(outside / "kept.txt")
    with whole_file(folder / "a.txt") as part:
        part.write_text("new")
    assert (outside / "kept.txt").read_text() == "kept"
    assert not (folder / "a.txt").is_symlink() and (folder / "a.txt").read_text() == "new"
    (folder / "b.txt").symlink_to(outside / "nowhere.txt")
    with pytest.raises(InputError, match="plain file"), whole_file(folder / "b.txt") as part:
        part.write_text("new")
    # a part that somebody puts another file, or a link, in the place of
    with (
        pytest.raises(InputError, match="another file took the place"),
        whole_file(folder / "c.txt") as part,
    ):
        part.unlink()
        part.symlink_to(outside / "kept.txt")
    assert (outside / "kept.txt").read_text() == "kept" and not (folder / "c.txt").exists()


@pytest.mark.parametrize("name", ["é" * 127, "字" * 85, "x" * 255])
def test_the_longest_names_can_be_written(tmp_path, name):
    with whole_file(tmp_path / name) as part:
        part.write_text("x")
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    "code, kind", [(errno.ENOSPC, OSError), (errno.EDQUOT, OSError), (errno.EACCES, InputError)]
)
def test_a_machine_that_fails_is_told_from_a_wrong_place(tmp_path, code, kind):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(kind, match=re.escape(str(path))) as told, whole_file(path):
        raise OSError(code, os.strerror(code))
    assert isinstance(told.value, InputError) == (kind is InputError)
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("fresh", [True, False])
def test_a_set_of_files_appears_whole_or_not_at_all(tmp_path, fresh):
    folder = tmp_path / "set"
    if not fresh:
        (folder / "sub").mkdir(parents=True)
        (folder / "a").write_text("old a")
        (folder / "sub" / "b").write_text("old b")
        (folder / "other").write_text("other")
    before = content(folder)
    with pytest.raises(OSError, match="No space"), whole_folder(folder) as stage:
        fill(stage)
        raise OSError(errno.ENOSPC, "No space left on device")
    assert content(folder) == before
    with whole_folder(folder) as stage:
        fill(stage)
        assert content(folder, hidden=False) == before
    assert content(folder) == {**before, "a": "new a", "sub/b": "new b"}
    assert list(tmp_path.iterdir()) == [folder]


def test_a_folder_in_the_place_of_one_file_leaves_all_as_they_were(tmp_path):
    (tmp_path / "sub" / "b").mkdir(parents=True)
    (tmp_path / "a").write_text("old a")
    with pytest.raises(InputError, match="plain file"), whole_folder(tmp_path) as stage:
        fill(stage)
    assert content(tmp_path) == {"a": "old a"}


def test_folders_that_two_make_at_once_hold_both_sets(tmp_path):
    with whole_folder(tmp_path / "set") as first:
        (first / "a").write_text("1")
        with whole_folder(tmp_path / "set") as second:
            (second / "b").write_text("2")
    assert content(tmp_path / "set") == {"a": "1", "b": "2"}


def test_room_is_asked_for_by_writing(tmp_path, monkeypatch):
    require_room(tmp_path)
    assert not list(tmp_path.iterdir())
    with pytest.raises(InputError, match="cannot be written"):
        require_room(tmp_path / "nowhere")
    if hasattr(os, "posix_fallocate"):
        monkeypatch.setattr(os, "posix_fallocate", full_disk)
        with pytest.raises(OSError, match="No space left on device") as told:
            require_room(tmp_path)
        assert told.value.filename == str(tmp_path)
        assert not list(tmp_path.iterdir())


def fill(stage):
    (stage / "sub").mkdir()
    (stage / "a").write_text("new a")
    (stage / "sub" / "b").write_text("new b")


def content(folder, hidden=True):
    found = {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file()
    }
    return {name: text for name, text in found.items() if hidden or not name.startswith(".")}


def full_disk(*_):
    raise OSError(errno.ENOSPC, "No space left on device")
