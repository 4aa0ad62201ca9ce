"""Which methods are known by name? Those that were published, one module under `methods/` each;
those that installed packages provide; and those of files that were read.

A name stands for one method at a time: a file takes no name of a published one.
"""

import importlib
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

from costmodel import methods
from costmodel.method import LABELS, Method
from costmodel.transforms.declared import Transform
from hardware_profiles.entry_points import provided
from hardware_profiles.errors import InputError, UnknownNameError, joined


@dataclass(frozen=True, kw_only=True, slots=True)
class _Entry:
    """A method that is none of the published ones, and the file it was read from; None: another
    place.
    """

    method: Method
    file: str | None = None


_OWN: dict[str, _Entry] = {}


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
def _provided() -> Mapping[str, Method]:
    """Methods of installed packages, by slug."""
    entries = provided("rooftree.methods", Method, _require_sound)
    return {entry.slug: entry for entry in entries}


def _require_sound(method: Method) -> None:
    """Refuse a package's method that takes a published name or contradicts itself."""
    from costmodel.method_rules import contradictions  # names alone do not need it

    if wrong := contradictions(method):
        raise joined(wrong)
    if method.slug in _modules():
        _require_published(method, None)


def method_names() -> tuple[str, ...]:
    """Slugs of all methods, sorted."""
    return tuple(sorted({*_modules(), *_provided(), *_OWN}))


@cache
def published_names() -> tuple[str, ...]:
    """Slugs of the methods of the catalogue, sorted."""
    return tuple(sorted(_modules()))


def load_method(slug: str) -> Method:
    """The method of a slug such as `eagle-3` (underscores and case do not matter), or of a file.

    Example:
        >>> load_method("n-gram").draft[0].by
        'lookup'

    Args:
        slug: of a method, or the path of a file that ends in .toml, whose method is known by its
            own slug from then on.

    Raises:
        UnknownNameError: no such method; the nearest names are offered.
        InputError: a file that holds no method, or one under the name of another.
    """
    if is_method_file(slug):
        from costmodel.method_file import read_method_file  # the same

        method = read_method_file(Path(slug))
        learn_method(method, file=slug)
        return method
    if (entry := entry_of(slug)) is not None:
        return entry
    name = slug.lower().replace("_", "-")
    if name not in _modules():
        raise UnknownNameError("method", slug, method_names())
    return _published(name)


@cache
def _published(name: str) -> Method:
    method: Method = importlib.import_module(_modules()[name]).METHOD
    return method


def is_method_file(name: str) -> bool:
    """Whether a name is the path of a method's file."""
    return name.casefold().endswith(".toml")


def learn_method(method: Method, *, file: str | None = None, named_in: str | None = None) -> None:
    """Let a method be known by its slug, in the place of one that was read under it before.

    Args:
        method: none of the published ones.
        file: that was named and holds it, which goes over what is known already.
        named_in: a file that mentions it, such as a configuration, which does not.

    Raises:
        InputError: the slug is a published method's, or that of another file that was named.
    """
    known = _OWN.get(method.slug)
    if method.slug in _modules():
        _require_published(method, file or named_in)
        return
    if known is not None and known.method == method and known.file == (file or known.file):
        return
    if known is not None and known.method != method and known.file not in (None, file):
        rule = f"is the name of another method in {known.file}; choose another"
        raise InputError(rule, file=file or named_in, key="slug", value=method.slug)
    _OWN[method.slug] = _Entry(method=method, file=file)
    _forget()


def _require_published(method: Method, file: str | None) -> None:
    if method != _published(method.slug):
        rule = "is the name of a published method with other fields; choose another"
        raise InputError(rule, file=file, key="slug", value=method.slug)


@contextmanager
def standing_in(method: Method) -> Iterator[None]:
    """Let every lookup of a slug return this method meanwhile, be it that of a published one.

    Args:
        method: perhaps a copy of an entry with other fields.
    """
    before = _OWN.get(method.slug)
    _OWN[method.slug] = _Entry(method=method)
    _forget()
    try:
        yield
    finally:
        del _OWN[method.slug]
        if before is not None:
            _OWN[method.slug] = before
        _forget()


def entry_of(slug: str) -> Method | None:
    """The method of a slug, where it is known and none of the published ones; None otherwise."""
    name = slug.lower().replace("_", "-")
    if name in _OWN:
        return _OWN[name].method
    return None if name in _modules() else _provided().get(name)


def spelled(slug: str) -> str:
    """How a question names a method: the file it was read from, else its slug."""
    known = _OWN.get(slug)
    return slug if known is None or known.file is None else known.file


def _forget() -> None:
    """Drop what was derived from all methods."""
    for derived in (priced_names, priced_alike, transform_names):
        derived.cache_clear()


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
