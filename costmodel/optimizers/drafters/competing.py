"""Which drafter does a question start: a published one, the model or head that it names, or the one
it describes?

The drafter that is costed is the one that every file names: it is settled here, once, and travels
with the configuration. Leaves out where acceptance is known from
(`costmodel.optimizers.drafters.sources`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from costmodel.architectures.library import load_model, stands_for_a_model
from costmodel.configuration import DecodingConfiguration
from costmodel.drafters.checkpoint import loads
from costmodel.method_library import load_method
from costmodel.optimizers.drafters.own_drafter import OwnDrafter
from costmodel.optimizers.drafters.sources import Source
from hardware_profiles.errors import InputError


def competing(question: DecodingConfiguration, sources: Sequence[Source]) -> list[Source]:
    """The drafters as they compete for a question.

    A draft model that the question names drafts for every method that needs one, a head for the
    only method that has one. A drafter that the question describes by its passes is the first of
    the sources, under a name of its own; the others stay as they were published.

    Args:
        question: its target is named.
        sources: drafters, in their order.

    Raises:
        InputError: nothing that competes can load what is named, or no acceptance is known of what
            is described.
    """
    on_target = [source.asked_on(question.deployment.model) for source in sources]
    if question.own_drafter is not None:
        return _described(question, on_target)
    return on_target if question.draft_model is None else _named(question.draft_model, on_target)


def carried(source: Source) -> dict[str, Any]:
    """The fields of a configuration that say who drafts, and what is accepted of it.

    Args:
        source: a drafter as it competes.
    """
    own = source.own
    return {
        "method": source.method,
        "draft_model": source.draft_model,
        "draft_name": None if own is None else own.name,
        "draft_passes": None if own is None else own.passes,
        "draft_bytes": None if own is None else own.pass_bytes,
        "trace": source.recorded_as,
        "match_rate": source.match_rate,
        "acceptance_by_depth": source.carried_rates,
        "known_tokens": source.known_tokens,
        "tokens_per_step": source.own_tokens_per_step,
    }


def _described(question: DecodingConfiguration, sources: Sequence[Source]) -> list[Source]:
    assert question.own_drafter is not None
    assert question.draft_passes is not None and question.draft_bytes is not None
    first, *others = sources
    if first.looked_up:
        rule = (
            f"are of a drafter of its own, and {first.called}'s acceptance was published of another"
            " one; say what is accepted of yours: --acceptance, --tokens-per-step, --trace or"
            " --drafter METHOD:SOURCE"
        )
        raise InputError(
            f"--draft-passes and --draft-bytes {rule}",
            key="draft_bytes",
            value=question.draft_bytes,
        )
    name = question.own_drafter
    if name in [source.called for source in others] or stands_for_a_model(name):
        rule = (
            "is the name of another drafter: one that is described by its bytes has a name of"
            " its own"
        )
        raise InputError(rule, key="draft_name", value=name)
    own = OwnDrafter(name=name, passes=question.draft_passes, pass_bytes=question.draft_bytes)
    return [replace(first, own=own, draft_model=question.draft_model), *others]


def _named(checkpoint: str, sources: Sequence[Source]) -> list[Source]:
    left = [source for source in sources if not source.names_draft]
    if not left:
        rule = "is another draft model than the drafters that are named by theirs; leave out one"
        raise InputError(rule, key="draft", value=checkpoint)
    models = {source.method for source in left if load_method(source.method).needs_draft_model}
    takers = models or {source.method for source in left if loads(source.method, checkpoint)}
    if not takers:
        names = ", ".join(dict.fromkeys(source.method for source in sources))
        if any(load_method(source.method).drafts_with_weights for source in sources):
            rule = (
                f"is a whole model, and of {names} none drafts with one; say what is accepted of it"
            )
            raise InputError(
                f"{rule}: --drafter speculative-decoding:0.7", key="draft", value=checkpoint
            )
        rule = (
            f"{names} drafts without a model of its own; to compare this one, say what is accepted"
            " of it: --drafter speculative-decoding:0.7"
        )
        raise InputError(rule, key="draft", value=checkpoint)
    if not models and len(takers) > 1:
        rule = f"is one head, and {' and '.join(sorted(takers))} compete, whose heads differ"
        raise InputError(rule, key="draft", value=checkpoint)
    return [
        (
            drafting_with(source, checkpoint)
            if source.method in takers and not source.names_draft
            else source
        )
        for source in sources
    ]


def drafting_with(source: Source, checkpoint: str) -> Source:
    """A drafter with another draft model, to which a figure that was published of its own is
    lent.

    Args:
        source: the drafter.
        checkpoint: draft model or head, by name or place.
    """
    published = source.draft_model
    if not source.looked_up or published is None or _is_same(checkpoint, published):
        return replace(source, draft_model=checkpoint)
    about = f"{source.about}; borrowed from {published}"
    return replace(source, draft_model=checkpoint, borrowed=True, about=about)


def _is_same(one: str, other: str) -> bool:
    """Whether two names are of one checkpoint, spelled alike or as names of one shipped model."""
    both_models = stands_for_a_model(one) and stands_for_a_model(other)
    return one == other or (both_models and load_model(one).name == load_model(other).name)
