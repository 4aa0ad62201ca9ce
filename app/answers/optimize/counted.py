"""What do an engine's counters say of its draft length, for `optimize --metrics`?"""

from collections.abc import Sequence

import numpy as np

from app.answers.optimize.counted_rows import (
    CountedInUse,
    CountedLength,
    CountedVerdict,
    Counters,
    NextRunRow,
)
from costmodel.answers.workload import Limits
from costmodel.optimizers.allowed import Contender
from costmodel.optimizers.candidates.usual_shapes import CHAIN_LENGTHS, NGRAM_LENGTHS
from costmodel.optimizers.counted import next_run
from costmodel.optimizers.counted.lengths import KnownLength, known_lengths
from costmodel.optimizers.counted.verdict import TOLERANCE_RATIO, Verdict, verdicts
from costmodel.optimizers.recommend import Recommendation
from traces.importers.engines.running import Running

FURTHER = 4  # lengths beyond the one in use that are judged at least


def counted_answer(
    answer: Recommendation,
    running: Running,
    limits: Limits,
    seed: int,
    remarks: Sequence[str] = (),
) -> Counters:
    """Whether what runs should be changed, whether counts suffice to say so, and what to measure
    next.

    Args:
        answer: whose first drafter is that of the counters.
        running: what the engine ran.
        limits: latency limits.
        seed: of the draws.
        remarks: what was taken from the engine and what was assumed.
    """
    contender, source = answer.contenders[0], answer.sources[0]
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
    contexts = sorted({cell.winner.context for cell in answer.optimum.cells})
    now = None if running.batch is None else max(round(running.batch), 1)
    judged = verdicts(
        contender,
        source,
        lengths,
        in_use,
        batches=sorted({*grid, *([] if now is None else [now])}),
        contexts=contexts,
        limits=limits,
        generator=generator,
    )
    matter = [v for v in judged if now is None or v.batch == now] or judged
    return Counters(
        engine=running.engine,
        scrapes=list(running.files),
        of_log=running.is_log,
        model=running.trace.provenance.model,
        method=source.method,
        in_use=_in_use(running, lengths[used], in_use, matter),
        lengths=[_length(length) for length in lengths],
        verdicts=[_verdict(verdict, now) for verdict in judged],
        suffices=all(verdict.suffices for verdict in judged),
        suffices_now=all(verdict.suffices for verdict in matter),
        tolerance_ratio=TOLERANCE_RATIO,
        next=[
            _next(run)
            for run in next_run.next_runs(
                source.entry, source.rates, running.summary, lengths, matter
            )
        ],
        notes=running.trace.provenance.notes,
        remarks=[*remarks, *_not_believed(contender, judged, now)],
    )


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
