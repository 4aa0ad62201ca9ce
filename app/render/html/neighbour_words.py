"""How is it said why a choice is the best and not its neighbours? The same words on the screen and
in a report.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from app.render.charts.charts import digits

Json = Mapping[str, Any]
HEADS = (
    "batch",
    "context",
    "run",
    "instead",
    "tokens/step",
    "loses %",
    "tokens",
    "draft",
    "verify",
    "engine",
)
CAPTION = (
    "loses: tokens/s of the neighbour against the choice; of it by fewer tokens per step and by"
    " longer draft passes, verify passes and engine's work; below 0: there the neighbour is better"
)
_TERMS = ("tokens", "draft", "verify", "overhead")
_NAMES = {"draft": "draft passes", "verify": "the verify pass", "overhead": "the engine's work"}
_BARRED = {"memory": "does not fit the memory", "limits": "misses the latency limits"}
_ENOUGH = 5e-4  # shares below it are not named


def neighbour_rows(cells: Sequence[Json]) -> list[list[str]]:
    """The cells of one row a neighbour, under `HEADS`."""
    found = []
    for cell in cells:
        for each in cell.get("neighbours") or ():
            by = (
                [_signed(each["lost_by"][term]) for term in _TERMS]
                if each["lost_by"]
                else [""] * len(_TERMS)
            )
            lost = _BARRED[each["barred"]] if each["barred"] else _signed(each["lost_ratio"])
            found.append(
                [
                    f"{cell['batch']:,}",
                    f"{cell['context']:,}",
                    _named(cell["winner"]),
                    _named(each),
                    digits(each["tokens_per_step"]),
                    lost,
                    *by,
                ]
            )
    return found


def neighbour_lines(cells: Sequence[Json]) -> list[str]:
    """One sentence a batch and context: what the nearest neighbours lose, and why; and how far the
    choice carries.
    """
    return [_line(cell) for cell in cells if cell.get("neighbours")]


def _line(cell: Json) -> str:
    allowed = [each for each in cell["neighbours"] if not each["barred"]]
    parts = [_why(each) for each in allowed[:3]]
    if cell["winner"]["topology"] == "chain" and cell["longest_compared"]:
        parts.append("nothing longer was compared")
    for there in cell["carried"]:
        lost = there["lost_ratio"]
        words = (
            "cannot run"
            if lost is None
            else f"loses {100 * lost:.1f} %"
            if lost > _ENOUGH
            else "is the best, too"
        )
        parts.append(f"at batch {there['batch']:,} it {words}")
    return (
        f"batch {cell['batch']:,}, context {cell['context']:,}, {_named(cell['winner'])}:"
        f" {'; '.join(parts)}"
    )


def _why(beside: Json) -> str:
    """A neighbour's loss, what it loses by, and what it wins back."""
    by = beside["lost_by"]
    names = {"tokens": f"{'fewer' if by['tokens'] > 0 else 'more'} tokens per step"} | _NAMES
    lost, won = ([(name, sign * by[term]) for term, name in names.items()] for sign in (1, -1))
    lost_by, won_by = (
        ", ".join(f"{100 * share:.1f} by {name}" for name, share in each if share > _ENOUGH)
        for each in (lost, won)
    )
    words = f"{_named(beside)} loses {100 * beside['lost_ratio']:.1f} %"
    return words + (f": {lost_by}" if lost_by else "") + (f", less {won_by}" if won_by else "")


def _named(choice: Json) -> str:
    """A configuration: `eagle-3 K=6`, or `off`."""
    return (
        str(choice["draft"])
        if choice["topology"] == "off"
        else f"{choice['drafter']} {choice['draft']}"
    )


def _signed(ratio: float) -> str:
    return f"{100 * ratio:.1f}"
