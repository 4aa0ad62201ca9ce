"""Which drafters compete, and where is the acceptance of each one known from?

A drafter is a method with a source of acceptance: a recording, an engine's counters, numbers that
somebody states, or a published figure. Leaves out how it is named (`named_drafters`), and what
acceptance emits and costs (`costmodel.laws`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from costmodel.acceptance_library import Match
from costmodel.answers.settings import method_of, with_match_rate
from costmodel.configuration import DecodingConfiguration
from costmodel.laws.acceptance import DepthRates, counted_rates, length_rates, means_rates
from costmodel.laws.own_draft import holds_own_draft, own_draft
from costmodel.laws.own_pace import own_pace
from costmodel.laws.refined_method import method_policy, refined_method
from costmodel.laws.refining import refine_of
from costmodel.laws.replayed_refining import replayed_refining
from costmodel.method import Method
from costmodel.method_library import load_method
from costmodel.optimizers.drafters.origin import (
    assumed_share,
    drafts_alike,
    is_borrowed,
    proposal_share,
    same_model,
)
from costmodel.optimizers.drafters.own_drafter import OwnDrafter
from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.refine_policy import RefinePolicy
from traces.kinds.step_counts import NEW_TOKENS
from traces.library import is_confidence, read_trace, trace_file, trace_name
from traces.replay.confidence.played import RecordedPrompts
from traces.replay.counted import counts_requests
from traces.replay.walk import replay_chain

_PACE_FIELDS = ("refine.tokens_per_pass", "advance")
PLAIN_DRAFTING = "speculative-decoding"
"""The method whose drafters are told apart by their draft models alone."""
Kind = Literal["recorded", "counted", "stated", "published"]

FORMS = (
    "one rate (eagle-3:0.72), rates by position (eagle-3:0.78,0.61,0.48), tokens per step"
    " (eagle-3:length=2.4, at K=3 eagle-3:length=2.4@3, at several eagle-3:length=2.4@3,2.8@5),"
    " a trace (eagle-3:trace.parquet), or the data set of a published figure (eagle-3:mtbench)"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """One drafter, and where its acceptance is known from.

    Args:
        method: slug of the method that drafts and verifies.
        kind: `recorded` positions, `counted` by an engine (level 0), `stated` by the person who
            asks, `published`.
        trace: recording of level 0 or more; None for numbers.
        path: file of the trace.
        rates: acceptance as numbers; None for positions, and where `own_tokens_per_step` says all.
        own_tokens_per_step: stated tokens per step of the method's own shape, where no draft length
            was named.
        looked_up: nobody named it: it is what is known of the method on the target asked about.
        about: where numbers come from, in words; empty for a trace.
        figure: the published figure; None: nobody published the numbers.
        model: target that it was recorded or published on; empty where unknown, or for stated
            numbers.
        borrowed: it belongs to another target than that of the question.
        draft_model: draft model or head that drafts, by name or checkpoint; None: the method's own,
            without a name.
        names_draft: the question calls the drafter by its draft model, and no other takes its place.
        own: the drafter as it was described in place of the method's; None: it was not.
        refine: the policy by which a method that refines masked blocks reaches its tokens per step;
            None: its own rule.
        canvas_tokens: of such a method; None: the entry's.
        own_tokens_interval: within which a replay puts them where the policy was not recorded
            itself; None: nothing is known of it.
        prompts: recorded prompts of masked decoding, on which policies can be replayed; None:
            there are none, or one policy was replayed.
    """

    method: str
    kind: Kind
    trace: AcceptanceTrace | None = None
    path: Path | None = None
    rates: DepthRates | None = None
    own_tokens_per_step: float | None = None
    own_tokens_interval: tuple[float, float] | None = None
    looked_up: bool = False
    about: str = ""
    figure: Match | None = None
    model: str = ""
    borrowed: bool = False
    draft_model: str | None = None
    names_draft: bool = False
    own: OwnDrafter | None = None
    refine: RefinePolicy | None = None
    canvas_tokens: int | None = None
    prompts: RecordedPrompts | None = None

    @property
    def entry(self) -> Method:
        """The method's entry, under the policy and on the canvas of the source."""
        method = load_method(self.method)
        if self.refine is None:
            return method
        return refined_method(method, self.refine, canvas_tokens=self.canvas_tokens)

    @property
    def positions(self) -> AcceptanceTrace | None:
        """The recording, where it holds positions that can be replayed."""
        return self.trace if self.kind == "recorded" else None

    @property
    def own_draft(self) -> AcceptanceTrace | None:
        """The recording, where it tells of the method's own tree alone."""
        if self.trace is None or not holds_own_draft(load_method(self.method), self.trace):
            return None
        return self.trace

    @property
    def called(self) -> str:
        """What it is called in a table: the name of its own, the method, or of the plain method its
        draft model.
        """
        if self.own is not None:
            return self.own.name
        is_plain = self.method == PLAIN_DRAFTING and self.draft_model is not None
        return str(self.draft_model) if is_plain else self.method

    @property
    def reference(self) -> str:
        """What to look up: the file, or where the numbers come from."""
        return str(self.path) if self.path is not None else self.about

    @property
    def label(self) -> str:
        """Where the acceptance comes from, in a few words."""
        if self.kind == "stated":
            return "stated, not measured here"
        if self.kind == "published":
            return self.about
        if self.prompts is not None:
            return "replayed confidence"
        if self.kind == "recorded" and self.trace is None:
            lent = f", borrowed from {self.model or 'an unnamed model'}" if self.borrowed else ""
            return f"replayed{lent}: {self.about}"
        is_recorded = self.kind == "recorded" or self.recorded_tokens
        how = "recorded" if is_recorded else "counted by an engine"
        return (
            f"borrowed from {self.model or 'an unnamed model'}"
            if self.borrowed
            else f"{how} on this model"
        )

    @property
    def recorded_tokens(self) -> int:
        """Tokens whose steps were recorded, by position or by request; 0 of pooled counters and
        numbers.
        """
        if self.positions is not None:
            return self.positions.positions
        own = self.own_draft
        return 0 if own is None or not counts_requests(own) else sum(own.extra_columns[NEW_TOKENS])

    @property
    def recording_words(self) -> str:
        """The recording by its name and what it ran on; empty for numbers."""
        if self.trace is None or self.recorded_as is None:
            return ""
        return f"{self.recorded_as} ({self.trace.provenance.device or 'device unknown'})"

    @property
    def recorded_as(self) -> str | None:
        """What names the recording on any machine; None for numbers."""
        return trace_name(self.path) if self.path is not None else None

    @property
    def match_rate(self) -> float | None:
        """Share of steps with a proposal that stands in for what is not recorded; None where
        nothing does.
        """
        if self.rates is not None:
            return self.rates.proposal_ratio if self.rates.proposal_ratio < 1.0 else None
        return self.trace.match_rate if self.trace is not None else None

    @property
    def carried_rates(self) -> tuple[float, ...] | None:
        """Rates by depth that a configuration states itself; None where it names a trace to read
        them from.
        """
        return self.rates.by_depth if self.rates is not None and self.path is None else None

    @property
    def known_tokens(self) -> int | None:
        """Draft tokens up to which carried rates are known; None where their number says so."""
        if (
            self.rates is None
            or self.path is not None
            or self.rates.measured == len(self.rates.by_depth) > 1
        ):
            return None
        return self.rates.measured

    def remark_at(self, levels: int) -> str:
        """The remark beside an answer whose longest draft has this many levels; empty for
        nothing.
        """
        return self.rates.remark_at(levels) if self.rates is not None and levels else ""

    def interval_covers(self, levels: int) -> str:
        """What an interval holds beside the error of the cost model, whose longest draft has so
        many levels.
        """
        if self.positions is not None or self.recorded_tokens:
            return "recorded requests and cost model"
        extrapolates = self.rates is not None and self.rates.goes_beyond(levels)
        return (
            "cost model, and how acceptance goes on beyond what is known"
            if extrapolates
            else "cost model alone"
        )

    @property
    def trained_layers(self) -> int | None:
        """Layers that a draft pass ran where it was recorded; None where the recording does not
        tell.
        """
        parameters = (
            self.trace.provenance.extra.get("parameters") if self.trace is not None else None
        )
        stated = parameters if isinstance(parameters, Mapping) else {}
        layers = stated.get("exit_layer", stated.get("draft_layers"))
        return layers if isinstance(layers, int) else None

    def asked_on(self, model: str) -> Source:
        """The same source for a question about a target."""
        if self.trace is not None:
            return replace(self, borrowed=is_borrowed(self.trace, model))
        if self.kind == "recorded":
            return replace(self, borrowed=not self.model or not same_model(self.model, model))
        return self


