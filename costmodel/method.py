"""What is a published decoding system, as data that a prediction executes?

A `Method` says who drafts, what shape is verified together, when a draft ends, which law decides what stays, how
requests share a step, and how the target itself is changed. Every field moves a price, a number of tokens per step
or a refusal; a test changes each field of each entry and sees something move. It holds no code: mechanisms live in
`costmodel.laws`, `costmodel.drafters` and the simulator. Leaves out training and the quality of the text.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from costmodel.transforms.declared import LayerSchedule, Transform, WeightTransform

Proposer = Literal["lookup", "model", "target", "head", "heads", "rows"]
ShapeKind = Literal["none", "chain", "static_tree", "dynamic_tree", "window", "block"]
StopRule = Literal["length", "probability", "product", "gain", "ema", "goodput", "exit"]
VerifyRule = Literal["none", "match", "token_rejection", "with_replacement", "without_replacement", "fixed_candidates",
                     "block", "multi_path_block", "typical", "near_match"]  # fmt: skip
_TREE_RULES = ("match", "with_replacement", "without_replacement", "fixed_candidates", "multi_path_block", "typical")
Exactness = Literal["bit_exact", "distribution", "own_weights", "lossy"]
Group = Literal["plain", "draft models", "tree drafters", "heads", "self speculation", "model free", "serving",
                "masked", "compression", "layers"]  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """One stage of drafting. Stages nest: each one is drafted for by the next (TriForce).

    Args:
        by: who proposes. `lookup`: text on the host; `model`: a draft model; `target`: the target itself, up to
            `layers` or under `transforms`; `head`: layers on the target's features; `heads`: output heads without
            layers; `rows`: query tokens that ride on the verify pass.
        layers: layers of a pass: a count, a share of the target's (below 1), or None for all of the model's own.
        first_layers: its layers are the target's first ones; False: they are spread over it (Draft & Verify).
        dense_layers: the layers of a head have one dense feed-forward even where the target's have experts.
        inputs: vectors of the hidden width that a matrix fuses into one before the first layer; 1: no such matrix.
        attention_inputs: vectors of the hidden width that the first layer's queries, keys and values read.
        vocab: tokens of the drafter's own output head, at most the target's; None: it shares the target's.
        matrices: (outputs, inputs) of further matrices, in hidden widths; one set per depth if `heads`.
        heads: output heads that are held, of a stage by `heads`; each drafts one level.
        depths_per_pass: levels that one pass drafts: 1 for serial drafting, 0 for all of them at once.
        serial_depths: levels drafted one by one before the rest comes in one pass; None: all levels alike.
        passes: passes of a step whatever its length (denoising steps); 0: they follow from the depth.
        context_tokens: cached tokens that a pass reads at most; None: no such budget.
        transforms: of the draft passes alone (sparse attention, skipped layers, 4-bit weights).
        rereads: the first pass of a step runs over the tokens of the last verify pass.
        own_cache: it holds keys and values beside the target's; False: it shares them or has none.
        host_s: seconds of work on the host per step.
        may_propose_nothing: in some steps it has no proposal, and the step takes one token.
        tokens: of a stage that drafts for another: its draft tokens per inner step.
        acceptance: of such a stage: share of its tokens that the stage it drafts for keeps, if those before were.
    """

    by: Proposer
    layers: float | None = None
    first_layers: bool = True
    dense_layers: bool = True
    inputs: int = 1
    attention_inputs: int = 1
    vocab: int | None = None
    matrices: tuple[tuple[float, float], ...] = ()
    heads: int = 0
    depths_per_pass: int = 1
    serial_depths: int | None = None
    passes: int = 0
    context_tokens: int | None = None
    transforms: tuple[Transform, ...] = ()
    rereads: bool = False
    own_cache: bool = True
    host_s: float = 0.0
    may_propose_nothing: bool = False
    tokens: int = 0
    acceptance: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """What is verified together in one step.

    Args:
        kind: `window`: tokens refined in place, the oldest committed first; `block`: tokens of a masked block.
        nodes: draft tokens, root excluded; of a window or block its tokens. 0: searched by the optimiser.
        depth: levels of a tree, root excluded; 0: no limit.
        width: children of a node that a dynamic tree looks at; 0: all.
        beam: nodes of a level of a dynamic tree that get children; 0: all.
        least_probability: path probability below which a dynamic tree leaves a node out, 0 to 1.
        riding: further query tokens of the verify pass that verify nothing (lookahead window, prompt tokens).
    """

    kind: ShapeKind
    nodes: int = 0
    depth: int = 0
    width: int = 0
    beam: int = 0
    least_probability: float = 0.0
    riding: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Stop:
    """When a draft ends.

    Args:
        rule: `length`: at the shape's draft tokens; `probability`: before a token whose draft probability is below
            `at` (Kangaroo); `product`: once 1 - prod(probabilities) exceeds `at` (SpecDec++); `gain`: once another
            level gains fewer than `at` tokens (OPT-Tree); `ema`, `goodput`: set per request or batch by a
            controller; `exit`: exit layer and length together (DEL).
        at: threshold of the rule.
        least_tokens: draft tokens that are made in any case.
        most_tokens: draft tokens after which it ends in any case; 0: the shape's.
    """

    rule: StopRule = "length"
    at: float = 0.0
    least_tokens: int = 1
    most_tokens: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Verify:
    """Which drafted tokens stay.

    Args:
        rule: a law of `costmodel.laws.acceptance`, with the twin of the same name in `real_runs`.
        remaining_layers: the verify pass begins behind the drafter's last layer (Kangaroo).
        at: thresholds of the rule, by name.
    """

    rule: VerifyRule
    remaining_layers: bool = False
    at: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Refine:
    """Decoding of masked blocks: several passes over a block, each of which commits some of its tokens.

    Args:
        forward: what a pass computes: prompt and canvas (`full`), from the block on (`suffix`), or the `block`.
        commit: which tokens a pass commits: an even share, in a whole number of passes (`static`), or those whose
            confidence exceeds a threshold, and one at least (`threshold`).
        tokens_per_pass: mean number of tokens that a pass commits, where none is stated with the question.
        canvas_tokens: tokens behind the prompt that a full pass computes.
        full_passes: passes of a block over prompt and canvas, which renew the cache and commit as the others do.
        closing_passes: passes that only store a finished block.
    """

    forward: Literal["full", "suffix", "block"]
    commit: Literal["static", "threshold"]
    tokens_per_pass: float
    canvas_tokens: int
    full_passes: int = 0
    closing_passes: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """How requests share steps and devices.

    Args:
        drafts_during_verify: the next step's draft is made while this one's is verified, on the assumption that all of
            it will be accepted.
        branches: drafts made at once, one behind each of the drafter's likeliest tokens for the place that only the
            target can decide. 0: one draft, behind the drafter's own token.
        branch_at: draft probability below which a draft branches; 1: always.
        parts: passes in which a draft is verified, each as soon as its tokens are there.
        prunes: the later parts leave out requests of which a token was rejected.
        interference_ratio: share of the shorter of two concurrent phases that comes on top of the longer one: 0 on
            devices of their own, 1 where running side by side gains nothing.
        own_device: the drafter has a device of its own, so that its weights and cache take none of the target's.
        slots: who gets the verify budget: all requests alike, or the likeliest draft tokens of the whole batch.
        budget_per_request: mean draft tokens per request that the batch may verify, with `likeliest`.
        ragged: requests of unequal lengths in one pass: each its own (`split`), padded to the longest (`pad`), or
            only those of equal length together (`regroup`).
    """

    drafts_during_verify: bool = False
    branches: int = 0
    branch_at: float = 1.0
    parts: int = 1
    prunes: bool = False
    interference_ratio: float = 0.0
    own_device: bool = False
    slots: Literal["alike", "likeliest", "by_request"] = "alike"
    budget_per_request: float | None = None
    ragged: Literal["split", "pad", "regroup"] = "split"


@dataclass(frozen=True, kw_only=True, slots=True)
class Citation:
    """Where a method was published; `arxiv` is empty where it was not on arXiv."""

    authors: str
    title: str
    year: int
    arxiv: str = ""
    url: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reported:
    """A published number, with what a prediction of it needs; what the source leaves out stays empty.

    Args:
        quantity: what `value` is; a speedup is relative to `relative_to`.
        value: the number.
        source: paper and table, or file.
        model: target.
        draft: draft model or head.
        device: name of a device profile, or as the source calls it.
        devices: number of them.
        dtype: format of the weights.
        batch: requests.
        context: cached tokens per request.
        temperature: of sampling; 0 is greedy.
        data: benchmark.
        tokens_per_step: stated tokens per step, bonus included.
        draft_tokens: of a step, root excluded, where they differ from the entry's shape.
        relative_to: slug of the entry, or words.
        note: what else the source says.
    """

    quantity: Literal["speedup", "tokens_per_step", "tokens_per_s", "bytes_ratio"]
    value: float
    source: str
    model: str = ""
    draft: str = ""
    device: str = ""
    devices: int = 1
    dtype: str = ""
    batch: int | None = None
    context: int | None = None
    temperature: float | None = None
    data: str = ""
    tokens_per_step: float | None = None
    draft_tokens: int | None = None
    relative_to: str = "plain-decoding"
    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Method:
    """A published decoding system.

    Example:
        >>> draft = Draft(by="head", layers=1, rereads=True)
        >>> method = Method(
        ...     slug="my-head", title="My head", citation=Citation(authors="A. Author", title="My head", year=2026),
        ...     group="tree drafters", read="paper", draft=(draft,), shape=Shape(kind="static_tree", nodes=16, depth=4),
        ...     verify=Verify(rule="without_replacement"))
        >>> method.drafts_trees, method.exactness
        (True, 'distribution')

    Args:
        slug: name on the command line and of its file.
        title: name in the paper.
        citation: the publication.
        group: what it is listed under, and the folder of its file.
        read: the best source that was read; `abstract` entries are marked wherever they are shown.
        exact_when: condition under which the text is the target's, in words.
        target: what is changed about the target's weights, cache, attention or layers.
        target_transforms_reach_drafter: draft passes by another network run under `target` too. On for what works at
            run time on whatever passes; off for what was made for one model. Drafts by the target itself always run on
            its weights and cache as they are stored, but never on its schedule of layers.
        draft: stages of drafting, each drafted for by the next; empty: nothing is drafted.
        shape: what is verified together.
        stop: when a draft ends.
        verify: what stays.
        refine: masked decoding, instead of draft and verify.
        batch: how requests go together.
        engines: engine to the name of this method there; an engine whose method differs is left out.
        reported: published numbers.
        assumed: fields that the source does not state, with the reason for their value.
    """

    slug: str
    title: str
    citation: Citation
    group: Group
    read: Literal["code", "paper", "abstract"]
    exact_when: str = ""
    target: tuple[Transform, ...] = ()
    target_transforms_reach_drafter: bool = False
    draft: tuple[Draft, ...] = ()
    shape: Shape = Shape(kind="none")
    stop: Stop = Stop()
    verify: Verify = Verify(rule="none")
    refine: Refine | None = None
    batch: Batch = Batch()
    engines: Mapping[str, str] = field(default_factory=dict)
    reported: tuple[Reported, ...] = ()
    assumed: tuple[str, ...] = ()

    @property
    def exactness(self) -> Exactness:
        """What happens to the text.

        `bit_exact`: it stays; `distribution`: it is drawn as the target draws; `own_weights`: it is that of a target
        trained for the method; `lossy`: it changes.
        """
        if self.refine is not None or self.verify.rule in ("typical", "near_match"):
            return "lossy"
        if any(isinstance(each, LayerSchedule) and each.unique_ratio < 1.0 for each in self.target):
            return "own_weights"
        if not all(isinstance(each, WeightTransform) and each.kept_ratio == 1.0 for each in self.target):
            return "lossy"
        return "distribution" if self.draft else "bit_exact"

    @property
    def drafts(self) -> bool:
        """Whether anything is drafted."""
        return bool(self.draft)

    @property
    def needs_draft_model(self) -> bool:
        """Whether a draft model has to be named."""
        return any(stage.by == "model" for stage in self.draft)

    @property
    def drafts_with_weights(self) -> bool:
        """Whether a draft model or a draft head can be named."""
        return any(stage.by in ("model", "head", "heads") for stage in self.draft)

    @property
    def needs_trained_weights(self) -> bool:
        """Whether an engine loads weights beside the target's checkpoint to draft with."""
        return any(
            stage.by in ("model", "heads") or (stage.by == "head" and stage.dense_layers) for stage in self.draft
        )

    @property
    def exits_early(self) -> bool:
        """Whether the target's own first layers draft."""
        first = self.draft[0] if self.draft else None
        return first is not None and first.by == "target" and first.layers is not None and first.first_layers

    @property
    def may_propose_nothing(self) -> bool:
        """Whether some steps have no proposal and take one token."""
        return bool(self.draft) and self.draft[0].may_propose_nothing

    @property
    def drafts_trees(self) -> bool:
        """Whether a step can verify a tree: the drafter ranks candidates, and the law decides between siblings."""
        ranks = bool(self.draft) and self.draft[0].by in ("model", "target", "head", "heads")
        return ranks and self.verify.rule in _TREE_RULES

    @property
    def drafted_by(self) -> str:
        """Who proposes what the target verifies: `none` or a proposer."""
        return self.draft[0].by if self.draft else "none"
