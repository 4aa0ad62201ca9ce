"""How many tokens does a step emit under a configuration, and how sure is that?

One value for every source of acceptance: replay of a recording (with bootstrap draws) and stated
rates. Leaves out cost, and where the numbers come from (`recorded`, `stated`).
"""

from dataclasses import dataclass, field

import numpy as np

from costmodel.laws.draft_lengths import DraftLengths
from costmodel.method import Shape, Stop
from costmodel.passes.ops import Array
from traces.kinds.tree import Tree
from traces.replay.bootstrap import Replayed, RequestDraws, drawn_tokens_per_step
from traces.replay.confidence.played import Played


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Acceptance:
    """What a configuration emits per step.

    Args:
        draft_tokens: K of the chain or draft tokens of the tree, root excluded.
        tokens_per_step: emitted tokens per step, >= 1.
        proposal_ratio: share of steps with a proposal, 0 to 1.
        proposed_tokens: mean draft tokens of a step that has a proposal.
        samples: bootstrap draws of `tokens_per_step`; empty where nothing was recorded.
        tree: the static tree, or None for a chain.
        tree_source: what the tree was built from: `trace` paths or a sibling `vector`, `own` where
            a recording names it as the one that was drafted, or the file that it stands in; empty
            for a chain.
        rule: how drafts were verified, a rule of `Verify`; empty where the rate is stated.
        lossy: the rule changes the text's distribution.
        note: a remark on the number: why `rule` is not the method's own, or where
            stated rates go further than what is known; empty for nothing.
        shape: numbers of a tree that is chosen anew at every step, or None.
        stop: when a draft ends before its most draft tokens; None: it does not.
        lengths: draft tokens and passes of a step where they differ from step to step, or None.
        truncated_ratio: share of the steps in which the recording ended before the policy did:
            there the tokens are the fewest and the draft the largest that it can have been.
        foreseen_ratio: share of steps whose draft was ready when the one before had been verified,
            where drafts are made for several outcomes; 1 elsewhere.
        holds_at: batch and context that a controller's answer is of; None: it holds at any.
        played: of masked blocks, what the policy that commits them does on recorded prompts; None
            where nothing was replayed.
    """

    draft_tokens: int
    tokens_per_step: float
    proposal_ratio: float = 1.0
    proposed_tokens: float
    samples: Array = field(default_factory=lambda: np.zeros(0))
    tree: Tree | None = None
    tree_source: str = ""
    rule: str = ""
    lossy: bool = False
    note: str = ""
    shape: Shape | None = None
    stop: Stop | None = None
    lengths: DraftLengths | None = None
    truncated_ratio: float = 0.0
    foreseen_ratio: float = 1.0
    holds_at: tuple[int, int] | None = None
    played: Played | None = None

    @property
    def remark(self) -> str:
        """The remark to print beside the number: another rule than the method's own, or another
        text; else empty.
        """
        return remark(self.rule, self.note, lossy=self.lossy)

    @property
    def agreement(self) -> float | None:
        """Share of positions with the token that one token a pass puts there; None: unknown."""
        return None if self.played is None else self.played.agreement

    @property
    def levels(self) -> int:
        """Draft tokens that a step can accept at most: those of a chain, or the depth of a static
        tree.
        """
        return self.draft_tokens if self.tree is None else self.tree.depth - 1

    @property
    def topology(self) -> str:
        """`off`, `chain`, `tree` (static) or `dynamic_tree`."""
        if self.draft_tokens == 0:
            return "off"
        if self.shape is not None:
            return self.shape.kind
        return "chain" if self.tree is None else "tree"


def remark(rule: str, note: str, *, lossy: bool) -> str:
    """The remark to print beside a number of tokens per step: that the rule is lossy, or why it is
    another; else empty.

    Args:
        rule: how drafts were verified.
        note: why the rule is not the method's own.
        lossy: the rule changes the text's distribution.
    """
    return (
        f"{rule} is lossy: it changes the text, and the recorded text stands in for the one it"
        " writes"
        if lossy
        else note
    )


def from_replay(
    replay: Replayed,
    draws: RequestDraws | None,
    tree: Tree | None = None,
    *,
    tree_source: str = "",
    rule: str = "match",
    lossy: bool = False,
    note: str = "",
) -> Acceptance:
    """Acceptance measured by replay.

    Args:
        replay: counts per request, shape [requests].
        draws: of the requests, shared between replays so that comparisons are paired; None: no
            samples.
        tree: the tree that was replayed.
        tree_source: what the tree was built from.
        rule: how drafts were verified.
        lossy: the rule changes the text's distribution.
        note: why the rule is not the method's own.
    """
    ratio = replay.proposal_ratio if replay.draft_tokens else 0.0
    return Acceptance(
        draft_tokens=replay.draft_tokens if tree is None else tree.draft_tokens,
        tokens_per_step=float(replay.tokens_per_step),
        proposal_ratio=ratio,
        proposed_tokens=replay.drafted_per_step / ratio if ratio > 0 else 0.0,
        samples=np.zeros(0) if draws is None else drawn_tokens_per_step(replay, draws),
        tree=tree,
        tree_source=tree_source,
        rule=rule,
        lossy=lossy,
        note=note,
    )
