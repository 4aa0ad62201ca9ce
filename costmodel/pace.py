"""How does text advance where no draft is verified token by token?

Records of a `Method` that say themselves how many tokens a step brings: masked blocks and windows,
two levels of decoding, several sequences of one request, drafted steps that another model judges
whole. Leaves out what steps cost (`costmodel.answers`) and the text.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from costmodel.drafting_stage import Draft
from hardware_profiles.errors import InputError, UnknownNameError

Forward = Literal["full", "canvas", "suffix", "block", "group"]
Commit = Literal[
    "static",
    "threshold",
    "factor",
    "entropy",
    "neighbours",
    "learned",
    "credit",
    "capped",
    "history",
    "auxiliary",
    "doubling",
    "cosine",
    "arccos",
    "in_order",
    "self_verified",
    "fixed_point",
    "window_rejection",
    "random",
    "running_mean",
    "entropy_bound",
    "gap",
    "phases",
]
GROWING_COMMITS = ("doubling", "cosine", "arccos")
EVEN_COMMITS = ("static", "random", *GROWING_COMMITS)
"""Rules that commit by number alone: a block takes a whole number of passes, the same for every
request."""
EXACT_COMMITS = ("self_verified", "fixed_point", "window_rejection")
_MOST_TOKENS = 1 << 20
_REFINE_RANGES = {
    "tokens_per_pass": (0.01, _MOST_TOKENS),
    "canvas_tokens": (1, _MOST_TOKENS),
    "begin_ratio": (0.0, 1.0),
    "full_passes": (0, _MOST_TOKENS),
    "reuses": (0, _MOST_TOKENS),
    "full_every": (0, _MOST_TOKENS),
    "canvas_every": (0, _MOST_TOKENS),
    "computed_ratio": (0.0, 1.0),
    "closing_passes": (0, _MOST_TOKENS),
    "copies": (1, 1024),
    "vocab_state_bytes": (0.0, 1024.0),
    "launch_ratio": (0.0, 100.0),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Refine:
    """Decoding of masked blocks or windows: several passes, each of which commits some of their
    tokens.

    Args:
        forward: what a pass computes: prompt and canvas (`full`), the `canvas` over the prompt's
            cache, from the block on (`suffix`), the `block`, or no more tokens than it commits
            (`group`).
        commit: which tokens a pass commits. `static`: an even share, in a whole number of passes;
            `random`: the same, whichever they are. By confidence, one at least: beyond a
            `threshold`, a `factor` that falls with their number, a bound of `entropy`, a bound of
            the sum of entropies (`entropy_bound`), the `running_mean` of what the block holds, near
            surer `neighbours`, all at once when the `gap` of the answer's logits is wide, by a
            `learned` filter, with `credit` of earlier passes, in slow and fast `phases`, at most so
            many (`capped`), by their `history`, as an `auxiliary` model agrees, from the left
            (`in_order`). In groups that grow: `doubling` in every pass, or as the `cosine` or
            `arccos` of the passes' share leaves fewer masks. What would be committed anyway: drafts
            of later states that a pass confirms (`self_verified`), a `fixed_point` of greedy
            decoding, tokens that `window_rejection` keeps.
        tokens_per_pass: mean number of tokens that a pass commits, of all blocks that it computes,
            where none is stated with the question.
        canvas_tokens: tokens behind the prompt that a full pass computes.
        begin_ratio: share of a block that is committed when the next one begins, 0 to 1; 1: one
            block at a time.
        full_passes: passes of a block over prompt and canvas, which renew the cache and commit as
            the others do.
        reuses: passes on a renewed cache that a block takes at least, whether or not the full ones
            finish it.
        full_every: of the other passes, one in so many is full too; 0: none, 1: all of them.
        canvas_every: of those that are left, one in so many computes the whole canvas over the
            prompt's cache; 0: none.
        computed_ratio: share of its tokens that a pass which renews nothing computes; the others'
            cached values stay.
        stores_along: what was committed is computed once more within a later pass, which stores it.
        closing_passes: passes that only store a finished block.
        copies: sequences that such a pass computes per request: 2 with and without the prompt
            (guidance), or the drafts of a block that are confirmed together, of which full passes
            compute one.
        auxiliary: name of another model that reads the same tokens in a pass of its own; empty:
            none.
        vocab_state_bytes: bytes of a value that is kept per token of a block and entry of the
            vocabulary, and read and written in every pass; 0: none is.
        launch_ratio: operations that its authors' code dispatches in a layer of a pass which renews
            nothing, over those of a plain layer; the host launches them for so much longer where
            passes are not captured.
        waits_in_layers: that code reads positions back from the device in every such layer, so that
            host and device take turns there.

    Raises:
        UnknownNameError: a kind of pass or a commit rule that does not exist.
        InputError: a number out of range.
    """

    forward: Forward
    commit: Commit
    tokens_per_pass: float
    canvas_tokens: int
    begin_ratio: float = 1.0
    full_passes: int = 0
    reuses: int = 1
    full_every: int = 0
    canvas_every: int = 0
    computed_ratio: float = 1.0
    stores_along: bool = False
    closing_passes: int = 0
    copies: int = 1
    auxiliary: str = ""
    vocab_state_bytes: float = 0.0
    launch_ratio: float = 1.0
    waits_in_layers: bool = False

    def __post_init__(self) -> None:
        for kind, name, choices in (
            ("pass", self.forward, Forward),
            ("commit rule", self.commit, Commit),
        ):
            if name not in get_args(choices):
                raise UnknownNameError(kind, str(name), get_args(choices), key="refine")
        for key, (lowest, highest) in _REFINE_RANGES.items():
            if not lowest <= getattr(self, key) <= highest:
                raise InputError(
                    f"must lie in [{lowest:g}, {highest:g}]",
                    key=f"refine.{key}",
                    value=getattr(self, key),
                )


class Advance(ABC):
    """A way to bring several tokens a step of which none is verified by itself.

    A kind of it is a record that derives from this one, and the cost of its steps, registered with
    `costmodel.answers.steps.advance_step`.

    Attributes:
        text_changes: why the text is another one than the target's, in words.
    """

    __slots__ = ()
    text_changes: ClassVar[str]

    @property
    @abstractmethod
    def tokens_per_step(self) -> float:
        """Mean tokens that a step brings where none are stated with the question, >= 1."""

    @property
    def writes_first(self) -> tuple[Draft, ...]:
        """Networks beside the target that write what it judges."""
        return ()

    @property
    @abstractmethod
    def summary(self) -> str:
        """What a step does, in a sentence without its stop."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Spans(Advance):
    """Decoding on two levels: most of the target runs once for several tokens, the rest of it for
    each of them.

    Args:
        tokens: mean tokens of a span, >= 1.
        layers: layers that run for every token: a count, or a share of the target's (below 1).
        context_tokens: cached tokens that those layers read at most; None: all.
        merges_cache: the other layers cache one entry per span.
    """

    text_changes: ClassVar[str] = "most layers see a span of tokens as one"
    tokens: float
    layers: float
    context_tokens: int | None = None
    merges_cache: bool = True

    @property
    def tokens_per_step(self) -> float:
        """Those of a span."""
        return self.tokens

    @property
    def summary(self) -> str:
        """What runs how often."""
        return f"Spans: most layers run once for {self.tokens:g} tokens, the others for each"


