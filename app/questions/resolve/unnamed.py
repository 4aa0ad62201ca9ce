"""Which drafters does `optimize` compare where options name none?"""

from collections.abc import Sequence
from dataclasses import replace

from costmodel.configuration import DecodingConfiguration
from costmodel.optimizers.drafters.default_drafters import default_drafters, recorded_drafters
from costmodel.optimizers.drafters.named_drafters import known_source
from costmodel.optimizers.drafters.sources import Source


def beside_own(
    question: DecodingConfiguration, sources: list[Source], drafters: Sequence[str] | None
) -> list[Source]:
    """The sources that options name, and where the question describes a drafter, the usual ones
    that it is up against.

    Args:
        question: what is asked.
        sources: those that options name, of the described drafter first.
        drafters: of --drafter, which say themselves what it is up against.
    """
    model = question.deployment.model or next(
        (source.model for source in sources if source.trace is not None), ""
    )
    if question.own_drafter is None or not sources or drafters or not model:
        return sources
    where = replace(question.deployment, model=model)
    return [*sources, *default_drafters(replace(question.without_drafter(), deployment=where))[1]]


def unnamed(
    question: DecodingConfiguration,
    method: str,
    *,
    recorded: bool,
    match_rate: float | None,
) -> tuple[DecodingConfiguration, list[Source]]:
    """The question and its drafters: trees and stop rules need recordings with positions.

    Args:
        question: what is asked.
        method: slug of the only method; empty for those that are usual.
        recorded: shapes are asked about that need recordings.
        match_rate: share of steps with a proposal.
    """
    if question.own_drafter is not None:
        return default_drafters(question)
    if method:
        return question, [
            known_source(question.method, question.deployment.model, match_rate=match_rate)
        ]
    if recorded:
        return question, recorded_drafters()
    return default_drafters(question)
