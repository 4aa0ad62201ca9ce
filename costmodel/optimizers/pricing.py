"""What does every candidate of a contender cost at the points of a workload, and where is it
allowed?

The one evaluation that every search starts from: candidates by points, each a step's seconds, and
from these tokens per second within memory, limits of latency and a floor of agreement. Batches are
steady; what a load makes of them is a stage on top (`costmodel.optimizers.joint.evaluation`).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from costmodel.answers.chains import step_seconds
from costmodel.answers.estimate import Setting
from costmodel.answers.first_token import unloaded_first_token_s
from costmodel.answers.fit import fits
from costmodel.answers.steps.step import StepCost
from costmodel.answers.workload import Limits, RequestTimes
from costmodel.laws.acceptance import Acceptance
from costmodel.optimizers.allowed import Contender, agrees
from costmodel.passes.ops import Array, Mask, Number
from hardware_profiles.errors import InputError


@dataclass(frozen=True, kw_only=True, eq=False)
class Evaluation:
    """The candidates of a contender at points of batch and context; arrays of shape
    [candidates, *points].

    Args:
        contender: whose candidates.
        batch: requests, of any shape that broadcasts with `context`.
        context: cached tokens per request.
        step_s: seconds of a step.
        limits: of latency, on means, the first token being that of a prompt of the context's length.
        floor: least agreement of policies of masked blocks; None: there is none.
    """

    contender: Contender
    batch: Array
    context: Array
    step_s: Array
    limits: Limits
    floor: float | None

    @property
    def tokens_per_s(self) -> Array:
        """Of the whole batch, wherever a candidate is allowed."""
        tokens = np.array([candidate.tokens_per_step for candidate in self.contender.candidates])
        tokens = tokens.reshape(-1, *(1,) * (self.step_s.ndim - 1))
        return np.asarray(self.batch * tokens / self.step_s)

    @cached_property
    def fits(self) -> Mask:
        """Where the memory holds a candidate."""
        setting, candidates = self.contender.setting, self.contender.candidates
        points = {"batch": self.batch, "context": self.context}
        longest = max(candidates, key=lambda candidate: candidate.draft_tokens)
        if np.all(fits(setting, longest, **points)):  # then every shorter draft fits, too
            return np.ones(self.step_s.shape, dtype=np.bool_)
        held = [fits(setting, candidate, **points) for candidate in candidates]
        return np.stack([np.broadcast_to(mask, self.step_s.shape[1:]) for mask in held])

    @cached_property
    def allowed(self) -> Mask:
        """Where a candidate fits and meets the limits, whatever it agrees on."""
        met = [
            within(self.contender.setting, a, step_s, self.batch, self.context, self.limits)
            for a, step_s in zip(self.contender.candidates, self.step_s, strict=True)
        ]
        known = self.contender.contexts
        here = True if known is None else np.isin(self.context, known)
        return self.fits & np.stack(met) & here

    @cached_property
    def speeds(self) -> Array:
        """Tokens per second of the whole batch; -inf where a candidate is not allowed."""
        return np.where(self.allowed, self.tokens_per_s, -np.inf)

    @cached_property
    def value(self) -> Array:
        """The same; -inf also of what agrees less than the floor, or by an unknown share."""
        able = np.array([agrees(candidate, self.floor) for candidate in self.contender.candidates])
        return np.where(able.reshape(-1, *(1,) * (self.step_s.ndim - 1)), self.speeds, -np.inf)


def evaluate(
    contender: Contender,
    *,
    batch: Number,
    context: Number,
    limits: Limits | None = None,
    floor: float | None = None,
    plain: StepCost | None = None,
) -> Evaluation:
    """The candidates of a contender at points of batch and context.

    Example:
        >>> from costmodel.answers.settings import build_setting
        >>> from costmodel.configuration import DecodingConfiguration, DeploymentNames
        >>> from costmodel.laws.acceptance import geometric
        >>> names = DeploymentNames(model="llama-3.1-8b", device="h100-sxm", engine="none")
        >>> eagle = DecodingConfiguration(method="eagle-3", deployment=names)
        >>> chains = [geometric(0.3, draft_tokens) for draft_tokens in (0, 3)]
        >>> contender = Contender(configuration=eagle, setting=build_setting(eagle), candidates=chains)
        >>> evaluate(contender, batch=np.array([1.0, 256.0]), context=1024).value.argmax(axis=0).tolist()
        [1, 0]

    Args:
        contender: with one candidate at least.
        batch: requests, > 0; broadcasts with `context`.
        context: cached tokens per request, >= 0.
        limits: of latency; None: there are none.
        floor: least agreement of policies of masked blocks, 0 to 1; None: there is none.
        plain: cost of a plain step at the same points, where it is known already.
    """
    b, c = np.asarray(batch, dtype=np.float64), np.asarray(context, dtype=np.float64)
    return Evaluation(
        contender=contender,
        batch=b,
        context=c,
        step_s=step_seconds(
            contender.setting, contender.candidates, batch=b, context=c, plain=plain
        ),
        limits=limits or Limits(),
        floor=floor,
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

    Raises:
        InputError: a limit on whole requests, whose outputs a batch and a context leave open.
    """
    if limits.e2e_s is not None:
        raise InputError(
            "needs output lengths, of which a batch and a context say nothing", key="slo_e2e"
        )
    mask = np.ones(step_s.shape, dtype=np.bool_)
    if candidate.holds_at is not None:
        mask = mask & (batch == candidate.holds_at[0]) & (context == candidate.holds_at[1])
    if not limits.limited:
        return np.asarray(mask)
    first: Array = np.zeros(step_s.shape)
    if limits.ttft_s is not None:
        first = first_token_s(setting, candidate, step_s, batch, context)
    tpot = step_s / candidate.tokens_per_step
    return np.asarray(mask & limits.met(RequestTimes(ttft_s=first, tpot_s=tpot, e2e_s=np.nan)))


def first_token_s(
    setting: Setting,
    candidate: Acceptance,
    step_s: Number,
    batch: Number,
    context: Number,
) -> Array:
    """Seconds to the first token of a prompt of the context's length that joins a batch.

    Args:
        setting: target, device, drafter and engine.
        candidate: what a step drafts.
        step_s: seconds of its steps; broadcasts with the rest.
        batch: requests, the prompt's own among them.
        context: cached tokens per request.
    """
    return unloaded_first_token_s(
        setting,
        prompt_tokens=np.maximum(context, 1.0),
        batch=np.asarray(batch, dtype=np.float64),
        step_s=np.asarray(step_s, dtype=np.float64),
        drafts=candidate.draft_tokens > 0,
    )
