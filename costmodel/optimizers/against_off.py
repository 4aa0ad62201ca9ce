"""Is a schedule of draft lengths faster than a server without the drafter, and what do its ranges
without drafts cost?

Under a schedule nothing drafted is not plain decoding: the drafter holds memory, and an engine may
run it to keep its cache in step (`costmodel.engines.record.idle_drafter`). Leaves out which
schedule is best (`costmodel.optimizers.schedule`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from costmodel.laws.acceptance import Acceptance
from costmodel.optimizers.allowed import Contender
from costmodel.optimizers.schedule import Schedule, log_weights


@dataclass(frozen=True, kw_only=True, slots=True)
class AgainstOff:
    """A schedule against a server without the drafter, which runs at all of its batches.

    Args:
        idle_loss_ratio: share of tokens per second that its ranges without drafts lose, at the
            batch that loses most; None where it drafts at every batch.
        worst_loss_ratio: the same of any of its batches; below 0 where it gains at all of them.
        gain_ratio: what the whole schedule gains in tokens per second, mean over batches, uniform
            in log batch.
    """

    idle_loss_ratio: float | None
    worst_loss_ratio: float
    gain_ratio: float

    @property
    def off_altogether(self) -> bool:
        """Whether a server without the drafter is as fast on average, and therefore better."""
        return self.gain_ratio <= 0.0


def under_schedule(contender: Contender, chains: Sequence[Acceptance]) -> Contender:
    """Chains of a contender as a schedule runs them: its drafter stays loaded.

    Args:
        contender: whose setting counts.
        chains: what is compared.
    """
    return replace(
        contender, candidates=chains, setting=replace(contender.setting, keeps_drafter=True)
    )


def against_off(
    schedule: Schedule,
    batches: NDArray[np.int64],
    draft_tokens: Sequence[int],
    rates: NDArray[np.float64],
    plain: NDArray[np.float64],
) -> AgainstOff | None:
    """A schedule against no drafter; None where it drafts nothing, or plain decoding does not run
    at some batch.

    Args:
        schedule: of these batches.
        batches: [m], increasing.
        draft_tokens: [c], of the columns of `rates`.
        rates: [m, c], tokens per second under a schedule; NaN where that length does not run.
        plain: [m], the same without a drafter; NaN where that does not run.

    Example:
        >>> from costmodel.optimizers.schedule import batch_schedule
        >>> rates = np.array([[0.9, 2.0], [0.9, 0.5]])
        >>> schedule = batch_schedule([1, 64], [0, 3], rates)
        >>> found = against_off(schedule, np.array([1, 64]), [0, 3], rates, np.ones(2))
        >>> round(found.idle_loss_ratio, 2), round(found.gain_ratio, 2)
        (0.1, 0.45)
    """
    lengths = np.array([schedule.draft_tokens_at(batch) for batch in batches.tolist()])
    if not lengths.any() or not np.isfinite(plain).all():
        return None
    chosen = rates[np.arange(batches.size), np.searchsorted(draft_tokens, lengths)] / plain
    idle = chosen[lengths == 0]
    return AgainstOff(
        idle_loss_ratio=float(1.0 - idle.min()) if idle.size else None,
        worst_loss_ratio=float(1.0 - chosen.min()),
        gain_ratio=float(log_weights(batches) @ chosen - 1.0),
    )


def off_schedule(
    batches: NDArray[np.int64], rates: NDArray[np.float64], plain: NDArray[np.float64]
) -> Schedule:
    """No drafter at any batch, and what that loses against the best draft length of each.

    Args:
        batches: [m], increasing.
        rates: [m, c], tokens per second of every draft length; NaN where it does not run.
        plain: [m], without a drafter, at every batch.
    """
    losses = 1.0 - plain / np.fmax(np.nanmax(rates, axis=1), plain)
    return Schedule(
        ranges=((1, int(batches[-1]), 0),),
        loss_ratio=float(log_weights(batches) @ losses),
        worst_loss_ratio=float(losses.max()),
    )
