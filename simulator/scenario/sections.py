"""What may a person write about how requests are decoded, and on which devices apart?

Sections of a scenario file: speculation, block decoders, prompts and feed-forward layers apart.
Leaves out the other sections and reading (`simulator.scenario.file`).
"""

from __future__ import annotations

import re
from dataclasses import asdict, replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from costmodel.draft_shape import read_shape
from costmodel.laws.batching import MOST_BRANCHES, MOST_PARTS
from hardware_profiles.errors import InputError

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Whole = Annotated[int, Field(ge=1, le=1 << 30)]
Replicas = Annotated[int, Field(ge=1, le=4096)]
SampledReplicas = Annotated[int, Field(ge=2, le=64)]  # one alone says nothing of the others
Ratio = Annotated[float, Field(ge=0, le=1)]
BlockTokens = Annotated[int, Field(ge=1, le=4096)]


def _ranges(written: Any) -> Any:
    """Rows (first batch, last batch, K) of a schedule written as `1-16:5,17-64:3`; anything else as
    it is.
    """
    if not isinstance(written, str):
        return written
    rows = [
        re.fullmatch(r"\s*([0-9]{1,6})-([0-9]{1,6}):([0-9]{1,4})\s*", part)
        for part in written.split(",")
    ]
    if None in rows:
        raise ValueError("must be ranges such as 1-16:5,17-64:3")
    return tuple(tuple(int(number) for number in row.groups()) for row in rows if row is not None)


def _shares(written: Any) -> Any:
    """Shares by priority written as `0:0.2,1:0.8`; anything else as it is."""
    if not isinstance(written, str):
        return written
    pairs = [
        re.fullmatch(r"\s*(-?[0-9]{1,9}):([0-9]*\.?[0-9]+)\s*", part) for part in written.split(",")
    ]
    shares = {int(pair[1]): float(pair[2]) for pair in pairs if pair is not None}
    if len(shares) != len(pairs):
        raise ValueError("must be shares by different priorities such as 0:0.2,1:0.8")
    return shares


def _rates(written: Any) -> Any:
    """One rate, or rates by position, written as `0.72` or `0.78,0.61,0.48`; anything else as it
    is.
    """
    if isinstance(written, str):
        return tuple(written.split(","))
    return (written,) if isinstance(written, int | float) else written


def _rule(written: Any) -> Any:
    """A stop rule written as `ema` or `product:0.3`; anything else as it is."""
    if not isinstance(written, str):
        return written
    rule, _, at = written.partition(":")
    return {"rule": rule, "at": at} if at else {"rule": rule}


Schedule = Annotated[tuple[tuple[int, int, int], ...], BeforeValidator(_ranges)]
Rates = Annotated[tuple[Ratio, ...], Field(min_length=1, max_length=4095), BeforeValidator(_rates)]
Shares = Annotated[
    dict[Annotated[int, Field(ge=-(1 << 31), lt=1 << 31)], Ratio], BeforeValidator(_shares)
]


RefineKey = Literal[
    "commit", "at", "block_tokens", "cache", "stop", "delimiters", "delimiter_confidence"
]


