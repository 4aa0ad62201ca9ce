"""How designs are compared: errors that they share cancel, and the seed alone says what is
drawn."""

from dataclasses import replace

import numpy as np
import pytest

from costmodel.optimizers.joint.comparison import compare_designs
from costmodel.optimizers.joint.search import joint_search
from tests.costmodel.optimizers.joint.joint_questions import question, slo

ASKED = question(slo=slo(tpot_ms=40.0), device_names=["h100-sxm", "a100-sxm-80"])
RANKED = joint_search(ASKED).ranked


def test_a_seed_says_what_is_drawn():
    one, again, other = (compare_designs(ASKED, RANKED, seed=seed) for seed in (3, 3, 4))
    assert np.array_equal(one.draws, again.draws) and one.expected_regret == again.expected_regret
    assert not np.array_equal(one.draws, other.draws)


def test_probabilities_and_regret_hold_together():
    found = compare_designs(ASKED, RANKED)
    assert found.best_probability.sum() == pytest.approx(1.0)
    assert np.isnan(found.beaten_probability[0]) and np.all(
        found.beaten_probability[1:] >= found.best_probability[0]
    )
    assert found.expected_regret >= 0.0 and found.regret_ratio < 0.5
    for (low, high), design in zip(found.intervals, RANKED, strict=True):
        assert low <= design.value * 1.1 and high >= design.value * 0.9


def test_a_design_that_only_other_devices_beat_is_unsure_and_one_on_its_own_device_is_not():
    """What two designs on one kind of device share cancels between them."""
    plain = [d for d in RANKED if not d.acceptance.draft_tokens]
    twin = replace(plain[0], value=plain[0].value)
    shared = compare_designs(ASKED, [plain[0], twin], draws=2000).draws
    together = np.corrcoef(shared)[0, 1]
    other = ({"h100-sxm", "a100-sxm-80"} - {plain[0].contender.placement.device}).pop()
    apart = joint_search(question(device_names=[other])).ranked
    different = np.corrcoef(compare_designs(ASKED, [plain[0], apart[0]], draws=2000).draws)[0, 1]
    assert together > 0.4 > abs(different)


def test_simulations_scale_what_is_drawn_seed_by_seed():
    alike = compare_designs(ASKED, RANKED[:2], simulated=[(1.0, 1.0), (1.0, 1.0)])
    half = compare_designs(ASKED, RANKED[:2], simulated=[(0.5, 0.5), None])
    assert half.draws[0] == pytest.approx(0.5 * alike.draws[0]) and half.draws[1] == pytest.approx(
        alike.draws[1]
    )
    noisy = compare_designs(ASKED, RANKED[:1], simulated=[(0.5, 1.5)])
    assert noisy.draws[0].std() > alike.draws[0].std()
