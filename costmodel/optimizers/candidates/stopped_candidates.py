"""What do chains emit that end early by a rule?

Leaves out chains that do not and static trees (`costmodel.optimizers.candidates.asked_shapes`).
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from costmodel.answers.estimate import Setting, step_cost
from costmodel.answers.verify_widths import verify_seconds
from costmodel.laws.acceptance import MATCHING, Acceptance, Law, accepted_shares, geometric
from costmodel.laws.controllers import cost_chain, ema_chain, goodput_chain
from costmodel.laws.drafting import stopped_chain
from costmodel.method import WEIGHING, Stop
from costmodel.passes.ops import Array
from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace
from traces.replay.bootstrap import RequestDraws
from traces.replay.calibration import calibrated


def stopped_candidates(
    setting: Setting | None,
    trace: AcceptanceTrace,
    lengths: Sequence[int],
    stop: Stop,
    draws: RequestDraws | None,
    law: Law = MATCHING,
    *,
    batches: Sequence[int],
    contexts: Sequence[int],
) -> list[Acceptance]:
    """Chains of the given most lengths that end by a rule; where a rule weighs seconds, one per
    batch and context.

    Args:
        setting: whose seconds `goodput` and `cost` weigh; None: another rule.
        trace: level 3 for `probability`, `product` and `cost`, which is calibrated by it; 1 for
            other controllers.
        lengths: most draft tokens K >= 1.
        stop: the rule.
        draws: of the requests; None: no samples.
        law: how drafts are verified; controllers are replayed by matching, and say so.
        batches: requests that decode together.
        contexts: cached tokens per request.

    Raises:
        InputError: a rule that no law knows, or more than the recording tells.
    """
    if stop.rule in ("probability", "product"):
        return [stopped_chain(trace, k, stop, draws, law) for k in lengths]
    note = (
        ""
        if law.by_matching
        else f"{law.rule} is not replayed under a controller; candidates are matched instead"
    )
    if stop.rule == "ema":
        return [replace(ema_chain(trace, k, stop, draws), note=note) for k in lengths]
    if stop.rule not in WEIGHING or setting is None:
        raise InputError(
            "must be probability, product, ema, goodput or cost for chains",
            key="stop.rule",
            value=stop.rule,
        )
    shares = accepted_shares(trace, law) if stop.rule == "cost" else None
    calibration = calibrated(trace, shares) if stop.rule == "cost" else None
    candidates = []
    for batch, context, most in product(batches, contexts, lengths):
        if stop.rule == "cost":
            seconds = verify_seconds(setting, most, batch=batch, context=float(context))
            chain = cost_chain(
                trace,
                most,
                stop,
                draws,
                seconds=seconds,
                batch=batch,
                calibration=calibration,
                law=law,
            )
        else:
            seconds = _chain_seconds(setting, most, batch=batch, context=context)
            chain = goodput_chain(trace, most, stop, draws, seconds=seconds, batch=batch)
        if stop.rule == "goodput":
            chain = replace(chain, note=note)
        candidates.append(replace(chain, holds_at=(batch, context)))
    return candidates


def _chain_seconds(setting: Setting, most: int, *, batch: int, context: int) -> Array:
    """Seconds of steps that draft and verify 0, 1, .. tokens per request, [most + 1]."""
    return np.array(
        [
            float(
                step_cost(
                    setting, geometric(0.0, k), batch=float(batch), context=float(context)
                ).total_s
            )
            for k in range(most + 1)
        ]
    )
