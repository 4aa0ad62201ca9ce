"""What does `capacity` compare with plain decoding?"""

from collections.abc import Sequence
from dataclasses import dataclass

from app.questions.capacity import CapacityQuestion
from app.questions.resolve.accepted import acceptance_missing, lengths_for, one_source
from app.questions.resolve.configurations import compared, named_shapes
from costmodel.draft_shape import DraftShape
from costmodel.laws.acceptance import Acceptance
from costmodel.method_library import load_method
from costmodel.optimizers.candidates.usual_shapes import usual_lengths
from costmodel.optimizers.drafters.sources import Source
from hardware_profiles.errors import InputError

PLAIN = "plain-decoding"


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparedDrafts:
    """The method beside plain decoding and its drafts.

    Attributes:
        method: slug; empty where none is named.
        source: where its acceptance is known from; None where nothing says it.
        stated_lengths: draft tokens that were stated; None: the usual ones.
        lengths: draft tokens that are compared.
        shapes: that are compared in place of lengths; None: those.
        drafts: what is compared, at what is known of acceptance; empty of plain decoding.
    """

    method: str
    source: Source | None
    stated_lengths: Sequence[int] | None
    lengths: Sequence[int]
    shapes: list[DraftShape] | None
    drafts: Sequence[Acceptance]


def compared_drafts(question: CapacityQuestion, model: str) -> ComparedDrafts:
    """The drafts that a question compares.

    Args:
        question: what was asked.
        model: its first one, for published acceptance.

    Raises:
        InputError: options that contradict each other, or nothing says what is accepted.
    """
    stated, slug = question.draft_tokens, question.method
    plain = slug == PLAIN or (stated is not None and not any(stated))
    source = one_source(
        question,
        question.trace,
        method="" if plain else slug,
        model=model,
        lengths=stated or (),
        drafts=not plain,
    )
    drafter = slug if source is None else source.method
    lengths = lengths_for(source, stated, usual_lengths(load_method(drafter or PLAIN)))
    shapes = named_shapes(
        question.shape, {"--draft-tokens": question.draft_tokens, "--tree": question.tree}
    )
    if question.search == "full" and question.tree is not None:
        raise InputError(f"say --shape tree:{question.tree} with --search full", key="--tree")
    if plain:
        slug = PLAIN
    elif source is None and slug:
        raise acceptance_missing(slug)
    drafts: list[Acceptance] = []
    if source is not None and not plain:
        slug = source.method
        drafts = compared(source, lengths, question.tree, question.seed, shapes)
    return ComparedDrafts(
        method=slug,
        source=source,
        stated_lengths=stated,
        lengths=lengths,
        shapes=shapes,
        drafts=[draft for draft in drafts if draft.draft_tokens],
    )
