"""Up to which batch drafting pays on an A100, by others' runs and by rooftree."""

from statistics import mean

import pytest

from tests.golden import paying_batches


@pytest.fixture(scope="module")
def curves(published):
    found = paying_batches.curves(published)
    print()
    paying_batches.show(found)
    return found


def test_switching_drafts_as_predicted_loses_little_where_the_cache_has_16_bits(curves):
    lost = [each for curve in curves if curve.cache == "fp16" for each in curve.losses]
    assert len(lost) == 8 and mean(lost) <= 0.01
    always = [
        1.0 - min(each, 1.0)
        for curve in curves
        if curve.cache == "fp16"
        for each in curve.measured.values()
    ]
    never = [
        1.0 - 1.0 / max(each, 1.0)
        for curve in curves
        if curve.cache == "fp16"
        for each in curve.measured.values()
    ]
    assert mean(lost) < min(mean(always), mean(never)) / 5


def test_the_last_paying_batch_is_met_within_a_factor_of_two(curves):
    """With a cache in 8 bits the host waits for FlashInfer before Hopper, of which the model knows
    nothing."""
    for curve in curves:
        if curve.cache == "fp16":
            measured, predicted = (
                paying_batches.last_paying(each) for each in (curve.measured, curve.predicted)
            )
            assert measured is not None and predicted is not None
            assert 0.5 <= predicted / measured <= 2.0


def test_a_curve_falls_to_one_where_it_is_one():
    assert paying_batches.last_paying({1: 2.0, 8: 1.0}) == 8.0
    assert paying_batches.last_paying({1: 0.9, 8: 0.8}) is None
    assert 8.0 < paying_batches.last_paying({1: 2.0, 8: 1.1, 16: 0.9}) < 16.0