def rates_source(
    method: str,
    rates: Sequence[float],
    *,
    match_rate: float | None = None,
    known_tokens: int | None = None,
) -> Source:
    """Stated acceptance: one rate per token given those before it, or unconditional rates by
    position.

    Args:
        method: slug.
        rates: one rate, the geometric law; or the share of steps in which position 1, 2, .. was
            accepted.
        match_rate: share of steps with a proposal.
        known_tokens: draft tokens up to which they are known; None: as many as there are, of one
            rate any.

    Raises:
        InputError: rates outside [0, 1], or that increase.
    """
    measured = known_tokens or (len(rates) if len(rates) > 1 else None)
    depth_rates = DepthRates(
        by_depth=tuple(rates),
        measured=measured,
        proposal_ratio=proposal_share(method, match_rate),
        drafted_by=load_method(method).goes_on_as,
    )
    return Source(method=method, kind="stated", rates=depth_rates, about=_words(rates))


def length_source(
    method: str,
    tokens_per_step: float,
    lengths: Sequence[int] = (),
    *,
    match_rate: float | None = None,
) -> Source:
    """Stated tokens per step at the longest of some draft lengths; without any, of the method's own
    shape.

    Args:
        method: slug.
        tokens_per_step: emitted over all steps, the bonus token counted.
        lengths: draft tokens K; zeros do not count.
        match_rate: share of steps with a proposal.

    Raises:
        InputError: fewer tokens than 1, or more than can be emitted.
    """
    entry, share = load_method(method), proposal_share(method, match_rate)
    about = f"{tokens_per_step:g} tokens per step"
    at = max(lengths, default=0)
    if not entry.has_own_pace and not at and entry.shape.kind in ("chain", "window"):
        at = entry.shape.nodes
    if not at or entry.has_own_pace or entry.shape.kind == "state_trees":
        return Source(
            method=method, kind="stated", own_tokens_per_step=tokens_per_step, about=about
        )
    depth_rates = replace(
        length_rates(tokens_per_step, at, match_rate=share), drafted_by=entry.goes_on_as
    )
    return Source(method=method, kind="stated", rates=depth_rates, about=f"{about} at K={at}")


