"""A file is whole or as it was before, and nothing is left beside it."""

import pytest

from hardware_profiles.errors import InputError
from hardware_profiles.whole_file import whole_file


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
    with pytest.raises(InputError, match="cannot be written"), whole_file(tmp_path / "no" / "a.txt") as part:
        part.write_text("x")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="folder"), whole_file(tmp_path / "folder") as part:
        part.write_text("x")
    assert [each.name for each in tmp_path.iterdir()] == ["folder"]
