"""How much does a choice depend on the prompts? The same question at what was published of its
drafter for other data sets.

Leaves out recordings, whose kinds of prompts `kind_lengths` compares.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Unpack

from costmodel.acceptance_library import PublishedAcceptance, other_prompts
from costmodel.answers.estimate import Estimate, estimate
from costmodel.laws.acceptance import Acceptance
from costmodel.method_library import load_method
from costmodel.optimizers.allowed import Contender
from costmodel.optimizers.drafters.named_drafters import figure_source
from costmodel.optimizers.pricing import evaluate
from costmodel.optimizers.recommend import DraftAxes, Recommendation, compare
from costmodel.optimizers.search import Choice


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptsChoice:
    """What is fastest where the prompts are those of one data set.

    Args:
        figure: what was published of the drafter on these prompts; of another drafter of the same
            method where nobody published that of the choice.
        acceptance: the fastest draft there.
        result: its estimate.
    """

    figure: PublishedAcceptance
    acceptance: Acceptance
    result: Estimate


def by_prompts(
    search: Recommendation, first: Choice, seed: int = 0, **axes: Unpack[DraftAxes]
) -> Sequence[PromptsChoice]:
    """The fastest draft of a choice's method for every data set on which its acceptance was
    published, slowest first; none where the choice rests on no published figure.

    Args:
        search: that found the choice.
        first: the choice, whose batch and context are asked about.
        seed: as that of the search.
        axes: what may be drafted.
    """
    match = search.source(first).figure
    if match is None or first.topology == "off":
        return []
    figures = [match.entry, *other_prompts(match.entry)]
    sources = [figure_source(replace(match, entry=entry)) for entry in figures]
    question = search.question
    if not load_method(match.entry.method).needs_draft_model:  # it was named for a rival
        question = replace(question, draft_model=None)
    contenders = compare(question, sources, seed=seed, **axes).contenders
    rows = [
        _fastest(entry, contender, first)
        for entry, contender in zip(figures, contenders, strict=True)
    ]
    return sorted(rows, key=lambda row: float(row.result.tokens_per_s))


def _fastest(figure: PublishedAcceptance, contender: Contender, first: Choice) -> PromptsChoice:
    priced = evaluate(contender, batch=first.batch, context=first.context).tokens_per_s
    acceptance = contender.candidates[int(priced.argmax())]
    result = estimate(contender.setting, acceptance, batch=first.batch, context=first.context)
    return PromptsChoice(figure=figure, acceptance=acceptance, result=result)
