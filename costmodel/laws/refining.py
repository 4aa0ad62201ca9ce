"""In how many passes is a masked block committed, of which kinds are they, and how many tokens does
a pass commit?

Read from `Method.refine`. Leaves out recorded confidence, what a pass costs
(`costmodel.answers.steps.refine_step`), and blocks that differ (`simulator.scenario.block_laws`).
"""

import math
from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from costmodel.laws.acceptance.per_step import Acceptance
from costmodel.method import Method, Refine
from costmodel.pace import EVEN_COMMITS
from costmodel.passes.ops import Array, Number
from hardware_profiles.errors import InputError

# tokens of a block up to which requests that wait for each other are followed
_LONGEST_WAITED = 512
_NEGLIGIBLE = 1e-12


def refine_of(method: Method) -> Refine:
    """How a method refines blocks.

    Raises:
        InputError: a method that does not.
    """
    if method.refine is None:
        raise InputError("does not decode masked blocks", key="method", value=method.slug)
    return method.refine


def refined(method: Method, tokens_per_pass: float | None = None) -> Acceptance:
    """What a pass over masked blocks commits.

    Args:
        method: an entry that refines blocks.
        tokens_per_pass: mean number of tokens, of all blocks of the pass; None: the entry's.

    Raises:
        InputError: a method that does not refine, fewer tokens than 1 or more than its blocks have.

    >>> from costmodel.method_library import load_method
    >>> refined(load_method("fast-dllm")).tokens_per_step
    2.77
    """
    most = live_tokens(method)
    tokens = refine_of(method).tokens_per_pass if tokens_per_pass is None else tokens_per_pass
    if not 1.0 <= tokens <= most:
        rule = f"must lie in [1, {most:g}], the tokens of the blocks of a pass"
        raise InputError(rule, key="tokens_per_step", value=tokens)
    return Acceptance(
        draft_tokens=math.ceil(most),
        tokens_per_step=method.shape.nodes / block_passes(method, tokens),
        proposed_tokens=most,
        shape=method.shape,
    )


def blocks_in_flight(method: Method) -> float:
    """Blocks that a pass refines together, mean over an answer of the canvas' length.

    A block takes n passes, and the next begins after a share r of them: N blocks take n (1 + (N -
    1) r) passes.

    Raises:
        InputError: a method that does not refine, or a share outside [0, 1].

    Reference: Wang et al. 2025, "Discrete Diffusion Forcing" (arXiv:2508.09192), section 3.3, for
    the pipeline.
    """
    r = refine_of(method)
    if not 0.0 <= r.begin_ratio <= 1.0:
        raise InputError("must lie in [0, 1]", key="refine.begin_ratio", value=r.begin_ratio)
    blocks = max(r.canvas_tokens / method.shape.nodes, 1.0)
    return blocks / (1.0 + (blocks - 1.0) * r.begin_ratio)


def live_tokens(method: Method) -> float:
    """Tokens per request of the blocks that a pass refines together."""
    return method.shape.nodes * blocks_in_flight(method)


def block_passes(method: Method, tokens_per_pass: float) -> float:
    """Passes for each block that is committed, full ones counted; a whole number under an even
    share.

    A cache that is renewed at the start of a block is used `reuses` times at least, on top of the
    full passes.

    Args:
        method: an entry that refines blocks.
        tokens_per_pass: that all blocks of a pass commit together.
    """
    r = refine_of(method)
    passes = method.shape.nodes / tokens_per_pass
    least = max(r.full_passes + r.reuses if r.forward != "full" else 1, 1) / blocks_in_flight(
        method
    )
    whole = r.commit in EVEN_COMMITS
    return max(math.ceil(passes - 1e-9) if whole else passes, least)


def reads_prompts(method: Method) -> bool:
    """Whether a prompt is computed before what follows it; False: the first pass of every masked
    block computes both.
    """
    r = method.refine
    return r is None or (r.forward != "full" and not r.full_passes)


def pass_counts(method: Method, passes: Number) -> Mapping[str, Array]:
    """How often passes of each kind run for every block that is committed.

    Args:
        method: an entry that refines blocks.
        passes: that commit, per block.

    Returns:
        `full`: over prompt and canvas; `canvas`: over the canvas on the prompt's cache; `own`: what
            the entry computes
        otherwise; `closing`: those that only store.
    """
    r, all_passes = refine_of(method), np.asarray(passes, dtype=np.float64)
    closing = np.asarray(float(r.closing_passes))
    zero = np.zeros(())
    if r.forward == "full":
        return {"full": all_passes, "canvas": zero, "own": zero, "closing": closing}
    full = np.minimum(float(r.full_passes), all_passes)
    if r.full_every:
        full = full + (all_passes - full) / r.full_every
    left = all_passes - full
    canvas = left / r.canvas_every if r.canvas_every else zero
    return {"full": full, "canvas": canvas, "own": left - canvas, "closing": closing}


