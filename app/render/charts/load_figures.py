"""How are waiting times distributed under a load, measured beside simulated? Names are untrusted
and leave escaped.
"""

import html
from collections.abc import Mapping, Sequence

import numpy as np

from app.render.charts.charts import PALETTE, Figure, framed
from hardware_profiles.units import MILLI

MOST_POINTS = 200  # of a line; more requests are shown by as many quantiles


def distribution_figure(
    times_s: Mapping[str, tuple[Sequence[float], Sequence[float]]], title: str
) -> Figure | None:
    """Shares of requests that waited no longer, one colour a load, dashed where simulated; None
    without any time.

    Args:
        times_s: measured and simulated seconds of the requests, by load; nan where there was none.
        title: of the times.
    """
    data: list[Figure] = []
    for place, (load, sides) in enumerate(times_s.items()):
        for word, seconds, dash in zip(
            ("measured", "simulated"), sides, ("solid", "dash"), strict=True
        ):
            finite = np.sort(np.asarray(seconds, dtype=np.float64))
            finite = finite[np.isfinite(finite)]
            if not finite.size:
                continue
            share = np.linspace(0.0, 1.0, min(finite.size, MOST_POINTS) + 1)[1:]
            name = f"{html.escape(load)} {word}"
            data.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": name,
                    "x": (np.quantile(finite, share, method="inverted_cdf") / MILLI).tolist(),
                    "y": (100 * share).tolist(),
                    "line": {"color": PALETTE[place % len(PALETTE)], "dash": dash, "shape": "hv"},
                    "hovertemplate": f"{name}<br>%{{y:.0f}} % within %{{x:.4g}} ms<extra></extra>",
                }
            )
    if not data:
        return None
    return framed(
        data,
        {"type": "log", "dtick": "D2", "title": {"text": f"{title} (ms)"}},
        {"title": {"text": "requests (%)"}, "range": [0, 101]},
    )
