"""What a step drafts, as JSON and in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from app.answers.answer import Column, Row
from costmodel.draft_shape import shape_of
from costmodel.laws.acceptance import Acceptance
from traces.kinds.refine_policy import RefinePolicy

Json = dict[str, Any]
TOPOLOGY_WORDS = {
    "off": "no speculation",
    "chain": "chain",
    "tree": "static tree",
    "dynamic_tree": "dynamic tree",
    "state_trees": "trees with prompt tokens",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class MeanDrafts(Row):
    """Drafts that differ from step to step, on average."""

    mean_tokens: Annotated[float, Column("Draft tokens of a step.")]
    mean_passes: Annotated[float, Column("Draft passes of a step.")]
    lower_bound_steps_ratio: Annotated[
        float, Column("Share of steps in which the recording ended before the policy did.")
    ]


def draft_words(a: Acceptance) -> str:
    """The shape of drafts as `--shape` reads it, or the policy that commits masked blocks."""
    return str(shape_of(a)) if a.played is None else policy_words(a.played.policy)


def policy_words(policy: RefinePolicy) -> str:
    """A policy in a sentence: `threshold 0.9, block 32, dual cache`."""
    cache = "no cache" if policy.cache == "none" else f"{policy.cache} cache"
    return f"{rule_words(policy.commit, policy.at)}, block {policy.block_tokens}, {cache}"


def rule_words(commit: str, at: Mapping[str, float]) -> str:
    """A commit rule with its thresholds, whose only one needs no name.

    Example:
        >>> rule_words("capped", {"confidence": 0.9, "tokens": 4})
        'capped confidence 0.9, tokens 4'
    """
    values = [f"{value:g}" if len(at) == 1 else f"{key} {value:g}" for key, value in at.items()]
    return f"{commit} {', '.join(values)}".strip()


def mean_drafts(a: Acceptance) -> MeanDrafts | None:
    """The mean drafts of an acceptance; None where all steps draft the same."""
    if a.lengths is None:
        return None
    return MeanDrafts(
        mean_tokens=a.lengths.mean_tokens,
        mean_passes=a.lengths.mean_passes,
        lower_bound_steps_ratio=a.truncated_ratio,
    )


def drafting(a: Acceptance) -> Json:
    """What a step drafts where that is no fixed chain or tree: numbers of the policy and of the
    steps' drafts.
    """
    if (drafts := mean_drafts(a)) is None:
        return {}
    return {
        "topology": a.topology,
        "shape": asdict(a.shape) if a.shape is not None else None,
        "stop": asdict(a.stop) if a.stop is not None else None,
        "drafts": asdict(drafts),
    }
