"""What does an engine do with its drafter in steps in which a schedule drafts nothing?

Its weights and its cache stay where they are in any case. Leaves out servers that were started
without a drafter, and a drafter's own seconds (`costmodel.drafters.pass_costs`).
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class IdleDrafter:
    """A drafter that is loaded and drafts nothing.

    Args:
        follows: it reads the tokens of every step in one pass, so that its cache has no gaps. Where
            it does not, requests that lived through such a step are drafted for worse afterwards,
            by how much nobody says.
        step_s: seconds of such a step on top of that pass and of a plain step.
        source: where this comes from.
    """

    follows: bool = False
    step_s: float = 0.0
    source: str


UNREAD = IdleDrafter(source="ASSUMED: nothing runs; not looked up")
