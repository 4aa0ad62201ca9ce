"""A library of methods that knows the published ones alone, for as long as a test lasts."""

from contextlib import contextmanager

from costmodel import method_library


@contextmanager
def forgotten():
    """Nothing that was read from files before is known; what is read meanwhile is forgotten."""
    before = dict(method_library._OWN)
    method_library._OWN.clear()
    method_library._forget()
    try:
        yield
    finally:
        method_library._OWN.clear()
        method_library._OWN.update(before)
        method_library._forget()
