"""What does a choice lose that knows less of a recording than the recording holds?

The draft is chosen three times: by the recording, by its rates by depth alone, and by its mean alone,
as engines and papers publish them. Each choice then runs on the recording. Leaves out requests that
were not recorded: what holds on others, `costmodel.optimizers.held_out` asks.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from costmodel.answers.chains import step_seconds
from costmodel.answers.fit import fits
from costmodel.answers.steps.setting import Setting
from costmodel.draft_shape import DraftShape, chain, shape_of
from costmodel.laws.acceptance import Acceptance, DepthRates, drawn_lengths, law_for
from costmodel.laws.own_draft import own_draft
from costmodel.optimizers.candidates.asked_shapes import shape_acceptances
from costmodel.optimizers.candidates.usual_shapes import usual_shapes
from costmodel.optimizers.drafters.sources import Source, length_source
from costmodel.passes.ops import Array
from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace
from traces.replay.statistics import acceptance_by_depth

MEAN_LENGTH = 5
"""Draft tokens at which the mean of a recording is taken that tells of many lengths."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownDrafts:
    """What is compared of a drafter where so much of it is known.

    Args:
        knows: `trace`, `rates` or `mean`.
        accepted: drafts with what they emit by what is known, plain decoding first.
    """

    knows: str
    accepted: Sequence[Acceptance]


@dataclass(frozen=True, kw_only=True, slots=True)
class LessKnown:
    """What a choice runs at one batch, and what that loses.

    Args:
        knows: as in `KnownDrafts`.
        chosen: the draft that was chosen.
        run: what it runs on the recording: itself, or where one draft alone was recorded that one.
        tokens_per_s: of the batch, as the recording says.
        lost_ratio: share of the tokens per second of the recording's own choice that it loses.
    """

    knows: str
    chosen: DraftShape
    run: DraftShape
    tokens_per_s: float
    lost_ratio: float


def known_drafts(source: Source, *, seed: int = 0) -> list[KnownDrafts]:
    """The drafts that are compared by a recording, by its rates by depth, and by its mean.

    The mean of a recording is that of chains of `MEAN_LENGTH`, or of the deepest that it holds; of
    one draft alone it is taken for a chain of as many levels, as nothing else is said. Rates are
    those under the longest chain; counts of a tree tell none.

    Args:
        source: a recording of one drafter.
        seed: of the bootstrap and the split of the requests.

    Raises:
        InputError: numbers in place of recorded steps, or a drafter of which no chain is compared.
    """
    if source.positions is None and source.own_draft is None:
        rule = "needs recorded steps, of which mean and rates are taken"
        raise InputError(rule, key="trace", value=source.reference)
    generator = np.random.default_rng(seed)
    recorded = shape_acceptances(source, usual_shapes(source), generator=generator)
    if source.own_draft is None and all(draft.topology != "chain" for draft in recorded):
        rule = "drafts no chains, of which means and rates are known"
        raise InputError(rule, key="method", value=source.method)
    known = [KnownDrafts(knows="trace", accepted=recorded)]
    rates = _rates(source, recorded, generator)
    for knows, less in (("rates", rates), ("mean", _mean(source, recorded))):
        if less is not None:
            shapes = usual_shapes(less)
            accepted = shape_acceptances(less, shapes, generator=generator)
            known.append(KnownDrafts(knows=knows, accepted=accepted))
    return known


def less_known(
    known: Sequence[KnownDrafts], setting: Setting, *, batches: Sequence[int], context: int
) -> dict[int, list[LessKnown]]:
    """What each choice runs at every batch, and what that loses.

    Args:
        known: of `known_drafts`.
        setting: target, device, drafter and engine.
        batches: requests that decode together.
        context: cached tokens per request.

    Returns:
        A row for each of `known`, by batch; without the batches that do not fit the device.
    """
    recorded, *_ = known
    speeds = [_tokens_per_s(setting, each.accepted, batches, context) for each in known]
    shapes = [str(shape_of(accepted)) for accepted in recorded.accepted]
    rows: dict[int, list[LessKnown]] = {}
    for place, batch in enumerate(batches):
        if not speeds[0][0, place] > 0.0:
            continue
        best = speeds[0][:, place].max()
        rows[batch] = []
        for each, speed in zip(known, speeds, strict=True):
            chosen = shape_of(each.accepted[int(speed[:, place].argmax())])
            ran = shapes.index(str(chosen)) if str(chosen) in shapes else len(shapes) - 1
            rate = float(speeds[0][ran, place])
            rows[batch].append(
                LessKnown(
                    knows=each.knows,
                    chosen=chosen,
                    run=shape_of(recorded.accepted[ran]),
                    tokens_per_s=rate,
                    lost_ratio=float(1.0 - rate / best),
                )
            )
    return rows


def _tokens_per_s(
    setting: Setting, accepted: Sequence[Acceptance], batches: Sequence[int], context: int
) -> Array:
    """Tokens per second, [drafts, batches]; 0 where a draft does not fit the device."""
    batch = np.array(batches, dtype=np.float64)
    seconds = step_seconds(setting, accepted, batch=batch, context=context)
    emitted = np.array([[draft.tokens_per_step] for draft in accepted])
    able = np.array([fits(setting, draft, batch=batch, context=context) for draft in accepted])
    return np.where(able, batch * emitted / seconds, 0.0)


def _longest_chain(accepted: Sequence[Acceptance]) -> int:
    return max(draft.draft_tokens for draft in accepted if draft.topology == "chain")


def _rates(
    source: Source, recorded: Sequence[Acceptance], generator: np.random.Generator
) -> Source | None:
    """The drafter as its rates by depth tell it; None where the recording holds none."""
    if (own := source.own_draft) is not None:
        rates = () if own.summary is None else own.summary.acceptance_by_depth
    else:
        longest = _longest_chain(recorded)
        counted = _as_counted(source, longest, generator)
        rates = tuple(acceptance_by_depth(counted, longest).tolist())
    if not rates:
        return None
    by_depth = DepthRates(by_depth=rates, measured=len(rates), drafted_by=source.entry.goes_on_as)
    return Source(method=source.method, kind="stated", rates=by_depth)


def _as_counted(
    source: Source, draft_tokens: int, generator: np.random.Generator
) -> AcceptanceTrace:
    """The recording with the lengths that its verifier keeps of chains of K, one draw of each where
    it draws.
    """
    trace = source.positions
    assert trace is not None
    verify = source.entry.verify
    law = law_for(trace, verify.rule, [draft_tokens], at=verify.at)
    if law.by_matching:
        return trace
    emitted = drawn_lengths(trace, law, draft_tokens, generator)
    return AcceptanceTrace(
        offsets=trace.offsets,
        first_step_position=trace.first_step_position,
        emitted=emitted.astype(np.int16),
        drafted=trace.drafted,
    )


def _mean(source: Source, recorded: Sequence[Acceptance]) -> Source:
    """The drafter as one mean tells it."""
    if (own := source.own_draft) is not None:
        draft = own_draft(source.entry, own, None)
        levels = draft.levels if draft.tree is not None else source.entry.shape.depth
        return length_source(source.method, draft.tokens_per_step, [levels])
    length = min(MEAN_LENGTH, _longest_chain(recorded))
    same = next(a for a in recorded if str(shape_of(a)) == str(chain(length)))
    return length_source(source.method, same.tokens_per_step, [length])
