"""What does one way of serving need for a load?

Named cells and designs of a search are planned by the same words: by the law of means, and by
simulation where limits are percentiles.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.answers.capacity.rows import Plan, ServedRow, plan_row, pooled_row
from app.answers.placements import MarkedPlacement
from app.answers.sizing.pools import pooled_plan
from app.answers.sizing.replicas import Sizing, seen_by_plan, simulated_plan
from app.answers.sizing.traffic import Traffic
from app.questions.capacity import CapacityQuestion
from costmodel.answers.estimate import Setting
from costmodel.answers.workload import Limits, Load
from costmodel.configuration import DecodingConfiguration
from costmodel.draft_shape import shape_of
from costmodel.laws.acceptance import Acceptance
from hardware_profiles.errors import InfeasibleError, InputError


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Service:
    """Replicas that are alike.

    Args:
        question: what is asked.
        limits: of latency.
        configuration: of one replica.
        setting: the same as records.
        drafts: to choose among, at least one.
        names: attributes of its row that say which it is.
        most_batch: most requests in flight of a replica; None: 1,024 of every scheduler.
        token_budget: most query tokens of an iteration; None: the engine's default.
        pooled: prompts have workers of their own.
    """

    question: CapacityQuestion
    limits: Limits
    configuration: DecodingConfiguration
    setting: Setting
    drafts: Sequence[Acceptance]
    names: Mapping[str, Any]
    most_batch: int | None = None
    token_budget: int | None = None
    pooled: bool = False

    def planned(self, load: Load) -> ServedRow:
        """The fewest replicas for a load, as a row.

        Raises:
            InputError: nothing that can be simulated, where percentiles are limited.
            InfeasibleError: memory holds no request, or the limits are not met.
        """
        sizing = self.sizing(load)
        if self.pooled:
            return pooled_row(pooled_plan(sizing), **self.names)
        if self.limits.highest_percentile is not None:
            confirmed = simulated_plan(sizing)
            return plan_row(confirmed.plan, confirmed.times, limited=True, **self.names)
        whole = sizing.by_limits(self.limits, self.drafts)
        seen = seen_by_plan(sizing, whole)
        return plan_row(whole, seen, limited=self.limits.limited, **self.names)

    def sizing(self, load: Load) -> Sizing:
        """What is sized for a load, whose simulated requests are recorded, or all of mean length."""
        return Sizing(
            configuration=self.configuration,
            setting=self.setting,
            drafts=self.drafts,
            load=load,
            traffic=Traffic(
                requests=self.question.requests,
                prompt_tokens=str(max(round(load.mean_prompt_tokens), 1)),
                output_tokens=str(max(round(load.output_tokens), 1)),
            ),
            limits=self.limits,
            seed=self.question.seed,
            utilisation=self.question.utilisation,
            most_batch=self.most_batch,
            token_budget=self.token_budget,
        )

    def with_draft(self, draft: str) -> "Service":
        """The same service with one of its drafts, by its shape."""
        chosen = [a for a in self.drafts if str(shape_of(a)) == draft]
        return replace(self, drafts=chosen)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Planned:
    """A row, and the service behind it; None where it cannot be built."""

    row: Plan
    service: Service | None = None


def in_pools(service: Service, load: Load) -> Planned:
    """A service whose prompts have workers of their own, or why there is none."""
    pooled = replace(service, pooled=True)
    try:
        return Planned(row=pooled.planned(load), service=pooled)
    except (InputError, InfeasibleError) as error:
        misses = "limits" if str(error).startswith("SLO") else None
        row = MarkedPlacement(**service.names, misses=misses, reason=f"pools: {error}")
        return Planned(row=row, service=pooled)
