"""What does every draft length of a page's drafter emit: by the stated rate, or replayed on its recording?

Leaves out trees, and what a step costs.
"""

from functools import lru_cache

import numpy as np

from app.dashboard.answer import trace_path
from app.dashboard.state import State
from costmodel.answers.settings import method_of
from costmodel.laws.acceptance import Acceptance, accepted_by, geometric, law_for
from costmodel.method_library import load_method
from costmodel.passes.ops import Array
from traces.kinds.acceptance import AcceptanceTrace
from traces.library import read_trace
from traces.replay.statistics import resample_counts


def chains_of(state: State) -> tuple[str, list[Acceptance]]:
    """The drafter's method, and what it emits with K = 0 up to the state's draft tokens.

    Raises:
        InputError: a recording of too low a level.
    """
    lengths = range(state.draft_tokens + 1)
    if not state.trace:
        return state.method, [geometric(state.acceptance_ratio, k) for k in lengths]
    method = method_of(recorded(state.trace).provenance.method)
    return method, [_replayed(state.trace, k, state.draft_tokens, state.seed) for k in lengths]


@lru_cache(maxsize=8)
def recorded(name: str) -> AcceptanceTrace:
    """A shipped recording, read once."""
    return read_trace(trace_path(name))


@lru_cache(maxsize=8)
def _counts(kinds: tuple[str, ...], seed: int) -> Array:
    return resample_counts(kinds, generator=np.random.default_rng(seed)).astype(np.float64)


@lru_cache(maxsize=256)
def _replayed(name: str, draft_tokens: int, most: int, seed: int) -> Acceptance:
    """A chain of K draft tokens, replayed on a shipped recording by the law that holds for up to `most`.

    Raises:
        InputError: a recording of too low a level.
    """
    trace = recorded(name)
    trace.require(1, "drafts of several lengths")
    verify = load_method(method_of(trace.provenance.method)).verify
    law = law_for(trace, verify.rule, (most,), at=verify.at)
    return accepted_by(trace, law, draft_tokens, _counts(tuple(trace.prompt_kinds), seed))
