"""Which policies of masked blocks are as fast as none that agrees as much?

All policies of a search at one batch and context, in the order in which one would take them, with
those on the front of speed and agreement. Leaves out the choice (`costmodel.optimizers.search`).
"""

from dataclasses import dataclass, replace

import numpy as np

from costmodel.answers.estimate import estimate
from costmodel.optimizers.allowed import Pick, agrees, drafting
from costmodel.optimizers.front import Front
from costmodel.optimizers.search import Optimum
from traces.kinds.refine_policy import RefinePolicy


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyPoint(Pick):
    """One policy at one batch and context before the canvas.

    Args:
        place: among the candidates.
        tokens_per_s: of the whole batch; -inf where it does not fit the memory or misses a limit.
        plain_tokens_per_s: of the model that it is compared with, decoded one token a pass with a
            KV cache.
        fits: the memory holds it.
        meets: it may be chosen: it is allowed, and agrees as much as a floor.
        on_front: nothing there is as fast and agrees more.
    """

    place: int
    tokens_per_s: float
    plain_tokens_per_s: float
    fits: bool
    meets: bool
    on_front: bool = False

    @property
    def policy(self) -> RefinePolicy:
        """Which policy."""
        assert self.acceptance.played is not None
        return self.acceptance.played.policy

    @property
    def allowed(self) -> bool:
        """Whether the memory holds it and it meets the limits of latency."""
        return bool(np.isfinite(self.tokens_per_s))

    @property
    def step_s(self) -> float:
        """Mean seconds of a pass, all passes billed to those that commit."""
        return self.batch * self.acceptance.tokens_per_step / self.tokens_per_s


def policy_points(optimum: Optimum, *, batch: int, context: int, floor: float) -> list[PolicyPoint]:
    """The policies at a batch and context: those that may be chosen first, fastest first, then the
    others, fastest first, then those that do not fit or miss a limit.

    Args:
        optimum: what was found, with its evaluations.
        batch: one of the search's.
        context: one of the search's.
        floor: least agreement, 0 to 1.
    """
    at = (slice(None), *optimum.place(batch, context))
    first = optimum.evaluations[0].contender
    compared = estimate(first.setting, first.candidates[0], batch=batch, context=context)
    points = [
        PolicyPoint(
            configuration=replace(
                drafting(evaluation.contender.configuration, candidate),
                batch=batch,
                context=context,
            ),
            contender=evaluation.contender,
            acceptance=candidate,
            place=place,
            tokens_per_s=float(speed),
            plain_tokens_per_s=batch / float(compared.plain.total_s),
            fits=bool(fits),
            meets=bool(np.isfinite(speed)) and agrees(candidate, floor),
        )
        for evaluation in optimum.evaluations
        for place, (candidate, speed, fits) in enumerate(
            zip(
                evaluation.contender.candidates,
                evaluation.speeds[at],
                evaluation.fits[at],
                strict=True,
            )
        )
        if candidate.played is not None
    ]
    points.sort(key=lambda point: (not point.meets, -point.tokens_per_s))
    agreements = np.array(
        [np.nan if (a := point.acceptance.agreement) is None else a for point in points]
    )
    speeds = np.array([point.tokens_per_s for point in points])
    known = np.flatnonzero(np.isfinite(speeds) & np.isfinite(agreements))
    front: Front[int] = Front()
    front.add(speeds[known], agreements[known], known.tolist())
    return [
        replace(point, on_front=True) if at in front.names else point
        for at, point in enumerate(points)
    ]
