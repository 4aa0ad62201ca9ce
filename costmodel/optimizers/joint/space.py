"""Which designs compete: device kinds and counts, layouts, formats, drafters, batch caps and token
budgets?

A placement is a model in given formats on a layout of devices of one kind; with a drafter it is a
node of the search, whose draft shapes, batch caps and token budgets are evaluated together. Leaves
out what a node does (`evaluation`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np

from costmodel.answers.capacity import MOST_BATCH, UTILISATION
from costmodel.answers.workload import Limits, Load
from costmodel.configuration import DecodingConfiguration
from costmodel.laws.acceptance import Acceptance, geometric
from costmodel.optimizers.allowed import Contender, agrees
from costmodel.optimizers.joint.objective import Maximise
from costmodel.optimizers.layouts import BATCHES, MOST_DEVICES, Layout
from costmodel.optimizers.recommend import ComparedDrafters
from hardware_profiles.errors import InputError

PLAIN = geometric(0.0, 0)
TOKEN_BUDGETS = (1024, 2048, 4096, 8192)
PROMPTS = 4  # lengths that stand for those of all prompts of a load


@dataclass(frozen=True, kw_only=True, slots=True)
class Placement:
    """A model on devices: the kind, the layout of one replica, and the formats of weights and
    cache.
    """

    device: str
    layout: Layout
    weights: str | None
    cache: str | None

    def configuration_of(self, base: DecodingConfiguration) -> DecodingConfiguration:
        """A configuration that is placed so."""
        where = replace(
            base.deployment, device=self.device, dtype=self.weights, kv_dtype=self.cache
        )
        return self.layout.on(replace(base, deployment=where))


def all_placements(
    devices: Sequence[str],
    layouts: Sequence[Layout],
    weights: Sequence[str | None] = (None,),
    caches: Sequence[str | None] = (None,),
) -> list[Placement]:
    """Every kind of device with every layout and format.

    Args:
        devices: by name.
        layouts: of one replica.
        weights: formats; None is the checkpoint's own.
        caches: formats; None is the usual one.
    """
    return [
        Placement(device=device, layout=layout, weights=weight, cache=cache)
        for device, layout, weight, cache in product(devices, layouts, weights, caches)
    ]


@dataclass(frozen=True, kw_only=True)
class JointQuestion:
    """What is asked of a joint search.

    Args:
        compared: drafters that compete, with the shapes of each, and what is the same for all
            designs; plain decoding always competes.
        placements: of a replica; those that need more devices are left out.
        most_devices: of one kind, all replicas together.
        batch_caps: most requests in flight of one scheduler, rising.
        token_budgets: most query tokens of an iteration of one scheduler, rising.
        load: requests to serve; without a stated rate its rate does not count.
        rate_stated: the load's rate is to be served, by as few replicas as can; else all replicas
            are kept busy.
        slo: limits on means.
        maximise: the objective.
        utilisation: share of a replica's highest rate to plan with, where a rate is stated.
        seed: of simulations, and of the errors that are drawn.
        floor: least agreement of policies of masked blocks, 0 to 1, which compete in the place of
            drafts and plain decoding; None: these compete.
    """

    compared: ComparedDrafters
    placements: Sequence[Placement]
    most_devices: int
    batch_caps: Sequence[int] = BATCHES
    token_budgets: Sequence[int] = TOKEN_BUDGETS
    load: Load
    rate_stated: bool = False
    slo: Limits = field(default_factory=Limits)
    maximise: Maximise = "tokens"
    utilisation: float = UTILISATION
    seed: int = 0
    floor: float | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.most_devices <= MOST_DEVICES:
            raise InputError(
                f"must lie in 1..{MOST_DEVICES}", key="devices", value=self.most_devices
            )
        if not 0.0 < self.utilisation < 1.0:
            raise InputError(
                "must lie between 0 and 1, both excluded",
                key="utilisation",
                value=self.utilisation,
            )
        if self.floor is not None and not 0.0 <= self.floor <= 1.0:
            raise InputError("must lie in [0, 1]", key="quality_floor", value=self.floor)
        for key, values in (
            ("batch_caps", self.batch_caps),
            ("token_budgets", self.token_budgets),
        ):
            if not values or values[0] < 1 or sorted(set(values)) != list(values):
                raise InputError("must be whole numbers >= 1, rising", key=key, value=list(values))
        if not self.fitting_placements:
            raise InputError(
                "no layout takes so few devices", key="devices", value=self.most_devices
            )

    @property
    def question(self) -> DecodingConfiguration:
        """Model, engine and what is the same for all designs."""
        return self.compared.question

    @property
    def contenders(self) -> list[Contender]:
        """The drafters with what they may draft, or policies of masked blocks that agree as much as
        the floor, on any placement.
        """
        return [
            replace(contender, candidates=able)
            for contender in self.compared.contenders
            if (
                able := [
                    a for a in contender.candidates if a.draft_tokens and agrees(a, self.floor)
                ]
            )
        ]

    @property
    def most_agreeing(self) -> Acceptance:
        """The policy of masked blocks that agrees most, whatever the floor."""
        policies = [a for each in self.compared.contenders for a in each.candidates if a.played]
        return max(policies, key=lambda policy: policy.agreement or 0.0)

    @property
    def fitting_placements(self) -> list[Placement]:
        """Those that take no more devices than there are."""
        return [
            placement
            for placement in self.placements
            if placement.layout.devices <= self.most_devices
        ]


def batches_of(layout: Layout, caps: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Requests in flight of a replica whose every scheduler has one of the caps."""
    return np.array([cap * layout.data for cap in caps if cap <= MOST_BATCH], dtype=np.float64)
