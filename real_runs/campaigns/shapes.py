"""Which ways to decode may a campaign file name: a chain, a static tree or a dynamic tree, and who
judges the drafts?

Leaves out the jobs that run them (`jobs`) and the loops themselves (`real_runs.decoding`).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from hardware_profiles.errors import InputError
from real_runs.trials.trials import PLAIN
from traces.kinds.tree import Tree, chain_tree

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,60}$")]
Nodes = Annotated[int, Field(ge=1, le=1024)]


class Closed(BaseModel):
    """A model that knows all its keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class TreeShape(Closed):
    """A static tree, root included, as `rooftree tree` writes it."""

    parents: Annotated[list[int], Field(min_length=2, max_length=4096)]
    ranks: Annotated[list[int], Field(min_length=2, max_length=4096)]
    root_included: Literal[True] = True

    @model_validator(mode="after")
    def _whole(self) -> TreeShape:
        try:
            self.tree()
        except InputError as error:
            raise ValueError(str(error)) from None
        return self

    def tree(self) -> Tree:
        """The tree itself."""
        return Tree(parents=tuple(self.parents), ranks=tuple(self.ranks))


class DynamicShape(Closed):
    """A tree drafted anew in every step; fields as in
    `real_runs.decoding.dynamic_tree.DynamicPolicy`.
    """

    order: Literal["best-first", "levels", "beam", "block"] = "levels"
    draft_tokens: Nodes = 32
    depth: Nodes = 8
    width: Nodes = 8
    beam: Nodes = 8
    least_value: float = Field(default=0.0, ge=0, le=1)
    least_gain: float = Field(default=0.0, ge=0)
    cost_ratio: float = Field(default=0.0, ge=0, le=1)
    free_nodes: int = Field(default=0, ge=0, le=4096)

    @model_validator(mode="after")
    def _stops_by_level(self) -> DynamicShape:
        if self.least_gain and self.order in ("best-first", "block"):
            raise ValueError(f"{self.order} reads no levels, so least_gain must be 0")
        return self


class CampaignConfiguration(Closed):
    """One way to decode: a drafter with a chain of `draft_tokens`, a static `tree` or a
    `dynamic_tree`.

    Attributes:
        name: of the runs; `plain` is taken.
        drafter: of the registry.
        draft_tokens: K of a chain.
        stop: `length`: the whole chain is verified; `cost`: as many of its tokens as are expected to
            emit most per second, by passes that are timed first.
        fan_out: tokens that are drafted behind at every length of a chain that may be accepted,
            before it is verified; None: the next chain is drafted when the outcome is known.
        on_miss: with `fan_out`, what a step does whose outcome was not foreseen: it has no draft
            (`plain`), or waits for one (`wait`).
        tree: static tree.
        dynamic_tree: how a tree is drafted in every step.
        verifier: rule by which drafts are judged, of `real_runs.decoding.verifiers`; drafts are
            then drawn as it asks. None: a draft stays where the target would have written the same
            token.
        draft_temperature: of drafts that are drawn.
    """

    name: Name
    drafter: Name
    draft_tokens: Nodes | None = None
    stop: Literal["length", "cost"] = "length"
    fan_out: Annotated[int, Field(ge=1, le=64)] | None = None
    on_miss: Literal["plain", "wait"] = "plain"
    tree: TreeShape | None = None
    dynamic_tree: DynamicShape | None = None
    verifier: Name | None = None
    draft_temperature: float = Field(default=1.0, gt=0, lt=100)

    @model_validator(mode="after")
    def _one_shape(self) -> CampaignConfiguration:
        if (
            sum(shape is not None for shape in (self.draft_tokens, self.tree, self.dynamic_tree))
            != 1
        ):
            raise ValueError("a configuration has one of draft_tokens, tree and dynamic_tree")
        if self.dynamic_tree is not None and self.verifier is not None:
            raise ValueError(
                "candidates of a dynamic tree are not drawn, so no verifier can be named"
            )
        if self.draft_tokens is None and (self.stop != "length" or self.fan_out is not None):
            raise ValueError("stop and fan_out are of a chain of draft_tokens")
        if sum((self.stop != "length", self.fan_out is not None, self.verifier is not None)) > 1:
            raise ValueError("a chain has one of stop, fan_out and verifier")
        if self.name == PLAIN:
            raise ValueError("plain is always among the configurations")
        return self

    @property
    def most_draft_tokens(self) -> int:
        """Tokens drafted in a step at most, the root not counted."""
        if self.dynamic_tree is not None:
            return self.dynamic_tree.draft_tokens
        return self.static_tree.draft_tokens

    @property
    def static_tree(self) -> Tree:
        """The static tree of a step; a chain's, too."""
        return self.tree.tree() if self.tree is not None else chain_tree(self.draft_tokens or 0)
