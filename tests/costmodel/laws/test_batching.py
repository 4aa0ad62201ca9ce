"""Steps whose phases share requests: means against a sum over all outcomes of a draft."""

from dataclasses import replace
from itertools import product

import pytest

from costmodel.laws.batching import long_run
from costmodel.method import Batch
from tests.every import every


def outcomes(tokens, acceptance):
    """Probability and leading accepted tokens of every way in which a draft can be judged."""
    for judged in product((True, False), repeat=tokens):
        chance = 1.0
        for right in judged:
            chance *= acceptance if right else 1.0 - acceptance
        yield chance, (*judged, False).index(False)


@every("tokens", [1, 2, 3, 5, 8])
@every("parts", [1, 2, 3])
@every("acceptance", [0.0, 0.3, 0.7, 1.0])
def test_a_step_emits_what_is_accepted_and_the_token_behind_it(tokens, parts, acceptance):
    found = long_run(Batch(parts=parts, prunes=True), tokens, acceptance)
    listed = list(outcomes(tokens, acceptance))
    assert found.tokens_per_step == pytest.approx(
        sum(chance * (accepted + 1) for chance, accepted in listed)
    )
    assert found.wasted_per_step == pytest.approx(
        sum(chance * (tokens - accepted) for chance, accepted in listed)
    )


def test_what_leaves_early_is_not_computed():
    """A part runs for a request whose draft tokens before it were all accepted."""
    for acceptance in (0.0, 0.4, 1.0):
        found = long_run(Batch(parts=3, prunes=True), 6, acceptance).query_tokens
        reached = [
            sum(chance for chance, accepted in outcomes(6, acceptance) if accepted >= first)
            for first in (0, 2, 4)
        ]
        assert found == pytest.approx((1 + 2 * reached[0], 2 * reached[1], 2 * reached[2]))
        whole = replace(Batch(parts=3), prunes=False)
        assert long_run(whole, 6, acceptance).query_tokens == pytest.approx((3.0, 2.0, 2.0))
