"""Which drafter, and which source of acceptance, does a text name, and what is each called among
several?

`METHOD[:SOURCE]`, as `eagle-3:0.78,0.61,0.48`, or in the place of a method the draft model of plain
speculative decoding, as `llama-3.2-1b:0.7`. Leaves out what a source is
(`costmodel.optimizers.drafters.sources`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace

from costmodel.acceptance_library import (
    Match,
    best_match,
    nearness,
    other_prompts,
    size_gap,
    target_slug,
)
from costmodel.answers.settings import stated_method
from costmodel.architectures.library import load_model, model_names, stands_for_a_shipped_model
from costmodel.laws.acceptance import DepthRates
from costmodel.method_library import load_method, method_names, require_priced, spelled
from costmodel.optimizers.drafters.competing import drafting_with
from costmodel.optimizers.drafters.origin import assumed_share, proposal_share
from costmodel.optimizers.drafters.sources import (
    FORMS,
    PLAIN_DRAFTING,
    Source,
    length_source,
    means_source,
    rates_source,
    trace_source,
)
from hardware_profiles.errors import InputError, UnknownNameError
from traces.library import gpu_recordings, trace_file

NO_DRAFTS = ("off", "autoregressive")
"""What stands for no drafter where one is asked for."""
_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?|[+-]?(?:nan|inf)"
_RATES = re.compile(rf"\s*(?:{_NUMBER})\s*(?:,\s*(?:{_NUMBER})\s*)*", re.ASCII)
_LENGTH = re.compile(rf"length=(?P<tokens>{_NUMBER})(?:@(?P<at>[0-9]{{1,4}}))?", re.ASCII)
_MEAN = rf"(?:{_NUMBER})@[0-9]{{1,4}}"
_LENGTHS = re.compile(rf"length=(?P<all>{_MEAN}(?:\s*,\s*{_MEAN})+)", re.ASCII)
_MOST_CHARACTERS = 1 << 16


def drafter_source(
    text: str, *, model: str = "", lengths: Sequence[int] = (), match_rate: float | None = None
) -> Source:
    """The source that `METHOD[:SOURCE]` or `MODEL[:SOURCE]` names.

    Example:
        >>> drafter_source("eagle-3:0.78,0.61,0.48").rates.by_depth
        (0.78, 0.61, 0.48)

    Args:
        text: a method's slug or file, or a shipped model that drafts, then one rate, rates by
            position, `length=` tokens per step (`@K`: at that draft length), several as
            `length=2.4@3,2.8@5`, a trace, or the data set of a published figure; without a source
            the published figure that suits the model best.
        model: target, for published figures.
        lengths: draft lengths asked about; tokens per step without `@K` are those of the longest.
        match_rate: share of steps with a proposal, for drafters that may have none.

    Raises:
        UnknownNameError: there is no such method, and no such model.
        InputError: a source that is none, or no figure was published.
    """
    if len(text) > _MOST_CHARACTERS:
        raise InputError("is too long", key="drafter", value=text[:40])
    name, separator, stated = text.partition(":")
    method, draft_model = named_drafter(name.strip())
    source = (
        _stated(method, stated, text, model=model, lengths=lengths, match_rate=match_rate)
        if separator
        else known_source(method, model, match_rate=match_rate)
    )
    if draft_model is None:
        return source
    return replace(drafting_with(source, draft_model), names_draft=True)


def _stated(
    method: str,
    stated: str,
    text: str,
    *,
    model: str,
    lengths: Sequence[int],
    match_rate: float | None,
) -> Source:
    """The source that stands behind the colon of a drafter's text."""
    if _RATES.fullmatch(stated):
        return rates_source(
            method, [float(part) for part in stated.split(",")], match_rate=match_rate
        )
    if length := _LENGTH.fullmatch(stated):
        at = [int(length["at"])] if length["at"] else lengths
        return length_source(method, float(length["tokens"]), at, match_rate=match_rate)
    if several := _LENGTHS.fullmatch(stated):
        return means_source(method, _means(several["all"], text), match_rate=match_rate)
    path = trace_file(stated)
    if stated and os.path.isfile(path):  # noqa: PTH113 - a name too long for a file is none
        return trace_source(path, method, match_rate, lengths=lengths, override=True)
    match = best_match(method, model, data_set=stated) if stated.strip() else None
    if match is not None and match.entry.shape == "chain":
        return figure_source(match, match_rate=match_rate)
    raise InputError(
        f"names no trace that exists and no data set of which its acceptance was published"
        f"{_known_prompts(method, model)}; a source is {FORMS}; a draft model is named in the place"
        " of the method (llama-3.2-1b:0.7)",
        key="drafter",
        value=text,
    )


def _known_prompts(method: str, model: str) -> str:
    """The data sets of published figures on the nearest target, in brackets; empty for none."""
    match = best_match(method, model)
    if match is None or match.entry.shape != "chain":
        return ""
    entries = [match.entry, *other_prompts(match.entry)]
    return f" ({', '.join(sorted({entry.data_set for entry in entries}, key=str.casefold))})"


def _means(listed: str, text: str) -> dict[int, float]:
    """Tokens per step by draft length, of `2.4@3,2.8@5`.

    Raises:
        InputError: a length that is given twice.
    """
    pairs = [part.split("@") for part in listed.split(",")]
    means = {int(at): float(tokens) for tokens, at in pairs}
    if len(means) < len(pairs):
        raise InputError("gives a draft length more than once", key="drafter", value=text)
    return means


