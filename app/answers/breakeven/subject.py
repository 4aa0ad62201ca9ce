"""What does `breakeven` ask about: drafts of a method, or the pace of one that refines masked
blocks?
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.answers.cells import names_of
from app.questions.breakeven import BreakevenQuestion
from app.questions.field import refuse
from app.questions.groups import (
    DraftingOptions,
    PlacedOptions,
    RefiningOptions,
    names_in,
    values_in,
)
from app.questions.resolve.accepted import OTHERWISE, lengths_for, numbers_words, one_source
from app.questions.resolve.chosen_configuration import configuration_of, with_options
from app.questions.resolve.configurations import compared, named_shapes, shapes_for, unknown
from app.questions.resolve.refining import refines
from costmodel.answers.estimate import Setting, estimate
from costmodel.answers.settings import build_setting, compared_with
from costmodel.configuration import DecodingConfiguration
from costmodel.drafters.checkpoint import lacking_layers
from costmodel.laws.acceptance import Acceptance
from costmodel.laws.own_pace import own_pace
from costmodel.method_library import load_method
from costmodel.optimizers.candidates.usual_shapes import usual_lengths
from costmodel.optimizers.drafters.competing import carried, competing
from costmodel.optimizers.drafters.origin import proposal_share
from costmodel.optimizers.drafters.sources import Source
from hardware_profiles.errors import InputError

_DRAFT_OPTIONS = dict.fromkeys(
    ("shape", "draft_tokens", "tree", "curves", *names_in(DraftingOptions)),
    "belongs to drafts, and masked blocks have none",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """A method, and what its steps may be.

    Attributes:
        base: the method by name, on any device.
        source: where its acceptance is known from; None where nothing says.
        drafts: whose break-even is asked about; None: of masked blocks, which draft nothing.
        inputs: what was asked, as far as it was resolved.
        fastest_at: batch and context; only the draft that is the fastest there is asked about. None:
            all are.
    """

    base: DecodingConfiguration
    source: Source | None
    drafts: Sequence[Acceptance] | None
    inputs: Mapping[str, Any]
    fastest_at: tuple[int, int] | None = None

    @property
    def is_masked(self) -> bool:
        """Whether the method refines masked blocks."""
        return self.drafts is None

    @property
    def remarks(self) -> Sequence[str]:
        """Sentences about the acceptance, and that a checkpoint lacks what drafts."""
        brought = self.base.draft_model is not None or self.base.own_drafter is not None
        lacking = dict.fromkeys(
            lacking_layers(self.base.method, model, brought=brought)
            for model in names_of(self.base.deployment.model, "--model")
        )
        return [*filter(None, lacking), *numbers_words(self.source, self.drafts or ())]

    @property
    def fastest_words(self) -> str:
        """Of which drafts the rows of several batches and contexts are; empty where all are."""
        if self.drafts is None or self.fastest_at is None:
            return ""
        batch, context = self.fastest_at
        return (
            f"every row is of the draft that is fastest at batch {batch:,} and context {context:,}: at"
            " others another one may pay from fewer tokens a step (--draft-tokens compares them)"
        )

    @staticmethod
    def setting(placed: DecodingConfiguration, against: str) -> Setting:
        """The setting of a cell, compared with another model where one is named."""
        return compared_with(build_setting(placed), placed, against)

    def steps(self, setting: Setting) -> Sequence[Acceptance]:
        """What a step brings: every draft or the fastest, or the known pace of masked blocks, else the
        entry's.
        """
        if self.drafts is not None and self.fastest_at is not None:
            batch, context = self.fastest_at
            rates = [
                float(estimate(setting, a, batch=batch, context=context).tokens_per_s)
                for a in self.drafts
            ]
            return [self.drafts[rates.index(max(rates))]]
        if self.drafts is not None:
            return self.drafts
        pace = None if self.source is None else self.source.own_tokens_per_step
        return [own_pace(setting.drafter.method, pace)]


def subject_of(question: BreakevenQuestion, cell: Mapping[str, str]) -> Subject:
    """What a question asks about.

    Args:
        question: what is asked.
        cell: names of the first model, device and engine.

    Raises:
        InputError: options that contradict each other, or belong to another kind of method.
    """
    masked = values_in(RefiningOptions, question) | {"against": question.against or None}
    if refines(question.method, masked):
        return _masked(question)
    return _drafting(question, cell)


def _drafting(question: BreakevenQuestion, cell: Mapping[str, str]) -> Subject:
    lengths = question.draft_tokens
    source = one_source(
        question,
        question.trace,
        method=question.method,
        model=cell["model"],
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
        (source,) = competing(with_options(base, cell), [source])
        base = replace(base, **carried(source))
    # a rate that is stated says nothing of how long a draft of its drafter is
    is_open = source is not None and lengths is None and question.acceptance is None
    usual = usual_lengths(load_method(slug)) if is_open else [3]
    compared_lengths = lengths_for(source, lengths, usual)
    is_open = is_open and len(compared_lengths) > 1 and question.tree is None
    others = {"--draft-tokens": lengths, "--tree": question.tree}
    shapes = named_shapes(question.shape, others)
    if source is None:
        share = proposal_share(slug, question.match_rate)
        drafts = unknown(shapes or shapes_for(None, compared_lengths, question.tree), share)
    else:
        drafts = compared(source, compared_lengths, question.tree, question.seed, shapes)
    drafts = [draft for draft in drafts if draft.draft_tokens]
    if not drafts:
        rule = "drafts nothing, and plain decoding has no break-even with itself"
        if shapes is not None:
            raise InputError(rule, key="--shape", value=question.shape)
        raise InputError(rule, key="--draft-tokens", value=0)
    return Subject(
        base=base,
        source=source,
        drafts=drafts,
        fastest_at=(question.batch[0], question.context[0]) if is_open and not shapes else None,
        inputs={
            "method": slug,
            "drafter": question.drafter or [],
            "draft_tokens": None if shapes else ",".join(map(str, compared_lengths)),
        },
    )


def _masked(question: BreakevenQuestion) -> Subject:
    """The policy that is asked about, and where its tokens per pass are known from."""
    refuse(question, _DRAFT_OPTIONS)
    names = (*names_in(PlacedOptions), *names_in(RefiningOptions), "model", "method", "fidelity")
    stated = {name: value for name in names if (value := getattr(question, name)) is not None}
    base = configuration_of(None, stated)
    unknown_pace = (
        question.trace is None and question.tokens_per_step is None and not question.drafter
    )
    source = None
    if not unknown_pace or base.refine is None or base.refine.rule.by_count:
        source = one_source(
            question,
            question.trace,
            method=base.method,
            model=base.deployment.model,
            refine=base.refine,
            canvas=base.canvas_tokens,
        )
    if source is not None and source.refine is not None:
        base = replace(base, refine=source.refine, canvas_tokens=source.canvas_tokens)
    return Subject(base=base, source=source, drafts=None, inputs={"method": base.method})
