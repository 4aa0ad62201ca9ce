"""What does `optimize` say first? The answer in one sentence, and how it goes on over batches: the same
on the screen, on pages and in reports.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from app.answers.numbers import digits, interval_words
from app.answers.optimize.rankings import Rankings
from app.answers.optimize.rows import ChoiceRow, PolicyRow

_SHAPES = {
    "tree": "a tree of ",
    "dynamic_tree": "dynamic trees of ",
    "state_trees": "prompted trees of ",
}


def first_choice(answer: Rankings) -> ChoiceRow:
    """The winner at the first context's smallest batch."""
    return answer.at(answer.contexts[0])[0]


def headline(answer: Rankings) -> str:
    """What to run at the smallest batch and how fast that is, in plain words (not escaped)."""
    first = first_choice(answer)
    where = f"at batch {first.batch:,} and context {first.context:,}"
    speed = f"{digits(first.tokens_per_s)} tokens/s, {digits(first.speedup)}× the speed of"
    if isinstance(first, PolicyRow):
        whose = f"{first.against}, " if first.against else ""
        return (
            f"Run {first.draft} {where}: {first.agreement:.1%} agreement, {speed} {whose}one token a"
            " pass with a KV cache"
        )
    if first.topology == "off":
        return f"Run without speculation {where}: nothing that was compared is faster"
    plural = "s" if first.draft_tokens != 1 else ""
    span = first.speedup_interval
    sure = ", so it may be no faster" if _reaches_one(span) else ""
    return (
        f"Run {first.drafter} with {_SHAPES.get(first.topology, '')}{first.draft_tokens} draft"
        f" token{plural} {where}: {speed} no speculation (80 % interval"
        f" {interval_words(span, '×')}{sure})"
    )


def _reaches_one(span: Sequence[float | None] | None) -> bool:
    """Whether an interval, where it is known, holds no gain."""
    low, high = span or (None, None)
    return low is not None and high is not None and low <= 1


def across_batches(answer: Rankings) -> str:
    """How the headline goes on: the schedule of the winner's chains, and where another method takes
    the lead.
    """
    first = first_choice(answer)
    words = schedule_words(answer.schedule)
    chains = " of chains" if first.topology in _SHAPES else ""
    parts = [f"as a schedule{chains}, {words}"] if words else []
    for before, row in pairwise(answer.at(first.context)):
        name, previous = (
            "no speculation" if r.topology == "off" else str(r.drafter) for r in (row, before)
        )
        if name != previous:
            parts.append(f"{name} leads from batch {row.batch:,}")
    return "; ".join(parts)


def schedule_words(ranges: Iterable[Sequence[int]]) -> str:
    """Inclusive batch ranges as `draft 4 tokens at batch 1-28, 2 at 29-128`, with en dashes."""
    parts: list[str] = []
    for low, high, count in ranges:
        span = f"{low:,}–{high:,}" if high > low else f"{low:,}"
        unit = (
            "" if any("token" in part for part in parts) else " token" if count == 1 else " tokens"
        )
        drafted = "nothing" if count == 0 else f"{count}{unit}"
        parts.append(f"{drafted} at {'' if parts else 'batch '}{span}")
    return "draft " + ", ".join(parts) if parts else ""
