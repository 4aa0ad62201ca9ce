"""How many users does a deployment serve within limits of latency, how fast, and at what price?

The batch grows until nothing that is compared meets the limits or fits memory. Leaves out which
drafter wins below that batch (`costmodel.optimizers.search`), and arrivals.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from costmodel.answers.energy import usd_per_million
from costmodel.answers.estimate import Setting
from costmodel.answers.workload import Limits
from costmodel.configuration import DecodingConfiguration
from costmodel.laws.acceptance import Acceptance
from costmodel.optimizers.allowed import Contender
from costmodel.optimizers.pricing import Evaluation, evaluate, first_token_s
from costmodel.optimizers.search import scheduled_batches
from costmodel.passes.ops import Array
from hardware_profiles.errors import InputError

MOST_USERS = 4096
_AT_ONCE = 128  # batches of a grid that are evaluated together

Binds = Literal["limits", "memory", "tried"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Fastest:
    """The fastest of what is allowed at a batch.

    Args:
        contender: whose candidate it is.
        acceptance: that candidate.
        tokens_per_s: of all users.
        tpot_s: mean time per output token.
        ttft_s: to the first token of a prompt of the context's length.
        usd_per_million: dollars per million tokens; None where the device has no price.
    """

    contender: Contender
    acceptance: Acceptance
    tokens_per_s: float
    tpot_s: float
    ttft_s: float
    usd_per_million: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class MostWithin:
    """The most users within limits: at every batch up to theirs something is allowed.

    Args:
        users: requests that decode together; 0: not one is served within the limits.
        binds: what one user more misses: `limits`, `memory`, or `tried`: more were not tried.
        fastest: at that batch; None where no user is served.
    """

    users: int
    binds: Binds
    fastest: Fastest | None


def most_within(
    contenders: Sequence[Contender],
    *,
    context: int,
    limits: Limits,
    floor: float | None = None,
) -> MostWithin:
    """The most users that a deployment serves within limits, to the user.

    Example:
        >>> from costmodel.answers.settings import build_setting
        >>> from costmodel.configuration import DeploymentNames
        >>> from costmodel.laws.acceptance import geometric
        >>> names = DeploymentNames(model="llama-3.1-8b", device="h100-sxm", engine="none")
        >>> plain = DecodingConfiguration(deployment=names)
        >>> contender = Contender(configuration=plain, setting=build_setting(plain), candidates=[geometric(0.0, 0)])
        >>> served = most_within([contender], context=1024, limits=Limits(tpot_s=0.0005))
        >>> served.users, served.binds
        (0, 'limits')

    Args:
        contenders: what is compared, on one deployment.
        context: cached tokens per request, >= 0.
        limits: of latency, on means.
        floor: least agreement of policies of masked blocks; None: there is none.
    """

    def at(batches: Array) -> list[Evaluation]:
        return [
            evaluate(contender, batch=batches, context=context, limits=limits, floor=floor)
            for contender in contenders
        ]

    def leading(batches: Array) -> int:
        """How many of some batches are allowed before the first that is not."""
        allowed = np.any(
            [np.isfinite(evaluation.value).any(axis=0) for evaluation in at(batches)], axis=0
        )
        return int(np.append(allowed, False).argmin())

    grid = scheduled_batches(MOST_USERS).astype(np.float64)
    kept = 0
    for first in range(0, grid.size, _AT_ONCE):
        block = grid[first : first + _AT_ONCE]
        lead = leading(block)
        kept += lead
        if lead < block.size:
            break
    users = int(grid[kept - 1]) if kept else 0
    if 0 < kept < grid.size and (between := np.arange(users + 1.0, grid[kept])).size:
        users += leading(between)
    if users == MOST_USERS:
        return MostWithin(users=users, binds="tried", fastest=_fastest(at(np.array([users * 1.0]))))
    one_more = at(np.array([users + 1.0]))
    fit = any(evaluation.fits.any() for evaluation in one_more)
    return MostWithin(
        users=users,
        binds="limits" if fit else "memory",
        fastest=_fastest(at(np.array([float(users)]))) if users else None,
    )


def _fastest(evaluations: Sequence[Evaluation]) -> Fastest:
    """The fastest of evaluations at one batch, at which something is allowed."""
    evaluation = max(evaluations, key=lambda part: float(part.value.max()))
    best = int(evaluation.value[:, 0].argmax())
    contender, rate = evaluation.contender, float(evaluation.value[best, 0])
    setting, acceptance = contender.setting, contender.candidates[best]
    batch, step_s = float(evaluation.batch[0]), float(evaluation.step_s[best, 0])
    price = setting.device.price_usd_per_hour
    return Fastest(
        contender=contender,
        acceptance=acceptance,
        tokens_per_s=rate,
        tpot_s=batch / rate,
        ttft_s=float(first_token_s(setting, acceptance, step_s, batch, float(evaluation.context))),
        usd_per_million=usd_per_million(None if price is None else price * setting.devices, rate),
    )


def placed_as(
    contenders: Sequence[Contender],
    setting_of: Callable[[DecodingConfiguration], Setting],
    **names: Any,
) -> list[Contender] | None:
    """What is compared with other names of the deployment; None where that cannot be.

    Args:
        contenders: what is compared.
        setting_of: builds the setting of a configuration.
        names: of the deployment, such as its number formats or devices.
    """
    placed = []
    for contender in contenders:
        deployment = replace(contender.configuration.deployment, **names)
        configuration = replace(contender.configuration, deployment=deployment)
        try:
            setting = setting_of(configuration)
        except InputError:  # a format that the device lacks, heads that do not divide
            return None
        placed.append(replace(contender, configuration=configuration, setting=setting))
    return placed
