"""How does an answer differ from the one that was pinned? Deltas on every number, and both curves.

The pinned question stands in the link as the query that it was. Leaves out asking it (`pages`).
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from urllib.parse import parse_qsl, urlencode

from app.dashboard.answer import Card, Figure, PageAnswer
from app.dashboard.state import State, from_query, to_query, with_values

PIN, RELEASE = "Pin this answer as A", "Release A"
_NUMBER = re.compile(r"\$?([\d,]+(?:\.\d+)?)(.*)")
_PALE = 0.4


def pinned_text(state: State) -> str:
    """A question as it stands in the link of another."""
    return urlencode(to_query(with_values(state, {"pinned": ""})))


def pinned_question(state: State) -> State | None:
    """The question that a state's link pins, asked of the page that is open; None where it pins
    nothing.
    """
    if not state.pinned:
        return None
    question, _ = from_query(dict(parse_qsl(state.pinned)))
    return with_values(question, {"page": state.page})


def beside(answer: PageAnswer, first: PageAnswer, question: str) -> PageAnswer:
    """The answer with what the pinned one said beside every number, and its curves behind its own.

    Args:
        answer: of the question now.
        first: that was pinned.
        question: that it answers, in words.
    """
    before = dict(first.numbers)
    cards = {card.title: card for card in first.cards}
    return replace(
        answer,
        notes=[f"A is the answer to {question}.", *answer.notes],
        numbers=[(label, _delta(value, before.get(label))) for label, value in answer.numbers],
        cards=[
            replace(card, figure=_both(card.figure, cards[card.title]))
            if card.title in cards
            else card
            for card in answer.cards
        ],
    )


def _delta(value: str, before: str | None) -> str:
    """A number with the pinned one and the change, where both are numbers of one unit."""
    if before is None or value == before:
        return value if before is None else f"{value} (as A)"
    now, then = _NUMBER.fullmatch(value), _NUMBER.fullmatch(before)
    if now is None or then is None:
        return f"{value} (A: {before})"
    amounts = [float(match[1].replace(",", "")) for match in (now, then)]
    if not amounts[1]:
        return f"{value} (A: {before})"
    return f"{value} (A: {then[1]}, {100 * (amounts[0] / amounts[1] - 1):+.1f} %)"


def _both(figure: Figure, card: Card) -> Figure:
    """A figure with the lines of the pinned one, pale, behind its own."""
    return {**figure, "data": [*_lines(card.figure["data"]), *figure["data"]]}


def _lines(data: Sequence[Figure]) -> list[Figure]:
    return [
        {
            **line,
            "name": f"A: {line.get('name', '')}",
            "opacity": _PALE,
            "showlegend": False,
            "legendgroup": "A",
        }
        for line in data
        if line["type"] == "scatter"
    ]
