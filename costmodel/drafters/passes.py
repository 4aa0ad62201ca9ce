"""How many passes does a draft take, over how many tokens each?

The schedule of one stage for a chain of K tokens or for the levels of a tree: level by level,
several levels a pass, some levels one by one and the rest at once, or a fixed number of passes.
Leaves out seconds (`pass_costs`).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from costmodel.method import Draft
from costmodel.passes.ops import Array

SILENT = ("lookup", "rows")  # proposers that run no pass of their own


class DraftPass(NamedTuple):
    """A pass of a step.

    Args:
        often: times that it runs in a step.
        rows: query tokens per request.
        verified: those of the last verify pass among them, of which the last drafts.
        sets: how often the stage's further matrices apply; heads have one set per level.
    """

    often: Array | float
    rows: Array | float
    verified: Array | float = 0.0
    sets: float = 1.0


def chain_passes(draft: Draft, draft_tokens: Array) -> list[DraftPass]:
    """Passes of a chain of K tokens.

    Args:
        draft: the stage.
        draft_tokens: K >= 0, any shape; may be a mean where proposals vary in length.
    """
    k = draft_tokens
    if draft.by in SILENT or not np.any(k > 0):
        return []
    speculates = (k > 0).astype(np.float64)
    if draft.passes:
        return [DraftPass(speculates * draft.passes, np.maximum(k, 1.0))]
    per, serial = draft.depths_per_pass, np.minimum(k, float(draft.serial_depths or 0))
    if per == 1 and draft.serial_depths is None:
        serial = k
    at_once = float(per) if per > 1 and draft.serial_depths is None else np.maximum(k - serial, 1.0)
    together = np.ceil((k - serial) / at_once)
    rows = _rows(draft, 1.0, at_once)
    if draft.rereads:  # the first pass reads the tokens of the last step besides
        begins_alone = (serial > 0).astype(np.float64)
        drafting = np.where(begins_alone > 0, 1.0, rows)
        first = DraftPass(speculates, k + drafting, k + 1.0, _sets(draft))
        serial, together = (
            np.maximum(serial - begins_alone, 0.0),
            np.maximum(together - (1.0 - begins_alone), 0.0),
        )
        passes = [first, DraftPass(serial, 1.0), DraftPass(together, rows, sets=_sets(draft))]
    else:
        passes = [DraftPass(serial, 1.0), DraftPass(together, rows, sets=_sets(draft))]
    return [draft_pass for draft_pass in passes if np.any(np.asarray(draft_pass.often) > 0)]


def tree_passes(draft: Draft, widths: Sequence[float], *, reread_tokens: float) -> list[DraftPass]:
    """Passes of a tree whose levels are drafted from `widths` nodes with children each, the root's
    level first.

    Args:
        draft: the stage.
        widths: nodes with children at each level; may be means.
        reread_tokens: tokens of the last verify pass that a drafter which rereads takes besides.
    """
    if draft.by in SILENT or not widths:
        return []
    depth = len(widths)
    if draft.passes:
        return [DraftPass(float(draft.passes), float(depth))]
    if draft.serial_depths is not None:
        starts = list(range(min(draft.serial_depths + 1, depth)))
    else:
        starts = list(range(0, depth, draft.depths_per_pass or depth))
    passes = []
    for start, end in zip(starts, [*starts[1:], depth], strict=True):
        rows = _rows(draft, float(widths[start]), float(end - start))
        if draft.rereads and start == 0:
            verified = reread_tokens + 1.0
            passes.append(DraftPass(1.0, rows + reread_tokens, verified, _sets(draft)))
        else:
            passes.append(DraftPass(1.0, rows, sets=_sets(draft)))
    return passes


def _rows(draft: Draft, width: float, levels: Array | float) -> Array | float:
    """Heads read one position whatever their number; other drafters read one for every level they
    draft.
    """
    return width if draft.by == "heads" else width * levels


def _sets(draft: Draft) -> float:
    """Heads that draft all levels at once all run, used or not."""
    if draft.by != "heads":
        return 1.0
    return float(draft.depths_per_pass or draft.heads)
