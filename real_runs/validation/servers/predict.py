"""How long should a server's steps take, and how sure is that?

Passes of the target, and of a draft model, come from the cost model at the fidelity of the setting;
what the server adds to a step and to each request in it comes from its engine record. Nothing is
fitted on what is scored. Leaves out which passes there are (`steps`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from costmodel.answers.steps.setting import Setting
from costmodel.passes.deployment import Deployment
from costmodel.passes.forward import pass_cost
from costmodel.passes.measured import measured_pass, passes_of
from costmodel.passes.ops import Array
from real_runs.validation.predict import PredictedRun, Prediction
from real_runs.validation.servers.configurations import ServerConfiguration
from real_runs.validation.servers.steps import Counts, MeasuredSteps, Passes

_TAILS = (0.1, 0.9)  # of an 80 % interval


Counted = tuple[
    tuple[int, int], ...
]  # steps and draft tokens of every request, as a server counted them
Predict = Callable[[ServerConfiguration, tuple[str, ...], Counted], Prediction]


def predicted_group(
    setting: Setting, draft_layers: int, drawn: Sequence[MeasuredSteps], *, draft_tokens: int
) -> Prediction:
    """Time the steps of a group.

    Args:
        setting: target, device, engine.
        draft_layers: layers of the target that a draft model consists of; 0: none drafts.
        drawn: the steps of the group; several where acceptance was drawn, whose mean counts.
        draft_tokens: K; 0 decodes plainly.
    """
    draft = setting.deployment
    if draft_layers:
        draft = replace(draft, architecture=draft.architecture.with_layers(draft_layers))
    ran = [_seconds(setting, draft, steps, speculates=draft_tokens > 0) for steps in drawn]
    totals = np.array([[seconds.sum() for seconds in phases] for phases in ran])
    draft_s, verify_s, rest_s = totals.mean(axis=0)
    whole = totals.sum(axis=1)
    first = drawn[0]
    run = PredictedRun(
        tokens=int(first.tokens.sum()),
        steps=float(np.mean([len(steps.served) for steps in drawn])),
        request_steps=float(np.mean([steps.ends.sum() for steps in drawn])),
        draft_s=float(draft_s),
        verify_s=float(verify_s),
        rest_s=float(rest_s),
    )
    return Prediction(
        run=run,
        ttft_s=first_token_s(
            setting, requests=len(first.ends), context=int(first.verify.context[0])
        ),
        tpot_s=float(
            np.mean([_tpot_s(steps, phases) for steps, phases in zip(drawn, ran, strict=True)])
        ),
        spread_ratio=_spread(setting, run, whole),
    )


def first_token_s(setting: Setting, *, requests: int, context: int) -> float:
    """Seconds of the step that reads the last token of so many prompts, whose other tokens are
    cached.
    """
    overhead = setting.plain_overhead
    seconds = _pass_s(setting.deployment, np.array([requests]), np.array([1]), np.array([context]))
    return float(seconds[0]) + overhead.step_s + overhead.request_s * requests


def _seconds(
    setting: Setting, draft: Deployment, steps: MeasuredSteps, *, speculates: bool
) -> tuple[Array, Array, Array]:
    """Draft, verify and remaining seconds of every step."""
    verify_s = _by_step(setting.deployment, steps.verify, len(steps.served))
    draft_s = _by_step(draft, steps.draft, len(steps.served))
    overhead = setting.overhead if speculates else setting.plain_overhead
    host_s = sum(stage.draft.host_s for stage in setting.drafter.stages)
    rest_s = overhead.step_s + overhead.request_s * steps.served + np.zeros(len(steps.served))
    if speculates:
        rest_s = rest_s + overhead.draft_s + host_s + overhead.verify_ratio * verify_s
        accepted = (steps.tokens.sum() - steps.served.sum()) / len(
            steps.served
        )  # of a step, as a mean
        rest_s = rest_s + overhead.accepted_s * accepted
    return draft_s, verify_s, rest_s


def _by_step(deployment: Deployment, passes: Passes, steps: int) -> Array:
    seconds = np.zeros(steps)
    if len(passes.step):
        np.add.at(
            seconds,
            passes.step,
            _pass_s(deployment, passes.requests, passes.query_tokens, passes.context),
        )
    return seconds


def _pass_s(
    deployment: Deployment, requests: Counts, query_tokens: Counts, context: Counts
) -> Array:
    b, n, c = (np.asarray(counts, dtype=np.float64) for counts in (requests, query_tokens, context))
    timed = measured_pass if deployment.fidelity == "measured" else pass_cost
    return np.asarray(
        np.broadcast_to(timed(deployment, batch=b, query_tokens=n, context=c).total_s, b.shape)
    )


def _tpot_s(steps: MeasuredSteps, phases: tuple[Array, Array, Array]) -> float:
    until = np.cumsum(np.sum(phases, axis=0))
    return float(np.mean(until[steps.ends - 1] / steps.tokens))


def _spread(setting: Setting, run: PredictedRun, drawn_s: Array) -> float:
    """Errors of passes, of the server's share and of what was drawn, which are independent of each
    other.

    Half widths add up in squares, each weighed by its share of the time.
    """
    deployment, total = setting.deployment, run.decode_s
    if deployment.fidelity == "measured":
        passes = passes_of(deployment).spread_ratio
    else:
        passes = deployment.device.constants.residual_ratio["gemm"]
    low, high = np.quantile(drawn_s, _TAILS)
    parts = (
        passes * (run.verify_s + run.draft_s) / total,
        setting.overhead.spread_ratio * run.rest_s / total,
        float(high - low) / 2.0 / total,
    )
    return math.sqrt(sum(part**2 for part in parts))
