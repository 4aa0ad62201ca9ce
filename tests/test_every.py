"""One test for many values tries them all, names those that fail, and passes none by."""

import pytest

from tests.every import every


def test_every_value_is_tried_and_those_that_fail_are_named():
    tried = []

    @every("number", range(5))
    def check(number):
        tried.append(number)
        assert number % 2 == 0

    with pytest.raises(BaseExceptionGroup, match="2 of 5") as told:
        check()
    assert tried == [0, 1, 2, 3, 4]
    assert [error.__notes__ for error in told.value.exceptions] == [
        ["for number = 1"],
        ["for number = 3"],
    ]


@every("left, right", [(1, 2), (3, 4)])
@every("factor", [1, 10])
def test_arguments_are_combined_and_fixtures_are_handed_on(root, left, right, factor):
    assert root.is_dir() and factor * left < factor * right


def test_a_check_that_expects_an_error_fails_without_it():
    @every("value", ["1", "x"])
    def check(value):
        with pytest.raises(ValueError, match="invalid"):
            int(value)

    with pytest.raises(BaseExceptionGroup, match="1 of 2"):
        check()


def test_what_skips_for_all_values_is_skipped_and_nothing_is_no_success():
    def skips(value):
        if value < 2:
            pytest.skip("small")

    every("value", [1, 2])(skips)()
    with pytest.raises(pytest.skip.Exception, match="small"):
        every("value", [0, 1])(skips)()
    with pytest.raises(AssertionError, match="nothing"):
        every("value", [])(skips)()
