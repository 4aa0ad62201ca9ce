"""Which serving engines are known? One module under `engines/` each; adding a file adds an engine,
and installed packages provide others.

A file of the user's (`costmodel.engines.record.file`) stands for one of them with numbers measured
on a machine.
"""

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from costmodel import engines
from costmodel.engines import refining
from costmodel.engines.record.engine import Engine
from costmodel.engines.record.refining import Refining
from hardware_profiles.entry_points import provided
from hardware_profiles.errors import InputError, UnknownNameError


@cache
def _shipped() -> Mapping[str, tuple[str, Engine]]:
    """Module and record of every engine here, by name."""
    modules = sorted(
        module.name for module in pkgutil.iter_modules(engines.__path__) if not module.ispkg
    )
    records = [
        (name, importlib.import_module(f"{engines.__name__}.{name}").ENGINE) for name in modules
    ]
    return {record.name: (module, record) for module, record in records}


@cache
def _records() -> Mapping[str, tuple[str, Engine]]:
    """Module and record of every engine, by name; those of packages have no module here."""
    shipped = _shipped()

    def require_free(engine: Engine) -> None:
        if engine.name in shipped:
            raise InputError("is the name of a shipped engine", key="name", value=engine.name)

    others = provided("rooftree.engines", Engine, require_free)
    # nothing here writes configurations for them, whatever these can express
    own = {engine.name: ("", replace(engine, options=None)) for engine in others}
    return {**shipped, **own}


def engine_names() -> list[str]:
    """Names of all engines, sorted; `none` stands for passes alone."""
    return sorted(_records())


def load_engine(name: str) -> Engine:
    """The record of an engine.

    Example:
        >>> load_engine("trtllm").name
        'tensorrt-llm'

    Args:
        name: in any case; aliases stand for their engine; or the path of an engine file, which ends
            in .toml.

    Raises:
        UnknownNameError: no such engine; the nearest names are offered.
        InputError: an engine file that cannot be read or is wrong.
    """
    if name in _shipped():  # what packages provide may be made of it
        return _shipped()[name][1]
    if not _is_file(name):
        return _records()[_known(name)][1]
    from costmodel.engines.record.file import parse_engine_file, with_file

    file = parse_engine_file(Path(name))
    return with_file(_records()[_known(file.like)][1], file)


def engine_module(name: str) -> str:
    """The name of the module of an engine, which its exporter bears too: `tensorrt_llm`.

    Raises:
        UnknownNameError: no such engine.
    """
    return _records()[_known(name)][0]


@cache
def _refining() -> Mapping[str, Refining]:
    modules = [module.name for module in pkgutil.iter_modules(refining.__path__)]
    records = [importlib.import_module(f"{refining.__name__}.{name}").REFINING for name in modules]
    return {record.name: record for record in records}


def refining_names() -> list[str]:
    """Names of the programs whose settings of masked decoding are known, sorted; not all of them
    are engines.
    """
    return sorted(_refining())


def load_refining(name: str) -> Refining:
    """What a program's settings can express of masked decoding.

    Raises:
        UnknownNameError: no such program; the nearest names are offered.
    """
    if (record := _refining().get(name)) is None:
        raise UnknownNameError(
            "program that decodes masked blocks", name, refining_names(), key="engine"
        )
    return record


def _known(name: str) -> str:
    if _is_file(name):
        from costmodel.engines.record.file import parse_engine_file

        name = parse_engine_file(Path(name)).like
    folded, records = name.casefold(), _records()
    aliases = {alias: engine for engine, (_, record) in records.items() for alias in record.aliases}
    canonical = aliases.get(folded, folded)
    if canonical not in records:
        raise UnknownNameError("engine", name, [*engine_names(), *aliases])
    return canonical


def _is_file(name: str) -> bool:
    return name.casefold().endswith(".toml")
