"""How wide must intervals of serving runs be? Residuals of published runs, by quantity, class of
models and engine.

    rooftree score TABLE.parquet... --out SCORE
    python -m tests.golden.left_out SCORE/score.json            # prints ratios, and coverage with
    each model left out python -m tests.golden.left_out SCORE/score.json --write    # and writes
    them into simulator/closed_loop/left_out.py

The score must have been made with the ratios that are in that file. An interval's half-width is
that of the kernels' errors and of what the simulation leaves out, added in squares. The first
follows from the intervals; the second is what lets intervals hold 80 % of the measurements of a
set.
"""

import json
import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from app.answers.scoring.measured import QUANTITIES
from costmodel.engine_library import load_engine
from simulator.closed_loop import left_out

Key = tuple[str, str, str]
LEAST = 40  # measurements that a ratio rests on
COVERED = 0.8
# what repeats of one configuration differ by in published runs, on average: no simulation is surer
# than that
REPEATS = {"tpot": 0.048, "ttft": 0.12}
LEVELS = (0.80, 0.81, 0.82, 0.83)  # of the measurements that make a ratio


@dataclass(frozen=True, kw_only=True)
class Residual:
    """One measured time: log(measured / predicted), and the half-width that kernels' errors give
    its interval."""

    quantity: str
    kind: str
    engine: str
    model: str
    log: float
    kernels: float

    @property
    def needed(self) -> float:
        """Half-width of what is left out with which the interval just holds the measurement."""
        return math.sqrt(max(self.log**2 - self.kernels**2, 0.0))


def residuals(rows: Iterable[Mapping[str, Any]]) -> list[Residual]:
    """Residuals of all answered measurements of a score; the shipped half-width is taken out of
    their intervals."""
    made = []
    for row in rows:
        if row["reason"] is not None:
            continue
        engine = load_engine(row["engine"]).name
        kind = left_out.DISAGGREGATED if row["serving"] == "disagg" else row["class"]
        for quantity in QUANTITIES:
            measured, predicted = row[f"measured_{quantity}_ms"], row[f"{quantity}_ms"]
            if measured is None or predicted is None:
                continue
            low, high = row[f"{quantity}_ms_interval"]
            whole, shipped = (
                0.5 * math.log(high / low),
                _half(ratio_of(left_out.RATIOS, (quantity, kind, engine))),
            )
            made.append(
                Residual(
                    quantity=quantity,
                    kind=kind,
                    engine=engine,
                    model=row["model"],
                    log=math.log(measured / predicted),
                    kernels=math.sqrt(max(whole**2 - shipped**2, 0.0)),
                )
            )
    return made


def _half(ratio: float) -> float:
    return math.log1p(ratio)


def ratios(found: Sequence[Residual]) -> dict[Key, float]:
    """A ratio for every set that is large enough, and for each quantity whatever was served.

    Models that made no ratio are held less often than those that did. So a ratio holds a little
    more than 80 % of what made it: the least share at which measurements are held 80 % of the time
    by what other models made.
    """
    table: dict[Key, float] = {}
    for quantity in QUANTITIES:
        own = [r for r in found if r.quantity == quantity]
        if not own:
            continue
        level = next((level for level in LEVELS if _apart(own, level) >= COVERED), LEVELS[-1])
        table |= _ratios(own, level)
    return table


def _apart(found: Sequence[Residual], level: float) -> float:
    """Share of measurements inside intervals that measurements of other models made."""
    models = {r.model for r in found}
    without = {m: [r for r in found if r.model != m] for m in models}
    tables = {m: _ratios(rest, level) for m, rest in without.items() if rest}
    return sum(covered([r], tables[r.model]) for r in found if r.model in tables) / len(found)


def _ratios(found: Sequence[Residual], level: float) -> dict[Key, float]:
    sets: dict[Key, list[float]] = {}
    for r in found:
        for key in left_out.keys(r.quantity, r.kind, r.engine):
            sets.setdefault(key, []).append(r.needed)
    table = {
        key: max(math.expm1(float(np.quantile(needed, level))), REPEATS[key[0]])
        for key, needed in sorted(sets.items())
        if len(needed) >= LEAST or key[1:] == ("", "")
    }
    for quantity in {
        key[0] for key in table
    }:  # what was not measured is no surer than the least sure of what was
        table[quantity, "", ""] = max(ratio for key, ratio in table.items() if key[0] == quantity)
    return table


def ratio_of(table: Mapping[Key, float], key: Key) -> float:
    """The closest ratio that a table has."""
    return next(table[each] for each in left_out.keys(*key) if each in table)


def covered(found: Sequence[Residual], table: Mapping[Key, float]) -> float:
    """Share of measurements inside their intervals."""
    inside = [r.needed <= _half(ratio_of(table, (r.quantity, r.kind, r.engine))) for r in found]
    return sum(inside) / len(inside)


def coverage(found: Sequence[Residual]) -> list[tuple[str, str, int, float, float]]:
    """By quantity and set: measurements, share inside, and inside where no measurement of its model
    made the ratio."""
    table = ratios(found)
    without = {
        m: ratios([r for r in found if r.model != m]) for m in {r.model for r in found}
    }  # levels chosen anew
    rows = []
    for quantity in QUANTITIES:
        own = [r for r in found if r.quantity == quantity]
        if not own:
            continue
        for field in ("kind", "engine", "model"):
            for value in sorted({getattr(r, field) for r in own}):
                part = [r for r in own if getattr(r, field) == value]
                apart = sum(covered([r], without[r.model]) for r in part) / len(part)
                rows.append((quantity, value, len(part), covered(part, table), apart))
        apart = sum(covered([r], without[r.model]) for r in own) / len(own)
        rows.append((quantity, "all", len(own), covered(own, table), apart))
    return rows


def written(table: Mapping[Key, float]) -> str:
    """The module's text with this table."""
    path = Path(left_out.__file__)
    lines = [
        f'    ("{q}", "{kind}", "{engine}"): {ratio:.3f},'
        for (q, kind, engine), ratio in table.items()
    ]
    body = "\n".join(lines)
    return re.sub(
        r"(?s)(RATIOS: .*? = \{\n).*?(\n\}\n)",
        lambda m: m[1] + body + m[2],
        path.read_text(),
        count=1,
    )


if __name__ == "__main__":
    known = residuals(json.loads(Path(sys.argv[1]).read_text())["measurements"])
    for key, value in ratios(known).items():
        print(*key, f"{value:.3f}", sep="\t")
    for quantity, value, size, inside, apart in coverage(known):
        print(
            f"{quantity} {value:24} {size:4} inside {inside:.0%}, with its model left out"
            f" {apart:.0%}"
        )
    if "--write" in sys.argv[1:]:
        Path(left_out.__file__).write_text(written(ratios(known)))
