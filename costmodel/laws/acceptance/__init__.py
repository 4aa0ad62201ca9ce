"""How many tokens does a step emit: by a verifier's law on a recording, or as stated?"""

from costmodel.laws.acceptance.per_step import Acceptance, from_replay
from costmodel.laws.acceptance.recorded import accepted_by, drawn_lengths, replay_by, sibling_law
from costmodel.laws.acceptance.rules import MATCHING, RULES, Law, law_for, several_chains
from costmodel.laws.acceptance.stated import from_depth_rates, geometric, stated

__all__ = [
    "MATCHING",
    "RULES",
    "Acceptance",
    "Law",
    "accepted_by",
    "drawn_lengths",
    "from_depth_rates",
    "from_replay",
    "geometric",
    "law_for",
    "replay_by",
    "several_chains",
    "sibling_law",
    "stated",
]