class Section(BaseModel):
    """Keys of one part of a scenario."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class StopSection(Section):
    """When a draft ends before its length: see `costmodel.method.Stop`.

    Attributes:
        rule: length, probability, product, ema, goodput or cost of chains; gain of trees that every
            step picks anew.
        at: threshold of the rule; of ema and goodput the weight of the latest step, 0 for 0.2; of
            cost too, where 0 weighs the latest step alone.
        least_tokens: draft tokens that are made in any case; goodput may always leave drafting out.
        most_tokens: draft tokens after which it ends in any case; 0: those of the draft.
        unlikely_tokens: of probability, 1: the token below the threshold is verified; 0: dropped.
    """

    rule: Literal["length", "probability", "product", "gain", "ema", "goodput", "cost"]
    at: NotNegative = 0.0
    least_tokens: Annotated[int, Field(ge=0, le=4095)] = 1
    most_tokens: Annotated[int, Field(ge=0, le=4095)] = 0
    unlikely_tokens: Annotated[int, Field(ge=0, le=1)] = 0

    @model_validator(mode="after")
    def _in_range(self) -> StopSection:
        if self.rule != "gain" and self.at > 1.0:
            raise ValueError(f"at of {self.rule} must lie in 0..1")
        if self.rule in ("ema", "goodput", "cost") and self.least_tokens > 1:
            raise ValueError(f"{self.rule} has no least_tokens above 1")
        return self


class SpeculationSection(Section):
    """Speculation: what is accepted, and how much is drafted; or how masked blocks are refined.

    Without shape, draft_tokens and tree counters and logs say how long the drafts were, or the
    method's own entry says what a step drafts.
    Requests walk along a recording; for counters (level 0), stated rates and tokens per step one is
    drawn, every step by itself.

    Attributes:
        trace: acceptance trace, a file or the name of a shipped one; or a confidence trace of
            masked blocks.
        acceptance: in its place one rate of a token given those before it (0.72), or the share of
            steps in which each position was accepted (0.78,0.61,0.48).
        known_tokens: draft tokens up to which `acceptance` is known; None: as many as it has rates,
            of one rate any.
        tokens_per_step: or the tokens that a step of the longest draft emits, the bonus token
            counted.
        shape: what a step drafts, as answers print it: off, chain:5, tree:16, dynamic:60x6,
            prompted:48, own.
        draft_tokens: or K of a chain; None: as counted, where the trace is counters or a log.
        tree: file of a tree's JSON instead, or the JSON itself.
        method: slug; None: the trace's.
        refine: how a method that refines masked blocks commits them along a confidence trace:
            commit, at, block_tokens, cache, stop, delimiters; what is left out is the method's own.
        canvas_tokens: tokens behind the prompt that such a method refines; None: as recorded.
        draft: draft model.
        exit_layer: of an early-exit drafter.
        draft_name: what a drafter is called that is described by its passes.
        draft_passes: of such a drafter.
        draft_bytes: read by each of its passes.
        match_rate: share of steps with a proposal, where the trace does not tell.
        schedule: rows [first batch, last batch, K], or 1-16:5,17-64:3.
        stop: when a draft ends, as product:0.3 or {rule: product, at: 0.3, least_tokens: 2}; None:
            as the method's entry says.
        overlap: pearl, specbranch or faser: how draft and verify passes share time; None: as the
            method has it.
        branches: of a draft that is made during verification; None: as the policy has it.
        parts: in which a draft is verified; None: as the policy has it.
        interference_ratio: share of the shorter of two concurrent phases that the longer one takes
            in addition; None: as the policy has it.
        ragged: split, pad or regroup: what becomes of unequal lengths; None: as the method has it.
        group_requests: most requests that are padded together; None: everybody.
    """

    trace: str | None = None
    acceptance: Rates | None = None
    known_tokens: Whole | None = None
    tokens_per_step: Annotated[float, Field(ge=1, le=4096)] | None = None
    shape: str | None = None
    draft_tokens: Annotated[int, Field(ge=0, le=4095)] | None = None
    tree: str | dict[str, list[int] | bool] | None = None
    method: str | None = None
    refine: dict[RefineKey, str | int | float | list[int] | dict[str, int | float]] | None = None
    canvas_tokens: BlockTokens | None = None
    draft: str | None = None
    exit_layer: Whole | None = None
    draft_name: str | None = None
    draft_passes: Whole | None = None
    draft_bytes: Positive | None = None
    match_rate: Ratio | None = None
    schedule: Schedule = ()
    stop: Annotated[StopSection, BeforeValidator(_rule)] | None = None
    overlap: Literal["pearl", "specbranch", "faser"] | None = None
    branches: Annotated[int, Field(ge=0, le=MOST_BRANCHES)] | None = None
    parts: Annotated[int, Field(ge=1, le=MOST_PARTS)] | None = None
    interference_ratio: Ratio | None = None
    ragged: Literal["split", "pad", "regroup"] | None = None
    group_requests: Whole | None = None

    @model_validator(mode="before")
    @classmethod
    def _named_shape(cls, written: Any) -> Any:
        """What a shape says, in the keys that have it: a chain in `draft_tokens`, a tree's file in
        `tree`, and when drafts end in `stop`.
        """
        if not isinstance(written, dict) or written.get("shape") is None:
            return written
        text = str(written["shape"])
        try:
            shape = read_shape(text)
        except InputError as error:
            raise ValueError(f"shape {error.message}; got {text}") from None
        keys: dict[str, Any] = {"shape": None}
        if shape.kind in ("off", "chain"):
            keys["draft_tokens"] = shape.nodes
        elif shape.file is not None:
            keys["tree"] = str(shape.file)
        elif shape.kind != "own":
            keys["shape"] = str(replace(shape, stop=None))
        if shape.stop is not None:
            keys["stop"] = asdict(shape.stop)
        others = ("draft_tokens", "tree", *(["stop"] if shape.stop is not None else []))
        for name in others:
            if written.get(name) is not None:
                raise ValueError(f"shape says what {name} says; leave out one of them")
        return written | keys

    @model_validator(mode="after")
    def _goes_together(self) -> SpeculationSection:
        if sum(value is not None for value in (self.draft_tokens, self.tree, self.shape)) > 1:
            raise ValueError("exactly one of shape, draft_tokens and tree is needed")
        sources = sum(
            value is not None for value in (self.trace, self.acceptance, self.tokens_per_step)
        )
        if sources > 1 or (sources == 0 and self.drafts):
            raise ValueError(
                "exactly one of trace, acceptance and tokens_per_step is needed where anything is"
                " drafted; masked blocks are walked along a confidence trace"
            )
        if self.trace is None and (self.tree is not None or self.shape is not None):
            raise ValueError(
                "stated acceptance holds for chains; trees need a trace that holds ranks"
            )
        changed = self.changed_overlap()
        if changed and self.overlap is None and self.method is None:
            raise ValueError(f"{' and '.join(changed)} go with an overlap")
        return self

    @property
    def drafts(self) -> bool:
        """Whether any draft token is ever proposed."""
        return self.draft_tokens != 0 or any(row[2] for row in self.schedule)

    @property
    def longest_draft(self) -> int:
        """Most draft tokens of a chain that are written; 0 where none are."""
        return max([self.draft_tokens or 0, *(row[2] for row in self.schedule)])

    def changed_overlap(self) -> dict[str, Any]:
        """Fields of the overlap that differ from the published policy."""
        settings = {
            "branches": self.branches,
            "parts": self.parts,
            "interference_ratio": self.interference_ratio,
        }
        return {name: value for name, value in settings.items() if value is not None}


class BlocksSection(Section):
    """A decoder that commits blocks of tokens over several passes.

    Attributes:
        block_tokens: tokens of a block.
        passes: a block is committed evenly over so many.
        commit_ratio: or every open token with this probability in each pass, one at least.
        commits: or rows of tokens that the passes of recorded blocks fixed.
        query_tokens: tokens that a pass computes: one number, or one per pass of which the last
            serves all later ones; None: the block.
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
        if sum(value is not None for value in (self.passes, self.commit_ratio, self.commits)) != 1:
            raise ValueError("exactly one of passes, commit_ratio and commits is needed")
        if self.passes is not None and self.passes > self.block_tokens:
            raise ValueError(f"passes must not exceed the block's {self.block_tokens} tokens")
        for row in self.commits or ():
            if min(row, default=-1) < 0 or sum(row) != self.block_tokens:
                raise ValueError(
                    f"commits must hold rows of numbers >= 0 that sum to {self.block_tokens}"
                )
        return self


class DisaggregationSection(Section):
    """Prompts on replicas of their own.

    Attributes:
        prefill_replicas: replicas that compute prompts only.
        prefill: or workers with a plan of their own that do, such as 2xtp4 or 1xdp8ep8; a transfer
            then goes over one link, or the network between nodes where one link does not join all
            devices.
        delivers: prefill: a first token is streamed as soon as its prompt is computed; decode: by
            the replica that decodes, once it has the cache and takes the request in.
        transfer_token_s: seconds to move one token's cache; None: over the links of the devices,
            all at once.
        transfer_latency_s: of a transfer beside that.
    """

    prefill_replicas: Replicas = 1
    prefill: str | None = None
    delivers: Literal["prefill", "decode"] = "prefill"
    transfer_token_s: NotNegative | None = None
    transfer_latency_s: NotNegative = 0.0

    @model_validator(mode="after")
    def _counted_once(self) -> DisaggregationSection:
        if self.prefill is not None and self.prefill_replicas > 1:
            raise ValueError("prefill counts its workers: prefill_replicas goes without it")
        return self


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
