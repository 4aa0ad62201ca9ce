"""Where do weights, cache and drafter live, and what does that cost a step?

Weights or cache kept in host memory and streamed in, drafters on the target's device, on one of their own or on the
host, and drafting that overlaps with verification. Leaves out partial residency by expert popularity.
"""

from typing import Literal, NamedTuple

import numpy as np

from costmodel.ops import Array, Number
from costmodel.parallel.plan import Link

Placement = Literal["shared", "own"]


def streamed_pass(pass_s: Number, streamed_bytes: Number, link: Link, *, layers: int, prefetch: bool = True) -> Array:
    """Seconds of a pass whose operands partly come over a link.

    Without prefetch every layer waits for its operands: the sum. With it the next layer's are on their way while
    one computes: the larger of both, and the smaller one's first layer, during which nothing overlaps.

    Args:
        pass_s: seconds of the pass with everything at hand.
        streamed_bytes: fetched per pass.
        link: to the host (PCIe or a coherent link), or to another device.
        layers: pieces that the pass is fetched in.
        prefetch: fetch one layer ahead.

    Reference: Sheng et al., "FlexGen" (arXiv:2303.06865), section 4.1.
    """
    p = np.asarray(pass_s, dtype=np.float64)
    moved = np.asarray(streamed_bytes, dtype=np.float64)
    fetch = np.where(moved > 0.0, moved / link.bytes_per_s + layers * link.latency_s, 0.0)
    if not prefetch:
        return np.asarray(p + fetch)
    return np.asarray(np.maximum(p, fetch) + np.minimum(p, fetch) / layers)


def placed_step(draft_s: Number, verify_s: Number, placement: Placement, *, link: Link | None = None) -> Array:
    """Seconds of a serial step: draft, then verify; two messages more where the drafter lives elsewhere.

    Token ids travel, so that only the link's latency counts.

    Args:
        draft_s: seconds of all draft passes of a step.
        verify_s: seconds of the verify pass.
        placement: `shared` with the target, or `own` device (another GPU, or the host's processor).
        link: between drafter and target, for `own`.
    """
    hops = 2.0 * link.latency_s if placement == "own" and link is not None else 0.0
    return np.asarray(np.asarray(draft_s, dtype=np.float64) + np.asarray(verify_s, dtype=np.float64) + hops)


class OverlappedDrafting(NamedTuple):
    """Drafting while the last draft is verified.

    Args:
        step_s: max(K draft passes, verify pass) and the messages.
        tokens_per_step: mean over steps.
        wasted_ratio: share of drafted tokens that are thrown away.
    """

    step_s: Array
    tokens_per_step: Array
    wasted_ratio: Array


def overlapped_drafting(
    draft_pass_s: Number, verify_s: Number, *, draft_tokens: int, acceptance: Number, link: Link | None = None
) -> OverlappedDrafting:
    """A drafter on its own device that never waits: K tokens ahead per step, in two modes.

    After a rejection the first new draft token is verified while the other K - 1 are drafted (one token per step:
    that token, or its correction). After it was accepted, all that is pending is verified while the next K are
    drafted; a full acceptance goes on so, anything else throws the next K away. With independent acceptance p this
    is a chain of three states (nothing, K - 1, K tokens pending) whose stationary shares have a closed form; there
    is no bonus token, because the next drafts stand where it would.

    Args:
        draft_pass_s: seconds of one draft pass.
        verify_s: seconds of a verify pass.
        draft_tokens: K >= 1.
        acceptance: p, probability that a draft token is accepted if those before it were, in [0, 1].
        link: between drafter and target; one message each way per step.

    Reference: Liu et al., "PEARL: Parallel Speculative Decoding with Adaptive Draft Length" (arXiv:2408.11850).
    """
    k, p = draft_tokens, np.asarray(acceptance, dtype=np.float64)
    hops = 0.0 if link is None else 2.0 * link.latency_s
    seconds = np.maximum(k * np.asarray(draft_pass_s, dtype=np.float64), verify_s) + hops
    # Visits per cycle that starts with nothing pending: 1, then K-1 pending, then K pending a geometric number.
    # With K = 1 nothing is ever pending.
    first = p if k > 1 else np.zeros_like(p)
    whole = first * p ** (k - 1)
    stay = np.minimum(p**k, 1.0 - 1e-12)
    repeated = whole / (1.0 - stay)
    visits = 1.0 + first + repeated
    tokens = 1.0 + first * _verified(p, k - 1) + repeated * _verified(p, k)
    per_step = np.where(p >= 1.0, float(k), tokens / visits)
    kept = first * _accepted(p, k - 1) + repeated * _accepted(p, k) + p
    wasted = np.where(p >= 1.0, 0.0, 1.0 - kept / (visits * k))
    return OverlappedDrafting(np.asarray(seconds), np.asarray(per_step), np.asarray(np.clip(wasted, 0.0, 1.0)))


def _accepted(p: Array, pending: int) -> Array:
    """Mean accepted among `pending` tokens: p + p² + … ."""
    return np.asarray(sum((p**depth for depth in range(1, pending + 1)), start=np.zeros(np.shape(p))))


def _verified(p: Array, pending: int) -> Array:
    """Mean tokens of a step that verifies `pending`: those accepted, and a correction unless all were."""
    return np.asarray(_accepted(p, pending) + 1.0 - p**pending)
