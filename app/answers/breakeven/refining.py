"""`breakeven` of a method that refines masked blocks: from how many tokens a pass it beats the
model token by token.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from app.answers.breakeven.paying import paying_row
from app.answers.breakeven.rows import RefiningBreakEvens, RefiningPoint, TwinPayingRow
from app.answers.cells import LISTED, MarkedCell, cells_of, marked, runnable
from app.answers.estimates import acceptance
from app.answers.feasible import require_cell
from app.questions.breakeven import BreakevenQuestion
from app.questions.field import inputs_of, refuse
from app.questions.groups import DraftingOptions, PlacedOptions, RefiningOptions, names_in
from app.questions.resolve.accepted import numbers_words, one_source
from app.questions.resolve.chosen_configuration import configuration_of, with_options
from costmodel.answers.estimate import Setting, estimate, intervals
from costmodel.answers.refine_breakeven import needed_pace
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration
from costmodel.laws.acceptance import Acceptance
from costmodel.laws.own_pace import own_pace
from costmodel.optimizers.drafters.sources import Source
from hardware_profiles.errors import InfeasibleError

_DRAFT_OPTIONS = dict.fromkeys(
    ("shape", "draft_tokens", "tree", *names_in(DraftingOptions)),
    "belongs to drafts, and masked blocks have none",
)


def answer_refining(question: BreakevenQuestion) -> RefiningBreakEvens:
    """When masked blocks pay, at every batch and context of every model, device and engine.

    Raises:
        InputError: options of drafts, or no cell that can run.
    """
    base, source = _resolved(question)
    places = [(batch, context) for context in question.context for batch in question.batch]
    points: list[RefiningPoint | MarkedCell] = []
    paying: list[TwinPayingRow] = []
    cells = cells_of(question.values)
    for cell, setting in runnable(cells, lambda cell: build_setting(with_options(base, cell))):
        names: dict[str, Any] = {name: cell[name] for name in LISTED}
        if isinstance(setting, str):
            points += [MarkedCell(**names, batch=b, context=c, reason=setting) for b, c in places]
            continue
        placed = with_options(base, cell)
        points += [_point(names, placed, setting, source, b, c, question.seed) for b, c in places]
        if source is not None:
            pace = _pace(setting, source)
            paying += [
                paying_row(TwinPayingRow, setting, pace, context=c, seed=question.seed, **names)
                for c in question.context
            ]
    return RefiningBreakEvens(
        inputs=inputs_of(question, method=base.method, set=question.overrides or []),
        points=points,
        acceptance=None if source is None else acceptance(source),
        batches=None if source is None else paying,
        remarks=numbers_words(source),
    )


def _resolved(question: BreakevenQuestion) -> tuple[DecodingConfiguration, Source | None]:
    """The configuration under the policy that is asked about, and where its tokens per pass are
    known from; None where nothing says.

    Raises:
        InputError: options of drafts, or as `one_source`.
    """
    refuse(question, _DRAFT_OPTIONS)
    names = (*names_in(PlacedOptions), *names_in(RefiningOptions), "model", "method", "fidelity")
    stated = {name: value for name in names if (value := getattr(question, name)) is not None}
    base = configuration_of(None, stated)
    unknown = question.trace is None and question.tokens_per_step is None and not question.drafter
    if unknown and base.refine is not None and not base.refine.rule.by_count:
        return base, None
    source = one_source(
        question,
        question.trace,
        method=base.method,
        model=base.deployment.model,
        refine=base.refine,
        canvas=base.canvas_tokens,
    )
    if source is None or source.refine is None:
        return base, source
    return replace(base, refine=source.refine, canvas_tokens=source.canvas_tokens), source


def _pace(setting: Setting, source: Source | None) -> Acceptance:
    """At the known tokens per pass, or the entry's where only memory is asked for."""
    return own_pace(setting.drafter.method, None if source is None else source.own_tokens_per_step)


def _point(
    names: dict[str, Any],
    placed: DecodingConfiguration,
    setting: Setting,
    source: Source | None,
    batch: int,
    context: int,
    seed: int,
) -> RefiningPoint | MarkedCell:
    """The break-even of a cell, or its mark where it does not fit."""
    pace = _pace(setting, source)
    try:
        require_cell(placed, setting, pace, batch=batch, context=context)
    except InfeasibleError as error:
        mark = marked(placed, pace, str(error), batch=batch, context=context)
        return MarkedCell(**names, batch=batch, context=context, **mark)
    needed = needed_pace(
        setting, batch=batch, context=context, generator=np.random.default_rng(seed)
    )
    least = needed.tokens_per_pass
    point = RefiningPoint(
        **names,
        batch=batch,
        context=context,
        draft_tokens=None,
        block_tokens=setting.drafter.method.shape.nodes,
        verdict="never" if least is None else "always" if least <= 1.0 else "on",
        least_tokens_per_step=least,
        least_tokens_per_step_interval=needed.bounds and list(needed.bounds),
        most_tokens_per_step=needed.most,
        twin_tokens_per_s=needed.twin_tokens_per_s,
    )
    if source is None:
        return point
    result = estimate(setting, pace, batch=batch, context=context)
    spread = intervals(setting, result, batch=batch, generator=np.random.default_rng(seed))
    return replace(
        point,
        tokens_per_step=pace.tokens_per_step,
        tokens_per_s=float(result.tokens_per_s),
        speedup=float(result.speedup),
        speedup_interval=[float(bound) for bound in spread.speedup],
        pays=bool(result.speedup > 1.0),
    )
