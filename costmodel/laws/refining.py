"""In how many passes is a masked block committed, and how many tokens does a pass commit?

Read from `Method.refine`. Leaves out recorded confidence, and blocks that differ (`simulator.scenario.block_laws`).
"""

import math

from costmodel.laws.acceptance.per_step import Acceptance
from costmodel.method import Method
from hardware_profiles.errors import InputError


def refined(method: Method, tokens_per_pass: float | None = None) -> Acceptance:
    """What a pass over a masked block commits.

    Args:
        method: an entry that refines blocks.
        tokens_per_pass: mean number of tokens; None: the entry's.

    Raises:
        InputError: a method that does not refine, fewer tokens than 1 or more than the block has.

    >>> from costmodel.method_library import load_method
    >>> refined(load_method("fast-dllm")).tokens_per_step
    2.77
    """
    if method.refine is None:
        raise InputError("does not decode masked blocks", key="method", value=method.slug)
    block = method.shape.nodes
    tokens = method.refine.tokens_per_pass if tokens_per_pass is None else tokens_per_pass
    if not 1.0 <= tokens <= block:
        raise InputError(f"must lie in [1, {block}], the tokens of a block", key="tokens_per_step", value=tokens)
    return Acceptance(
        draft_tokens=block,
        tokens_per_step=block / block_passes(method, tokens),
        proposed_tokens=float(block),
        shape=method.shape,
    )


def block_passes(method: Method, tokens_per_pass: float) -> float:
    """Passes that commit the tokens of a block, full ones counted; a whole number under an even share.

    A cache that is renewed at the start of a block is used once at least: there is one pass more than full ones.
    """
    r = method.refine
    if r is None:
        raise InputError("does not decode masked blocks", key="method", value=method.slug)
    passes = method.shape.nodes / tokens_per_pass
    least = r.full_passes + 1.0 if r.forward != "full" else 1.0
    whole = r.commit in ("static", "doubling")
    return max(math.ceil(passes - 1e-9) if whole else passes, least)
