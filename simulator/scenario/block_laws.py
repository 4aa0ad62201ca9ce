"""In how many passes does a decoder commit a block, where no recording tells?

Laws that fill the table of `BlockOptions`: evenly over a given number of passes, or every open
token with the same probability. Leaves out recorded confidence.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError

MOST_BLOCK_TOKENS = 4096
_BLOCKS = 256  # drawn blocks that requests walk along

Commits = NDArray[np.int64]


def even_commits(block_tokens: int, passes: int) -> Commits:
    """One block whose tokens are committed evenly, earlier passes taking what does not divide.

    Args:
        block_tokens: tokens of a block, >= 1.
        passes: that a block takes, 1..`block_tokens`.

    Returns:
        int64[1, passes].

    Raises:
        InputError: a number out of range.

    Reference: Nie et al. 2025, "LLaDA" (arXiv:2502.09992), section 2.4, whose steps share a block
    evenly.

    >>> even_commits(32, 5).tolist()
    [[7, 7, 6, 6, 6]]
    """
    if not 1 <= passes <= block_tokens:
        raise InputError(
            f"must lie in 1..{block_tokens}, the block's tokens", key="passes", value=passes
        )
    per_pass, rest = divmod(block_tokens, passes)
    return np.array([[per_pass + (at < rest) for at in range(passes)]], dtype=np.int64)


def random_commits(
    block_tokens: int, commit_ratio: float, generator: np.random.Generator
) -> Commits:
    """Blocks of which every pass commits each open token with the same probability, and one at
    least.

    What a threshold of confidence does if confidence is independent of everything: the likeliest
    token always passes.

    Args:
        block_tokens: tokens of a block, >= 1.
        commit_ratio: probability of a token in a pass, 0 to 1.
        generator: source of the draws.

    Returns:
        int64[blocks, passes of the longest of them].

    Raises:
        InputError: a number out of range.

    Reference: Wu et al. 2025, "Fast-dLLM" (arXiv:2505.22618), section 3.3, for the threshold and
    its fallback.
    """
    if not 1 <= block_tokens <= MOST_BLOCK_TOKENS:
        raise InputError(
            f"must lie in 1..{MOST_BLOCK_TOKENS}", key="block_tokens", value=block_tokens
        )
    if not 0.0 <= commit_ratio <= 1.0:
        raise InputError("must lie in [0, 1]", key="commit_ratio", value=commit_ratio)
    open_tokens = np.full(_BLOCKS, block_tokens, dtype=np.int64)
    passes = []
    while open_tokens.any():
        drawn = np.minimum(
            np.maximum(generator.binomial(open_tokens, commit_ratio), 1), open_tokens
        )
        passes.append(drawn)
        open_tokens = open_tokens - drawn
    return np.stack(passes, axis=1)
