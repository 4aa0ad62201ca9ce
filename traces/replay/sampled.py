"""How many tokens does a step emit when drafts are sampled and checked by a rejection test?

Matching tokens is wrong here: the target accepts a sampled draft more often than it would have
drawn the same token. But the recorded text is a draw from the target, so the probability that a
step goes on past a token of the text is the probability that it emits this token as an accepted
draft, divided by the probability that the target draws it; where steps start follows a recursion
along the text. This holds for every rule that leaves the target's distribution as it is. The
drafter samples from its recorded candidates alone, their probabilities scaled to add up to 1.
Leaves out deterministic candidates (`traces.replay.walk`) and rules that change the text
(`traces.replay.lossy`).

Reference: Leviathan et al., arXiv 2211.17192, alg. 1 (chains); Miao et al., SpecInfer, arXiv
2305.09781, alg. 2 (siblings with replacement); Chen et al., Sequoia, arXiv 2402.12374, alg. 2 and
Jeon et al., RSD, arXiv 2402.14160, alg. 1 (without); Sun et al., arXiv 2403.10444, alg. 2 (blocks).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.tree import Tree, chain_tree

if TYPE_CHECKING:
    # loading the compiled loops takes half a second
    from traces.replay.compiled_sampled import Floats
    from traces.replay.walk_loops import Counts

SampledRule = Literal[
    "token_rejection", "with_replacement", "without_replacement", "block", "multi_path_block"
]

_LEAST = float(np.finfo(np.float16).smallest_subnormal)
_ENUMERATED_SIBLINGS = 6  # draws without replacement: all orders of those that fell are summed


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ExpectedReplay:
    """What a chain or tree of sampled drafts does on a recording, on average over the drafts.

    Attributes:
        draft_tokens: of a step, root excluded.
        tokens: int64[r], tokens emitted by steps.
        steps: float64[r], expected steps.
    """

    draft_tokens: int
    tokens: Counts
    steps: NDArray[np.float64]

    @property
    def tokens_per_step(self) -> float:
        """Pooled: sum of tokens over sum of expected steps.

        Raises:
            InputError: the recording has no step at all.
        """
        steps = float(self.steps.sum())
        if steps == 0:
            raise InputError("the trace has no decoding step to average over", key="steps", value=0)
        return int(self.tokens.sum()) / steps

    @property
    def proposal_ratio(self) -> float:
        """Share of steps with a proposal: all of them, where there are drafts."""
        return 1.0 if self.draft_tokens else 0.0

    @property
    def drafted_per_step(self) -> float:
        """Draft tokens verified per step."""
        return float(self.draft_tokens)


def replay_sampled(
    trace: AcceptanceTrace,
    shape: int | Tree,
    rule: SampledRule = "without_replacement",
    *,
    draft_temperature: float | None = None,
) -> ExpectedReplay:
    """Decode the recorded text again with sampled drafts.

    Example:
        >>> trace = AcceptanceTrace(
        ...     offsets=np.array([0, 2]), emitted=np.array([1, 1]),
        ...     rank=np.array([0, 1]), rank_width=2, depth_invariant=True,
        ...     draft_ids=np.array([[5, 7], [7, 5]]), draft_probs=np.array([[0.6, 0.4], [0.6, 0.4]]),
        ...     target_probs=np.array([[0.9, 0.1], [0.5, 0.5]]),
        ...     emitted_target_prob=np.array([0.9, 0.5]), residual_mass=np.zeros(2))
        >>> round(replay_sampled(trace, 1, "token_rejection").tokens_per_step, 2)
        1.5

    Args:
        trace: level 3, sampled at a temperature above 0.
        shape: K of a chain, or a tree; a node's rank is its place among the draws below its parent.
        rule: how drafts are verified; `token_rejection` and `block` judge chains,
            `multi_path_block` chains that share the root alone, the others any tree.
        draft_temperature: of the drafter; None: the recording's own; 0 takes its likeliest
            candidates in order.

    Returns:
        Expected counts per request, given the text. Exact but for the stored numbers' half
        precision.

    Raises:
        InputError: a greedy or lower recording, a tree whose siblings are not a prefix or that the
            rule does not judge, more levels than the recording tells of, or values out of range.
    """
    survived = survival(trace, shape, rule, draft_temperature=draft_temperature)
    # numba takes half a second to load: only where it is needed
    from traces.replay.compiled_sampled import expected_steps

    first = trace.first_step_position
    return ExpectedReplay(
        draft_tokens=shape.draft_tokens if isinstance(shape, Tree) else shape,
        tokens=np.maximum(trace.output_tokens - first, 0),
        steps=expected_steps(survived, trace.offsets, first),
    )


def survival(
    trace: AcceptanceTrace,
    shape: int | Tree,
    rule: SampledRule = "without_replacement",
    *,
    draft_temperature: float | None = None,
) -> Floats:
    """How likely a step from every position gets past every draft level, given the text that
    follows.

    A step with u uniform in [0, 1) emits 1 + (the number of entries of its row above u) tokens. For
    chains the first columns are those of any shorter chain.

    Args:
        trace: as in `replay_sampled`.
        shape: as in `replay_sampled`.
        rule: as in `replay_sampled`.
        draft_temperature: as in `replay_sampled`.

    Returns:
        float64[n, levels], never increasing along a row; 0 behind the end of a text.

    Raises:
        InputError: as `replay_sampled`.
    """
    tree = shape if isinstance(shape, Tree) else chain_tree(shape)
    tree = Tree.from_paths(tree.paths())
    check_sampled(trace, tree, rule)
    siblings = _siblings(tree)
    drafts = _Drafts.of(trace, 1 if rule == "multi_path_block" else siblings, draft_temperature)
    from traces.replay import compiled_sampled as compiled

    levels = tree.depth - 1
    if rule == "multi_path_block":
        below = drafts.below(trace)
        return compiled.paths_survival(  # type: ignore[no-any-return]
            drafts.drawn, below, drafts.true, trace.offsets, levels, siblings
        )
    if siblings <= 1:
        ratio = drafts.drawn / drafts.true
        return compiled.chain_survival(ratio, trace.offsets, levels, rule == "block")  # type: ignore[no-any-return]
    accepted = drafts.accepted(siblings, rule)
    parents, ranks = np.array(tree.parents, dtype=np.int64), np.array(tree.ranks, dtype=np.int64)
    return compiled.tree_survival(accepted, trace.offsets, parents, ranks, levels)  # type: ignore[no-any-return]


def accepted_probabilities(
    trace: AcceptanceTrace,
    siblings: int,
    rule: SampledRule = "without_replacement",
    *,
    draft_temperature: float | None = None,
) -> NDArray[np.float64]:
    """Probability that the text's token came from the k-th draft at its position, given the text.

    Args:
        trace: level 3, sampled at a temperature above 0.
        siblings: drafts tried in order; 0 or more.
        rule: `with_replacement` or `without_replacement`.
        draft_temperature: of the drafter, >= 0; None: the recording's own.

    Returns:
        float64[n, siblings]; rows sum to at most 1. Column 0 is min(1, q(x)/p(x)).

    Raises:
        InputError: as `replay_sampled`.
    """
    return _Drafts.of(trace, siblings, draft_temperature).accepted(siblings, rule)


def check_sampled(trace: AcceptanceTrace, tree: Tree, rule: SampledRule) -> None:
    """Refuse what a rule does not judge, and what a recording does not tell of it.

    Args:
        trace: level 3, sampled.
        tree: what is drafted.
        rule: of the verifier.

    Raises:
        InputError: missing siblings; branches where the rule judges chains; branches below the root
            where it judges several chains of one length; otherwise as `replay_sampled`.
    """
    _check_recording(trace)
    if not tree.is_sibling_closed:
        raise InputError(
            "the children of a node must be its draws 0, 1, ... without a gap", key="tree"
        )
    widths = tree.level_widths()
    if rule in ("token_rejection", "block") and max(widths, default=0) > 1:
        raise InputError(f"{rule} judges chains alone", key="tree", value=widths)
    if rule == "multi_path_block" and (
        len(set(widths)) > 1 or any(tree.ranks[1 + sum(widths[:1]) :])
    ):
        raise InputError(
            "multi_path_block judges chains of one length below the root", key="tree", value=widths
        )
    if rule == "without_replacement" and _siblings(tree) > _ENUMERATED_SIBLINGS:
        limit = f"at most {_ENUMERATED_SIBLINGS} siblings can be drawn without replacement here"
        raise InputError(limit, key="tree", value=_siblings(tree))
    if tree.depth > 2 and not trace.depth_invariant:
        limit = (
            "deeper levels need a drafter that re-reads true tokens at every depth; allow 1 draft"
            " level"
        )
        raise InputError(limit, file=trace.file, key="depth", value=tree.depth - 1)


def _siblings(tree: Tree) -> int:
    return max((rank + 1 for rank in tree.ranks[1:]), default=0)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Drafts:
    """What a drafter samples from at every position, and where the text's token stands among it.

    Attributes:
        draft: float64[n, W], adds up to 1 where anything is left.
        target: float64[n, W].
        true_rank: int64[n], -1 where the drafter cannot draw the text's token.
        drawn, true: float64[n], the drafter's and the target's probability of the text's token.
        in_order: the likeliest candidates, not samples.
    """

    draft: Floats
    target: Floats
    true_rank: Counts
    drawn: Floats
    true: Floats
    in_order: bool

    @classmethod
    def of(cls, trace: AcceptanceTrace, siblings: int, temperature: float | None) -> _Drafts:
        _check_recording(trace)
        assert trace.draft_ids is not None
        assert trace.draft_probs is not None
        assert trace.target_probs is not None
        assert trace.rank is not None
        wide = min(trace.draft_ids.shape[1], trace.rank_width)
        if not 0 <= siblings <= wide:
            raise InputError(
                f"must lie in 0..{wide}, the candidates recorded", key="siblings", value=siblings
            )
        own = (
            trace.provenance.sampling.get("temperature", 1.0)
            if temperature is None
            else temperature
        )
        if not 0 <= own < np.inf:
            raise InputError("must be >= 0", key="draft_temperature", value=own)
        first = trace.rank if trace.rank.ndim == 1 else trace.rank[:, 0]
        true_rank = np.where(first < wide, first, -1).astype(np.int64)
        draft = trace.draft_probs[:, :wide].astype(np.float64)
        if own == 0:
            draft = (np.arange(wide) == 0).astype(np.float64) * np.ones_like(draft)
        else:
            if own != 1:
                draft = np.power(
                    draft / np.maximum(draft.max(axis=1, keepdims=True), _LEAST), 1 / own
                )
            draft /= np.maximum(draft.sum(axis=1, keepdims=True), _LEAST)
        target = trace.target_probs[:, :wide].astype(np.float64)
        row, is_listed = np.arange(true_rank.size), true_rank >= 0
        target[row[is_listed], true_rank[is_listed]] = np.maximum(
            target[row[is_listed], true_rank[is_listed]], _LEAST
        )
        return cls(
            draft=draft,
            target=target,
            true_rank=true_rank,
            drawn=np.where(is_listed, draft[row, true_rank], 0.0),
            true=np.where(is_listed, target[row, true_rank], 1.0),
            in_order=own == 0,
        )

    def accepted(self, siblings: int, rule: SampledRule) -> Floats:
        """Probability that the text's token came from the k-th draft, [n, siblings]; see
        `accepted_probabilities`.
        """
        from traces.replay import compiled_sampled as compiled

        if self.in_order:
            return np.equal(self.true_rank[:, None], np.arange(siblings)).astype(np.float64)
        if rule == "with_replacement":
            return compiled.accepted_of_independent(  # type: ignore[no-any-return]
                self.draft, self.target, self.true_rank, siblings
            )
        return compiled.accepted_of_distinct(self.draft, self.target, self.true_rank, siblings)  # type: ignore[no-any-return]

    def below(self, trace: AcceptanceTrace) -> Floats:
        """Probability of a token that stands before the text's in the order of target over drafter,
        then of ids.
        """
        assert trace.draft_ids is not None
        ids = trace.draft_ids[:, : self.draft.shape[1]]
        own = ids[np.arange(self.true_rank.size), self.true_rank]
        left, right = self.target * self.drawn[:, None], self.true[:, None] * self.draft
        before = (left < right) | ((left == right) & (ids < own[:, None]))
        below: Floats = (self.draft * before).sum(axis=1)
        return below


def _check_recording(trace: AcceptanceTrace) -> None:
    trace.require(3, "replaying sampled drafts")
    if trace.provenance.sampling.get("temperature") == 0:
        rule = (
            "the text of a greedy recording was not drawn from the target's distribution; record at"
            " 1.0, say"
        )
        raise InputError(rule, file=trace.file, key="temperature", value=0)
    if trace.drafted is not None:
        raise InputError(
            "drafters that may propose less than asked cannot be replayed",
            file=trace.file,
            key="drafted",
        )
