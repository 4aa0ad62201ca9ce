"""Which methods are there? One module under `methods/` each; adding a file adds a method."""

import importlib
import pkgutil
from functools import cache

from costmodel import methods
from costmodel.method import Method
from hardware_profiles.errors import UnknownNameError


@cache
def method_names() -> tuple[str, ...]:
    """Slugs of all methods, sorted."""
    return tuple(sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(methods.__path__)))


@cache
def load_method(slug: str) -> Method:
    """The method of a slug such as `eagle-3` (underscores and case do not matter).

    Raises:
        UnknownNameError: no such method; the nearest names are offered.

    >>> load_method("n-gram").drafter
    'ngram'
    """
    name = slug.lower().replace("_", "-")
    if name not in method_names():
        raise UnknownNameError("method", slug, method_names())
    method: Method = importlib.import_module(f"costmodel.methods.{name.replace('-', '_')}").METHOD
    return method
