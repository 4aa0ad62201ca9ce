"""`breakeven`: the least acceptance, the greatest draft cost and the batches at which a method
pays.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from app.answers.answer import Answer
from app.answers.breakeven.curves import CurveRow, curve_rows
from app.answers.breakeven.paying import paying_row
from app.answers.breakeven.rows import (
    BreakEvenPoint,
    BreakEvenRow,
    BreakEvens,
    PayingRow,
    RefiningPoint,
    TwinPayingRow,
)
from app.answers.breakeven.subject import Subject, subject_of
from app.answers.cells import LISTED, MarkedCell, cells_of, marked, runnable
from app.answers.estimates import acceptance, pair
from app.answers.explanations import break_even as break_even_object
from app.answers.feasible import require_cell
from app.questions.breakeven import BreakevenQuestion
from app.questions.field import inputs_of
from app.questions.resolve.chosen_configuration import with_options
from costmodel.answers.breakeven import break_even
from costmodel.answers.estimate import Setting, estimate, intervals
from costmodel.answers.positions import require_positions
from costmodel.answers.refine_breakeven import needed_pace
from costmodel.configuration import DecodingConfiguration
from costmodel.laws.acceptance import Acceptance
from costmodel.optimizers.candidates.acceptance_law import acceptance_law
from hardware_profiles.errors import InfeasibleError


def answer(question: BreakevenQuestion) -> Answer:
    """When a method pays, at every batch, context and draft of every model, device and engine.

    Raises:
        InputError: options that contradict each other, or no cell that can run.
    """
    cells = cells_of(question.values)
    subject = subject_of(question, cells[0])
    places: list[dict[str, Any]] = [
        {"batch": batch, "context": context}
        for context in question.context
        for batch in question.batch
    ]
    points: list[BreakEvenRow | MarkedCell] = []
    paying: list[PayingRow] = []
    curves: list[CurveRow] = []
    formats: list[str] = []
    for cell, setting in runnable(
        cells,
        lambda cell: subject.setting(with_options(subject.base, cell), question.against),
    ):
        names: dict[str, Any] = {name: cell[name] for name in LISTED}
        if isinstance(setting, str):
            points += [MarkedCell(**names, **place, reason=setting) for place in places]
            continue
        formats.append(setting.deployment.precision.label)
        placed = with_options(subject.base, cell)
        for step in subject.steps(setting):
            if not subject.is_masked:
                names["draft_tokens"] = step.draft_tokens
            here = [
                _point(subject, placed, setting, step, names | place, question.seed)
                for place in places
            ]
            points += here
            if question.curves:
                curves += _curves(subject, setting, step, names, here)
            if subject.source is not None:
                kind = TwinPayingRow if subject.is_masked else PayingRow
                paying += [
                    paying_row(kind, setting, step, context=context, seed=question.seed, **names)
                    for context in question.context
                ]
    resolved = dict(subject.inputs)
    if not subject.is_masked:
        resolved["dtype"] = ",".join(dict.fromkeys(formats))
    source = subject.source
    several = len(places) > 1 and subject.fastest_words
    return BreakEvens(
        inputs=inputs_of(question, **resolved, set=question.overrides or []),
        points=points,
        acceptance=None if source is None else acceptance(source, subject.drafts or ()),
        batches=None if source is None else paying,
        curves=curves if question.curves else None,
        remarks=[*([subject.fastest_words] if several else []), *subject.remarks],
        is_masked=subject.is_masked,
        against=question.against,
    )


def _point(
    subject: Subject,
    placed: DecodingConfiguration,
    setting: Setting,
    step: Acceptance,
    names: dict[str, Any],
    seed: int,
) -> BreakEvenRow | MarkedCell:
    """The break-even of a cell, or its mark where it does not fit.

    Args:
        subject: what is asked about.
        placed: its configuration in the cell.
        setting: of that.
        step: what a step brings.
        names: attributes that say which cell, batch, context and draft it is.
        seed: of the intervals.
    """
    where: dict[str, Any] = {key: names[key] for key in ("batch", "context")}
    require_positions(setting.target, where["context"])
    try:
        require_cell(placed, setting, step, **where)
    except InfeasibleError as error:
        return MarkedCell(**names, **marked(placed, step, str(error), **where))
    if subject.is_masked:
        return _pace_point(setting, step, names, seed, is_known=subject.source is not None)
    solved = break_even(
        setting,
        step,
        acceptance_law(setting.drafter.method, step),
        **where,
        has_recording=subject.source is not None,
        generator=np.random.default_rng(seed),
    )
    return BreakEvenPoint(**names | break_even_object(solved))


def _curves(
    subject: Subject,
    setting: Setting,
    step: Acceptance,
    names: dict[str, Any],
    points: Sequence[BreakEvenRow | MarkedCell],
) -> list[CurveRow]:
    """The curves of a draft at every batch and context where it fits."""
    law = acceptance_law(setting.drafter.method, step)
    known = subject.source is not None
    return [
        row
        for point in points
        if isinstance(point, BreakEvenRow)
        for row in curve_rows(
            setting,
            step,
            law,
            names | {"batch": point.batch, "context": point.context},
            is_known=known,
        )
    ]


def _pace_point(
    setting: Setting, pace: Acceptance, names: dict[str, Any], seed: int, *, is_known: bool
) -> RefiningPoint:
    """The pace at which masked blocks equal the model decoded token by token."""
    where: dict[str, Any] = {key: names[key] for key in ("batch", "context")}
    needed = needed_pace(setting, **where, generator=np.random.default_rng(seed))
    least = needed.tokens_per_pass
    point = RefiningPoint(
        **names,
        draft_tokens=None,
        block_tokens=setting.drafter.method.shape.nodes,
        verdict="never" if least is None else "always" if least <= 1.0 else "on",
        least_tokens_per_step=least,
        least_tokens_per_step_interval=needed.bounds and list(needed.bounds),
        most_tokens_per_step=needed.most,
        twin_tokens_per_s=needed.twin_tokens_per_s,
    )
    if not is_known:
        return point
    result = estimate(setting, pace, **where)
    spread = intervals(setting, result, batch=where["batch"], generator=np.random.default_rng(seed))
    return replace(
        point,
        tokens_per_step=pace.tokens_per_step,
        tokens_per_s=float(result.tokens_per_s),
        speedup=float(result.speedup),
        speedup_interval=pair(spread.speedup),
        pays=bool(result.speedup > 1.0),
    )
