"""Which recording do requests walk along where a scenario drafts, and how do steps verify it?

The method's name and the source of its acceptance become records here, once; the scheduler's
options of speculation are made of these. Leaves out what a step drafts
(`simulator.scenario.drafted`) and masked blocks (`simulator.scenario.refined`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from costmodel.answers.estimate import Setting
from costmodel.answers.settings import stated_method
from costmodel.drafters.checkpoint import lacking_layers
from costmodel.laws.acceptance import (
    ASSUMED_SIBLINGS,
    MATCHING,
    drawn_ranks,
    drawn_recording,
    drawn_tokens,
    law_for,
    length_rates,
    rank_rate,
)
from costmodel.laws.claims import step_rates
from costmodel.laws.controllers import EMA_WEIGHT
from costmodel.laws.own_draft import own_draft
from costmodel.method import Batch, Method
from costmodel.method_library import load_method
from hardware_profiles.errors import InputError
from simulator.loop.options import SpeculationOptions
from simulator.scenario.drafted import drafted
from simulator.scenario.file import ScenarioFile
from simulator.scenario.sections import SpeculationSection
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.tree import Tree
from traces.library import trace_file
from traces.replay.statistics import fitted_acceptance

if TYPE_CHECKING:
    from costmodel.optimizers.drafters.sources import Source

_UNNAMED = "speculative-decoding"
"""The method of a trace, or of stated acceptance, that names none."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Speculated:
    """How a scenario drafts, with its names resolved.

    Args:
        section: as written.
        method: that drafts and verifies.
        source: of its acceptance.
        trace: the recording that requests walk along, as it stands or drawn from numbers.
        notes: what a drawn recording rests on; empty for a recording as it stands.
    """

    section: SpeculationSection
    method: Method
    source: Source
    trace: AcceptanceTrace
    notes: tuple[str, ...]

    def options(self, setting: Setting) -> tuple[SpeculationOptions, tuple[str, ...]]:
        """What the scheduler needs to know, and what has to be said about it.

        Args:
            setting: target, drafter and device, which time draft passes.

        Raises:
            InputError: a method that verifies no drafts by token, or drafts that the recording does
                not hold.
        """
        from simulator.timing.cost_timer import CostModelDraft

        section, method = self.section, self.method
        if method.has_own_pace:
            rule = (
                "verifies no drafts by token; masked blocks need a confidence trace, or are stated"
                " as `blocks`; `rooftree predict` answers for the others"
            )
            raise InputError(rule, key="speculation.method", value=method.slug)
        recorded = self.source.own_draft
        own = None if recorded is None else own_draft(method, recorded, None)
        topology, stop, note = drafted(section, method, self.trace, own)
        law = MATCHING
        if self.source.positions is not None and isinstance(topology, int | Tree):
            law = law_for(self.trace, method.verify.rule, (topology,), at=method.verify.at)
        options = SpeculationOptions(
            topology=topology,
            trace=self.trace,
            law=law,
            draft=CostModelDraft(replace(setting, keeps_drafter=True)),
            schedule=section.schedule,
            stop=stop,
            ema_weight=stop.at if stop.rule in ("ema", "goodput") and stop.at else EMA_WEIGHT,
            batch=_batch(section, method, self.trace),
            group_requests=section.group_requests,
        )
        notes = [text for text in (note, law.remark) if text]
        here = self.source.asked_on(setting.target.name)
        if here.own_draft is not None:
            notes.append(f"acceptance {here.label}: {here.recording_words}")
        elif here.borrowed:
            notes.append("acceptance borrowed: the trace was recorded on another model")
        return options, tuple(notes)


def speculated(written: ScenarioFile) -> Speculated | None:
    """How a scenario drafts; None for plain decoding.

    Args:
        written: the scenario, which names no confidence trace.

    Raises:
        InputError: a method or a trace that does not exist, or numbers that no recording can be
            drawn from.
    """
    section = written.speculation
    if section is None or not section.drafts:
        return None
    source = _source(section)
    method = load_method(source.method)
    if source.positions is not None:
        trace, notes = source.positions, tuple[str, ...]()
    else:
        section, counted = _as_counted(section, method, source)
        trace, notes = _drawn(section, method, source)
        notes = (*notes, *counted)
    brought = section.draft is not None or section.draft_bytes is not None
    lacking = lacking_layers(method.slug, written.deployment.model, brought=brought)
    notes = (lacking, *notes) if lacking else notes
    return Speculated(section=section, method=method, source=source, trace=trace, notes=notes)


