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
from costmodel.answers.fit import require_fit
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


def unmet_at(
    evaluations: Sequence[Evaluation],
    at: tuple[int, int],
    batch: int,
    context: int,
    limits: Limits,
    floor: float | None = None,
) -> Unmet:
    """Why nothing is allowed at a batch and context, and which candidate comes nearest.

    Args:
        evaluations: of all that were compared; tokens per second count.
        at: row and column of the point in them.
        batch: requests.
        context: cached tokens per request.
        limits: latency limits.
        floor: least agreement of policies of masked blocks; None: there is none.
    """
    first = evaluations[0].contender
    setting, plain = first.setting, first.candidates[0 if floor is None else 1]
    where = f"{setting.target.name} on {setting.device.name} at batch {batch}, context {context}"
    fitting = [
        (float(speed), evaluation.contender, a)
        for evaluation in evaluations
        for a, speed, fits in zip(
            evaluation.contender.candidates,
            evaluation.unlimited[:, *at],
            evaluation.fits[:, *at],
            strict=True,
        )
        if fits and a.holds_at in (None, (batch, context))
    ]
    misses: Literal["memory", "limits", "quality"]
    if policies := [entry for entry in fitting if floor is not None and entry[2].played]:
        _, contender, nearest = max(policies, key=lambda entry: entry[2].agreement or 0.0)
        misses, reason = "quality", "agreement is unknown: no trace holds a run of one token a pass"
        if nearest.agreement is not None:
            most = f"at most {nearest.agreement:.1%}"
            reason = f"no policy agrees on {floor:.1%} of the tokens; {most}"
    elif memory := _memory_words(setting, plain, batch, context, where):
        contender, nearest, misses, reason = first, plain, "memory", memory
    else:
        _, contender, nearest = max(fitting, key=lambda entry: entry[0])
        misses = "limits"
        step_s = np.asarray(float(step_cost(setting, plain, batch=batch, context=context).total_s))
        ttft = unloaded_first_token_s(
            setting,
            prompt_tokens=max(context, 1),
            batch=np.asarray(float(batch)),
            step_s=step_s,
            drafts=False,
        )
        reason = (
            f"{where}: no configuration meets {limits.words}; plain decoding has TTFT"
            f" {float(ttft) / MILLI:.3g} ms and TPOT {float(step_s) / MILLI:.3g} ms"
        )
    return Unmet(
        batch=batch,
        context=context,
        contender=contender,
        acceptance=nearest,
        misses=misses,
        reason=reason,
    )


def _memory_words(setting: Setting, a: Acceptance, batch: int, context: int, where: str) -> str:
    """What a configuration needs of the memory where that does not hold it; empty where it does."""
    try:
        require_fit(setting, footprint_of(setting, a, batch=batch, context=context), where)
    except InfeasibleError as error:
        return str(error)
    return ""
