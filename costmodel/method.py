"""What is a published decoding system, as data?

A `Method` names a drafter, the topologies it drafts, how the target verifies, whether the output is exact, the
trace that a prediction needs, and what its authors reported. It holds no code: mechanisms live in `drafter`,
`step` and `traces.replay`. Leaves out training.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

DrafterKind = Literal["none", "ngram", "draft_model", "eagle3", "medusa", "mtp", "early_exit"]
Topology = Literal["chain", "tree"]
Verifier = Literal["none", "greedy_match", "token_rejection", "without_replacement", "typical_acceptance"]
Exactness = Literal["exact", "lossless", "lossy"]
CostTerm = Literal[
    "draft_passes",  # forwards of a drafter of its own
    "target_layers",  # forwards of a part of the target
    "extra_heads",  # output heads beside the target's
    "verify_tokens",  # more than one query token per request in the target's pass
    "draft_memory",  # weights or cache of the drafter
    "host",  # lookup on the host
]


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
    """A number that somebody published about a method.

    Args:
        quantity: `speedup` (ratio to plain decoding) or `tokens_per_step`.
        value: the number.
        conditions: models, hardware, data and settings, as far as stated.
        source: paper and table.
    """

    quantity: Literal["speedup", "tokens_per_step"]
    value: float
    conditions: str
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Method:
    """A published decoding system.

    Args:
        slug: name on the command line and of its file.
        title: name in the paper.
        citation: the publication.
        drafter: who proposes tokens.
        topologies: shapes it drafts; empty for plain decoding.
        verifier: how the target keeps or rejects what was drafted.
        exactness: `exact` (no drafting), `lossless` (the target's distribution) or `lossy`.
        cost_terms: what it adds to a plain step.
        trace_levels: least trace level that a prediction of each topology needs.
        engines: engine to the name of this method there, for export.
        reported: published numbers.
    """

    slug: str
    title: str
    citation: Citation
    drafter: DrafterKind
    topologies: tuple[Topology, ...]
    verifier: Verifier
    exactness: Exactness
    cost_terms: tuple[CostTerm, ...]
    trace_levels: Mapping[Topology, int]
    engines: Mapping[str, str] = field(default_factory=dict)
    reported: tuple[Reported, ...] = ()
