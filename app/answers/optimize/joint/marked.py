"""Which placements of a joint search cannot run? Rows with their reasons."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from app.answers.answer import Column
from app.answers.cells import MarkedCell
from costmodel.optimizers.joint.search import Unplaced
from costmodel.optimizers.joint.space import JointQuestion


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
    """A placement in a cell: `tp2 fp8`, or `tp2` in the usual format."""
    return " ".join(filter(None, (layout, dtype)))


def marked_placements(
    question: JointQuestion, unplaced: Sequence[Unplaced]
) -> list[MarkedPlacement]:
    """Rows of placements that cannot run.

    Args:
        question: of the search.
        unplaced: what it could not place.
    """
    where = question.question.deployment
    return [
        MarkedPlacement(
            model=where.model,
            device=cell.placement.device,
            engine=where.engine,
            tp=cell.placement.layout.tensor,
            layout=str(cell.placement.layout),
            dtype=cell.placement.weights,
            kv_dtype=cell.placement.cache,
            reason=cell.reason,
        )
        for cell in unplaced
    ]
