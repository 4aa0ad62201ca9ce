"""How far can an answer be from the best one?"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Certificate:
    """How far a choice can be from the best one.

    Args:
        kind: `exact`, or a `bound`.
        gap: most that the best one can be above it, in the unit of what is maximised (tokens per
            step, or tokens per second where a cost is weighed); None where it is exact.
    """

    kind: str
    gap: float | None = None

    def to_json(self) -> dict[str, str | float]:
        """The certificate as the command line prints it."""
        return {"kind": self.kind} if self.gap is None else {"kind": self.kind, "gap": self.gap}


EXACT = Certificate(kind="exact")
