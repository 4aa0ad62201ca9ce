"""What does a step take that drafts K tokens per request and verifies only so many of them?

The cost curve by which verification is chosen apart from drafting, from our own model. Leaves out
the choice (`costmodel.laws.verify_width`) and the form in which engines load such a curve
(`app.exporters`).
"""

from dataclasses import replace

import numpy as np

from costmodel.answers.estimate import step_cost
from costmodel.answers.steps.setting import Setting
from costmodel.answers.steps.step import chain_step
from costmodel.laws.acceptance import geometric
from costmodel.laws.draft_lengths import DraftLengths
from costmodel.passes.ops import Array

_PLANNED_POINTS = 33  # of a target that a plan spreads; between them seconds are interpolated


def verify_seconds(setting: Setting, draft_tokens: int, *, batch: int, context: float) -> Array:
    """Seconds of a step that drafts K tokens for everybody and verifies 0, 1, .. of all of them.

    Example:
        >>> from costmodel.answers.settings import build_setting
        >>> from costmodel.configuration import DecodingConfiguration, DeploymentNames
        >>> names = DeploymentNames(model="llama-3.1-8b", device="h100-sxm", engine="none")
        >>> setting = build_setting(DecodingConfiguration(method="eagle-3", deployment=names))
        >>> verify_seconds(setting, 3, batch=4, context=1024).shape
        (13,)

    Args:
        setting: target, device, drafter and engine.
        draft_tokens: K >= 1.
        batch: requests, >= 1.
        context: cached tokens per request.

    Returns:
        float64[batch * K + 1].
    """
    verified = np.arange(batch * draft_tokens + 1) / batch
    if setting.plan is None:
        step = chain_step(
            setting.deployment,
            setting.drafter,
            setting.overhead,
            batch=float(batch),
            context=context,
            draft_tokens=verified,
            drafted_tokens=float(draft_tokens),
        )
        return np.broadcast_to(step.total_s, verified.shape).astype(np.float64)
    points = np.unique(np.linspace(0, verified.size - 1, _PLANNED_POINTS).astype(np.int64))
    seconds = [
        float(_planned(setting, draft_tokens, float(verified[at]), batch, context)) for at in points
    ]
    return np.interp(np.arange(verified.size), points, seconds)


def _planned(
    setting: Setting, draft_tokens: int, verified: float, batch: int, context: float
) -> Array:
    """Seconds of a step of a planned target in which a mean request verifies so many tokens."""
    ends = np.eye(draft_tokens + 1)
    low = min(int(verified), draft_tokens - 1)
    lengths = DraftLengths(
        tokens=ends[low] * (low + 1 - verified) + ends[low + 1] * (verified - low),
        passes=ends[draft_tokens],
        rows=np.ones(draft_tokens),
        of_batch=((1.0, verified),),
    )
    drafted = replace(geometric(0.0, draft_tokens), proposed_tokens=verified, lengths=lengths)
    return step_cost(setting, drafted, batch=float(batch), context=context).total_s
