"""What runs of something that decodes are to be made, in which order, and how is it started?

Leaves out making them (`make`) and what is done with what they took.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar

Phase = Literal["fit", "score"]
PLAIN = "plain"  # name of the configuration without a drafter


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptCell:
    """Prompts that configurations decode beside each other.

    Attributes:
        phase: "fit" (costs are fitted on its runs, which are never scored) or "score".
        kind: of its prompts.
        context: tokens that prompts were filled up to; 0: as they are.
        batch: requests that run together.
        prompts: ids of its prompts, taken so many at once.
    """

    phase: Phase
    kind: str
    context: int
    batch: int
    prompts: tuple[str, ...]

    @property
    def name(self) -> str:
        """Unique, readable."""
        length = f"{self.context} tokens" if self.context else "as they are"
        return f"{self.kind}, {length}, batch {self.batch}"

    @property
    def groups(self) -> list[tuple[str, ...]]:
        """Prompts that run together, group by group."""
        return [
            self.prompts[at : at + self.batch] for at in range(0, len(self.prompts), self.batch)
        ]


class Named(Protocol):
    """What making runs knows of a configuration."""

    @property
    def name(self) -> str:
        """Unique, readable, the same in every run."""


Tried = TypeVar("Tried", bound=Named)
Tried_contra = TypeVar("Tried_contra", bound=Named, contravariant=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan(Generic[Tried]):
    """What runs.

    Attributes:
        cells: with their configurations; those of the phase "fit" are never scored.
        chosen: names of the configurations that `optimize` chose, by name of the cell; None: none
            is known before, and the fastest prediction of a cell is its choice.
    """

    cells: Sequence[tuple[PromptCell, Sequence[Tried]]]
    chosen: Mapping[str, str] | None = None

    @property
    def scored(self) -> list[tuple[PromptCell, Tried]]:
        """Every configuration that is scored, with its cell."""
        return self._of("score")

    @property
    def fitted(self) -> list[tuple[PromptCell, Tried]]:
        """Every configuration that costs are fitted on, with its cell."""
        return self._of("fit")

    def _of(self, phase: Phase) -> list[tuple[PromptCell, Tried]]:
        return [
            (cell, configuration)
            for cell, configurations in self.cells
            if cell.phase == phase
            for configuration in configurations
        ]


@dataclass(frozen=True, kw_only=True, slots=True)
class Place(Generic[Tried]):
    """Where one run belongs: a configuration on the prompts of a group, in a round.

    Attributes:
        cell: kind, context and batch of the prompts.
        configuration: what runs.
        group: prompts that run together, by id.
        round: from 0.
    """

    cell: PromptCell
    configuration: Tried
    group: tuple[str, ...]
    round: int

    @property
    def entry(self) -> dict[str, Any]:
        """Its part of an entry of the log."""
        return {
            "cell": self.cell.name,
            "configuration": self.configuration.name,
            "prompts": list(self.group),
            "round": self.round,
        }


class Running(Protocol[Tried_contra]):
    """What decodes, once it is started."""

    def warm(self, configuration: Tried_contra, prompts: Sequence[str]) -> None:
        """Run what a first run would run for the first time."""

    def probes(self) -> list[float]:
        """Seconds of the same small work, a few times; none where the machine is out of reach."""

    def run(self, configuration: Tried_contra, prompts: Sequence[str]) -> Mapping[str, Any]:
        """Decode prompts once; JSON values of what the log is read as, but for its place and its
        probe.

        Raises:
            FailedRunError: the run is not whole; another start may make it.
        """


def in_turn(plan: Plan[Tried], rounds: int) -> list[list[Place[Tried]]]:
    """All runs in one start: every configuration of a cell on its prompts in turn, the order going
    round.
    """
    return [
        [
            Place(cell=cell, configuration=configuration, group=group, round=turn)
            for turn in range(rounds)
            for cell, configurations in plan.cells
            for place, group in enumerate(cell.groups)
            for configuration in _rotated(configurations, turn + place)
        ]
    ]


def by_configuration(plan: Plan[Tried], rounds: int) -> list[list[Place[Tried]]]:
    """A start for every configuration, the same ones in all cells: all cells in it, round after
    round.
    """
    return [
        [
            Place(cell=cell, configuration=configuration, group=group, round=turn)
            for turn in range(rounds)
            for cell, _ in plan.cells
            for group in cell.groups
        ]
        for configuration in plan.cells[0][1]
    ]


def _rotated(configurations: Sequence[Tried], by: int) -> list[Tried]:
    start = by % len(configurations)
    return [*configurations[start:], *configurations[:start]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Trials(Generic[Tried]):
    """Runs of something that decodes, before they are made.

    Attributes:
        plan: what runs.
        launch: what decodes, started with a configuration, as a context; None in place of it: not
            now, a later call goes on. Where it does not start (`InputError`), no other run of this
            start is tried.
        order: every run in its order, those of one start together, of a plan and rounds.
    """

    plan: Plan[Tried]
    launch: Callable[[Tried], AbstractContextManager[Running[Tried] | None]]
    order: Callable[[Plan[Tried], int], Sequence[Sequence[Place[Tried]]]] = in_turn
