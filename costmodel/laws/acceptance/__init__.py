"""How many tokens does a step emit: by a verifier's law on a recording, or as stated?"""

from costmodel.laws.acceptance.imitated import drawn_ranks, drawn_recording, drawn_tokens
from costmodel.laws.acceptance.per_step import Acceptance, from_replay
from costmodel.laws.acceptance.recorded import (
    accepted_by,
    accepted_shares,
    drawn_lengths,
    replay_by,
    sibling_law,
)
from costmodel.laws.acceptance.rules import MATCHING, RULES, Law, law_for, several_chains
from costmodel.laws.acceptance.siblings import (
    ASSUMED_SIBLINGS,
    rank_rate,
    sibling_rates,
    stated_tree,
)
from costmodel.laws.acceptance.stated import (
    DepthRates,
    counted_rates,
    from_depth_rates,
    geometric,
    length_rates,
    longest_of,
    means_rates,
    stated,
)

__all__ = [
    "ASSUMED_SIBLINGS",
    "MATCHING",
    "RULES",
    "Acceptance",
    "DepthRates",
    "Law",
    "accepted_by",
    "accepted_shares",
    "counted_rates",
    "drawn_lengths",
    "drawn_ranks",
    "drawn_recording",
    "drawn_tokens",
    "from_depth_rates",
    "from_replay",
    "geometric",
    "law_for",
    "length_rates",
    "longest_of",
    "means_rates",
    "rank_rate",
    "replay_by",
    "several_chains",
    "sibling_law",
    "sibling_rates",
    "stated",
    "stated_tree",
]