def entry_source(method: str, model: str) -> Source:
    """Tokens per step that the method's own entry holds: those of one published run, whatever the
    target that is asked about.

    Args:
        method: slug of a method that sets its own pace.
        model: target; empty: unknown.

    Example:
        >>> entry_source("fast-dllm", "dream-7b").about
        'borrowed, published of llada-8b: 2.77 tokens a step, GSM8K-CoT, d3LLM, AUP leaderboard'
    """
    entry = load_method(method)
    pace = own_pace(entry).tokens_per_step
    figures = [figure for figure in entry.reported if figure.tokens_per_step is not None]
    figure = next((figure for figure in figures if figure.tokens_per_step == pace), None)
    whose = "" if figure is None else figure.model
    borrowed = bool(model and whose) and not same_model(whose, model)
    about = (
        f"{'borrowed, ' * borrowed}published{f' of {whose}' * bool(whose)}: {pace:g} tokens a step"
    )
    if figure is not None:
        about = ", ".join(filter(None, (about, figure.data, figure.source)))
    else:
        known = next((text for text in entry.assumed if text.startswith(_PACE_FIELDS)), "")
        about += f", assumed ({known.partition(': ')[2]})" if known else ""
    if borrowed and (own := [f for f in figures if same_model(f.model, model)]):
        about += f"; of {model} {own[0].tokens_per_step:g} was published"
    return Source(
        method=method,
        kind="published",
        own_tokens_per_step=pace,
        about=about,
        model=whose,
        borrowed=borrowed,
    )


