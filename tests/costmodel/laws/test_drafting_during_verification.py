"""A drafter that never waits: the closed form against a walk, token by token, and its ends."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.laws.batching import long_run
from costmodel.method_library import load_method

PEARL = load_method("pearl").batch


def _simulated(draft_tokens, acceptance, generator, steps=200_000):
    """Tokens per step and wasted share of a drafter that drafts K tokens in every step, token by
    token."""
    luck = generator.random(steps * (draft_tokens + 1)) < acceptance
    position, pending, verifying_first = 0, 0, True
    tokens = kept = 0
    for _ in range(steps):
        if verifying_first:
            tokens += 1  # the token itself, or its correction
            if luck[position]:
                kept += 1
                pending, verifying_first = draft_tokens - 1, draft_tokens == 1
            position += 1
            continue
        accepted = 0
        while accepted < pending and luck[position + accepted]:
            accepted += 1
        position += min(accepted + 1, pending)
        kept += accepted
        tokens += accepted + (accepted < pending)
        verifying_first = accepted < pending
        pending = draft_tokens
    return tokens / steps, 1.0 - kept / (steps * draft_tokens)


@pytest.mark.parametrize("draft_tokens", [1, 2, 4, 8])
@pytest.mark.parametrize("acceptance", [0.3, 0.7, 0.95])
def test_the_closed_form_equals_a_walk(draft_tokens, acceptance, generator):
    law = long_run(PEARL, draft_tokens, acceptance)
    tokens, wasted = _simulated(draft_tokens, acceptance, generator)
    assert law.tokens_per_step == pytest.approx(tokens, rel=0.02)
    assert law.wasted_per_step / draft_tokens == pytest.approx(wasted, abs=0.01)


@given(k=st.integers(1, 16))
def test_the_ends_of_acceptance(k):
    never, always = (long_run(PEARL, k, p) for p in (0.0, 1.0))
    assert (never.tokens_per_step, never.wasted_per_step) == pytest.approx((1.0, k))
    assert (always.tokens_per_step, always.wasted_per_step) == pytest.approx((k, 0.0))


@given(k=st.integers(1, 16))
def test_more_acceptance_never_emits_less(k):
    tokens = [long_run(PEARL, k, p).tokens_per_step for p in np.linspace(0.0, 1.0, 101)]
    assert np.all(np.diff(tokens) >= -1e-9)
    assert np.all(np.array(tokens) <= k + 1e-9)
