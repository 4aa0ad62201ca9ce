"""Which serving engines are known? One module under `engines/` each; adding a file adds an engine."""

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache

from costmodel import engines
from costmodel.engines.record.engine import Engine
from hardware_profiles.errors import UnknownNameError


@cache
def _records() -> Mapping[str, tuple[str, Engine]]:
    """Module and record of every engine, by name."""
    modules = sorted(found.name for found in pkgutil.iter_modules(engines.__path__) if not found.ispkg)
    records = [(name, importlib.import_module(f"{engines.__name__}.{name}").ENGINE) for name in modules]
    return {record.name: (module, record) for module, record in records}


def engine_names() -> list[str]:
    """Names of all engines, sorted; `none` stands for passes alone."""
    return sorted(_records())


def load_engine(name: str) -> Engine:
    """The record of an engine.

    Example:
        >>> load_engine("trtllm").name
        'tensorrt-llm'

    Args:
        name: in any case; aliases stand for their engine.

    Raises:
        UnknownNameError: no such engine; the nearest names are offered.
    """
    return _records()[_known(name)][1]


def engine_module(name: str) -> str:
    """The name of the module of an engine, which its exporter bears too: `tensorrt_llm`.

    Raises:
        UnknownNameError: no such engine.
    """
    return _records()[_known(name)][0]


def _known(name: str) -> str:
    asked, records = name.casefold(), _records()
    aliases = {alias: known for known, (_, record) in records.items() for alias in record.aliases}
    found = aliases.get(asked, asked)
    if found not in records:
        raise UnknownNameError("engine", name, [*engine_names(), *aliases])
    return found
