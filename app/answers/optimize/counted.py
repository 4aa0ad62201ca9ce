"""What do an engine's counters say of its draft length, for `optimize --metrics`?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from app.answers.optimize.counted_flags import flags_rows
from app.answers.optimize.counted_rows import (
    AdapterRow,
    ComparedLength,
    CountedInUse,
    CountedLength,
    CountedVerdict,
    Counters,
    NextRunRow,
)
from app.answers.optimize.counted_words import verdict_sentences
from costmodel.answers.workload import Limits
from costmodel.optimizers.allowed import Contender
from costmodel.optimizers.candidates.usual_shapes import CHAIN_LENGTHS, NGRAM_LENGTHS
from costmodel.optimizers.counted import next_run
from costmodel.optimizers.counted.lengths import KnownLength, known_lengths
from costmodel.optimizers.counted.verdict import TOLERANCE_RATIO, Verdict, verdicts
from costmodel.optimizers.drafters.sources import Source
from costmodel.optimizers.recommend import Recommendation
from traces.importers.engines.ran import Running

_OF_ADAPTERS = (  # what a row of an adapter says as a verdict does
    *("batch", "context", "in_use_draft_tokens", "best_draft_tokens", "gain_ratio"),
    *("gain_ratio_interval", "answer", "suffices"),
)
FURTHER = 4  # lengths beyond the one in use that are judged at least


@dataclass(frozen=True, kw_only=True, slots=True)
class _Judged:
    """What is known of draft lengths, and what to do at every batch and context.

    Attributes:
        used: longest length that runs.
        in_use: the one that is compared: the mean where lengths are mixed.
        lengths: what is known of each, from 0 on.
        verdicts: at every batch and context.
        now: requests of a step; None where that is not told.
    """

    used: int
    in_use: int
    lengths: Sequence[KnownLength]
    verdicts: Sequence[Verdict]
    now: int | None

    @property
    def matter(self) -> Sequence[Verdict]:
        """Verdicts where the engine runs, or all of them where that is not told."""
        return [v for v in self.verdicts if self.now is None or v.batch == self.now] or (
            self.verdicts
        )


def counted_answer(
    answer: Recommendation,
    running: Running,
    limits: Limits,
    seed: int,
    remarks: Sequence[str] = (),
    adapters: Mapping[str, tuple[Running, Source]] | None = None,
) -> Counters:
    """Whether what runs should be changed, whether counts suffice to say so, and what to measure
    next.

    Args:
        answer: whose first drafter is that of the counters.
        running: what the engine ran.
        limits: latency limits.
        seed: of the draws.
        remarks: what was taken from the engine and what was assumed.
        adapters: what it ran for every adapter, with its acceptance, by name; None: nothing tells.
    """
    contender, source = answer.contenders[0], answer.sources[0]
    judged = _judged(answer, running, source, limits, seed)
    rates = source.rates
    assert rates is not None
    rows = [_verdict(verdict, judged.now) for verdict in judged.verdicts]
    here = [row for row in rows if row.runs_now] or rows
    following = [
        _next(run)
        for run in next_run.next_runs(
            source.entry, rates, running.summary, judged.lengths, judged.matter
        )
    ]
    flags, why_none = flags_rows(contender.configuration, running, here, following)
    return Counters(
        engine=running.engine,
        scrapes=list(running.files),
        reported_by=running.reported_by,
        model=running.trace.provenance.model,
        method=source.method,
        in_use=_in_use(running, judged.lengths[judged.used], judged.in_use, judged.matter),
        lengths=[_length(length) for length in judged.lengths],
        verdicts=rows,
        suffices=all(verdict.suffices for verdict in judged.verdicts),
        suffices_now=all(verdict.suffices for verdict in judged.matter),
        tolerance_ratio=TOLERANCE_RATIO,
        headline=verdict_sentences(here)[0],
        compared=_compared(here, judged.lengths),
        next=following,
        flags=flags,
        notes=running.trace.provenance.notes,
        adapters=[
            row
            for name, (own, accepted) in (adapters or {}).items()
            for row in _adapter_rows(name, _judged(answer, own, accepted, limits, seed), own)
        ],
        remarks=[*remarks, *_not_believed(contender, judged.verdicts, judged.now), *why_none],
    )


def _judged(
    answer: Recommendation, running: Running, source: Source, limits: Limits, seed: int
) -> _Judged:
    """Every length of a drafter where the question asks, and where the engine runs."""
    assert source.rates is not None
    used = running.draft_tokens or source.rates.measured or len(source.rates.by_depth)
    usual = NGRAM_LENGTHS if source.entry.may_propose_nothing else CHAIN_LENGTHS
    generator = np.random.default_rng(seed)
    lengths = known_lengths(
        source.entry,
        source.rates,
        running.summary,
        longest=max(*usual, used + FURTHER),
        generator=generator,
    )
    in_use = used if running.mean_draft_tokens is None else max(round(running.mean_draft_tokens), 1)
    grid = sorted({cell.winner.batch for cell in answer.optimum.cells})
    now = None if running.batch is None else max(round(running.batch), 1)
    judged = verdicts(
        answer.contenders[0],
        source,
        lengths,
        in_use,
        batches=sorted({*grid, *([] if now is None else [now])}),
        contexts=sorted({cell.winner.context for cell in answer.optimum.cells}),
        limits=limits,
        generator=generator,
    )
    return _Judged(used=used, in_use=in_use, lengths=lengths, verdicts=judged, now=now)


def _adapter_rows(name: str, judged: _Judged, running: Running) -> list[AdapterRow]:
    """What is best for an adapter, at every batch and context."""
    rows = [_verdict(verdict, judged.now) for verdict in judged.verdicts]
    length = judged.lengths[judged.used]
    return [
        AdapterRow(
            adapter=name,
            steps=running.summary.drafts,
            tokens_per_step=length.tokens_per_step,
            tokens_per_step_interval=length.interval,
            **{shared: getattr(row, shared) for shared in _OF_ADAPTERS},
        )
        for row in rows
    ]


def _not_believed(
    contender: Contender, judged: Sequence[Verdict], now: int | None
) -> Sequence[str]:
    """That what runs cannot run where the question places it, if that is so."""
    at_now = [verdict for verdict in judged if verdict.batch == now]
    if now is None or any(verdict.in_use_tokens_per_s for verdict in at_now):
        return []
    where = contender.configuration.deployment
    return [
        f"{now:,} requests a step do not fit on {where.tensor_parallel} x {where.device} as asked, so"
        " the engine runs otherwise and no verdict is about it: state its --device, --tp, --dtype"
        " and --context"
    ]


def _in_use(
    running: Running, length: KnownLength, compared: int, matter: Sequence[Verdict]
) -> CountedInUse:
    """What runs now, as counted, and what is predicted for it where it runs."""
    at = matter[0] if len({verdict.batch for verdict in matter}) == 1 else None
    predicted = at.in_use_tokens_per_s if at is not None else 0.0
    return CountedInUse(
        draft_tokens=running.draft_tokens,
        mean_draft_tokens=running.mean_draft_tokens,
        mixed=running.is_mixed,
        compared_draft_tokens=compared,
        steps=running.summary.drafts,
        accepted_tokens=running.summary.accepted_tokens,
        tokens_per_step=length.tokens_per_step,
        tokens_per_step_interval=length.interval,
        proposal_ratio=running.proposal_ratio,
        batch=running.batch,
        batch_from=running.batch_from or None,
        prompt_tokens=running.prompt_tokens,
        output_tokens=running.output_tokens,
        tpot_s=running.tpot_s,
        predicted_tpot_s=at.batch / predicted if at is not None and predicted else None,
    )


def _compared(
    here: Sequence[CountedVerdict], lengths: Sequence[KnownLength]
) -> list[ComparedLength]:
    """What runs beside the best length that is known, where that gains most of what is answered."""
    order = {"change": 2, "unsure": 1, "keep": 0}
    first = max(here, key=lambda row: (order[row.answer], row.gain_ratio or 0.0))
    shown = [("runs now", first.in_use_draft_tokens, first.in_use_tokens_per_s)]
    if first.answer != "keep":
        shown.append(("should run", first.best_draft_tokens, first.best_tokens_per_s))
    return [
        ComparedLength(
            which=which,
            batch=first.batch,
            context=first.context,
            draft_tokens=draft_tokens,
            tokens_per_step=lengths[draft_tokens].tokens_per_step,
            tokens_per_step_interval=lengths[draft_tokens].interval,
            tokens_per_s=tokens_per_s,
        )
        for which, draft_tokens, tokens_per_s in shown
    ]


def _length(length: KnownLength) -> CountedLength:
    return CountedLength(
        draft_tokens=length.draft_tokens,
        how=length.how,
        tokens_per_step=length.tokens_per_step,
        tokens_per_step_interval=length.interval,
        least_tokens_per_step=length.least,
        most_tokens_per_step=length.most,
    )


def _verdict(verdict: Verdict, now: int | None) -> CountedVerdict:
    finite = np.isfinite(verdict.gain_ratio)
    return CountedVerdict(
        batch=verdict.batch,
        context=verdict.context,
        # where what runs cannot run, the question is not about this engine
        answer=verdict.answer if verdict.in_use_tokens_per_s or verdict.batch != now else "unsure",
        suffices=verdict.suffices,
        in_use_draft_tokens=verdict.in_use,
        in_use_tokens_per_s=verdict.in_use_tokens_per_s or None,
        best_draft_tokens=verdict.best,
        best_tokens_per_s=verdict.best_tokens_per_s,
        gain_ratio=verdict.gain_ratio if finite else None,
        gain_ratio_interval=verdict.gain_interval if finite else None,
        gain_ratio_interval_of_counts=verdict.gain_interval_of_counts if finite else None,
        faster_probability=verdict.faster_probability,
        counts_loss_ratio=verdict.counts_loss_ratio,
        unknown_draft_tokens=verdict.unknown,
        unknown_gain_ratio=verdict.unknown_gain_ratio,
        law_best_draft_tokens=verdict.law_best,
        law_gain_ratio=verdict.law_gain_ratio,
        runs_now=verdict.batch == now,
    )


def _next(run: next_run.NextRun) -> NextRunRow:
    return NextRunRow(
        draft_tokens=run.draft_tokens,
        steps=run.steps,
        batch=run.batch,
        context=run.context,
        reason=run.reason,
        could_gain_ratio=run.could_gain_ratio,
        law_gain_ratio=run.law_gain_ratio,
        interval_ratio=run.interval_ratio,
    )
