import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.engines.record.releases import Gate, release_key, releases_for
from hardware_profiles.errors import InputError

READ = ("0.9.2", "0.11.2", "0.24.0")
numbers = st.integers(0, 30)


def test_a_read_release_answers_for_itself():
    assert releases_for("e", "0.11.2", READ) == ("0.11.2",)
    assert releases_for("e", "0.24", READ) == ("0.24.0",)


def test_a_release_in_between_must_meet_both_neighbours():
    assert releases_for("e", "0.12.0", READ) == ("0.11.2", "0.24.0")


@pytest.mark.parametrize("version", ["0.9.1", "0.24.1", "1.0", "newest", "", "0.24.0rc1x"])
def test_a_release_outside_what_was_read_is_unknown(version):
    with pytest.raises(InputError):
        releases_for("e", version, READ)


@given(st.tuples(numbers, numbers, numbers), st.tuples(numbers, numbers, numbers))
def test_releases_are_ordered_by_number_not_by_letter(left, right):
    keys = [release_key(".".join(map(str, parts))) for parts in (left, right)]
    assert (keys[0] < keys[1]) == (left < right)


def test_a_candidate_comes_before_its_release():
    ordered = ["1.3.0rc2", "1.3.0rc10", "1.3.0", "1.4.0rc1"]
    assert sorted(ordered, key=release_key) == ordered


def test_a_gate_admits_both_of_its_ends():
    gate = Gate(first="0.9.0", last="0.20.2", why="gone since")
    assert [gate.admits(each) for each in ("0.8.5", "0.9.0", "0.10.1", "0.20.2", "0.21.0")] == [
        False,
        True,
        True,
        True,
        False,
    ]
    assert gate.span == "exists from 0.9.0 to 0.20.2; gone since"
    assert Gate(first="0.9.0").admits("9.9.9")
