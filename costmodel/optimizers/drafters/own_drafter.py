"""What is known of a drafter that a person describes by its passes, in place of one that was
published?
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnDrafter:
    """What is known of a drafter that nobody published.

    Args:
        name: what it is called.
        passes: passes per step, at least 1.
        pass_bytes: bytes that one of them reads.
    """

    name: str
    passes: int
    pass_bytes: float
