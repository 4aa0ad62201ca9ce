"""Which constants bring the answers nearest to a set of measured serving runs?

Refits what `simulator.closed_loop.constants` names, so that any model or GPU can be left out and
predicted by the rest. Mixtures of experts do not take part: what their kernels leave open is larger
than what is sought. Leaves out everything that kernels and sources tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from costmodel.architectures.library import named_model
from costmodel.engine_library import load_engine
from hardware_profiles.errors import InputError, RooftreeError
from simulator.closed_loop.constants import SUSTAINED, Constants, engine_of, shipped
from simulator.closed_loop.table_rows import answer_rows

MEASURED = ("silicon_tpot_ms", "silicon_ttft_ms")
MOST_ROWS = 60  # of an engine, spread over its runs
_FACTORS = ((0.5, 0.7, 0.85, 1.2, 1.4, 2.0), (0.9, 0.95, 1.05, 1.1), (0.97, 1.03))
_LARGEST_ERROR = 0.5  # of a row, as it counts: what is further off has another cause

Row = Mapping[str, Any]


def fit(rows: Sequence[Row]) -> dict[str, float]:
    """Constants with the least mean error in time per output token, and a third of that in time to
    first token.

    Each constant is moved alone by smaller and smaller factors, from the shipped values on; one
    that no row depends on stays.

    Args:
        rows: of a table of serving runs, with the measured `silicon_tpot_ms` and `silicon_ttft_ms`
            (milliseconds).

    Returns:
        every name of `simulator.closed_loop.constants.NAMES`.

    Raises:
        InputError: no row can be used.
    """
    groups = _by_engine(rows)
    if not groups:
        raise InputError("no row of a dense model with measured times", key="rows", value=len(rows))
    constants = shipped()
    losses = {engine: _loss(members, constants) for engine, members in groups.items()}
    for factors in _FACTORS:
        for name in constants:
            concerned = [engine for engine in groups if engine_of(name) in (None, engine)]
            for factor in factors if concerned else ():
                tried = constants | {name: constants[name] * factor}
                if tried[SUSTAINED] > 1.0:
                    continue
                new = {engine: _loss(groups[engine], tried) for engine in concerned}
                if sum(new.values()) < sum(losses[engine] for engine in concerned):
                    constants, losses = tried, losses | new
    return constants


def _by_engine(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Runs of dense models by engine, evenly spread ones where there are many."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        try:
            dense = not named_model(str(row["model_path"]).rstrip("/")).is_moe
            engine = load_engine(str(row["backend"])).name
        except RooftreeError:
            continue
        if dense and all(row.get(column) for column in MEASURED):
            groups.setdefault(engine, []).append(row)
    return {engine: members[:: -(-len(members) // MOST_ROWS)] for engine, members in groups.items()}


def _loss(rows: Sequence[Row], constants: Constants) -> float:
    """Summed errors of the rows that are answered."""
    total = 0.0
    for row, answer in zip(rows, answer_rows(rows, file="rows", constants=constants), strict=True):
        if answer.ttft_ms is None or answer.tpot_ms is None:
            continue
        errors = np.abs(
            np.log([answer.tpot_ms / row[MEASURED[0]], answer.ttft_ms / row[MEASURED[1]]])
        )
        total += float(np.minimum(errors, _LARGEST_ERROR) @ (1.0, 1.0 / 3.0))
    return total
