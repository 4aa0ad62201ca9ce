"""Why is nothing allowed at a batch and context, or on a placement, and which candidate comes
nearest?

Leaves out what would have to change for one (`app.answers.feasible`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

import numpy as np

from costmodel.answers.estimate import Setting, footprint_of, step_cost
from costmodel.answers.first_token import unloaded_first_token_s
from costmodel.answers.fit import require_fit
from costmodel.answers.workload import Limits
from costmodel.laws.acceptance import Acceptance
from costmodel.optimizers.allowed import Contender, agrees
from costmodel.optimizers.pricing import Evaluation
from hardware_profiles.errors import InfeasibleError
from hardware_profiles.units import MILLI

_U = TypeVar("_U", bound="Unmet")


@dataclass(frozen=True, kw_only=True, slots=True)
class Unmet:
    """What was asked about and has no answer.

    A search names it by what it has settled until then: all candidates at a batch and context
    (`UnmetPoint`), or a placement of which no candidate was made
    (`costmodel.optimizers.joint.search.UnmetPlacement`).

    Args:
        reason: in words.
    """

    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class UnmetPoint(Unmet):
    """A batch and context at which nothing fits, or nothing meets the limits or the floor.

    Args:
        batch: requests.
        context: cached tokens per request.
        contender: whose candidate comes nearest.
        acceptance: that candidate: plain decoding where memory is missed, else the one of least
            time per token (of masked blocks among those that agree enough), or of most agreement.
        misses: `memory`, the `limits` of latency, or `quality`.
    """

    batch: int
    context: int
    contender: Contender
    acceptance: Acceptance
    misses: Literal["memory", "limits", "quality"]


class NothingAllowedError(InfeasibleError, Generic[_U]):
    """Nothing is allowed anywhere.

    Args:
        unmet: what has no answer.
        message: what the rest misses; empty: the first of them says why.
        excess_ratio: by how much the limits would have to be multiplied for something to meet them;
            infinite where that would not help, or is not known.
    """

    def __init__(
        self, unmet: Sequence[_U], message: str = "", excess_ratio: float = float("inf")
    ) -> None:
        super().__init__(message or unmet[0].reason)
        self.unmet = unmet
        self.excess_ratio = excess_ratio


def disagreement(nearest: Acceptance, floor: float) -> str:
    """Why no policy of masked blocks agrees enough.

    Args:
        nearest: the policy that agrees most.
        floor: least agreement.
    """
    if nearest.agreement is None:
        return "agreement is unknown: no trace holds a run of one token a pass"
    return f"no policy agrees on {floor:.1%} of the tokens; at most {nearest.agreement:.1%}"


def unmet_at(
    evaluations: Sequence[Evaluation],
    at: tuple[int, int],
    batch: int,
    context: int,
) -> UnmetPoint:
    """Why nothing is allowed at a batch and context, and which candidate comes nearest.

    Args:
        evaluations: of all that were compared.
        at: row and column of the point in them.
        batch: requests.
        context: cached tokens per request.
    """
    first, limits, floor = (
        evaluations[0].contender,
        evaluations[0].limits,
        evaluations[0].floor,
    )
    setting, plain = first.setting, first.candidates[0 if floor is None else 1]
    where = f"{setting.target.called} on {setting.device.name} at batch {batch}, context {context}"
    fitting = [
        (float(speed), evaluation.contender, a)
        for evaluation in evaluations
        for a, speed, fits in zip(
            evaluation.contender.candidates,
            evaluation.tokens_per_s[:, *at],
            evaluation.fits[:, *at],
            strict=True,
        )
        if fits and a.holds_at in (None, (batch, context))
    ]
    misses: Literal["memory", "limits", "quality"]
    policies = [entry for entry in fitting if entry[2].played]
    if floor is not None and policies:
        agreeing = [entry for entry in policies if agrees(entry[2], floor)]
        if agreeing:
            speed, contender, nearest = max(agreeing, key=lambda entry: entry[0])
            misses, reason = (
                "limits",
                f"{where}: {_slowness(nearest, batch / speed, limits, floor)}",
            )
        else:
            _, contender, nearest = max(policies, key=lambda entry: entry[2].agreement or 0.0)
            misses, reason = "quality", disagreement(nearest, floor)
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
            f" {_milliseconds(float(ttft))} and TPOT {_milliseconds(float(step_s))}"
        )
    return UnmetPoint(
        batch=batch,
        context=context,
        contender=contender,
        acceptance=nearest,
        misses=misses,
        reason=reason,
    )


def _slowness(nearest: Acceptance, tpot_s: float, limits: Limits, floor: float) -> str:
    """That no policy of masked blocks that agrees enough meets the limits, and what the fastest of
    them does.
    """
    assert nearest.played is not None
    return (
        f"no policy that agrees on {floor:.1%} of the tokens meets {limits.words}; the fastest of them,"
        f" {nearest.played.policy.name}, has TPOT {_milliseconds(tpot_s)}"
    )


def _memory_words(setting: Setting, a: Acceptance, batch: int, context: int, where: str) -> str:
    """What a configuration needs of the memory where that does not hold it; empty where it does."""
    try:
        require_fit(setting, footprint_of(setting, a, batch=batch, context=context), where)
    except InfeasibleError as error:
        return str(error)
    return ""


def _milliseconds(seconds: float) -> str:
    """A time in words, to three digits and without an exponent."""
    value = seconds / MILLI
    return f"{value:,.0f} ms" if value >= 100.0 else f"{value:.3g} ms"
