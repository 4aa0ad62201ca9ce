"""Sibling acceptance probabilities as people write them: one vector, or one vector per draft depth.

Answers whether such numbers are usable and reads them from JSON. Leaves out where they come from:
recorded traces give them through `traces.replay.statistics`.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from hardware_profiles.outside_file import read_bounded
from traces.kinds.naming import naming

AcceptanceVectors: TypeAlias = Sequence[float] | Sequence[Sequence[float]] | NDArray[np.float64]

MAX_WIDTH = 4096
MAX_DEPTHS = 256
MAX_FILE_BYTES = 8 << 20
SUM_TOLERANCE_RATIO = 1e-6


def acceptance_levels(
    acceptance: AcceptanceVectors, levels: int
) -> tuple[list[NDArray[np.float64]], bool]:
    """The vector that holds at each draft depth of a tree of `levels` levels, root included.

    Args:
        acceptance: `p` with p[k] = probability that the k-th sibling (from 0) is the accepted one,
            at any depth; or a list of such vectors, one per draft depth, of any widths.
            Probabilities in [0, 1], sums at most 1.
        levels: levels of the tree, root included, at least 1.

    Returns:
        float64 vectors for draft depths 1, 2, ... (as many as there are levels below the root, and
        at most as many as were given by depth), and whether they were given by depth.

    Raises:
        InputError: a number is not a probability, a sum exceeds 1, or a vector is empty or too
            long.
    """
    by_depth = len(acceptance) > 0 and not np.isscalar(acceptance[0])
    if not by_depth:
        return [_vector(acceptance, "acceptance")] * (levels - 1), False
    if len(acceptance) > MAX_DEPTHS:
        raise InputError(
            f"at most {MAX_DEPTHS} vectors are allowed", key="acceptance", value=len(acceptance)
        )
    vectors = [_vector(row, f"acceptance[{depth}]") for depth, row in enumerate(acceptance)]
    return vectors[: levels - 1], True


def read_acceptance(path: str | Path) -> tuple[float, ...] | tuple[tuple[float, ...], ...]:
    """Read a sibling vector (JSON list) or one vector per depth (JSON list of lists).

    Args:
        path: file of at most 8 MiB.

    Returns:
        The numbers as tuples, checked as in `acceptance_levels`.

    Raises:
        InputError: the file is missing, too large, not JSON, or holds anything but probabilities.
    """
    with naming(str(path)):
        acceptance = _parsed(Path(path))
        acceptance_levels(cast(AcceptanceVectors, acceptance), MAX_DEPTHS)
    return tuple(tuple(row) if isinstance(row, list) else row for row in acceptance)


def _parsed(path: Path) -> list[Any]:
    try:
        parsed = json.loads(read_bounded(path, MAX_FILE_BYTES))
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON ({type(error).__name__})") from None
    if not isinstance(parsed, list):
        raise InputError(
            "must be a list of numbers, or a list of such lists", value=type(parsed).__name__
        )
    return parsed


def _vector(row: object, key: str) -> NDArray[np.float64]:
    if not isinstance(row, list | tuple | np.ndarray) or not 1 <= len(row) <= MAX_WIDTH:
        raise InputError(f"must be a list of 1..{MAX_WIDTH} numbers", key=key, value=_short(row))
    for rank, probability in enumerate(row):
        is_number = isinstance(probability, int | float | np.integer | np.floating)
        if not is_number or isinstance(probability, bool) or not 0 <= probability <= 1:
            raise InputError(
                "must be a probability in 0..1", key=f"{key}[{rank}]", value=_short(probability)
            )
    vector = np.array(row, dtype=np.float64)
    total = float(np.sum(vector))
    if total > 1 + SUM_TOLERANCE_RATIO:
        raise InputError(
            "siblings exclude each other: their probabilities sum to at most 1",
            key=key,
            value=total,
        )
    return vector


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
