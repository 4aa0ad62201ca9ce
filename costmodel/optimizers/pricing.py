"""What does every candidate cost at the points of a workload, and where is it allowed?

The one evaluation that every search starts from: candidates by points, each a step's seconds, and
from these tokens per second within memory and limits of latency. Batches are steady; what a load
makes of them is a stage on top (`costmodel.optimizers.joint.evaluation`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from costmodel.answers.chains import step_seconds
from costmodel.answers.estimate import Setting
from costmodel.answers.first_token import unloaded_first_token_s
from costmodel.answers.fit import fits
from costmodel.answers.steps.step import StepCost
from costmodel.answers.workload import Limits
from costmodel.laws.acceptance import Acceptance
from costmodel.passes.ops import Array, Mask, Number


@dataclass(frozen=True, kw_only=True, eq=False)
class Priced:
    """Candidates at points of batch and context; arrays of shape [candidates, *points].

    Args:
        setting: target, device, drafter and engine.
        candidates: what a step may draft or commit.
        batch: requests, of any shape that broadcasts with `context`.
        context: cached tokens per request.
        step_s: seconds of a step.
    """

    setting: Setting
    candidates: Sequence[Acceptance]
    batch: Array
    context: Array
    step_s: Array

    @property
    def tokens_per_step(self) -> Array:
        """Of every candidate, shape [candidates, 1, ...]."""
        tokens = np.array([candidate.tokens_per_step for candidate in self.candidates])
        return tokens.reshape(-1, *(1,) * (self.step_s.ndim - 1))

    @property
    def tokens_per_s(self) -> Array:
        """Of the whole batch, allowed or not."""
        return np.asarray(self.batch * self.tokens_per_step / self.step_s)

    @cached_property
    def fits(self) -> Mask:
        """Where the memory holds a candidate."""
        points = {"batch": self.batch, "context": self.context}
        longest = max(self.candidates, key=lambda candidate: candidate.draft_tokens)
        if np.all(fits(self.setting, longest, **points)):  # then every shorter draft fits, too
            return np.ones(self.step_s.shape, dtype=np.bool_)
        held = [fits(self.setting, candidate, **points) for candidate in self.candidates]
        return np.stack([np.broadcast_to(mask, self.step_s.shape[1:]) for mask in held])

    def allowed(self, limits: Limits) -> Mask:
        """Where a candidate fits and meets limits of latency.

        Args:
            limits: on means, the first token being that of a prompt of the context's length.
        """
        met = [
            within(self.setting, candidate, step_s, self.batch, self.context, limits)
            for candidate, step_s in zip(self.candidates, self.step_s, strict=True)
        ]
        return self.fits & np.stack(met)

    def rates(self, limits: Limits) -> Array:
        """Tokens per second of the whole batch; -inf where a candidate is not allowed.

        Args:
            limits: as of `allowed`.
        """
        return np.where(self.allowed(limits), self.tokens_per_s, -np.inf)


def price(
    setting: Setting,
    candidates: Sequence[Acceptance],
    *,
    batch: Number,
    context: Number,
    plain: StepCost | None = None,
) -> Priced:
    """Candidates at points of batch and context.

    Example:
        >>> from costmodel.answers.settings import build_setting
        >>> from costmodel.configuration import DecodingConfiguration, DeploymentNames
        >>> from costmodel.laws.acceptance import geometric
        >>> names = DeploymentNames(model="llama-3.1-8b", device="h100-sxm", engine="none")
        >>> setting = build_setting(DecodingConfiguration(method="eagle-3", deployment=names))
        >>> at = price(setting, [geometric(0.7, k) for k in (0, 5)], batch=[1, 256], context=1024)
        >>> at.rates(Limits()).argmax(axis=0).tolist()
        [1, 0]

    Args:
        setting: target, device, drafter and engine.
        candidates: at least one.
        batch: requests, > 0; broadcasts with `context`.
        context: cached tokens per request, >= 0.
        plain: cost of a plain step at the same points, where it is known already.
    """
    b, c = np.asarray(batch, dtype=np.float64), np.asarray(context, dtype=np.float64)
    return Priced(
        setting=setting,
        candidates=candidates,
        batch=b,
        context=c,
        step_s=step_seconds(setting, candidates, batch=b, context=c, plain=plain),
    )


def within(
    setting: Setting,
    candidate: Acceptance,
    step_s: Array,
    batch: Array,
    context: Array,
    limits: Limits,
) -> Mask:
    """Where a candidate is known and meets limits of latency, whether or not it fits.

    Args:
        setting: target, device, drafter and engine.
        candidate: what a step drafts.
        step_s: seconds of its steps, of the shape of all points.
        batch: requests.
        context: cached tokens per request.
        limits: on means, the first token being that of a prompt of the context's length.
    """
    mask = np.ones(step_s.shape, dtype=np.bool_)
    if candidate.holds_at is not None:
        mask = mask & (batch == candidate.holds_at[0]) & (context == candidate.holds_at[1])
    if not limits.limited:
        return np.asarray(mask)
    first: Array = np.zeros(step_s.shape)
    if limits.ttft_s is not None:
        first = unloaded_first_token_s(
            setting,
            prompt_tokens=np.maximum(context, 1.0),
            batch=batch,
            step_s=step_s,
            drafts=candidate.draft_tokens > 0,
        )
    return np.asarray(mask & limits.met(ttft_s=first, tpot_s=step_s / candidate.tokens_per_step))
