"""What ties with a choice and is simpler, and whether a recording is long enough for it."""

from dataclasses import replace

import numpy as np
import pytest

from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import geometric
from costmodel.optimizers.allowed import Contender
from costmodel.optimizers.margins import TIE_RATIO, TOLERANCE_RATIO, recorded, tied
from costmodel.optimizers.search import search

ASKED = DecodingConfiguration(
    method="eagle-3", deployment=DeploymentNames(model="llama-3.1-8b", device="h100-sxm")
)


def searched(candidates):
    runner = Contender(configuration=ASKED, setting=build_setting(ASKED), candidates=candidates)
    return search([runner], batches=[1, 64], contexts=[1024])


@pytest.mark.parametrize("rate", [0.01, 0.3, 0.6, 0.8])
def test_a_tie_is_simpler_and_within_the_margin_and_the_simplest_of_those(rate):
    found = searched([geometric(rate, k) for k in range(9)])
    for row, cell in enumerate(found.cells):
        tie, rates = tied(cell.winner, found), found.evaluations[0].value[:, row, 0]
        near = [k for k in range(9) if rates[k] > rates.max() * (1 - TIE_RATIO)]
        assert (
            cell.winner.acceptance.draft_tokens if tie is None else tie.acceptance.draft_tokens
        ) == near[0]
        if tie is not None:
            assert 0 <= tie.lost_ratio < TIE_RATIO


def test_a_shorter_draft_ties_where_the_last_token_is_hardly_ever_kept():
    kept = geometric(0.8, 3)
    longer = replace(geometric(0.0, 4), tokens_per_step=kept.tokens_per_step * 1.03)
    found = searched([geometric(0.0, 0), kept, longer])
    ties = [tied(cell.winner, found) for cell in found.cells]
    for cell, tie in zip(found.cells, ties, strict=True):
        if (
            cell.winner.acceptance is longer
            and cell.winner.tokens_per_s < found.evaluations[0].value[1].max() * 1.01
        ):
            assert tie is not None and tie.acceptance is kept


def noisy(generator, spread):
    """Chains whose tokens per step are known up to a relative error of their own."""
    chains = [geometric(0.7, k) for k in range(5)]
    return [
        chains[0],
        *(
            replace(
                each, samples=each.tokens_per_step * (1 + spread * generator.standard_normal(1000))
            )
            for each in chains[1:]
        ),
    ]


def test_a_recording_is_enough_where_its_draws_agree():
    found = searched(noisy(np.random.default_rng(1), 1e-4))
    for cell in found.cells:
        known = recorded(cell.winner, found, 5000)
        assert (
            known.enough
            and known.enough_tokens == 5000
            and 0 <= known.loss_ratio <= TOLERANCE_RATIO
        )


def test_a_recording_is_short_where_its_draws_choose_otherwise():
    found = searched(noisy(np.random.default_rng(1), 0.1))
    for cell in found.cells:
        known = recorded(cell.winner, found, 5000)
        assert not known.enough and known.loss_ratio > TOLERANCE_RATIO
        assert known.enough_tokens == round(5000 * (known.loss_ratio / TOLERANCE_RATIO) ** 2)


def test_stated_rates_have_no_tokens_to_count():
    found = searched([geometric(0.7, k) for k in range(5)])
    assert recorded(found.cells[0].winner, found, 5000) is None
