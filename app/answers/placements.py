"""Which devices, layouts and formats does a search of whole deployments compare, and which of these
placements cannot run?
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from app.answers.answer import Column
from app.answers.cells import MarkedCell, names_of
from app.questions.resolve.chosen_configuration import configuration_of
from costmodel.configuration import DecodingConfiguration
from costmodel.optimizers.joint.search import Design, UnmetPlacement
from costmodel.optimizers.joint.space import Placement, all_placements
from costmodel.optimizers.layouts import Layout
from hardware_profiles.errors import InputError


def one_deployment(options: Mapping[str, Any]) -> DecodingConfiguration:
    """What all placements share: model, engine and drafter, on the first device.

    Args:
        options: of a verb, by parameter.

    Raises:
        InputError: several models or engines, or a value out of range.
    """
    for name in ("model", "engine"):
        if len(names_of(options[name], f"--{name}")) > 1:
            raise InputError(
                "one at a time with --search full", key=f"--{name}", value=options[name]
            )
    first = names_of(options["device"], "--device")[0]
    return configuration_of(None, {**options, "device": first, "dtype": None, "kv_dtype": None})


def listed_placements(options: Mapping[str, Any], layouts: Sequence[Layout]) -> list[Placement]:
    """Every layout on the devices and in the formats that options list with commas between.

    Args:
        options: of a verb, by parameter.
        layouts: of a replica.

    Raises:
        InputError: an empty name among several.
    """
    weights, caches = (
        [None] if options[name] is None else names_of(options[name], option)
        for name, option in (("dtype", "--dtype"), ("kv_dtype", "--kv-dtype"))
    )
    return all_placements(names_of(options["device"], "--device"), layouts, weights, caches)


@dataclass(frozen=True, kw_only=True, slots=True)
class MarkedPlacement(MarkedCell):
    """A placement that cannot run, or a design on it; formats are None where they are the usual
    ones.
    """

    layout: Annotated[str, Column("How a replica's devices share the model.")]
    dtype: Annotated[str | None, Column("Weight format.")]
    kv_dtype: Annotated[str | None, Column("Cache format.")]
    batch_cap: Annotated[int | None, Column("Most requests in flight of a scheduler.")] = None
    token_budget: Annotated[int | None, Column("Most query tokens of an iteration.")] = None

    @property
    def placed(self) -> str:
        """The placement in a cell."""
        return placed_words(self.layout, self.dtype)


def placed_words(layout: str, dtype: str | None) -> str:
    """A placement in a cell: `tp2 fp8`, or `tp2 dp4 ep8` in the usual format."""
    sizes = re.sub(r"(?<=\d)(?=[a-z])", " ", layout)
    return " ".join(filter(None, (sizes, dtype)))


def placed(design: Design) -> dict[str, Any]:
    """What a row says of where a design runs, and of the limits of its schedulers."""
    node, scheduler = design.contender, design.scheduler
    formats = node.setting.deployment.precision
    return {
        "layout": str(node.placement.layout),
        "tp": node.placement.layout.tensor,
        "dtype": formats.label,
        "kv_dtype": formats.kv,
        "batch_cap": scheduler.max_requests,
        "token_budget": scheduler.token_budget,
    }


def marked_placements(unmet: Sequence[UnmetPlacement]) -> list[MarkedPlacement]:
    """Rows of placements that cannot run."""
    return [
        MarkedPlacement(
            model=cell.deployment.model,
            device=cell.placement.device,
            engine=cell.deployment.engine,
            tp=cell.placement.layout.tensor,
            layout=str(cell.placement.layout),
            dtype=cell.placement.weights,
            kv_dtype=cell.placement.cache,
            reason=cell.reason,
        )
        for cell in unmet
    ]
