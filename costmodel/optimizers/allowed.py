"""Which configurations compete, which one is picked, and why is none allowed at a batch and
context?

Leaves out what they cost (`costmodel.optimizers.pricing`) and which is the fastest
(`costmodel.optimizers.search`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from costmodel.answers.estimate import Setting, footprint_of, step_cost
from costmodel.answers.first_token import unloaded_first_token_s
from costmodel.answers.fit import fits, require_fit
from costmodel.answers.steps.step import StepCost
from costmodel.answers.workload import Limits
from costmodel.configuration import DecodingConfiguration
from costmodel.laws.acceptance import Acceptance
from costmodel.method import Stop
from costmodel.optimizers.pricing import Priced, price
from costmodel.passes.ops import Array, Mask, Number
from hardware_profiles.errors import InfeasibleError
from hardware_profiles.units import MILLI


@dataclass(frozen=True, kw_only=True, slots=True)
class Contender:
    """A method in a setting, with the configurations of it to compare.

    Args:
        configuration: deployment, method and drafter by name; what is drafted in a step comes from
            the candidates.
        setting: target, device, drafter and engine.
        candidates: what was measured of each shape; the first is no speculation.
        source: index of the drafter that they are candidates of.
    """

    configuration: DecodingConfiguration
    setting: Setting
    candidates: Sequence[Acceptance]
    source: int = 0

    @property
    def method(self) -> str:
        """Slug of the method."""
        return self.configuration.method

    def priced(self, batch: Number, context: Number, *, plain: StepCost | None = None) -> Priced:
        """Its candidates at points of batch and context.

        Args:
            batch: requests; broadcasts with `context`.
            context: cached tokens per request.
            plain: cost of a plain step at the same points, where it is known already.
        """
        return price(self.setting, self.candidates, batch=batch, context=context, plain=plain)


@dataclass(frozen=True, kw_only=True, eq=False)
class Evaluation:
    """What the candidates of a contender do at the points of a workload; arrays of shape
    [candidates, *points].

    Args:
        contender: whose candidates.
        unlimited: of what is maximised, wherever it can be known.
        fits: where memory holds a candidate.
        meets: where it also meets everything that is asked of it.
    """

    contender: Contender
    unlimited: Array
    fits: Mask
    meets: Mask

    @cached_property
    def value(self) -> Array:
        """Of what is maximised; -inf where a candidate may not be chosen."""
        return np.where(self.meets, self.unlimited, -np.inf)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pick:
    """A candidate that may be run.

    Args:
        configuration: what to run; `batch` and `context` say where.
        contender: method and setting that it is one of.
        acceptance: what it emits per step.
    """

    configuration: DecodingConfiguration
    contender: Contender
    acceptance: Acceptance

    @property
    def batch(self) -> int:
        """Requests that it was chosen for."""
        return self.configuration.batch or 1

    @property
    def context(self) -> int:
        """Cached tokens per request that it was chosen for."""
        return self.configuration.context or 0

    @property
    def topology(self) -> str:
        """`off`, `chain`, `tree` (static) or `dynamic_tree`."""
        return self.configuration.topology


def drafting(configuration: DecodingConfiguration, a: Acceptance) -> DecodingConfiguration:
    """A configuration that drafts, or commits masked blocks, in a candidate's way."""
    if a.played is not None:
        return replace(configuration, refine=a.played.policy, tokens_per_step=a.tokens_per_step)
    return replace(
        configuration,
        draft_tokens=a.draft_tokens,
        shape=a.tree or a.shape,
        stop=a.stop or Stop(),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Unmet:
    """A batch and context at which nothing fits, or nothing meets the limits or the floor.

    Args:
        batch: requests.
        context: cached tokens per request.
        contender: whose candidate comes nearest.
        acceptance: that candidate: plain decoding where memory is missed, else the one of least
            time per token, or of most agreement.
        misses: `memory`, the `limits` of latency, or `quality`.
        reason: in words.
    """

    batch: int
    context: int
    contender: Contender
    acceptance: Acceptance
    misses: Literal["memory", "limits", "quality"]
    reason: str


class NothingAllowedError(InfeasibleError):
    """No batch and context at which anything is allowed.

    Args:
        unmet: all of them; the first says why.
    """

    def __init__(self, unmet: Sequence[Unmet]) -> None:
        super().__init__(unmet[0].reason)
        self.unmet = unmet


def meets(
    setting: Setting, acceptance: Acceptance, limits: Limits, *, batch: int, context: int
) -> bool:
    """Whether a configuration fits and meets the limits at a batch and context.

    Args:
        setting: target, device, drafter and engine.
        acceptance: the configuration.
        limits: latency limits.
        batch: requests.
        context: cached tokens per request.
    """
    at = price(setting, [acceptance], batch=batch, context=context)
    return bool(np.all(at.allowed(limits)))


def unmet_at(
    contenders: Sequence[Contender],
    batch: int,
    context: int,
    limits: Limits,
    floor: float | None = None,
) -> Unmet:
    """Why nothing is allowed at a batch and context, and which candidate comes nearest.

    Args:
        contenders: all that were compared.
        batch: requests.
        context: cached tokens per request.
        limits: latency limits.
        floor: least agreement of policies of masked blocks; None: there is none.
    """
    if floor is not None and (below := _below(contenders, batch, context, floor)) is not None:
        return below
    first = contenders[0]
    setting, plain = first.setting, first.candidates[0 if floor is None else 1]
    where = f"{setting.target.name} on {setting.device.name} at batch {batch}, context {context}"
    try:
        require_fit(setting, footprint_of(setting, plain, batch=batch, context=context), where)
    except InfeasibleError as error:
        return Unmet(
            batch=batch,
            context=context,
            contender=first,
            acceptance=plain,
            misses="memory",
            reason=str(error),
        )
    plain_s = float(step_cost(setting, plain, batch=batch, context=context).total_s)
    at, step = np.asarray(float(batch)), np.asarray(plain_s)
    ttft = float(
        unloaded_first_token_s(
            setting, prompt_tokens=max(context, 1), batch=at, step_s=step, drafts=False
        )
    )
    contender, nearest = min(
        (
            (contender, a)
            for contender in contenders
            for a in contender.candidates
            if a.holds_at in (None, (batch, context))
        ),
        key=lambda pair: _tpot_s(pair[0], pair[1], batch, context),
    )
    reason = (
        f"{where}: no configuration meets {limits.words}; plain decoding has TTFT"
        f" {ttft / MILLI:.3g} ms and TPOT {plain_s / MILLI:.3g} ms"
    )
    return Unmet(
        batch=batch,
        context=context,
        contender=contender,
        acceptance=nearest,
        misses="limits",
        reason=reason,
    )


def _below(contenders: Sequence[Contender], batch: int, context: int, floor: float) -> Unmet | None:
    """The policy that agrees most of those that fit; None where none fits."""
    fitting = [
        (contender, a)
        for contender in contenders
        if np.all(fits(contender.setting, contender.candidates[-1], batch=batch, context=context))
        for a in contender.candidates
        if a.played is not None
    ]
    if not fitting:
        return None
    contender, nearest = max(fitting, key=lambda pair: pair[1].agreement or 0.0)
    reason = (
        "agreement is unknown: no trace holds a run of one token a pass"
        if nearest.agreement is None
        else f"no policy agrees on {floor:.1%} of the tokens; at most {nearest.agreement:.1%}"
    )
    return Unmet(
        batch=batch,
        context=context,
        contender=contender,
        acceptance=nearest,
        misses="quality",
        reason=reason,
    )


def _tpot_s(contender: Contender, a: Acceptance, batch: int, context: int) -> float:
    if not np.all(fits(contender.setting, a, batch=batch, context=context)):
        return np.inf
    return (
        float(step_cost(contender.setting, a, batch=batch, context=context).total_s)
        / a.tokens_per_step
    )
