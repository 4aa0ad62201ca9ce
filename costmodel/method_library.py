"""Which published methods does the catalogue have? One module under `methods/` each; adding a file
adds a method.
"""

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cache

from costmodel import methods
from costmodel.method import LABELS, Method
from costmodel.transforms.declared import Transform
from hardware_profiles.errors import InputError, UnknownNameError


@cache
def _modules() -> dict[str, str]:
    """Slug to module, of every entry in the folders of `methods`."""
    modules = pkgutil.walk_packages(methods.__path__, f"{methods.__name__}.")
    return {
        module.name.rsplit(".", 1)[1].replace("_", "-"): module.name
        for module in modules
        if not module.ispkg
    }


@cache
def method_names() -> tuple[str, ...]:
    """Slugs of all methods, sorted."""
    return tuple(sorted(_modules()))


@cache
def load_method(slug: str) -> Method:
    """The method of a slug such as `eagle-3` (underscores and case do not matter).

    Example:
        >>> load_method("n-gram").draft[0].by
        'lookup'

    Raises:
        UnknownNameError: no such method; the nearest names are offered.
    """
    name = slug.lower().replace("_", "-")
    if name not in _modules():
        raise UnknownNameError("method", slug, method_names())
    method: Method = importlib.import_module(_modules()[name]).METHOD
    return method


@cache
def priced_names() -> tuple[str, ...]:
    """Slugs of the methods that predictions take, sorted; the others say why they refuse."""
    return tuple(slug for slug in method_names() if not load_method(slug).refusal)


@cache
def priced_alike() -> Mapping[str, str]:
    """Every slug of `priced_names`, to the first one that differs from it in labels alone.

    Published systems whose difference lies in training or in what they draft from are one way of
    decoding to a prediction, apart from the numbers that are stated of them.
    """
    first: dict[str, str] = {}
    for slug in priced_names():
        first.setdefault(_executed(slug), slug)
    return {slug: first[_executed(slug)] for slug in priced_names()}


@cache
def _executed(slug: str) -> str:
    """What a prediction reads of an entry, as text."""
    method = load_method(slug)
    return repr(
        [getattr(method, field.name) for field in fields(method) if field.name not in LABELS]
    )


def require_priced(method: Method) -> None:
    """Refuse a method that cannot be priced, with the reason of its entry.

    Raises:
        InputError: it is out of scope, needs a mechanism that is missing, or is asked about in
            another way.
    """
    if method.refusal:
        raise InputError(method.refusal, key="method", value=method.slug)


@cache
def transform_names() -> tuple[str, ...]:
    """Slugs of the methods that change the target's weights, cache, attention or layers, sorted."""
    return tuple(slug for slug in method_names() if load_method(slug).target)


def listed_names(text: str) -> tuple[str, ...]:
    """Names of a comma-separated list, in order; none where it is empty.

    >>> listed_names("GEAR, Mustafar,")
    ('gear', 'mustafar')
    """
    return tuple(part.strip().casefold() for part in text.split(",") if part.strip())


def named_transforms(names: Sequence[str], *, reach_drafter: bool = False) -> tuple[Transform, ...]:
    """What the named methods change about the target, in order.

    Args:
        names: slugs of methods with changes to the target.
        reach_drafter: only those that draft passes by other networks run under, too.

    Raises:
        UnknownNameError: no such method, or one that leaves the target as it is; the nearest are
            offered.
        InputError: a name that is given twice.
    """
    transforms: list[Transform] = []
    for name in names:
        if names.count(name) > 1:
            raise InputError("is given more than once", key="transform", value=name)
        if name.casefold() not in transform_names():
            raise UnknownNameError("transform", name, transform_names(), key="transform")
        method = load_method(name)
        if method.target_transforms_reach_drafter or not reach_drafter:
            transforms += method.target
    return tuple(transforms)