def confidence_source(
    path: Path, method: str, *, refine: RefinePolicy | None = None, canvas_tokens: int | None = None
) -> Source:
    """Tokens per pass of a method that refines masked blocks, replayed on a confidence trace.

    Args:
        path: of the trace.
        method: slug.
        refine: the policy to replay; None: the entry's own.
        canvas_tokens: that passes compute where they are costed; None: the recorded canvas.

    Raises:
        InputError: no confidence trace, or one that cannot answer for the method.
    """
    from traces.storage.confidence_file import read_confidence

    if not method:
        raise InputError("must be stated for a confidence trace", key="method", value=path.name)
    policy = refine or method_policy(load_method(method))
    trace = read_confidence(path)
    replay = replayed_refining(load_method(method), trace, policy)
    low, high = replay.tokens_per_step_interval
    about = f"{replay.tokens_per_step:.3g} tokens per pass ({replay.how}, {low:.3g} to {high:.3g})"
    if replay.is_beyond_anchors:
        about += f", beyond the boldest recorded policy ({replay.boldest:.3g})"
    if words := replay.agreement.words:
        about += f", {words}"
    return Source(
        method=method,
        kind="recorded",
        own_tokens_per_step=replay.tokens_per_step,
        own_tokens_interval=replay.tokens_per_step_interval,
        about=f"{about}, by {policy.name}: {trace_name(path)}",
        path=path,
        model=trace.provenance.model,
        refine=policy,
        canvas_tokens=canvas_tokens or trace.canvas_tokens,
    )


def prompts_sources(recorded: Sequence[RecordedPrompts], method: str) -> list[Source]:
    """A method that refines masked blocks, on the recorded prompts of each cache.

    Args:
        recorded: prompts by cache.
        method: slug.
    """
    return [
        Source(
            method=method,
            kind="recorded",
            prompts=prompts,
            path=Path(prompts.files[0]) if len(prompts.files) == 1 else None,
            about=f"{len(prompts.anchors.prompts)} prompts recorded with cache {prompts.cache}",
        )
        for prompts in recorded
    ]


def policy_source(
    method: str,
    refine: RefinePolicy,
    tokens_per_step: float | None = None,
    *,
    canvas_tokens: int | None = None,
    model: str = "",
) -> Source:
    """Tokens per pass of a policy without a recording: stated, or those of a rule that commits by
    number alone.

    Args:
        method: slug.
        refine: the policy.
        tokens_per_step: as stated; None: nothing is.
        canvas_tokens: that passes compute; None: the entry's canvas.
        model: target, for what was published of the method's own policy.

    Raises:
        InputError: a rule that depends on confidence, which nothing tells.
    """
    entry = refined_method(load_method(method), refine, canvas_tokens=canvas_tokens)
    if tokens_per_step is None and not refine.rule.by_count:
        if refine != method_policy(load_method(method)):
            rule = (
                "commits by confidence: give a confidence trace (--trace), or state"
                " --tokens-per-step"
            )
            raise InputError(rule, key="commit", value=refine.name)
        source = entry_source(method, model)
        return replace(source, refine=refine, canvas_tokens=canvas_tokens)
    tokens = refine_of(entry).tokens_per_pass if tokens_per_step is None else tokens_per_step
    return Source(
        method=method,
        kind="stated",
        own_tokens_per_step=tokens,
        about=f"{tokens:g} tokens per pass, by {refine.name}",
        refine=refine,
        canvas_tokens=canvas_tokens,
    )


