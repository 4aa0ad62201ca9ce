"""Which drafters does `optimize` compare where options name none?"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from costmodel.configuration import DecodingConfiguration
    from costmodel.optimizers.drafters.sources import Source

DEFAULT_TREES = "4,8,16,32,64"


def unnamed(
    question: "DecodingConfiguration", method: str, *, trees: str, stop: str, match_rate: float | None
) -> "tuple[DecodingConfiguration, list[Source]]":
    """The question and its drafters: trees and stop rules need recordings with positions.

    Args:
        question: what is asked.
        method: slug of the only method; empty for those that are usual.
        trees: sizes of trees, as given.
        stop: rule by which drafts end, as given.
        match_rate: share of steps with a proposal.
    """
    from costmodel.optimizers.drafters.default_drafters import default_drafters, recorded_drafters
    from costmodel.optimizers.drafters.named_drafters import published_source

    if method:
        return question, [published_source(question.method, question.deployment.model, match_rate=match_rate)]
    if stop or trees not in (DEFAULT_TREES, "0"):
        return question, recorded_drafters()
    return default_drafters(question)
