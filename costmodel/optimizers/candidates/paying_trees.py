"""From which node on does a tree pay no more, on a deployment, at a batch and a context?

The seconds of steps with more and more nodes are priced, and a line that is flat and then rises is
laid through them: the roofline under which a tree's growth stops (`traces.replay.dynamic`). A
system that measures this line on its device is asked about so. Leaves out which nodes a tree takes.

Reference: Oh et al. 2026, "Bastion" (arXiv:2605.29727).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from costmodel.answers.estimate import Setting, step_cost
from costmodel.laws.claims import tokens_claim
from costmodel.method import Shape
from costmodel.passes.ops import Array


def calibrated_limits(setting: Setting, limits: Shape, *, batch: int, context: int) -> Shape:
    """The limits of a dynamic tree with the roofline of a deployment.

    Args:
        setting: whose steps are priced.
        limits: with nodes and depth.
        batch: requests, all of which draft as many nodes.
        context: cached tokens per request.
    """
    sizes = _sizes(limits.nodes)
    seconds = [
        float(
            step_cost(
                setting,
                tokens_claim(setting.drafter.method, 1.0, replace(limits, nodes=nodes)),
                batch=float(batch),
                context=float(context),
            ).total_s
        )
        for nodes in sizes
    ]
    free, ratio = roofline(sizes, seconds)
    return replace(limits, cost_ratio=ratio, free_nodes=free)


def roofline(nodes: Sequence[int], seconds: Sequence[float]) -> tuple[int, float]:
    """Nodes that cost nothing, and the share of a step that each further one adds.

    Of all lines that are flat up to one of the numbers of nodes and rise from there, the one with
    the least squares.

    Example:
        >>> roofline([1, 2, 4, 8], [1.0, 1.0, 1.0, 1.2])
        (4, 0.05)

    Args:
        nodes: rising, at least two.
        seconds: of steps with so many, > 0.
    """
    x, y = np.array(nodes, dtype=np.float64), np.array(seconds)

    def fitted(free: int) -> tuple[float, Array]:
        beyond = np.maximum(x - free, 0.0)
        line = np.linalg.lstsq(np.stack([np.ones_like(x), beyond], axis=1), y, rcond=None)[0]
        return float(np.sum((line[0] + line[1] * beyond - y) ** 2)), line

    free = min(nodes[:-1], key=lambda count: fitted(count)[0])
    flat, rise = fitted(free)[1]
    return free, float(f"{np.clip(rise / flat, 0.0, 1.0):.3g}")  # digits that a shape spells


def _sizes(most: int) -> list[int]:
    """Numbers of nodes up to `most`, each half again the one before."""
    sizes = [1]
    while sizes[-1] < most:
        sizes.append(min(most, int(sizes[-1] * 1.5) + 1))
    return sizes
