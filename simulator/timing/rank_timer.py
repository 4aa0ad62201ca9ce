"""How long does an iteration of ranks take that hold experts of each other, by the cost model?

One rank's attention, dense layers and head from tables of its own batch; the expert layers and the
exchange around them for the tokens of all ranks. Leaves out pipelines and context groups of ranks,
and the busiest device's share beyond what the plan states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from costmodel.answers.estimate import Setting
from costmodel.parallel.passes import plan_cost
from costmodel.parallel.plan import ParallelPlan
from costmodel.passes.forward import Logits
from hardware_profiles.errors import InputError
from simulator.loop.rank_time import RankTimer
from simulator.loop.state import Real
from simulator.loop.tables import between
from simulator.timing.cost_timer import CostModelTimer

_EXPERTS, _EXCHANGE = "moe", "exchange"
_MOST_TOKENS = 16384  # of a rank in the tables; beyond, their last slope goes on


def rank_timer(setting: Setting, plan: ParallelPlan) -> RankTimer:
    """A timer of ranks in step by the cost model; each one's own part has tables.

    Args:
        setting: target, device, drafter and engine.
        plan: how the target is spread: several data copies, whole experts, one stage.

    Raises:
        InputError: another plan.
    """
    if not (plan.data > 1 and plan.expert > 1 and plan.pipeline == plan.context == 1):
        raise InputError(
            "needs data copies that share whole experts, in one stage", key="plan", value=plan
        )
    return RankTimer(
        own=_OwnPart(setting, plan), together_s=_Together(setting, plan), ranks=plan.data
    )


class _OwnPart(CostModelTimer):
    """A rank's batch without the layers of experts."""

    @property
    def _copies(self) -> int:
        return 1

    def _spread(
        self, batch: Real, query_tokens: Real, context: Real, logits: Logits, prefill: bool
    ) -> Mapping[str, Real]:
        assert self.plan is not None
        cost = plan_cost(
            self.setting.deployment,
            self.plan,
            batch=batch * self.plan.data,
            query_tokens=query_tokens,
            context=context,
            logits=logits,
            prefill=prefill,
        )
        return {
            name: value for name, value in cost.seconds.items() if name not in (_EXPERTS, _EXCHANGE)
        }


class _Together:
    """Experts by the mean tokens of a rank, and the exchange by the most tokens of any."""

    def __init__(self, setting: Setting, plan: ParallelPlan) -> None:
        tokens = np.arange(1.0, _MOST_TOKENS + 1.0)
        cost = plan_cost(
            setting.deployment,
            plan,
            batch=tokens * plan.data,
            query_tokens=1.0,
            context=0.0,
            logits="none",
        )
        self.by_mean_s, self.by_most_s = (
            np.concatenate([[0.0], np.broadcast_to(cost.seconds[name], tokens.shape)])
            for name in (_EXPERTS, _EXCHANGE)
        )

    def __call__(self, rows: Sequence[int]) -> float:
        mean, most = sum(rows) / len(rows), float(max(rows))
        return float(between(self.by_mean_s, mean) + between(self.by_most_s, most))
