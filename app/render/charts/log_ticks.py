"""Where are the labels of a logarithmic axis, each written as a whole number?

Plotly leaves out the power of ten of those between (2, 5, 10, 2, 5). Leaves out axes that name
their own ticks.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

Axis = dict[str, Any]
MOST_LABELS = 12
_STEPS = ((1,), (1, 3), (1, 2, 5), (1, 2, 3, 4, 5, 6, 7, 8, 9))


def labelled(axis: Axis, values: Iterable[Any]) -> Axis:
    """The axis, with its labels if it is logarithmic and has none of its own.

    Args:
        axis: in Plotly's form; `dtick` 1 asks for powers of ten alone, which are written whole
            anyway.
        values: what is drawn along it; those that are no positive numbers do not count.

    Example:
        >>> labelled({"type": "log"}, [3.0, 60.0])["ticktext"]
        ['5', '10', '20', '50']
    """
    if axis.get("type") != "log" or "tickvals" in axis or axis.get("dtick") == 1:
        return axis
    if ends := axis.get("range"):
        low, high = (10.0**end for end in ends)
    else:
        positive = [
            v
            for v in values
            if isinstance(v, int | float) and not isinstance(v, bool) and 0 < v < math.inf
        ]
        if not positive:
            return axis
        low, high = min(positive), max(positive)
    ticks = log_ticks(low, high)
    if len(ticks) < 2:
        return axis
    other_settings = {
        key: value for key, value in axis.items() if key not in ("dtick", "tickformat")
    }
    return {**other_settings, "tickvals": ticks, "ticktext": [f"{tick:,.12g}" for tick in ticks]}


def log_ticks(low: float, high: float) -> list[float]:
    """As many of 1, 2, 5 times powers of ten from low to high as stand apart, ends included.

    Example:
        >>> log_ticks(1, 100), log_ticks(1, 1e9)[:3]
        ([1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0], [1.0, 10.0, 100.0])
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    chosen: list[float] = []
    for steps in _STEPS:
        ticks = [float(f"{step}e{at}") for at in decades for step in steps]
        inside = [tick for tick in ticks if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]
        if len(inside) > MOST_LABELS and len(chosen) > 1:
            break
        chosen = inside
        if steps == (1, 2, 5) and len(chosen) > 2:
            break
    return chosen


def drawn_along(data: Iterable[Mapping[str, Any]], axis: str) -> list[Any]:
    """Every value that traces draw along `x` or `y`."""
    return [
        value
        for trace in data
        if isinstance(trace.get(axis), list | tuple)
        for value in trace[axis]
    ]
