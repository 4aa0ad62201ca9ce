"""At which batches does a draft, or the pace of masked blocks, pay?"""

from typing import Any, TypeVar

import numpy as np

from app.answers.breakeven.rows import PayingRow
from costmodel.answers.breakeven import MOST_BATCH, paying_batches
from costmodel.answers.estimate import Setting
from costmodel.answers.fit import fits
from costmodel.laws.acceptance import Acceptance

_Row = TypeVar("_Row", bound=PayingRow)


def paying_row(
    kind: type[_Row],
    setting: Setting,
    acceptance: Acceptance,
    *,
    context: int,
    seed: int,
    **names: Any,
) -> _Row:
    """At which batches that fit the memory an acceptance beats plain decoding.

    Args:
        kind: type of the row.
        setting: target, device, drafter and engine.
        acceptance: what a step emits.
        context: cached tokens per request.
        seed: of the intervals.
        names: what else the row says.
    """
    tried = np.arange(1, MOST_BATCH + 1, dtype=np.float64)
    largest = max(1, int(fits(setting, acceptance, batch=tried, context=context).sum()))
    batches = paying_batches(
        setting,
        acceptance,
        context=context,
        largest=largest,
        generator=np.random.default_rng(seed),
    )
    return kind(
        context=context,
        verdict=batches.verdict,
        largest_batch=batches.largest,
        ranges=batches.ranges,
        last_batch=batches.last or 0,
        last_batch_interval=batches.last_bounds,
        **names,
    )
