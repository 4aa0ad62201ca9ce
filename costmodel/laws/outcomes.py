"""What does a chain emit whose drafts are made during verification, for several outcomes of it?

The recorded text is decoded again, and every outcome compared with those that were drafted for.
Leaves out stated rates (`costmodel.laws.batching.long_run`) and cost.

Reference: Kumar, Dao, May 2026, "Speculative Speculative Decoding" (arXiv:2603.03251).
"""

from dataclasses import replace

from costmodel.laws.acceptance import MATCHING, Acceptance, Law, from_replay
from costmodel.method import Batch
from traces.kinds.acceptance import AcceptanceTrace
from traces.replay.bootstrap import RequestDraws
from traces.replay.outcomes import replay_outcomes


def outcome_chain(
    trace: AcceptanceTrace,
    draft_tokens: int,
    batch: Batch,
    draws: RequestDraws | None,
    law: Law = MATCHING,
) -> Acceptance:
    """Acceptance of chains of K tokens that are drafted for outcomes.

    Args:
        trace: level 2.
        draft_tokens: K >= 1.
        batch: with a fan-out.
        draws: of the requests; None: no samples.
        law: how drafts are verified; outcomes are replayed by matching, and say so.

    Raises:
        InputError: no ranks, or fewer than the fan-out asks for.
    """
    outcomes = replay_outcomes(trace, draft_tokens, batch.fan_out, waits=batch.on_miss == "wait")
    note = ""
    if not law.by_matching:
        note = f"{law.rule} is not replayed for outcomes; candidates are matched instead"
    emitted = from_replay(outcomes.replay, draws, note=note)
    return replace(emitted, foreseen_ratio=outcomes.foreseen_ratio)
