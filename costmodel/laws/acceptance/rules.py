"""By which law is a recording replayed, so that drafts are verified as a method verifies them?

Picks the replay that a rule of `Verify` needs:

| rule | replayed by | needs |
|---|---|---|
| none, match, fixed_candidates | matching the likeliest candidates | lengths; ranks for trees |
| token_rejection, block | sampled chains | probabilities, drafts that are one chain |
| with_replacement, without_replacement | sampled siblings | probabilities |
| multi_path_block | the best of several sampled chains | probabilities |
| typical, near_match (lossy) | candidates that the target finds likely | probabilities |

`fixed_candidates` takes the candidates as certain, so given the text it keeps what matches. At
temperature 0 every rule but `near_match` keeps exactly what matches, since drafter and target are
greedy. Where a recording does not hold what a rule needs, the answer is that of matching, which any
drafter of deterministic candidates may use without changing the text, and says so. Leaves out the
replay itself (`recorded`), and dynamic trees and stop rules (`costmodel.laws.drafting`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from costmodel.laws.acceptance.per_step import remark
from hardware_profiles.errors import InputError, UnknownNameError
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.tree import Tree, chain_tree
from traces.replay.lossy import check_lossy
from traces.replay.sampled import SampledRule, check_sampled

Shape: TypeAlias = int | Tree

MATCHED = ("none", "match", "fixed_candidates")
SAMPLED = (
    "token_rejection",
    "with_replacement",
    "without_replacement",
    "block",
    "multi_path_block",
)
LOSSY = {"typical": ("posterior_threshold", "entropy_factor"), "near_match": ("ratio",)}
RULES = (*MATCHED, *SAMPLED, *LOSSY)
SIBLING_RULES = ("match", "fixed_candidates", "with_replacement", "without_replacement", *LOSSY)


@dataclass(frozen=True, kw_only=True, slots=True)
class Law:
    """How one recording is replayed.

    Args:
        rule: the rule that the answer is of, one of `RULES`.
        by_matching: tokens that match the likeliest candidates are accepted.
        at: numbers of a lossy rule.
        note: why the rule is not the one asked for; empty where it is.
    """

    rule: str
    by_matching: bool
    at: Mapping[str, float] = field(default_factory=dict)
    note: str = ""

    @property
    def lossy(self) -> bool:
        """Whether the rule changes the distribution of the text."""
        return self.rule in LOSSY and not self.by_matching

    @property
    def remark(self) -> str:
        """A remark that has to be printed beside answers by this law; empty where there is none."""
        return remark(self.rule, self.note, lossy=self.lossy)

    @property
    def judges_several_chains(self) -> bool:
        """Whether chains that share the root alone are judged together."""
        return self.rule == "multi_path_block" and not self.by_matching

    @property
    def draws_siblings(self) -> bool:
        """Whether the children of a node are draws, which have no ranks."""
        return self.rule in ("with_replacement", "without_replacement") and not self.by_matching

    @property
    def judges_trees(self) -> bool:
        """Whether nodes may have several children."""
        return self.by_matching or self.rule in SIBLING_RULES


MATCHING = Law(rule="match", by_matching=True)


def law_for(
    trace: AcceptanceTrace,
    rule: str,
    shapes: Sequence[Shape] = (),
    *,
    at: Mapping[str, float] | None = None,
    strict: bool = False,
) -> Law:
    """How a rule is replayed on a recording: one law for all shapes that are compared.

    Args:
        trace: level 1 or more.
        rule: of `Verify`.
        shapes: all that will be replayed: K of chains, and trees.
        at: numbers of a lossy rule; None or absent: those of the paper.
        strict: refuse what the recording does not hold instead of matching.

    Raises:
        UnknownNameError: no law of that name.
        InputError: unknown numbers, or with `strict` a recording that does not hold what the rule
            needs.
    """
    if rule not in RULES:
        raise UnknownNameError("verifier rule", rule, RULES, key="rule")
    numbers = dict(at or {})
    if unknown := sorted(set(numbers) - set(LOSSY.get(rule, ()))):
        raise InputError(f"{rule} has no number of that name", key="at", value=unknown)
    greedy = trace.provenance.sampling.get("temperature") == 0
    if rule in MATCHED or (greedy and rule != "near_match"):
        return Law(rule=rule, by_matching=True)
    try:
        for shape in shapes or (1,):
            _check(trace, rule, shape)
    except InputError as error:
        if strict:
            raise
        note = (
            f"{rule} cannot be replayed here ({error.message}); its likeliest candidates are"
            " matched instead"
        )
        return Law(rule="match", by_matching=True, note=note)
    return Law(rule=rule, by_matching=False, at=numbers)


def several_chains(paths: int, draft_tokens: int) -> Tree:
    """Chains of K draft tokens each that share the root alone, as `multi_path_block` judges them.

    Args:
        paths: number of chains, >= 1.
        draft_tokens: K of each, >= 1.

    >>> several_chains(2, 2).level_widths()
    (2, 2)
    """
    return Tree.from_paths(
        [(first,) + (0,) * more for first in range(paths) for more in range(draft_tokens)]
    )


def _check(trace: AcceptanceTrace, rule: str, shape: Shape) -> None:
    """Refuse a shape that the recording or the rule cannot judge, with the replay's own message."""
    tree = shape if isinstance(shape, Tree) else chain_tree(shape)
    if rule in SAMPLED:
        check_sampled(trace, tree, cast(SampledRule, rule))
    else:
        check_lossy(trace, tree)
