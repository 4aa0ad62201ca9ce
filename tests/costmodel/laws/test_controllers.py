"""Controllers of draft lengths on recordings whose steps are all alike."""

import numpy as np
import pytest

from costmodel.laws.controllers import ema_chain
from costmodel.method import Stop
from traces.kinds.acceptance import AcceptanceTrace

MOST = 8


@pytest.mark.parametrize("accepted", [0, 1, 3, 7])
def test_where_every_step_accepts_as_many_a_draft_is_one_token_longer(accepted):
    """The first drafts come down from the longest; afterwards each has the accepted tokens and one
    to try."""
    n = 4000
    trace = AcceptanceTrace(offsets=[0, n], emitted=np.full(n, accepted + 1), first_step_position=0)
    found = ema_chain(trace, MOST, Stop(rule="ema", at=0.5), None)
    assert found.tokens_per_step == pytest.approx(accepted + 1, rel=1e-3)
    assert found.lengths.mean_tokens == pytest.approx(accepted + 1, abs=0.05)
