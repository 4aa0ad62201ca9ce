"""How does masked decoding look, pass by pass?

A heat map of how sure the model was of every masked position before every commit, with the commits
marked. Leaves out what the passes cost, and choosing a policy.
"""

import numpy as np

from app.render.charts.charts import NEUTRAL, PALETTE, Figure, framed
from traces.replay.confidence.passes import PromptPasses

# what a browser draws at once; longer runs show their beginning
MOST_PASSES = 256
MOST_POSITIONS = 512
HEIGHT_PIXELS = 460


def confidence_figure(passes: PromptPasses) -> Figure:
    """Probability of the likeliest token by pass (downwards) and position, commits as open squares.

    Empty cells hold a token already, or no recorded state computed them. The line is where the open
    block begins.

    Args:
        passes: of one prompt.
    """
    shown = passes.confidence[:MOST_PASSES, :MOST_POSITIONS].astype(np.float64)
    ids = passes.top_ids[:MOST_PASSES, :MOST_POSITIONS]
    count, width = shown.shape
    is_finite = np.isfinite(shown)
    heat: Figure = {
        "type": "heatmap",
        "x": list(range(1, width + 1)),
        "y": list(range(1, count + 1)),
        "z": [
            [float(f"{v:.4g}") if ok else None for v, ok in zip(*row, strict=True)]
            for row in zip(shown.tolist(), is_finite.tolist(), strict=True)
        ],
        "text": [["" if token < 0 else str(token) for token in row] for row in ids.tolist()],
        "zmin": 0,
        "zmax": 1,
        "colorscale": "Cividis",
        "hoverongaps": False,
        "colorbar": {"title": {"text": "probability"}, "thickness": 12},
        "hovertemplate": (
            "pass %{y}, position %{x}<br><b>%{z:.3f}</b> for token %{text}<extra></extra>"
        ),
    }
    at = passes.committed_at[:width]
    places = np.flatnonzero(at < min(count, len(passes.confidence)))
    commits: Figure = {
        "type": "scatter",
        "mode": "markers",
        "name": "committed",
        "x": (places + 1).tolist(),
        "y": (at[places] + 1).tolist(),
        "hoverinfo": "skip",
        "showlegend": True,
        "marker": {"symbol": "square-open", "size": 7, "color": PALETTE[1], "line": {"width": 2}},
    }
    start = passes.start[:count]
    block: Figure = {
        "type": "scatter",
        "mode": "lines",
        "name": "where the open block begins",
        "showlegend": True,
        "x": [float(v) + 0.5 for v in start],
        "y": list(range(1, count + 1)),
        "hoverinfo": "skip",
        "line": {"color": NEUTRAL, "width": 1.5, "shape": "vh"},
    }
    bottom = {
        "title": {"text": "position in the canvas (tokens)"},
        "showgrid": False,
        "zeroline": False,
        "range": [0.5, width + 0.5],
    }
    side = {
        "title": {"text": "pass"},
        "showgrid": False,
        "zeroline": False,
        "range": [count + 0.5, 0.5],
    }
    return framed([heat, block, commits], bottom, side, height=HEIGHT_PIXELS, showlegend=True)


def confidence_note(passes: PromptPasses) -> str:
    """What the heat map shows and where its numbers are from, in words (not escaped)."""
    count, width = passes.confidence.shape
    words = "as recorded" if passes.is_recorded else "as the nearest recorded states say"
    cut = count > MOST_PASSES or width > MOST_POSITIONS
    rest = (
        f" Shown are the first {MOST_PASSES} passes and {MOST_POSITIONS} positions." if cut else ""
    )
    return f"{passes.prompt}, {passes.policy.name}, {words}.{rest}"
