"""Recorded steps as a trace: a walk takes them again, and counts are of the steps with a draft."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traces.importers.steps import Steps, stepped
from traces.kinds.provenance import Provenance
from traces.replay.walk import replay_chain

STEPS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=12)


@given(requests=st.lists(STEPS, min_size=1, max_size=4), first=st.integers(0, 2))
def test_a_walk_at_the_longest_draft_takes_the_steps_that_were_recorded(requests, first):
    drafted = [[max(pair) for pair in steps] for steps in requests]
    emitted = [[1 + min(pair) for pair in steps] for steps in requests]
    if not any(emitted):
        return
    trace = stepped(
        [
            Steps(request=str(at), emitted=tokens, drafted=drafts)
            for at, (tokens, drafts) in enumerate(zip(emitted, drafted, strict=True))
        ],
        "f",
        Provenance(),
        first_step_position=first,
    )
    assert trace.output_tokens.tolist() == [first + sum(tokens) for tokens in emitted]
    assert trace.first_step_position == first
    replay = replay_chain(trace, max(trace.provenance.extra["longest_draft_tokens"], 1))
    assert replay.steps.tolist() == [len(tokens) for tokens in emitted]
    with_draft = np.array([d > 0 for drafts in drafted for d in drafts])
    assert replay.proposal_ratio == pytest.approx(with_draft.mean())
    if with_draft.any():
        assert trace.summary.drafts == with_draft.sum()
        assert trace.summary.draft_tokens == sum(map(sum, drafted))
        kept = [min(pair) for steps in requests for pair in steps]
        assert trace.summary.accepted_tokens == sum(kept)
