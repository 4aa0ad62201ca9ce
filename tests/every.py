"""Many small checks as one test: every value is tried, and those that fail are told together.

Where a check takes less than pytest needs to list, send and report it, thousands of parametrised
cells cost more than what they check. One that needs a fixture anew for each value stays
parametrised.
"""

import functools
import inspect

import pytest


def every(names, values):
    """Call the decorated check for all values of an argument, or of several whose names commas
    separate.

    `values` may be a function that makes them, which is called when the test runs. Values for which
    it skips are left out; where it skips for all of them, the test is skipped. One decorator may
    stand above another.
    """
    split = [name.strip() for name in names.split(",")]

    def decorate(check):
        @functools.wraps(check)
        def test(**given):
            failed, skipped = [], []
            tried = list(values() if callable(values) else values)
            for value in tried:
                cell = dict(zip(split, value if len(split) > 1 else (value,), strict=True))
                try:
                    check(**given, **cell)
                except pytest.skip.Exception as reason:
                    skipped.append(reason)
                except (Exception, pytest.fail.Exception) as error:
                    error.add_note(
                        f"for {', '.join(f'{name} = {one!r}' for name, one in cell.items())}"
                    )
                    failed.append(error)
            if failed:
                raise BaseExceptionGroup(f"{len(failed)} of {len(tried)} values", failed)
            if len(skipped) == len(tried):
                raise skipped[0] if skipped else AssertionError("there is nothing to check")

        asked = inspect.signature(check)
        left = [each for name, each in asked.parameters.items() if name not in split]
        test.__signature__ = asked.replace(parameters=left)
        return test

    return decorate