def means_source(
    method: str, means: Mapping[int, float], *, match_rate: float | None = None
) -> Source:
    """Stated tokens per step of chains of several lengths.

    Args:
        method: slug.
        means: emitted over all steps, the bonus token counted, by draft tokens K >= 1.
        match_rate: share of steps with a proposal.

    Raises:
        InputError: tokens that no chain of that length emits.
    """
    depth_rates = means_rates(means, match_rate=proposal_share(method, match_rate))
    depth_rates = replace(depth_rates, drafted_by=load_method(method).goes_on_as)
    about = ", ".join(
        f"{mean:g} at K={draft_tokens}" for draft_tokens, mean in sorted(means.items())
    )
    return Source(method=method, kind="stated", rates=depth_rates, about=f"tokens per step {about}")


def trace_source(
    path: Path,
    method: str = "",
    match_rate: float | None = None,
    *,
    lengths: Sequence[int] = (),
    otherwise: str = "",
    override: bool = False,
) -> Source:
    """A recording, or an engine's counters.

    Args:
        path: of a trace of any level.
        method: slug that is asked about; empty: the trace's own. It must draft as the trace's own
            method does.
        match_rate: share of steps with a proposal, where the trace does not tell.
        lengths: draft lengths asked about: a mean that was counted without one is that of the
            longest.
        otherwise: slug for a trace that names no method; empty: one must be named.
        override: take `method` whatever the trace was recorded with.

    Raises:
        InputError: no method is named, a method that drafts otherwise, or a trace without
            acceptance.
    """
    trace = read_trace(path)
    recorded_with = trace.provenance.method
    if recorded_with and not override:
        own = method_of(recorded_with)
        if method and not drafts_alike(method, own):
            raise InputError(
                f"the trace was recorded with {own}, which drafts in another way than {method}; to"
                f" take its acceptance for {method} all the same, write --drafter {method}:{path}",
                file=path,
                key="method",
                value=method,
            )
        method = method or own
    slug = method or otherwise
    if not slug:
        raise InputError("the trace names no method; pass --method", file=path, key="method")
    refine = load_method(slug).refine
    if refine is not None and refine.commit == "fixed_point" and trace.level >= 1:
        return _window_source(path, slug, trace)
    if not load_method(slug).drafts:
        rule = (
            "drafts nothing, so that a recording does not tell its pace; `rooftree predict --method"
            f" {slug}` answers"
        )
        raise InputError(rule, key="method", value=slug)
    model = trace.provenance.model
    if trace.level >= 1:
        replayed = with_match_rate(trace, slug, match_rate)
        return Source(method=slug, kind="recorded", trace=replayed, path=path, model=model)
    return replace(counted_source(trace, slug, match_rate, lengths=lengths, file=path), path=path)


def _window_source(path: Path, slug: str, trace: AcceptanceTrace) -> Source:
    """Tokens per pass of a window that is corrected until nothing changes, as its passes were
    recorded.
    """
    longest = int(np.max([1, *(trace.drafted if trace.drafted is not None else ())]))
    tokens = replay_chain(trace, longest).tokens_per_step
    window, priced = longest + 1, refine_of(load_method(slug)).canvas_tokens
    about = f"{tokens:.4g} tokens per pass of windows of up to {window}"
    if window != priced:
        about += f" (passes of {priced} are priced)"
    return Source(
        method=slug,
        kind="recorded",
        own_tokens_per_step=tokens,
        about=f"{about}: {trace_name(path)}",
        path=path,
        model=trace.provenance.model,
    )


