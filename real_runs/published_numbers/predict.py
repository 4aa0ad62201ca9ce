"""What does the cost model say of every row of a table, and why of some nothing?

The front door: finds who answers a row, and turns refusals into reasons. Leaves out how far off the
answers are (`app.answers.reproduction`).
"""

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace

from hardware_profiles.errors import RooftreeError
from real_runs.published_numbers import refined
from real_runs.published_numbers.answer import Prediction, plain_reason
from real_runs.published_numbers.noise import source_of
from real_runs.published_numbers.prediction import drafting_prediction
from real_runs.published_numbers.reading.names import system_name
from real_runs.published_numbers.reading.table import PublishedRow
from real_runs.published_numbers.serving import (
    chunked,
    context_parallel,
    prefixes,
    rooflines,
    split_layers,
    token_cost,
)

_VERIFYING = re.compile(r"verify \d+(?:\.\d+)? ms per round")
_TREE_OF = re.compile(r"\+ ([\w-]+) tree$")
_Answers = Callable[[PublishedRow], bool]
_Predict = Callable[[PublishedRow, tuple[PublishedRow, ...]], Prediction]
_SERVED: tuple[tuple[_Answers, _Predict], ...] = (
    (token_cost.answers, token_cost.predict),
    (rooflines.answers, rooflines.predict),
    (context_parallel.answers, context_parallel.predict),
    (split_layers.answers, split_layers.predict),
    (prefixes.answers, prefixes.predict),
    (chunked.answers, chunked.predict),
)


def predictions(
    rows: Sequence[PublishedRow],
    *,
    table: Sequence[PublishedRow] = (),
    progress: Callable[[str, int, int], None] = lambda name, done, total: None,
) -> list[Prediction]:
    """One answer per row, in order; a row that cannot be answered says why.

    Args:
        rows: to predict.
        table: where they stand, whose rows of the same source may lend them what was measured
            beside them; empty: as if the rows were the whole table.
        progress: called with what is at work, and how many of how many rows are done.
    """
    beside: dict[str, list[PublishedRow]] = defaultdict(list)
    published: dict[str, list[PublishedRow]] = defaultdict(list)
    for row in table or rows:
        beside[row.source].append(row)
        published[source_of(row)].append(row)
    answers = []
    for index, row in enumerate(rows):
        progress("published numbers", index, len(rows))
        answers.append(
            _prediction(row, tuple(beside[row.source]), tuple(published[source_of(row)]))
        )
    return answers


def _prediction(
    row: PublishedRow, beside: tuple[PublishedRow, ...], published: tuple[PublishedRow, ...]
) -> Prediction:
    if row.problem:
        return Prediction(row=row, reason=row.problem)
    if row.published is None:
        return Prediction(row=row, reason="states no number")
    try:
        return _answered(row, beside, published)
    except RooftreeError as error:
        return Prediction(row=row, reason=plain_reason(error))


def _answered(
    row: PublishedRow, beside: tuple[PublishedRow, ...], published: tuple[PublishedRow, ...]
) -> Prediction:
    if row.kind == "refining":
        if refined.drafts(row):
            return replace(drafting_prediction(refined.as_drafting(row)), row=row)
        return refined.refined_prediction(row)
    for answers, predict in _SERVED:
        if answers(row):
            return predict(row, beside)
    return replace(
        drafting_prediction(_with_verifying(_with_shape(row, beside), published)), row=row
    )


def _with_verifying(row: PublishedRow, published: tuple[PublishedRow, ...]) -> PublishedRow:
    """A row with what verifying takes on the host, where rows of the same publication state it of
    the same system.
    """
    if "verify" in row.draft_cost:
        return row
    name = system_name(row.system)
    stated = (
        _VERIFYING.search(other.draft_cost)
        for other in published
        if system_name(other.system) == name
    )
    verifying = next((match[0] for match in stated if match), "")
    return replace(row, draft_cost=f"{row.draft_cost}; {verifying}") if verifying else row


def _with_shape(row: PublishedRow, beside: tuple[PublishedRow, ...]) -> PublishedRow:
    """A row whose draft is another system's tree, with the shape that rows of the same source state
    of that one.
    """
    named = _TREE_OF.search(row.shape)
    if named is None:
        return row
    stated = (
        other.shape for other in beside if system_name(other.system) == named[1] and other.shape
    )
    return replace(row, shape=next(stated, row.shape))
