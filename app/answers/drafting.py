"""Drafts that differ from step to step, as JSON and in words."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from costmodel.laws.acceptance import Acceptance

Json = dict[str, Any]
TOPOLOGY_WORDS = {
    "off": "no speculation",
    "chain": "chain",
    "tree": "static tree",
    "dynamic_tree": "dynamic tree",
    "state_trees": "trees with prompt tokens",
}


def drafting(a: Acceptance) -> Json:
    """What a step drafts where that is no fixed chain or tree: numbers of the policy and of the
    steps' drafts.

    `lower_bound_steps_ratio` is the share of steps in which the recording ended before the policy
    did.
    """
    if a.lengths is None:
        return {}
    return {
        "topology": a.topology,
        "shape": asdict(a.shape) if a.shape is not None else None,
        "stop": asdict(a.stop) if a.stop is not None else None,
        "drafts": {
            "mean_tokens": a.lengths.mean_tokens,
            "mean_passes": a.lengths.mean_passes,
            "lower_bound_steps_ratio": a.truncated_ratio,
        },
    }
