"""Which chains of a drafter can a schedule name, and how sure is it that one is faster than
another?

Leaves out the schedule (`costmodel.optimizers.schedule`) and the search that asks for it.
"""

from functools import cache

import numpy as np

from costmodel.answers.estimate import step_cost
from costmodel.answers.uncertainty import draw_steps, interval, paired
from costmodel.optimizers.allowed import Contender
from costmodel.optimizers.schedule import Doubt


def chains_of(contender: Contender) -> list[int]:
    """Places of the candidates that a schedule by batch can name: nothing drafted, and chains of
    one length, shortest first.
    """
    lengths = {
        i: a.draft_tokens
        for i, a in enumerate(contender.candidates)
        if a.topology in ("off", "chain") and a.lengths is None
    }
    return sorted(lengths, key=lambda i: lengths[i])


def gain_doubt(contender: Contender, context: int) -> Doubt:
    """How sure the gain of one chain of a drafter over another is: half width of its 80 % interval,
    in logarithms.

    Args:
        contender: with its candidates.
        context: cached tokens per request.
    """
    chains = {
        contender.candidates[i].draft_tokens: contender.candidates[i] for i in chains_of(contender)
    }
    setting = contender.setting

    @cache
    def doubt(batch: int, draft_tokens: int, other: int) -> float:
        one, two = chains[draft_tokens], chains[other]
        drawn = draw_steps(
            step_cost(setting, one, batch=batch, context=context),
            step_cost(setting, two, batch=batch, context=context),
            setting.device.constants.residual_ratio,
            setting.overhead,
            generator=np.random.default_rng(0),
        )
        gains = np.log(drawn.plain_s[:, 0] / drawn.step_s[:, 0])
        emitted = [chain.samples for chain in (one, two)]
        if emitted[0].size and emitted[0].size == emitted[1].size:
            tokens = np.log(emitted[1] / emitted[0])
            gains = gains + paired(tokens, len(gains), np.random.default_rng(0))
        low, high = interval(gains)
        return float(high - low) / 2.0

    return doubt
