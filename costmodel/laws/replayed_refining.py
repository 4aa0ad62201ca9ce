"""How many tokens does a pass commit on recorded prompts, under a method's own commit rule or a
stated one?

Leaves out which policy a method's own rule is (`refined_method`), rules that need more than a
confidence trace holds, and what passes cost (`costmodel.answers.steps.refine_step`).
"""

from collections.abc import Sequence

from costmodel.laws.refined_method import method_policy
from costmodel.method import Method
from traces.kinds.confidence import ConfidenceTrace
from traces.kinds.refine_policy import RefinePolicy
from traces.replay.confidence.walk import RefineReplay, replay_policy


def replayed_refining(
    method: Method,
    traces: ConfidenceTrace | Sequence[ConfidenceTrace],
    policy: RefinePolicy | None = None,
) -> RefineReplay:
    """The prompts of confidence traces, decoded again by a method.

    Args:
        method: an entry that refines blocks.
        traces: of one model and one way of caching.
        policy: in place of the entry's own rule.

    Raises:
        InputError: a method that cannot be replayed, or traces that cannot answer for it.
    """
    own = method_policy(method)
    return replay_policy(traces, policy or own)