def group_sizes(method: Method, passes: int) -> tuple[int, ...]:
    """Tokens of a canvas that its passes commit one after the other, by a schedule that needs no
    confidence.

    Args:
        method: an entry that refines blocks.
        passes: of the canvas, 1 to its tokens.

    Raises:
        InputError: a number out of range.

    Reference: Zhang et al. 2025, "Locality-aware Parallel Decoding" (arXiv:2507.01957), section
    3.2, whose groups grow as a cosine falls; Chang et al. 2022, "MaskGIT" (arXiv:2202.04200),
    section 3.3, for the schedule.

    >>> from costmodel.method_library import load_method
    >>> group_sizes(load_method("lpd"), 20)[:8], group_sizes(load_method("arpg"), 64)[-3:]
    ((1, 2, 4, 6, 6, 9, 10, 11), (9, 12, 29))
    """
    r = refine_of(method)
    canvas = max(r.canvas_tokens, method.shape.nodes)
    if not 1 <= passes <= canvas:
        raise InputError(f"must lie in 1..{canvas}, the canvas' tokens", key="passes", value=passes)
    at = np.arange(passes + 1) / passes
    if r.commit == "cosine":
        done = canvas * (1.0 - np.cos(0.5 * np.pi * at))
    elif r.commit == "arccos":
        done = canvas * np.arcsin(at) / (0.5 * np.pi)
    elif r.commit == "doubling":
        done = np.minimum(2.0 ** np.minimum(np.arange(passes + 1), 60) - 1.0, canvas)
    else:
        done = canvas * at
    done[-1] = canvas
    left = passes - np.arange(passes + 1)  # every pass commits one token at least
    bounds = np.minimum(np.maximum(np.rint(done).astype(int), np.arange(passes + 1)), canvas - left)
    return tuple(int(size) for size in np.diff(bounds))


def waiting_ratio(method: Method, tokens_per_pass: float, batch: Number) -> Array:
    """Passes of a block until the last of `batch` requests is done, over those until one is; 1
    where none waits.

    Requests wait where lengths are padded (`Batch.ragged`). Every pass commits each open token with
    the same probability, and one at least, independently: what a threshold does if confidence is
    independent of everything.

    Args:
        method: an entry that refines blocks.
        tokens_per_pass: mean of one request, >= 1.
        batch: requests; below 1 counts as 1.

    Reference: Wu et al. 2025, "Fast-dLLM" (arXiv:2505.22618), section 3.3, for the threshold and
    its fallback.
    """
    b = np.maximum(np.asarray(batch, dtype=np.float64), 1.0)
    nodes = method.shape.nodes
    even = refine_of(method).commit in EVEN_COMMITS
    if even or method.batch.ragged != "pad" or nodes > _LONGEST_WAITED or np.all(b <= 1.0):
        return np.ones(())
    done = _done_after(nodes, _commit_ratio(nodes, min(max(tokens_per_pass, 1.0), float(nodes))))
    open_after = 1.0 - np.concatenate([[0.0], done])
    last = np.sum(1.0 - (1.0 - open_after) ** b[..., None], axis=-1)
    return np.asarray(last / np.sum(open_after))


def _done_after(nodes: int, ratio: float) -> Array:
    """Probability that a block is committed after 1, 2, ... passes, of which each commits open
    tokens with a ratio.
    """
    ways, drawn, left = _draws(nodes)
    moves = ways * ratio**drawn * (1.0 - ratio) ** left  # from so many open tokens to so many
    stays = np.arange(1, nodes + 1)
    moves[stays, stays - 1] += moves[stays, stays]  # every pass commits one token at least
    moves[stays, stays] = 0.0
    state = np.zeros(nodes + 1)
    state[nodes] = 1.0
    done: list[float] = []
    while len(done) < nodes and state[0] < 1.0 - _NEGLIGIBLE:
        state = state @ moves
        done.append(float(state[0]))
    return np.array(done)


@lru_cache(maxsize=32)
def _draws(nodes: int) -> tuple[Array, Array, Array]:
    """From n open tokens to m, as [n, m]: ways to draw n - m of n (none for m > n), tokens drawn,
    tokens left.
    """
    # scipy is slow to load: only where it is needed
    from scipy.special import comb  # type: ignore[import-untyped]

    n, m = np.arange(nodes + 1.0)[:, None], np.arange(nodes + 1.0)[None, :]
    ways = np.where(m <= n, comb(n, np.maximum(n - m, 0.0)), 0.0)
    return ways, np.maximum(n - m, 0.0), np.broadcast_to(m, ways.shape)


@lru_cache(maxsize=256)
def _commit_ratio(nodes: int, tokens_per_pass: float) -> float:
    """Probability of a token in a pass with which a block takes as many passes as are stated, on
    average.
    """
    from scipy.optimize import brentq  # type: ignore[import-untyped]

    def excess_passes(ratio: float) -> float:
        return 1.0 + float(np.sum(1.0 - _done_after(nodes, ratio)[:-1])) - nodes / tokens_per_pass

    if nodes == 1 or tokens_per_pass <= 1.0 or tokens_per_pass >= nodes:
        return float(tokens_per_pass > 1.0)
    return float(brentq(excess_passes, 0.0, 1.0, xtol=1e-9))
