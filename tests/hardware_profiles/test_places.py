"""Names from outside that may or may not be places."""

from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.places import is_file, is_folder, is_place


@given(st.text(max_size=20) | st.sampled_from(["x" * 5000, "a\0b", "", "\ud800"]))
def test_any_text_is_a_place_or_none(name):
    assert is_place(name) in (True, False)
    assert is_place(name) or not (is_file(name) or is_folder(name))


def test_folders_are_places_and_no_files(tmp_path):
    (tmp_path / "x").write_text("")
    assert (
        is_place(tmp_path),
        is_folder(tmp_path),
        is_file(tmp_path),
        is_file(tmp_path / "x"),
    ) == (
        True,
        True,
        False,
        True,
    )