@dataclass(frozen=True, kw_only=True, slots=True)
class Samples(Advance):
    """Several sequences of one request that are decoded together and share its cached text.

    Args:
        rows: sequences that a pass computes, mean over the answer, >= 1.
        tokens: tokens of the answer that a pass brings: 1 where one sequence stays (best of
            several), as many as there are rows where all are parts of the answer, more where one
            row stands for several sequences.
        judged_tokens: tokens of each sequence that one pass of a scoring model, as large as the
            target, reads at once; 0: nothing is scored so.
    """

    text_changes: ClassVar[str] = "the answer is chosen among several"
    rows: float
    tokens: float = 1.0
    judged_tokens: int = 0

    @property
    def tokens_per_step(self) -> float:
        """Those of the answer."""
        return self.tokens

    @property
    def summary(self) -> str:
        """What a pass computes and brings."""
        return (
            f"Samples: a pass computes {self.rows:g} rows of a request and brings"
            f" {self.tokens:g} tokens of its answer"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Routing(Advance):
    """Steps of reasoning that a draft model writes, another model judges whole, and the target
    writes again if need be.

    Args:
        draft: who writes first.
        tokens: mean tokens of a step.
        accepted_ratio: share of the steps that stay as drafted, 0 to 1.
        judge: size of the judging model, which reads every step in one pass: `draft`, `target`, or
            `none`.
    """

    text_changes: ClassVar[str] = "steps that another model wrote stay"
    draft: Draft
    tokens: int
    accepted_ratio: float
    judge: Literal["none", "draft", "target"]

    @property
    def tokens_per_step(self) -> float:
        """Those of a step of reasoning."""
        return float(self.tokens)

    @property
    def writes_first(self) -> tuple[Draft, ...]:
        """The draft model."""
        return (self.draft,)

    @property
    def summary(self) -> str:
        """What is written at a time, and how much of it stays."""
        return (
            f"Steps: {self.tokens} tokens at a time are written beside the target, which writes"
            f" {1.0 - self.accepted_ratio:.0%} of them again"
        )
