"""How much does a choice depend on the prompts? The same question at what was published of its
drafter for other data sets.

Leaves out recordings, whose kinds of prompts `kind_lengths` compares.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np

from costmodel.acceptance_library import PublishedAcceptance, other_prompts
from costmodel.answers.estimate import step_cost
from costmodel.configuration import DecodingConfiguration
from costmodel.laws.acceptance import Acceptance, geometric
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
        tokens_per_s: of the whole batch.
        speedup: against plain decoding.
    """

    figure: PublishedAcceptance
    acceptance: Acceptance
    tokens_per_s: float
    speedup: float


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
    if search.source(first).own is None:  # one that is described by its bytes competed and lost
        question = replace(question, draft_name=None, draft_passes=None, draft_bytes=None)
    contenders = compare(question, sources, seed=seed, **axes).contenders
    rows = [
        row
        for alike in _alike(contenders)
        for row in _fastest(
            [figures[place] for place in alike], [contenders[place] for place in alike], first
        )
    ]
    return sorted(rows, key=lambda row: row.tokens_per_s)


def _alike(contenders: Sequence[Contender]) -> Iterable[list[int]]:
    """Places of contenders that differ in their acceptance alone, in groups."""
    groups: dict[DecodingConfiguration, list[int]] = {}
    for place, contender in enumerate(contenders):
        groups.setdefault(contender.configuration, []).append(place)
    return groups.values()


def _fastest(
    figures: Sequence[PublishedAcceptance], alike: Sequence[Contender], first: Choice
) -> Iterator[PromptsChoice]:
    """The fastest draft by each of some figures, whose drafts are priced together."""
    setting, plain = alike[0].setting, first.result.plain
    off = step_cost(setting, geometric(0.0, 0), batch=first.batch, context=first.context)
    together = replace(alike[0], candidates=[a for each in alike for a in each.candidates])
    priced = evaluate(together, batch=first.batch, context=first.context, plain=off)
    ends = np.cumsum([len(each.candidates) for each in alike])[:-1]
    for figure, contender, tokens_per_s in zip(
        figures, alike, np.split(priced.tokens_per_s, ends), strict=True
    ):
        best = int(tokens_per_s.argmax())
        fastest = float(tokens_per_s[best])
        yield PromptsChoice(
            figure=figure,
            acceptance=contender.candidates[best],
            tokens_per_s=fastest,
            speedup=fastest * float(plain.total_s) / first.batch,
        )