def named_drafter(name: str) -> tuple[str, str | None]:
    """The slug of the method that drafts, named by slug, as engines call it, or by its file; and the
    draft model, where the name is that of a shipped model, as tables call plain speculative
    decoding.

    Raises:
        UnknownNameError: there is neither of that name; the nearest of both are offered.
        InputError: the method drafts nothing, or a file that holds none.
    """
    if name.casefold() in NO_DRAFTS:
        rule = "drafts nothing; decoding without drafts is compared with every drafter anyway"
        raise InputError(rule, key="drafter", value=name)
    try:
        slug = stated_method(name, key="drafter")
    except UnknownNameError:
        if not stands_for_a_shipped_model(name):
            known = [*method_names(), *model_names()]
            raise UnknownNameError("method or draft model", name, known, key="drafter") from None
        return PLAIN_DRAFTING, name
    method = load_method(slug)
    require_priced(method)
    if not method.drafts:
        raise InputError("drafts nothing", key="drafter", value=slug)
    return slug, None


def known_source(method: str, model: str, *, match_rate: float | None = None) -> Source:
    """What is known of a method on a target that nobody says more of: a recording of that target
    on GPUs, else what was published, else a recording of another target.

    Example:
        >>> known_source("medusa", "vicuna-13b").recorded_as
        'gpu/vicuna-13b--medusa--greedy'

    Args:
        method: slug.
        model: target, by shipped name or as published.
        match_rate: share of steps with a proposal, where a figure counts only those.

    Raises:
        InputError: nothing was recorded or published, or only for a tree or a block.
    """
    recorded = _recorded_on_gpu(method, model)
    if recorded is not None and not recorded.borrowed:
        return recorded
    match = best_match(method, model)
    if recorded is not None and (match is None or match.entry.shape != "chain"):
        return recorded
    return published_source(method, model, match_rate=match_rate)


def _recorded_on_gpu(method: str, model: str) -> Source | None:
    """The shipped recording of a method on GPUs whose target is nearest; None where there is
    none.
    """
    runs = [run for run in gpu_recordings() if run.method == method]
    if not runs:
        return None
    target = target_slug(model)
    nearest = min(
        runs, key=lambda run: (nearness(run.target, target), size_gap(run.target, target))
    )
    return replace(trace_source(nearest.path, method).asked_on(model), looked_up=True)


def published_source(method: str, model: str, *, match_rate: float | None = None) -> Source:
    """The published figure that suits a method on a target best.

    Args:
        method: slug.
        model: target, by shipped name or as published.
        match_rate: share of steps with a proposal, where the figure counts only those.

    Raises:
        InputError: none was published, or only for a tree or a block.
    """
    match = best_match(method, model)
    if match is None or match.entry.shape != "chain":
        reason = (
            "no acceptance of it was published"
            if match is None
            else f"was published for a {match.entry.shape} only"
        )
        forms = FORMS.replace("eagle-3:", f"{spelled(method)}:")
        raise InputError(f"{reason}; state its acceptance: {forms}", key="drafter", value=method)
    return figure_source(match, match_rate=match_rate)


def figure_source(match: Match, *, match_rate: float | None = None) -> Source:
    """The source of a published figure of chains.

    Args:
        match: the figure, and how near it is to the target that is asked about.
        match_rate: share of steps with a proposal, where the figure counts only those.
    """
    entry = match.entry
    method, alone = entry.method, entry.counted == "proposals"
    rates = DepthRates(
        by_depth=entry.depth_rates(entry.draft_tokens),
        measured=entry.draft_tokens,
        proposal_ratio=proposal_share(method, match_rate) if alone else 1.0,
        remark=assumed_share(method, match_rate) if alone else _every_step(method),
        drafted_by=load_method(method).goes_on_as,
    )
    borrowed = match.kinship != "own"
    return Source(
        method=method,
        kind="published",
        rates=rates,
        looked_up=True,
        about=match.label,
        figure=match,
        model=entry.published_target,
        borrowed=borrowed,
        draft_model=_loaded_by_name(method, entry.drafter, own=not borrowed),
    )


def _loaded_by_name(method: str, drafter: str, *, own: bool) -> str | None:
    """The draft model, by shipped name, or the target's own head, by hub id, of a figure; None for
    neither.
    """
    entry = load_method(method)
    if entry.needs_draft_model:
        try:
            return load_model(drafter).name if drafter else None
        except InputError:
            return None
    return drafter if own and entry.drafts_with_weights and "/" in drafter else None


def _every_step(method: str) -> str:
    """What is assumed of means over all steps, for drafters that may have no proposal."""
    if not load_method(method).may_propose_nothing:
        return ""
    return (
        "the figure counts steps without a proposal, too; every step is taken to verify K draft"
        " tokens"
    )


def names_of(sources: Sequence[Source]) -> list[str]:
    """A name for every drafter: what it is called, and in brackets where several share it, what
    sets it apart.
    """
    called = [source.called for source in sources]
    apart = [
        (
            name
            if called.count(name) == 1
            else f"{name} ({source.path.stem if source.path is not None else source.kind})"
        )
        for name, source in zip(called, sources, strict=True)
    ]
    return [
        name if apart.count(name) == 1 else f"{name[:-1]} {apart[: place + 1].count(name)})"
        for place, name in enumerate(apart)
    ]
