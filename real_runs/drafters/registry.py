"""Which drafters decode or record here? One module under `entries/` each; adding a file adds a
drafter.

Names are known without loading any. Leaves out what an entry says (`drafter`).
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from hardware_profiles.errors import InputError, UnknownNameError
from real_runs.drafters import entries

if TYPE_CHECKING:
    from real_runs.drafters.drafter import Arrays, Drafter, LoopDrafter, RecordedDrafter
    from real_runs.drafters.target import Target


def _modules() -> dict[str, str]:
    """Name to module, of every entry."""
    return {
        module.name.replace("_", "-"): f"{entries.__name__}.{module.name}"
        for module in pkgutil.iter_modules(entries.__path__)
    }


def drafter_names() -> tuple[str, ...]:
    """Names of all drafters, sorted."""
    return tuple(sorted(_modules()))


@cache
def load_drafter(name: str) -> Drafter:
    """The entry of a drafter.

    Raises:
        UnknownNameError: no such drafter; the nearest names are offered.
    """
    if name not in _modules():
        raise UnknownNameError("drafter", name, drafter_names(), key="drafters")
    entry: Drafter = importlib.import_module(_modules()[name]).DRAFTER
    return entry


@cache
def validated_names() -> tuple[str, ...]:
    """Names of the drafters that `validate` runs beside predictions."""
    return tuple(name for name in drafter_names() if load_drafter(name).validated)


def check_drafters(names: Sequence[str]) -> None:
    """Insist on known drafters.

    Raises:
        UnknownNameError: another name.
    """
    for name in names:
        load_drafter(name)


def loop_drafter(name: str, target: Target) -> LoopDrafter:
    """What decodes with a drafter, fitted where it has to be.

    Args:
        name: of `drafter_names()`.
        target: the model and options.

    Raises:
        UnknownNameError: no such drafter.
        InputError: one that no loop runs, or options that do not fit the model.
    """
    propose = load_drafter(name).propose
    if propose is None:
        raise InputError("is recorded, and no loop decodes with it", key="drafter", value=name)
    return propose(target)


def recorded_drafter(name: str, target: Target) -> RecordedDrafter:
    """What a drafter leaves in recordings, cut down to what is asked for.

    Args:
        name: of `drafter_names()`.
        target: the model and options.

    Raises:
        UnknownNameError: no such drafter.
        InputError: options that do not fit the model.
    """
    entry, options = load_drafter(name), target.options
    recorded = replace(entry.observe(target), name=name, method=entry.method)
    if entry.records != "probabilities":
        return recorded

    def observe(*text: Any) -> Arrays:
        arrays: dict[str, Any] = dict(recorded.observe(*text))
        for array in {"draft_ids", "draft_probs"} & arrays.keys():
            if options.level >= 3:
                arrays[array] = arrays[array][:, : options.candidates]
            else:
                del arrays[array]
        return arrays

    return replace(recorded, observe=observe)
