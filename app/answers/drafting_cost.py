"""What does drafting cost beside time? Memory that requests then lack, and tokens in bursts."""

from dataclasses import dataclass, replace
from typing import Annotated

from app.answers.answer import Column, Row
from app.answers.numbers import plain
from costmodel.answers.fit import room
from costmodel.answers.steps.setting import Setting
from costmodel.laws.acceptance import Acceptance, geometric
from hardware_profiles.units import GIGA, KIB, MILLI


@dataclass(frozen=True, kw_only=True, slots=True)
class DraftingCost(Row):
    """What a drafter takes of each device, and how tokens come."""

    drafter_bytes: Annotated[float, Column("Weights of the drafter on each device.", unit="bytes")]
    drafter_request_bytes: Annotated[
        float, Column("Its cache of a request on each device.", unit="bytes")
    ]
    context: Annotated[int, Column("Cached tokens of such a request.")]
    fitting_requests: Annotated[int, Column("Requests that fit with it.")]
    fewer_requests: Annotated[int, Column("By how many these are fewer than without drafts.")]
    fewer_cached_tokens: Annotated[int, Column("Tokens of these requests.")]
    tokens_per_delivery: Annotated[float, Column("That a request gets at once, on average.")]
    delivery_s: Annotated[float, Column("Between two deliveries of a request.", unit="s")]
    batch: Annotated[int, Column("Requests of a step, of which the deliveries are.")]

    @property
    def words(self) -> str:
        """The row as a sentence."""
        memory = "neither weights nor a cache of its own"
        if self.drafter_bytes or self.drafter_request_bytes:
            per_token = self.drafter_request_bytes / max(self.context, 1) / KIB
            memory = (
                f"{plain(self.drafter_bytes / GIGA)} GB of each device and {plain(per_token)} KiB a"
                " cached token"
            )
        fewer = f"{self.fewer_requests:,} fewer than" if self.fewer_requests else "as many as"
        return (
            f"what drafting costs: {memory}; {self.fitting_requests:,} requests of {self.context:,}"
            f" tokens fit, {fewer} without; a user gets {plain(self.tokens_per_delivery)} tokens at"
            f" once every {plain(self.delivery_s / MILLI)} ms at batch {self.batch:,}"
        )


def drafting_cost(
    setting: Setting, acceptance: Acceptance, *, batch: int, context: int, step_s: float
) -> DraftingCost | None:
    """What drafting costs beside time; None where nothing is drafted, as by masked blocks.

    Args:
        setting: target, device, drafter and engine.
        acceptance: what is drafted and accepted.
        batch: requests of a step.
        context: cached tokens of a request.
        step_s: time of a step.
    """
    if not acceptance.draft_tokens or setting.drafter.method.has_own_pace:
        return None
    without = replace(setting, keeps_drafter=False)
    off = room(without, geometric(0.0, 0), context=context)
    own = room(setting, acceptance, context=context)
    fewer = max(off.largest_batch - own.largest_batch, 0)
    return DraftingCost(
        drafter_bytes=own.drafter_bytes,
        drafter_request_bytes=own.drafter_request_bytes,
        context=context,
        fitting_requests=own.largest_batch,
        fewer_requests=fewer,
        fewer_cached_tokens=fewer * context,
        tokens_per_delivery=acceptance.tokens_per_step,
        delivery_s=step_s,
        batch=batch,
    )
