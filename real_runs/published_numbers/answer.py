"""How is a published number compared with its prediction? One form for every kind of row.

Leaves out how it is found (`prediction`, `refined`, `serving`) and how far off it is over many rows
(`app.answers.reproduction`).
"""

from dataclasses import dataclass

from hardware_profiles.errors import InputError, RooftreeError, UnknownNameError
from real_runs.published_numbers.reading.table import PublishedRow


@dataclass(frozen=True, kw_only=True, slots=True)
class Prediction:
    """The comparison of one row.

    Attributes:
        row: the row.
        predicted: in the unit of `row.published`; None where nothing can be said.
        speedup: predicted ratio to the baseline; None where it is not known.
        baseline: predicted in the unit of `row.baseline`; None where it is not known.
        reason: why nothing is predicted; empty where something is.
        remarks: what was assumed.
        method: slug of the entry that it was priced as; empty for none.
        computed: the source computed its number by a formula, and nobody measured it.
    """

    row: PublishedRow
    predicted: float | None = None
    speedup: float | None = None
    baseline: float | None = None
    reason: str = ""
    remarks: tuple[str, ...] = ()
    method: str = ""
    computed: bool = False

    @property
    def error_ratio(self) -> float | None:
        """Predicted over published, minus one; None where either is missing."""
        if self.predicted is None or not self.row.published:
            return None
        return self.predicted / self.row.published - 1.0


def in_unit(unit: str, tokens: float, step_s: float, batch: float) -> float:
    """A step's speed in a published unit.

    Args:
        unit: such as `ms/token`, `s/token`, `ms/step`, `tok/s` or `ktok/s`; what stands in
            parentheses says nothing.
        tokens: emitted per step and request.
        step_s: seconds of a step, > 0.
        batch: requests.

    Raises:
        InputError: a unit that no step answers.

    >>> in_unit("ms/token", 2.0, 0.02, 1), in_unit("tok/s total", 2.0, 0.02, 4)
    (10.0, 400.0)
    """
    words = unit.partition("(")[0].casefold().split()
    match words[:1]:
        case ["ms/token"] | ["ms/token/seq"]:
            return 1e3 * step_s / tokens
        case ["s/token"]:
            return step_s / tokens
        case ["tok/s"]:
            return batch * tokens / step_s
        case ["ms/step"]:
            return 1e3 * step_s
        case ["s/step"]:
            return step_s
        case ["ktok/s"]:
            return 1e-3 * batch * tokens / step_s
        case _:
            pass
    raise InputError("is no unit that a decoding step answers", key="unit", value=unit)


def plain_reason(error: RooftreeError) -> str:
    """A refusal in words, without the key that it is about."""
    if isinstance(error, UnknownNameError):
        if not error.name:
            return f"names no {error.kind}"
        return (
            f"{error.name}: no {'entry of the catalogue' if error.kind == 'system' else error.kind}"
            " of that name"
        )
    value = "" if error.value is None else f": {str(error.value)[:80]}"
    return " ".join(f"{error.message}{value}".split())
