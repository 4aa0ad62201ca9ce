"""Where weights, cache and drafters live."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.parallel.placement import overlapped_drafting, placed_step, streamed_pass
from costmodel.parallel.plan import Link

PCIE = Link(bytes_per_s=25e9, latency_s=5e-6)


@given(seconds=st.floats(1e-4, 1.0), moved=st.floats(1.0, 1e11), layers=st.integers(1, 128))
def test_streaming_lies_between_the_larger_phase_and_the_sum(seconds, moved, layers):
    apart = streamed_pass(seconds, moved, PCIE, layers=layers, prefetch=False)
    ahead = streamed_pass(seconds, moved, PCIE, layers=layers)
    fetching = moved / PCIE.bytes_per_s + layers * PCIE.latency_s
    assert apart == pytest.approx(seconds + fetching)
    assert max(seconds, fetching) <= ahead <= apart * (1 + 1e-12)


def test_nothing_streamed_costs_nothing():
    assert streamed_pass(0.25, 0.0, PCIE, layers=32, prefetch=False) == 0.25
    assert streamed_pass(0.25, 0.0, PCIE, layers=32) == 0.25


def test_a_drafter_elsewhere_costs_two_messages():
    assert placed_step(0.001, 0.01, "shared", link=PCIE) == pytest.approx(0.011)
    assert placed_step(0.001, 0.01, "own", link=PCIE) == pytest.approx(0.011 + 1e-5)
    assert placed_step(0.001, 0.01, "own") == pytest.approx(0.011)


def _simulated(draft_tokens, acceptance, generator, steps=200_000):
    """Tokens per step and wasted share of a drafter that drafts K tokens in every step, token by token."""
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
def test_overlapped_drafting_equals_a_simulation(draft_tokens, acceptance, generator):
    law = overlapped_drafting(1e-3, 5e-3, draft_tokens=draft_tokens, acceptance=acceptance)
    tokens, wasted = _simulated(draft_tokens, acceptance, generator)
    assert law.tokens_per_step == pytest.approx(tokens, rel=0.02)
    assert law.wasted_ratio == pytest.approx(wasted, abs=0.01)


@given(draft=st.floats(1e-4, 1e-2), verify=st.floats(1e-3, 0.1), k=st.integers(1, 16))
def test_the_longer_phase_sets_the_step(draft, verify, k):
    law = overlapped_drafting(draft, verify, draft_tokens=k, acceptance=0.5, link=PCIE)
    assert law.step_s == pytest.approx(max(k * draft, verify) + 2 * PCIE.latency_s)


@given(k=st.integers(1, 16))
def test_the_ends_of_acceptance(k):
    never, always = (overlapped_drafting(1e-3, 1e-2, draft_tokens=k, acceptance=p) for p in (0.0, 1.0))
    assert (never.tokens_per_step, never.wasted_ratio) == (1.0, 1.0)
    assert (always.tokens_per_step, always.wasted_ratio) == (k, 0.0)


@given(k=st.integers(1, 16))
def test_more_acceptance_never_emits_less(k):
    law = overlapped_drafting(1e-3, 1e-2, draft_tokens=k, acceptance=np.linspace(0.0, 1.0, 101))
    assert np.all(np.diff(law.tokens_per_step) >= -1e-9)
    assert np.all(law.tokens_per_step <= k + 1e-9)
