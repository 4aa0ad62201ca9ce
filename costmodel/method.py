"""What is a published decoding system, as data that a prediction executes?

A `Method` says who drafts, what shape is verified together, when a draft ends, which law decides
what stays, how requests share a step, and how the target itself is changed; or why nothing of it
can be priced. Every field moves a price, a number of tokens per step or a refusal; a test changes
each field of each entry and sees something move. It holds no code: mechanisms live in
`costmodel.laws`, `costmodel.drafters` and the simulator. Leaves out training and the quality of the
text.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from costmodel.citation import Citation, Reported
from costmodel.drafting_stage import Draft
from costmodel.pace import EXACT_COMMITS, Advance, Refine, Routing, Samples, Spans
from costmodel.transforms.declared import LayerSchedule, Transform, WeightTransform
from hardware_profiles.errors import InputError

__all__ = [
    "Batch",
    "Citation",
    "Draft",
    "Method",
    "Refine",
    "Reported",
    "Routing",
    "Samples",
    "Shape",
    "Spans",
    "Stop",
    "Verify",
]

ShapeKind = Literal[
    "none", "chain", "static_tree", "dynamic_tree", "state_trees", "window", "block"
]
StopRule = Literal["length", "probability", "product", "gain", "ema", "goodput", "cost", "exit"]
WEIGHING: tuple[StopRule, ...] = ("goodput", "cost")
"""Stop rules that weigh the seconds of steps, so that what they emit depends on the batch."""
VerifyRule = Literal[
    "none",
    "match",
    "token_rejection",
    "with_replacement",
    "without_replacement",
    "fixed_candidates",
    "block",
    "multi_path_block",
    "typical",
    "near_match",
]
_TREE_RULES = (
    "match",
    "with_replacement",
    "without_replacement",
    "fixed_candidates",
    "multi_path_block",
    "typical",
)
Exactness = Literal["bit_exact", "distribution", "own_weights", "lossy"]
LABELS = (
    "slug",
    "title",
    "citation",
    "group",
    "read",
    "exact_when",
    "systems",
    "recorded",
    "reproduced",
    "reported",
    "assumed",
)
"""Fields that say what an entry is, and not what a prediction does."""
Group = Literal[
    "plain",
    "draft models",
    "draft trees",
    "parallel drafters",
    "tree drafters",
    "heads",
    "self speculation",
    "model free",
    "vision",
    "serving",
    "parallelism",
    "masked",
    "commit rules",
    "jacobi",
    "media",
    "constrained",
    "test time",
    "compression",
    "attention",
    "contexts",
    "layers",
    "architectures",
    "references",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """What is verified together in one step.

    Args:
        kind: `state_trees`: prompt tokens behind every candidate guess the next step's tree, which
            has as many levels as stood behind the last accepted one; `window`: tokens refined in
            place, the oldest committed first; `block`: tokens of a masked block.
        nodes: draft tokens, root excluded; of state trees candidates and the prompt tokens behind
            them; of a window or block its tokens. 0: searched by the optimiser.
        depth: levels of a tree, root excluded; 0: no limit. Of state trees also the prompt tokens
            behind the root.
        width: children of a node that a dynamic tree looks at; 0: all.
        beam: nodes of a level of a dynamic tree that get children; 0: all.
        least_probability: path probability below which a dynamic tree leaves a node out, 0 to 1.
        cost_ratio: seconds that a further node adds to a step, over those of a step with
            `free_nodes`, 0 to 1: a dynamic tree takes its likeliest nodes only as long as they
            bring more tokens a second (Bastion). 0: as many as there may be.
        free_nodes: nodes up to which the verify pass takes no longer, since it reads the weights
            anyway.
        guesses: drafts of so many tokens that a step with a proposal verifies side by side, of
            which the longest stays (n-grams of a pool).
        riding: further query tokens of the verify pass that verify nothing (lookahead window,
            prompt tokens).
    """

    kind: ShapeKind
    nodes: int = 0
    depth: int = 0
    width: int = 0
    beam: int = 0
    least_probability: float = 0.0
    cost_ratio: float = 0.0
    free_nodes: int = 0
    guesses: int = 1
    riding: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Stop:
    """When a draft ends.

    Args:
        rule: `length`: at the shape's draft tokens; `probability`: at a token whose draft
            probability is below `at` (Kangaroo); `product`: once 1 - prod(probabilities) exceeds
            `at` (SpecDec++); `gain`: once another level gains fewer than `at` tokens (OPT-Tree);
            `ema`, `goodput`: set per request or batch by a controller; `cost`: the draft is made
            whole, and the batch verifies of it what is expected to emit most tokens per second
            (DSpark); `exit`: exit layer and length together (DEL).
        at: threshold of the rule; of `ema`, `goodput` and `cost` the weight of the latest step in
            what is remembered. `cost` remembers tokens per second, by which it weighs what a
            further token costs; 0: it weighs this step alone, as engines do.
        least_tokens: draft tokens that are made in any case.
        most_tokens: draft tokens after which it ends in any case; 0: the shape's.
        unlikely_tokens: of `probability`, whether the token that is below `at` is verified: 1, as
            by Transformers, or 0: it is dropped, as by llama.cpp.

    Raises:
        InputError: an unlikely token of another rule, or several.
    """

    rule: StopRule = "length"
    at: float = 0.0
    least_tokens: int = 1
    most_tokens: int = 0
    unlikely_tokens: int = 0

    def __post_init__(self) -> None:
        if self.unlikely_tokens and (self.rule != "probability" or self.unlikely_tokens != 1):
            rule = "must be 0, or 1 where the rule is probability"
            raise InputError(rule, key="stop.unlikely_tokens", value=self.unlikely_tokens)


@dataclass(frozen=True, kw_only=True, slots=True)
class Verify:
    """Which drafted tokens stay.

    Args:
        rule: a law of `costmodel.laws.acceptance`, with the twin of the same name in `real_runs`.
        remaining_layers: the verify pass begins behind the drafter's last layer (Kangaroo).
        pruned_after: share of the layers that all draft tokens run; those that are then found
            hopeless leave the pass.
        pruned_ratio: share of the draft tokens that the layers behind still run.
        relaxed: more stays than the rule alone would keep, so that the text changes (a target that
            was moved towards the drafter, rewards).
        at: thresholds of the rule, by name.
    """

    rule: VerifyRule
    remaining_layers: bool = False
    pruned_after: float = 1.0
    pruned_ratio: float = 1.0
    relaxed: bool = False
    at: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """How requests share steps and devices.

    Args:
        drafts_during_verify: the next step's draft is made while this one's is verified, on the
            assumption that all of it will be accepted.
        branches: drafts made at once, one behind each of the drafter's likeliest tokens for the
            place that only the target can decide. 0: one draft, behind the drafter's own token.
        branch_at: draft probability below which a draft branches; 1: always.
        fan_out: drafts made during verification behind every length that may be accepted, one
            behind each of the drafter's likeliest tokens there, the drafted one left out where it
            would have to be rejected: whichever of these outcomes comes about has its next draft
            ready. 0: what `branches` says.
        on_miss: what a step does whose outcome was not foreseen: it has no draft (`plain`), or
            waits for one (`wait`).
        parts: passes in which a draft is verified, each as soon as its tokens are there.
        prunes: the later parts leave out requests of which a token was rejected.
        interference_ratio: share of the shorter of two concurrent phases that comes on top of the
            longer one: 0 on devices of their own, 1 where running side by side gains nothing.
        own_device: the drafter has a device of its own, so that its weights and cache take none of
            the target's.
        slots: who gets the verify budget: all requests alike, or the likeliest draft tokens of the
            whole batch.
        budget_per_request: mean draft tokens per request that the batch may verify, with
            `likeliest`.
        ragged: requests of unequal lengths in one pass: each its own (`split`), padded to the
            longest (`pad`), or only those of equal length together (`regroup`).
    """

    drafts_during_verify: bool = False
    branches: int = 0
    branch_at: float = 1.0
    fan_out: int = 0
    on_miss: Literal["plain", "wait"] = "plain"
    parts: int = 1
    prunes: bool = False
    interference_ratio: float = 0.0
    own_device: bool = False
    slots: Literal["alike", "likeliest", "by_request"] = "alike"
    budget_per_request: float | None = None
    ragged: Literal["split", "pad", "regroup"] = "split"


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
        target_transforms_reach_drafter: draft passes by another network run under `target` too. On
            for what works at run time on whatever passes; off for what was made for one model.
            Drafts by the target itself always run on its weights and cache as they are stored, but
            never on its schedule of layers.
        draft: stages of drafting, each drafted for by the next; empty: nothing is drafted.
        shape: what is verified together.
        stop: when a draft ends.
        verify: what stays.
        refine: masked decoding, instead of draft and verify.
        advance: another way to several tokens a step, instead of draft and verify.
        batch: how requests go together.
        host_s: seconds of work on the host per step that the device waits for (grammars, search).
        deployment: options of a deployment that it stands for (`context_parallel`), where a
            question leaves them out.
        own_weights: the target was trained for it, and the text is that of the trained target.
        engines: engine to the name of this method there; an engine whose method differs is left
            out.
        systems: rows of the table of published systems that the entry stands for.
        asked_as: what to ask instead, where it is no way of decoding by itself but priced;
            predictions refuse with it.
        out_of_scope: why nothing of it can be priced; predictions refuse with it.
        needs: the mechanism that is missing to price it; predictions refuse with it.
        recorded: names of shipped recordings of it, which predictions take as `--trace NAME`.
        reproduced: tests that hold one of its published numbers against a prediction.
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
    advance: Advance | None = None
    batch: Batch = Batch()
    host_s: float = 0.0
    deployment: Mapping[str, int] = field(default_factory=dict)
    own_weights: bool = False
    engines: Mapping[str, str] = field(default_factory=dict)
    systems: tuple[str, ...] = ()
    asked_as: str = ""
    out_of_scope: str = ""
    needs: str = ""
    recorded: tuple[str, ...] = ()
    reproduced: tuple[str, ...] = ()
    reported: tuple[Reported, ...] = ()
    assumed: tuple[str, ...] = ()

    @property
    def exactness(self) -> Exactness:
        """What happens to the text.

        `bit_exact`: it stays; `distribution`: it is drawn as the target draws; `own_weights`: it is
        that of a target trained for the method; `lossy`: it changes.
        """
        masked = self.refine is not None and self.refine.commit not in EXACT_COMMITS
        if masked or self.verify.relaxed or self.verify.rule in ("typical", "near_match"):
            return "lossy"
        shared = any(
            isinstance(transform, LayerSchedule) and transform.unique_ratio < 1.0
            for transform in self.target
        )
        if self.own_weights or shared:
            return "own_weights"
        whole = all(
            isinstance(transform, WeightTransform) and transform.is_exact
            for transform in self.target
        )
        if self.advance is not None or not whole:
            return "lossy"
        return "distribution" if self.draft or self.refine is not None else "bit_exact"

    @property
    def refusal(self) -> str:
        """Why a prediction for it is refused; empty where it is priced."""
        if self.out_of_scope:
            return f"is out of scope: {self.out_of_scope}"
        if self.needs:
            return f"cannot be priced yet, it needs {self.needs}"
        return f"is no way of decoding by itself; {self.asked_as}" if self.asked_as else ""

    @property
    def has_own_pace(self) -> bool:
        """Whether the entry itself says how many tokens a step brings, since no draft is verified
        token by token.
        """
        return self.refine is not None or self.advance is not None

    @property
    def stages(self) -> tuple[Draft, ...]:
        """Stages of drafting, and who writes first where whole steps are judged."""
        return self.draft if self.advance is None else self.advance.writes_first

    @property
    def drafts(self) -> bool:
        """Whether anything is drafted."""
        return bool(self.draft)

    @property
    def needs_draft_model(self) -> bool:
        """Whether a draft model has to be named."""
        return any(stage.by == "model" for stage in self.stages)

    @property
    def drafts_with_weights(self) -> bool:
        """Whether a draft model or a draft head can be named."""
        return any(stage.by in ("model", "head", "heads") for stage in self.stages)

    @property
    def needs_trained_weights(self) -> bool:
        """Whether an engine loads weights beside the target's checkpoint to draft with."""
        return any(
            stage.by in ("model", "heads") or (stage.by == "head" and stage.dense_layers)
            for stage in self.draft
        )

    @property
    def drafts_with_target_layers(self) -> bool:
        """Whether layers of the target's own checkpoint draft, which are trained with it and run
        for drafts alone.
        """
        return any(stage.by == "head" for stage in self.stages) and not self.needs_trained_weights

    @property
    def exits_early(self) -> bool:
        """Whether the target's own first layers draft."""
        first = self.draft[0] if self.draft else None
        return (
            first is not None
            and first.by == "target"
            and first.layers is not None
            and first.first_layers
        )

    @property
    def may_propose_nothing(self) -> bool:
        """Whether some steps have no proposal and take one token."""
        return bool(self.draft) and self.draft[0].may_propose_nothing

    @property
    def drafts_trees(self) -> bool:
        """Whether a step can verify a tree: the drafter ranks candidates, and the law decides
        between siblings.
        """
        ranks = bool(self.draft) and self.draft[0].by in ("model", "target", "head", "heads")
        return ranks and self.verify.rule in _TREE_RULES

    @property
    def drafts_blocks(self) -> bool:
        """Whether one pass drafts all levels, so that the probabilities of a level do not depend on
        what stands above.
        """
        levels = [(draft.depths_per_pass, draft.serial_depths) for draft in self.draft]
        return levels == [(0, None)]

    @property
    def drafted_by(self) -> str:
        """Who proposes what the target verifies: `none` or a proposer."""
        return self.draft[0].by if self.draft else "none"

    @property
    def goes_on_as(self) -> str:
        """Whose published acceptance says how that of its drafts goes on where nobody measured it:
        `block` where a token does not see those drafted before it, else who drafts.
        """
        return "block" if self.drafts_blocks else self.drafted_by
