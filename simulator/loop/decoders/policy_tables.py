"""What does the loop know of a policy of draft lengths, as numbers and arrays that compiled code
reads?

Leaves out what policies there are (`length_policies`) and how they choose (`lengths`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simulator.loop.decoders import record
from simulator.loop.decoders.lengths import LENGTHS
from simulator.loop.length_policies import LengthPolicy, PolicyRule, Tier

_CONTROLLERS: dict[PolicyRule, int] = {
    "schedule": record.ALWAYS,
    "expected": record.EXPECTED,
    "oracle": record.ORACLE,
    "goodput": record.GOODPUT,
    "survival": record.SURVIVAL,
    "verified": record.VERIFIED,
    "cost": record.COST,
    "gate": record.GATE,
    "tiers": record.TIERS,
    "bandit": record.BANDIT,
}
_DRAWS = 1 << 16


def with_policy(drafts: record.Drafts, policy: LengthPolicy | None, seed: int) -> record.Drafts:
    """A decoder of chains whose draft length a policy sets.

    Args:
        drafts: the decoder.
        policy: None: the decoder as it is.
        seed: of choices by chance, which move no other draw.
    """
    if policy is None:
        return drafts
    context = policy.profiled_context_tokens
    by_chance = policy.rule == "bandit"
    return drafts._replace(
        controller=_CONTROLLERS[policy.rule],
        weight=float(policy.weight),
        pace=int(policy.pace),
        least_share=float(policy.least_share),
        lengths=np.array(policy.lengths, np.int32) if policy.lengths else drafts.lengths,
        gains=np.array(policy.gains, np.float64) if policy.gains else drafts.gains,
        profiled_context=-1.0 if context is None else float(context),
        tiers=_tier_table(policy.tiers),
        draws=np.random.default_rng([seed, _DRAWS]).random(_DRAWS) if by_chance else drafts.draws,
        change_s=float(policy.change_s),
        rereads=bool(policy.rereads),
    )


def _tier_table(tiers: tuple[Tier, ...]) -> NDArray[np.float64]:
    widest = max((len(tier.lengths) for tier in tiers), default=1)
    rows = np.zeros((max(len(tiers), 1), LENGTHS + widest))
    for row, tier in zip(rows, tiers, strict=False):
        row[:LENGTHS] = (
            tier.first_batch,
            tier.down,
            tier.up,
            tier.pace,
            tier.warm_up,
            len(tier.lengths),
        )
        row[LENGTHS : LENGTHS + len(tier.lengths)] = tier.lengths
    return rows