def _as_counted(
    section: SpeculationSection, method: Method, source: Source
) -> tuple[SpeculationSection, tuple[str, ...]]:
    """A scenario that says nothing of what a step drafts, with the K that counters or a log tell."""
    stated = (section.draft_tokens, section.shape, section.tree)
    says = any(value is not None for value in stated) or section.schedule
    drafts_chains = source.own_draft is None and method.shape.kind != "state_trees"
    counts = None if source.trace is None else source.trace.summary
    counted = None if counts is None else counts.draft_levels
    if says or not counted or not drafts_chains:
        return section, ()
    note = f"K={counted}, the draft length that was counted, as nothing states another"
    return section.model_copy(update={"draft_tokens": counted}), (note,)


def _source(section: SpeculationSection) -> Source:
    """Where acceptance is known from: a trace, rates by position, or tokens per step."""
    # what optimises is not needed to simulate, and would double the time until a plain scenario
    # starts
    from costmodel.optimizers.drafters.sources import length_source, rates_source, trace_source

    slug = stated_method(section.method, key="speculation.method") if section.method else ""
    if section.trace is not None:
        return trace_source(
            trace_file(section.trace),
            slug,
            section.match_rate,
            lengths=[section.longest_draft],
            otherwise=_UNNAMED,
            override=bool(slug),
        )
    slug = slug or _UNNAMED
    if section.acceptance is not None:
        return rates_source(
            slug,
            section.acceptance,
            match_rate=section.match_rate,
            known_tokens=section.known_tokens,
        )
    assert section.tokens_per_step is not None
    return length_source(
        slug, section.tokens_per_step, [section.longest_draft], match_rate=section.match_rate
    )


def _drawn(
    section: SpeculationSection, method: Method, source: Source
) -> tuple[AcceptanceTrace, tuple[str, ...]]:
    """A recording drawn from numbers, with what it rests on."""
    if source.own_draft is not None:
        return _drawn_own(method, source.own_draft)
    own = method.shape
    longest = section.longest_draft or (own.nodes if own.kind in ("chain", "window") else 0)
    if source.rates is None or not (longest or own.kind == "state_trees"):
        rule = "stated acceptance is simulated for chains; say how many draft tokens"
        raise InputError(rule, key="speculation.draft_tokens", value=section.draft_tokens)
    if own.kind == "state_trees":
        from costmodel.optimizers.candidates.state_candidates import known_vectors

        vectors, assumed = known_vectors(source, own.depth)
        note = (
            f"acceptance {source.reference}: what every step accepts is drawn by itself; {assumed}"
        )
        return drawn_ranks(vectors, generator=np.random.default_rng(0)), (note,)
    if fan_out := method.batch.fan_out:
        rate = fitted_acceptance(source.rates.chain(longest).tokens_per_step, longest)
        vector = [float(rank_rate(rate, rank)) for rank in range(fan_out + 1)]
        drawn = drawn_tokens(vector, generator=np.random.default_rng(0))
        note = (
            f"acceptance {source.reference}: what every token is accepted at is drawn by itself;"
            f" {ASSUMED_SIBLINGS}"
        )
        return drawn, (note,)
    note = (
        f"acceptance {source.reference}: what every step accepts is drawn by itself, as if steps did"
        " not depend on each other"
    )
    remark = source.rates.remark_at(longest)
    rates = step_rates(method, source.rates, longest)
    trace = drawn_recording(rates, longest, generator=np.random.default_rng(0))
    return trace, (note, remark) if remark else (note,)


def _drawn_own(
    method: Method, recorded: AcceptanceTrace
) -> tuple[AcceptanceTrace, tuple[str, ...]]:
    """A recording drawn from the counts of the method's own tree, of which the longest path
    holds what a step keeps.
    """
    own = own_draft(method, recorded, None)
    assert own.tree is not None
    path = max(own.tree.paths(), key=len)
    levels = len(path)
    rates = length_rates(own.tokens_per_step, levels)
    drawn = drawn_recording(rates, levels, generator=np.random.default_rng(0))
    assert drawn.emitted is not None
    kept = np.arange(levels) < drawn.emitted[:, None] - 1
    ranks = np.where(kept, path, -1)
    note = (
        f"{own.tokens_per_step:.4g} tokens per step on average: what every step accepts is drawn by"
        " itself, as if steps did not depend on each other"
    )
    return replace(drawn, rank=ranks, rank_width=max(own.tree.ranks) + 1), (note,)


def _batch(section: SpeculationSection, method: Method, trace: AcceptanceTrace) -> Batch:
    """How requests share steps: as the named policy or the method's entry says, but for what is
    written.
    """
    named = load_method(section.overlap) if section.overlap is not None else method
    batch = replace(named.batch, **section.changed_overlap())
    if section.ragged is not None:
        batch = replace(batch, ragged=section.ragged)
    if trace.level < 3:
        # how sure the drafter was is not recorded: every draft branches
        batch = replace(batch, branch_at=1.0)
    return batch
