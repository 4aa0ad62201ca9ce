"""How do a drafter's arrays lie in a line of JSON?

Compressed bytes with their type and shape: a line of numbers as text would be ten times as long.
Leaves out which arrays there are (`real_runs.drafters.entries`).
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from traces.kinds.expansions import Expansions, joined

_TYPES = ("int8", "int16", "int32", "int64", "float16", "float32", "bool")
_TREE_ARRAYS = ("offsets", "parents", "rank", "draft_prob", "on_path")
_TREE_LIMITS = ("nodes", "depth", "width")


def encoded(values: NDArray[Any] | Expansions) -> dict[str, Any]:
    """An array or draft trees as JSON values."""
    if isinstance(values, Expansions):
        trees: dict[str, Any] = {name: encoded(getattr(values, name)) for name in _TREE_ARRAYS}
        return trees | {name: getattr(values, name) for name in _TREE_LIMITS}
    data = base64.b64encode(zlib.compress(np.ascontiguousarray(values).tobytes())).decode()
    return {"type": str(values.dtype), "shape": list(values.shape), "data": data}


def decoded(values: Mapping[str, Any]) -> NDArray[Any] | Expansions:
    """What `encoded` made of it.

    Raises:
        InputError: anything else.
    """
    try:
        if "parents" in values:
            trees: dict[str, Any] = {name: decoded(values[name]) for name in _TREE_ARRAYS}
            limits: dict[str, Any] = {name: int(values[name]) for name in _TREE_LIMITS}
            return Expansions(**trees, **limits)
        if values["type"] not in _TYPES:
            raise ValueError(f"type {values['type']}")
        kind, shape = np.dtype(values["type"]), tuple(values["shape"])
        wanted = kind.itemsize * int(np.prod(shape, dtype=np.int64))
        raw = zlib.decompressobj().decompress(
            base64.b64decode(values["data"], validate=True), wanted + 1
        )
        if len(raw) != wanted:
            raise ValueError("length")
        return np.frombuffer(raw, dtype=kind).reshape(shape)
    except (KeyError, TypeError, ValueError, zlib.error) as error:
        raise InputError(f"is no array of a part file ({error})", key="arrays") from None


def concatenated(parts: Sequence[Mapping[str, Any]]) -> NDArray[Any] | Expansions:
    """Encoded arrays of several requests, one after the other.

    Raises:
        InputError: what `decoded` refuses, or kinds that do not go together.
    """
    arrays = [decoded(part) for part in parts]
    trees = [part for part in arrays if isinstance(part, Expansions)]
    if trees:
        if len(trees) < len(arrays):
            raise InputError("holds trees for some requests alone", key="expansions")
        return joined(trees)
    return np.concatenate([part for part in arrays if not isinstance(part, Expansions)])
