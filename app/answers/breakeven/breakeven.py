"""`breakeven`: the least acceptance, the greatest draft cost and the batches at which a method
pays.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from app.answers.answer import Answer
from app.answers.breakeven.paying import paying_row
from app.answers.breakeven.refining import answer_refining
from app.answers.breakeven.rows import BreakEvenPoint, BreakEvens, PayingRow
from app.answers.cells import LISTED, MarkedCell, cells_of, marked, runnable
from app.answers.estimates import acceptance
from app.answers.explanations import break_even as break_even_object
from app.answers.feasible import require_cell
from app.questions.breakeven import BreakevenQuestion
from app.questions.field import inputs_of
from app.questions.groups import DraftingOptions, PlacedOptions, RefiningOptions, values_in
from app.questions.resolve.accepted import (
    OTHERWISE,
    lengths_for,
    numbers_words,
    one_source,
)
from app.questions.resolve.chosen_configuration import configuration_of, with_options
from app.questions.resolve.configurations import compared, named_shapes, shapes_for, unknown
from app.questions.resolve.refining import refines
from costmodel.answers.breakeven import break_even
from costmodel.answers.estimate import Setting
from costmodel.answers.positions import require_positions
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration
from costmodel.laws.acceptance import Acceptance
from costmodel.optimizers.candidates.acceptance_law import acceptance_law
from costmodel.optimizers.drafters.competing import carried, competing
from costmodel.optimizers.drafters.origin import proposal_share
from hardware_profiles.errors import InfeasibleError


def answer(question: BreakevenQuestion) -> Answer:
    """When a method pays, at every batch, context and draft of every model, device and engine.

    Raises:
        InputError: options that contradict each other, or no cell that can run.
    """
    if refines(question.method, values_in(RefiningOptions, question)):
        return answer_refining(question)
    lengths = question.draft_tokens
    cells = cells_of(question.values)
    source = one_source(
        question,
        question.trace,
        method=question.method,
        model=cells[0]["model"],
        lengths=lengths or (),
    )
    slug = (question.method or OTHERWISE) if source is None else source.method
    options = {
        **values_in(PlacedOptions, question),
        **values_in(DraftingOptions, question),
        "model": question.model,
        "fidelity": question.fidelity,
        "method": slug,
    }
    base = configuration_of(None, options)
    if source is not None:
        (source,) = competing(with_options(base, cells[0]), [source])
        base = replace(base, **carried(source))
    settings = runnable(cells, lambda cell: build_setting(with_options(base, cell)))
    compared_lengths = lengths_for(source, lengths, [3])
    others = {"--draft-tokens": question.draft_tokens, "--tree": question.tree}
    shapes = named_shapes(question.shape, others)
    if source is None:
        share = proposal_share(slug, question.match_rate)
        drafts = unknown(shapes or shapes_for(None, compared_lengths, question.tree), share)
    else:
        drafts = compared(source, compared_lengths, question.tree, question.seed, shapes)
    drafts = [draft for draft in drafts if draft.draft_tokens]
    places = [(batch, context) for context in question.context for batch in question.batch]
    points: list[BreakEvenPoint | MarkedCell] = []
    paying: list[PayingRow] = []
    for cell, setting in settings:
        names: dict[str, Any] = {name: cell[name] for name in LISTED}
        if isinstance(setting, str):
            points += [MarkedCell(**names, batch=b, context=c, reason=setting) for b, c in places]
            continue
        placed = with_options(base, cell)
        points += [
            _point(names, placed, setting, draft, batch, context, source is not None, question.seed)
            for draft in drafts
            for batch, context in places
        ]
        if source is not None:
            paying += [
                paying_row(
                    PayingRow,
                    setting,
                    draft,
                    context=context,
                    seed=question.seed,
                    draft_tokens=draft.draft_tokens,
                    **names,
                )
                for draft in drafts
                for context in question.context
            ]
    able = [setting for _, setting in settings if not isinstance(setting, str)]
    return BreakEvens(
        inputs=inputs_of(
            question,
            method=slug,
            drafter=question.drafter or [],
            draft_tokens=None if shapes else ",".join(map(str, compared_lengths)),
            dtype=",".join(dict.fromkeys(s.deployment.precision.label for s in able)),
            set=question.overrides or [],
        ),
        points=points,
        acceptance=None if source is None else acceptance(source, drafts),
        batches=None if source is None else paying,
        remarks=numbers_words(source, drafts),
    )


def _point(
    names: dict[str, Any],
    placed: DecodingConfiguration,
    setting: Setting,
    draft: Acceptance,
    batch: int,
    context: int,
    is_known: bool,
    seed: int,
) -> BreakEvenPoint | MarkedCell:
    """The break-even of a cell, or its mark where it does not fit."""
    require_positions(setting.target, context)
    try:
        require_cell(placed, setting, draft, batch=batch, context=context)
    except InfeasibleError as error:
        mark = marked(placed, draft, str(error), batch=batch, context=context)
        return MarkedCell(
            **names, batch=batch, context=context, draft_tokens=draft.draft_tokens, **mark
        )
    solved = break_even(
        setting,
        draft,
        acceptance_law(setting.drafter.method, draft),
        batch=batch,
        context=context,
        has_recording=is_known,
        generator=np.random.default_rng(seed),
    )
    return BreakEvenPoint(**names, **break_even_object(solved))
