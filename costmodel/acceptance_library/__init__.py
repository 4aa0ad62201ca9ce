"""What has been published about how many drafts a target keeps, with the place of every number?"""

from costmodel.acceptance_library.entry import PublishedAcceptance
from costmodel.acceptance_library.library import published, read_entries, target_slug
from costmodel.acceptance_library.matching import (
    Match,
    best_match,
    kinship,
    nearness,
    other_prompts,
    size_gap,
)

__all__ = [
    "Match",
    "PublishedAcceptance",
    "best_match",
    "kinship",
    "nearness",
    "other_prompts",
    "published",
    "read_entries",
    "size_gap",
    "target_slug",
]
