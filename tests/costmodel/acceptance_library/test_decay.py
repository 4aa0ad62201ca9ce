"""How acceptance goes on: what is shipped is what the library's figures show, and holds what they
measured."""

import csv

import numpy as np
import pytest

from costmodel.acceptance_library import published
from costmodel.laws.acceptance import DepthRates
from costmodel.laws.acceptance.decay import ratio_cases, usual_ratio
from costmodel.optimizers.drafters.sources import rates_source
from tests.costmodel.acceptance_library.fitted_decay import (
    fitted_decay,
    goes_on_as,
    published_decays,
)

TAILS = [0.1, 0.9]


@pytest.mark.parametrize("drafted_by", ["head", "block", ""])
@pytest.mark.parametrize("known", [1, 2])
def test_shipped_ratios_are_those_of_the_library(drafted_by, known):
    shipped = ratio_cases(drafted_by, known)
    places = (np.arange(len(shipped)) + 0.5) / len(shipped)
    assert np.quantile(published_decays(drafted_by, known), places) == pytest.approx(
        shipped, abs=6e-4
    )


def test_the_fit_gives_back_what_it_was_made_of():
    for decay in (0.7, 0.95, 1.0):
        given_before = 0.8 * decay ** np.arange(6)
        assert fitted_decay(np.cumprod(given_before)) == pytest.approx(decay, rel=1e-3)


def measured_heads(by_means):
    """Rates by position of heads that draft in turn: as published, or what every further token of a draft adds to the
    mean."""
    for entry in published():
        head = goes_on_as(entry.method) == "head"
        if not head or entry.shape != "chain" or bool(entry.rates) == by_means:
            continue
        means = [1.0]
        while len(means) in entry.tokens_per_step:
            means.append(entry.tokens_per_step[len(means)])
        rates = entry.rates or np.diff(means).tolist()
        if len(rates) >= 3:
            yield rates[:3]


def outcome(rates):
    """Whether three positions lie in the interval of what the first one tells, and how far off the
    point is."""
    chain = DepthRates(by_depth=(rates[0],), measured=1, drafted_by="head").chain(3)
    (low, high), measured = np.quantile(chain.samples, TAILS), 1.0 + sum(rates)
    level = 1.0 + sum(rates[0] ** depth for depth in (1, 2, 3))
    return low <= measured <= high, chain.tokens_per_step / measured - 1.0, level / measured - 1.0


def test_intervals_hold_what_was_measured_at_further_positions():
    held = [outcome(rates)[0] for by_means in (False, True) for rates in measured_heads(by_means)]
    assert len(held) >= 30 and 0.7 <= np.mean(held) <= 0.9


@pytest.mark.parametrize("by_means", [False, True])
def test_what_follows_is_nearer_than_a_constant_rate(by_means):
    _, off, level = zip(*map(outcome, measured_heads(by_means)), strict=True)
    assert abs(np.mean(off)) < 0.05
    assert np.mean(np.abs(off)) < np.mean(np.abs(level))


def test_rates_that_somebody_else_collected_go_on_alike(reference_data):
    with (reference_data / "acceptance" / "published_acceptance.csv").open(
        encoding="utf-8"
    ) as lines:
        rows = [
            row for row in csv.DictReader(lines) if row["tree"] == "chain" and row["per_position"]
        ]
    heads = [row for row in rows if row["method"].startswith(("EAGLE-3", "MTP"))]
    figures = [[float(rate) for rate in row["per_position"].split()][:3] for row in heads]
    off = [outcome(rates)[1] for rates in figures if len(rates) == 3]
    assert len(off) >= 8 and abs(np.mean(off)) < 0.05


def test_whole_blocks_go_on_as_other_blocks_do_and_less_surely():
    def beyond_one(method):
        source = rates_source(method, (0.7,), known_tokens=1)
        spread = np.ptp(np.quantile(source.rates.chain(5).samples, TAILS))
        return source.remark_at(5), spread

    said, in_turn = beyond_one("eagle-3")
    assert "of whole blocks" not in said
    for method in ("dspark", "dflash", "dflash-2", "pard"):
        said, at_once = beyond_one(method)
        assert "drafters of whole blocks (most of them DSpark)" in said
        assert at_once > 1.5 * in_turn


def test_heads_lose_acceptance_and_later_positions_lose_less():
    assert 0.9 < usual_ratio("head", 1) < usual_ratio("head", 2) < 1.0
    assert usual_ratio("head", 1) < usual_ratio("lookup", 1) < 1.0
