"""What may a person write about how requests are decoded, and on which devices apart?

Sections of a scenario file: speculation, block decoders, prompts and feed-forward layers apart. Leaves out the other
sections and reading (`simulator.scenario_file`).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from simulator.overlap import MOST_BRANCHES, MOST_PARTS

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Whole = Annotated[int, Field(ge=1, le=1 << 30)]
Ratio = Annotated[float, Field(ge=0, le=1)]
BlockTokens = Annotated[int, Field(ge=1, le=4096)]


class Section(BaseModel):
    """Keys of one part of a scenario."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class SpeculationSection(Section):
    """Speculation: a recording, and how much of it is drafted.

    Attributes:
        trace: acceptance trace, a file or the name of a shipped one.
        draft_tokens: K of a chain.
        tree: tree JSON instead.
        method: slug; None: the trace's.
        draft: draft model.
        exit_layer: of an early-exit drafter.
        draft_passes: of an unpublished drafter.
        draft_bytes: read by each of its passes.
        match_rate: share of steps with a proposal, where the trace does not tell.
        schedule: [first batch, last batch, K] rows.
        controller: ema or goodput.
        overlap: pearl, specbranch or faser: how draft and verify passes share time.
        branches: of a draft that is made ahead; None: as the policy has it.
        parts: in which a draft is verified; None: likewise.
        interference_ratio: what the shorter of two concurrent phases adds to the longer; None: likewise.
        stop_ratio: a draft ends where the drafter is less sure than this.
        ragged: split, pad or regroup: what becomes of unequal lengths.
        group_requests: most requests that are padded together; None: everybody.
    """

    trace: str
    draft_tokens: Annotated[int, Field(ge=0, le=4095)] | None = None
    tree: str | None = None
    method: str | None = None
    draft: str | None = None
    exit_layer: Whole | None = None
    draft_passes: Whole | None = None
    draft_bytes: Positive | None = None
    match_rate: Ratio | None = None
    schedule: tuple[tuple[int, int, int], ...] = ()
    controller: Literal["ema", "goodput"] | None = None
    overlap: Literal["pearl", "specbranch", "faser"] | None = None
    branches: Annotated[int, Field(ge=0, le=MOST_BRANCHES)] | None = None
    parts: Annotated[int, Field(ge=1, le=MOST_PARTS)] | None = None
    interference_ratio: Ratio | None = None
    stop_ratio: Annotated[float, Field(gt=0, le=1)] | None = None
    ragged: Literal["split", "pad", "regroup"] = "split"
    group_requests: Whole | None = None

    @model_validator(mode="after")
    def _goes_together(self) -> SpeculationSection:
        if (self.draft_tokens is None) == (self.tree is None):
            raise ValueError("exactly one of draft_tokens and tree is needed")
        changed = self.changed_overlap()
        if changed and self.overlap is None:
            raise ValueError(f"{' and '.join(changed)} go with an overlap")
        return self

    def changed_overlap(self) -> dict[str, Any]:
        """Fields of the overlap that differ from the published policy."""
        given = {"branches": self.branches, "parts": self.parts, "interference_ratio": self.interference_ratio}
        return {name: value for name, value in given.items() if value is not None}


class BlocksSection(Section):
    """A decoder that commits blocks of tokens over several passes.

    Attributes:
        block_tokens: tokens of a block.
        passes: a block is committed evenly over so many.
        commit_ratio: or every open token with this chance in each pass, one at least.
        commits: or rows of tokens that the passes of recorded blocks fixed.
        query_tokens: tokens that a pass computes: one number, or one per pass of which the last serves all later ones;
            None: the block.
        closing_passes: passes that only store a finished block.
    """

    block_tokens: BlockTokens
    passes: Whole | None = None
    commit_ratio: Ratio | None = None
    commits: Annotated[tuple[tuple[int, ...], ...], Field(min_length=1)] | None = None
    query_tokens: Whole | Annotated[tuple[Whole, ...], Field(min_length=1)] | None = None
    closing_passes: Annotated[int, Field(ge=0, le=64)] = 0

    @model_validator(mode="after")
    def _one_law(self) -> BlocksSection:
        if sum(each is not None for each in (self.passes, self.commit_ratio, self.commits)) != 1:
            raise ValueError("exactly one of passes, commit_ratio and commits is needed")
        if self.passes is not None and self.passes > self.block_tokens:
            raise ValueError(f"passes must not exceed the block's {self.block_tokens} tokens")
        for row in self.commits or ():
            if min(row, default=-1) < 0 or sum(row) != self.block_tokens:
                raise ValueError(f"commits must hold rows of numbers >= 0 that sum to {self.block_tokens}")
        return self


class DisaggregationSection(Section):
    """Prompts on replicas of their own.

    Attributes:
        prefill_replicas: replicas that compute prompts only.
        transfer_token_s: seconds to move one token's cache; None: over the links of the devices, all at once.
        transfer_latency_s: of a transfer beside that.
    """

    prefill_replicas: Whole = 1
    transfer_token_s: NotNegative | None = None
    transfer_latency_s: NotNegative = 0.0


class FeedForwardSection(Section):
    """Feed-forward layers on devices of their own; the deployment then holds the attention layers.

    Attributes:
        device: shipped name or TOML file; None: the deployment's.
        tensor_parallel: devices that share every feed-forward layer.
        attention_groups: groups of the deployment's devices that share the requests.
        micro_batches: in flight between the two sides.
        link_bytes_per_s: between them; None: the slower of the two devices' links.
        link_latency_s: of one message.
    """

    device: str | None = None
    tensor_parallel: Whole = 1
    attention_groups: Whole = 1
    micro_batches: Annotated[int, Field(ge=1, le=64)] = 3
    link_bytes_per_s: Positive | None = None
    link_latency_s: NotNegative = 0.0