def counted_source(
    trace: AcceptanceTrace,
    slug: str,
    match_rate: float | None = None,
    *,
    lengths: Sequence[int] = (),
    file: Path | None = None,
    about: str = "",
) -> Source:
    """What an engine counted of a drafter.

    Args:
        trace: level 0.
        slug: of the method that drafted.
        match_rate: as in `trace_source`.
        lengths: as in `trace_source`.
        file: for messages.
        about: where the counters come from.

    Raises:
        InputError: a trace without acceptance.
    """
    assert trace.summary is not None
    model = trace.provenance.model
    if holds_own_draft(load_method(slug), trace):
        own = own_draft(load_method(slug), trace, None).tokens_per_step
        return Source(
            method=slug,
            kind="counted",
            trace=trace,
            own_tokens_per_step=own,
            about=about or f"{own:.4g} tokens per step of its own tree",
            model=model,
        )
    share, remark = proposal_share(slug, match_rate), assumed_share(slug, match_rate)
    rates, mean, longest = (
        counted_rates(trace.summary, match_rate=share),
        trace.summary.tokens_per_step,
        max(lengths, default=0),
    )
    if rates is None and mean is not None and longest:
        rates = length_rates(1.0 + share * (mean - 1.0), longest, match_rate=share)
        remark = "; ".join(
            part
            for part in (
                f"the mean was counted without a draft length, taken to be K={longest}",
                remark,
            )
            if part
        )
    if rates is None:
        counted = (
            "no acceptance"
            if mean is None
            else f"a mean of {mean:.3g} tokens per step and no draft length"
        )
        rule = (
            f"holds {counted}; give --draft-tokens, or state what is known:"
            f" {FORMS.replace('eagle-3', slug)}"
        )
        raise InputError(rule, file=file, key="summary")
    rates = replace(rates, remark=remark, drafted_by=load_method(slug).goes_on_as)
    return Source(method=slug, kind="counted", trace=trace, rates=rates, about=about, model=model)


def configured_source(chosen: DecodingConfiguration) -> Source | None:
    """Where a configuration's acceptance is known from; None where it names nothing.

    Args:
        chosen: its trace goes before rates, and those before tokens per step; its method is taken
            as it stands.

    Raises:
        InputError: a trace that cannot be read, or that holds no acceptance.
    """
    if chosen.trace is not None and is_confidence(trace_file(chosen.trace)):
        canvas = chosen.canvas_tokens
        return confidence_source(
            trace_file(chosen.trace), chosen.method, refine=chosen.refine, canvas_tokens=canvas
        )
    if chosen.trace is not None:
        lengths = () if chosen.shape is not None else (chosen.draft_tokens,)
        source = trace_source(
            trace_file(chosen.trace),
            chosen.method,
            chosen.match_rate,
            lengths=lengths,
            override=True,
        )
        return source.asked_on(chosen.deployment.model)
    if chosen.refine is not None:
        canvas = chosen.canvas_tokens
        return policy_source(
            chosen.method,
            chosen.refine,
            chosen.tokens_per_step,
            canvas_tokens=canvas,
            model=chosen.deployment.model,
        )
    about = str(chosen.provenance.get("acceptance") or "")
    if chosen.acceptance_by_depth:
        source = rates_source(
            chosen.method,
            chosen.acceptance_by_depth,
            match_rate=chosen.match_rate,
            known_tokens=chosen.known_tokens,
        )
        return replace(source, about=about or source.about)
    if chosen.tokens_per_step is not None:
        lengths = () if chosen.shape is not None else (chosen.draft_tokens,)
        return length_source(
            chosen.method, chosen.tokens_per_step, lengths, match_rate=chosen.match_rate
        )
    return None


def _words(rates: Sequence[float]) -> str:
    listed = ", ".join(f"{rate:.3g}" for rate in rates[:8]) + (", .." if len(rates) > 8 else "")
    return f"rate {listed} of one token" if len(rates) == 1 else f"rates {listed} by position"
