"""What does a pass over a masked block cost, on average over the passes of the block?

Full passes over prompt and canvas, passes over the block alone or from the block on, and passes that store a finished
block. Leaves out how many tokens a pass commits (`costmodel.laws.refining`).
"""

from dataclasses import replace

import numpy as np

from costmodel.answers.step import StepCost, total_cost
from costmodel.drafters.drafter import Drafter
from costmodel.drafters.pass_costs import WeightedPass
from costmodel.drafters.stage import layer_count
from costmodel.engines.record.overhead import Overhead
from costmodel.passes.forward import Deployment, PassCost, pass_cost
from costmodel.passes.ops import Number
from hardware_profiles.errors import InputError


def refine_step(
    d: Deployment, drafter: Drafter, overhead: Overhead, *, tokens_per_step: float, batch: Number, context: Number
) -> StepCost:
    """The mean pass of a block: what its passes cost together, over those that commit.

    Args:
        d: target, device and how they run.
        drafter: of a method that refines blocks; it drafts nothing.
        overhead: the engine's share of a pass.
        tokens_per_step: tokens that a pass commits on average, >= 1.
        batch: requests.
        context: tokens per request before the canvas.

    Raises:
        InputError: a method that does not refine.

    Reference: Wu et al. 2025, "Fast-dLLM" (arXiv:2505.22618), section 3.2, for the caches of a block's two sides.
    """
    m = drafter.method
    if m.refine is None:
        raise InputError("does not decode masked blocks", key="method", value=m.slug)
    r, block, prompt = m.refine, float(m.shape.nodes), np.asarray(context, dtype=np.float64)
    canvas = max(float(r.canvas_tokens), block)
    passes = block / tokens_per_step
    behind = (canvas + block) / 2.0  # canvas from the block on, over the blocks' mean place

    copies = np.asarray(batch, dtype=np.float64) * r.copies

    def over(rows: Number, cached: Number, *, whole: bool = False, one: bool = False) -> PassCost:
        return pass_cost(d, batch=batch if one else copies, query_tokens=rows, context=cached, prefill=whole)

    every = {"full": over(prompt + canvas, 0.0, whole=True, one=r.forward != "full")}
    if r.forward == "suffix":
        every["suffix"] = over(behind, prompt + canvas - behind)
    if r.forward == "group":  # of a canvas that is half done
        every["group"] = over(tokens_per_step, prompt + (canvas - tokens_per_step) / 2.0)
    every["block"] = over(block, prompt + canvas - block)
    renewed = float(r.full_passes) if r.forward != "full" else passes
    weights = {"full": renewed / passes}
    if r.forward != "full":
        weights[r.forward] = (passes - renewed) / passes
    weights["block"] = weights.get("block", 0.0) + r.closing_passes / passes
    verify: list[WeightedPass] = [(weight, every[kind]) for kind, weight in weights.items() if weight > 0.0]
    if r.auxiliary_ratio:
        layers = layer_count(r.auxiliary_ratio, d.architecture, "refine.auxiliary_ratio")
        other = replace(d, architecture=d.architecture.with_layers(layers))
        verify.append((1.0, pass_cost(other, batch=batch, query_tokens=block, context=prompt)))
    return total_cost([], verify, drafter, overhead, speculates=np.asarray(False), requests=batch)
