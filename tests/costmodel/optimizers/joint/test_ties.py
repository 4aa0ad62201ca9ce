"""What users see decides between designs that reach the same."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.answers.ties import NOTICED, preferred
from costmodel.optimizers.joint.comparison import compare_designs
from costmodel.optimizers.joint.evaluation import under_load
from costmodel.optimizers.joint.search import joint_search, nodes_of
from tests.costmodel.optimizers.joint.joint_questions import question, slo

TIMES = st.lists(st.tuples(st.floats(1e-3, 1.0), st.floats(1e-3, 1.0)), min_size=1, max_size=12)


@given(times=TIMES)
def test_no_equal_design_has_noticeably_shorter_times(times):
    tpot_s, ttft_s = (np.array(values) for values in zip(*times, strict=True))
    (at,) = preferred(np.ones(len(times), dtype=np.bool_), tpot_s, ttft_s)
    quick = tpot_s <= NOTICED * tpot_s.min()
    assert quick[at] and ttft_s[at] <= NOTICED * ttft_s[quick].min()


def test_only_equals_are_preferred_and_unknown_times_decide_nothing():
    equal = np.array([[False, True], [True, False]])
    assert preferred(equal, np.array([[0.1, 0.4], [0.3, 0.2]])) == (1, 0)
    assert preferred(equal, np.full((2, 2), np.nan), np.array([[0.1, 0.2], [0.9, 0.1]])) == (0, 1)


@pytest.mark.heavy
@pytest.mark.parametrize("maximise", ["tokens", "goodput", "tokens-per-dollar"])
def test_under_a_rate_that_many_serve_the_best_design_has_the_lowest_time_per_token(maximise):
    asked = question(rate=3.0, rate_stated=True, maximise=maximise, slo=slo(tpot_ms=60.0))
    best = joint_search(asked).ranked[0]
    evaluations = [under_load(asked, node) for node in nodes_of(asked)[0]]
    most = max(float(e.value.max()) for e in evaluations)
    quickest = min(
        float(e.seen.tpot_s[e.value >= most * (1 - 1e-9)].min(initial=np.inf)) for e in evaluations
    )
    assert best.value == pytest.approx(most) and best.acceptance.draft_tokens > 1
    assert best.tpot_s <= NOTICED * quickest


@pytest.mark.heavy
def test_among_designs_that_serve_the_whole_rate_the_faster_is_surely_the_best():
    asked = question(rate=3.0, rate_stated=True, device_names=["h100-sxm"])
    ranked = joint_search(asked).ranked
    plain = next(d for d in ranked if not d.acceptance.draft_tokens)
    compared = compare_designs(asked, [ranked[0], plain])
    assert ranked[0].value == pytest.approx(plain.value)
    assert compared.beaten_probability[1] > 0.9 and compared.best_probability[0] > 0.9
    slowed = compare_designs(asked, [ranked[0], plain], tpot_ratios=[10.0, 1.0])
    assert slowed.beaten_probability[1] < 0.1
