"""How long should the steps of a walk take?

Passes of the target and of drafters that run some of its layers come from the cost model, at
whatever fidelity its deployment has; what the loop and drafters on the host add comes from
`LoopCosts`, fitted on cells and configurations that are never scored. Leaves out how many steps
there are (`walk`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from costmodel.architectures.architecture import Architecture
from costmodel.drafters.drafter import build_drafter
from costmodel.drafters.pass_costs import draft_pass
from costmodel.method_library import load_method
from costmodel.passes.forward import Deployment, pass_cost
from costmodel.passes.measured import measured_pass
from costmodel.passes.ops import Array
from real_runs.validation.configurations import Configuration
from real_runs.validation.walk import Walk

COVERAGE = 0.8


@dataclass(frozen=True, kw_only=True, slots=True)
class DraftLayers:
    """What runs when a drafter runs a part of the target.

    Attributes:
        exit_layer: layers before the early exit.
        skipped: layers that a layer skip leaves out.
    """

    exit_layer: int
    skipped: int


@dataclass(frozen=True, kw_only=True, slots=True)
class LoopCosts:
    """What a decoding loop adds to passes, and by how much passes in it differ from passes by
    themselves.

    Attributes:
        verify: by loop, (a, s): a pass takes exp(a + s·log2 n) times what the cost model says.
        rest: by loop, seconds of a step and of each query row in it.
        draft: by drafter and loop, (ratio to the cost model's passes, seconds of a step, of each
            draft token).
        spread_ratio: half width of the 80 % interval of measured / predicted tokens per second - 1.
    """

    verify: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    rest: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    draft: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)
    spread_ratio: float = 0.3


@dataclass(frozen=True, kw_only=True, slots=True)
class PredictedRun:
    """Seconds of the steps of a walk, by phase, and what it emits.

    Attributes:
        tokens: emitted in all steps together.
        steps: passes of the target.
        request_steps: steps of all requests together.
        draft_s: of all draft passes.
        verify_s: of all verify passes.
        rest_s: of all else.
    """

    tokens: int
    steps: float
    request_steps: float
    draft_s: float
    verify_s: float
    rest_s: float

    @property
    def decode_s(self) -> float:
        """Seconds of all steps."""
        return self.draft_s + self.verify_s + self.rest_s


@dataclass(frozen=True, kw_only=True, slots=True)
class Prediction:
    """What prompts that run together should take.

    Attributes:
        run: seconds by phase, of all steps.
        spread_ratio: half width of the 80 % interval of measured / predicted - 1.
        ttft_s: of a request, from sending it to its first token; None where nothing is sent.
        tpot_s: of a request per token after the first, the mean over requests; None where nothing
            is sent.
    """

    run: PredictedRun
    spread_ratio: float
    ttft_s: float | None = None
    tpot_s: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PredictedSteps:
    """Seconds of every step of a walk, by phase, float64 [steps].

    Attributes:
        draft_s: of its draft passes.
        verify_s: of its verify pass.
        rest_s: of all else.
    """

    draft_s: Array
    verify_s: Array
    rest_s: Array


def loop_of(configuration: Configuration, batch: int) -> str:
    """Which loop runs: those of one request and of several differ, and so do plain, chain and tree
    loops.
    """
    if batch > 1:
        return "batch plain" if not configuration.drafter else "batch"
    return {"off": "plain", "chain": "chain", "tree": "tree"}[configuration.topology]


def predicted_run(
    deployment: Deployment,
    layers: DraftLayers,
    costs: LoopCosts,
    configuration: Configuration,
    steps: Walk,
    batch: int,
) -> PredictedRun:
    """Time the steps of a walk, all together.

    Args:
        deployment: target, device and fidelity.
        layers: of drafters that run a part of the target.
        costs: of the loop.
        configuration: what runs.
        steps: its walk.
        batch: requests that began together.
    """
    seconds = predicted_steps(deployment, layers, costs, configuration, steps, batch)
    return PredictedRun(
        tokens=steps.tokens,
        steps=steps.steps,
        request_steps=steps.request_steps,
        draft_s=float(seconds.draft_s.sum()),
        verify_s=float(seconds.verify_s.sum()),
        rest_s=float(seconds.rest_s.sum()),
    )


def predicted_steps(
    deployment: Deployment,
    layers: DraftLayers,
    costs: LoopCosts,
    configuration: Configuration,
    steps: Walk,
    batch: int,
) -> PredictedSteps:
    """Time every step of a walk.

    Args:
        deployment: target, device and fidelity.
        layers: of drafters that run a part of the target.
        costs: of the loop.
        configuration: what runs.
        steps: its walk.
        batch: requests that began together.
    """
    loop = loop_of(configuration, batch)
    offset, slope = costs.verify.get(loop, (0.0, 0.0))
    n = steps.query_tokens.astype(np.float64)
    verify = verify_s(deployment, steps, tree=configuration.topology == "tree") * np.exp(
        offset + slope * np.log2(n)
    )
    step_s, row_s = costs.rest.get(loop, (0.0, 0.0))
    rest = step_s + row_s * steps.requests * n
    drafted = np.zeros(steps.steps)
    if configuration.drafter:
        ratio, request_s, token_s = costs.draft.get(
            f"{configuration.drafter} {loop}", (1.0, 0.0, 0.0)
        )
        network = draft_network_s(deployment, layers, configuration, steps)
        drafted = ratio * network + request_s * steps.requests + token_s * steps.drafted
    return PredictedSteps(draft_s=drafted, verify_s=verify, rest_s=rest)


def verify_s(deployment: Deployment, steps: Walk, *, tree: bool = False) -> Array:
    """Seconds of every verify pass by the cost model, float64 [steps].

    Args:
        deployment: target, device and fidelity.
        steps: the walk.
        tree: passes take a tree mask, which measured passes tell from a causal one.
    """
    b, n, c = (
        column.astype(np.float64) for column in (steps.requests, steps.query_tokens, steps.context)
    )
    if deployment.fidelity == "measured":
        cost = measured_pass(
            deployment, batch=b, query_tokens=n, context=c, mask="tree" if tree else "causal"
        )
        return np.asarray(np.broadcast_to(cost.total_s, b.shape))
    return np.asarray(
        np.broadcast_to(pass_cost(deployment, batch=b, query_tokens=n, context=c).total_s, b.shape)
    )


def draft_network_s(
    deployment: Deployment, layers: DraftLayers, configuration: Configuration, steps: Walk
) -> Array:
    """Seconds of a drafter's own passes in every step, float64 [steps]; zero for drafters on the
    host, and for networks that are no part of the target, whose costs are fitted.

    Args:
        deployment: target, device and fidelity.
        layers: of drafters that run a part of the target.
        configuration: drafter, and the levels that it drafts.
        steps: the walk.
    """
    widths = _pass_widths(configuration)
    target = deployment.architecture
    b, c = steps.requests.astype(np.float64), steps.context.astype(np.float64)
    total = np.zeros(steps.steps)
    if configuration.drafter == "early-exit":
        drafter = build_drafter(load_method("early-exit"), target, exit_layer=layers.exit_layer)
        for depth, width in enumerate(widths):
            cost = draft_pass(
                deployment,
                drafter,
                drafter.stages[0],
                batch=b,
                query_tokens=float(width),
                context=c + depth,
            )
            total = total + cost.total_s
    elif configuration.drafter == "layer-skip":
        short = replace(deployment, architecture=_shorter(target, layers.skipped))
        for depth, width in enumerate(widths):
            n = (
                steps.unread.astype(np.float64)
                if depth == 0
                else np.full(steps.steps, float(width))
            )
            total = total + pass_cost(short, batch=b, query_tokens=n, context=c + depth).total_s
    return total


def _pass_widths(configuration: Configuration) -> Sequence[int]:
    """Query tokens of each draft pass of one request: every level but the last is read."""
    return [1, *configuration.shape.level_widths()[:-1]] if configuration.drafter else []


@cache
def _shorter(target: Architecture, skipped: int) -> Architecture:
    return target.with_layers(target.layers - skipped)
