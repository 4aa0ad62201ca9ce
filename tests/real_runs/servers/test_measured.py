"""What rows of a load tell beside the engine's counters."""

import pytest

from real_runs.servers.measured import proposal_share
from traces.kinds.summary import Summary


def row(output, drafted, accepted):
    return {"output_tokens": output, "draft_tokens": drafted, "accepted_tokens": accepted}


def test_steps_with_a_draft_are_a_share_of_those_after_first_tokens():
    rows = [
        row(11, 6, 4),
        row(6, 2, 1),
    ]  # 10 + 5 tokens after the first in 15 - 5 steps, 4 of which had a draft
    assert proposal_share(
        rows, Summary(drafts=4, draft_tokens=8, accepted_tokens=5)
    ) == pytest.approx(0.4)


def test_counters_of_other_requests_tell_nothing():
    counted = Summary(drafts=4, draft_tokens=8, accepted_tokens=5)
    assert proposal_share([row(11, 6, 4)], counted) is None  # the engine drafted for somebody else
    assert proposal_share([row(11, None, None)], counted) is None
    assert proposal_share([row(3, 8, 5)], counted) is None  # more accepted than there were tokens
