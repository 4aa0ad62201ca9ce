"""The split of a batch's draft tokens against brute force, the reference, and its own
certificates."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.optimizers.trees.batch_split import fastest_split, split_budget
from hardware_profiles.errors import InputError

GAIN = st.floats(0.0, 1.0)


@st.composite
def gains(draw, *, falling):
    requests, tokens = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    rows = np.array([[draw(GAIN) for _ in range(tokens)] for _ in range(requests)])
    return -np.sort(-rows, axis=1) if falling else rows


def every_split(rows):
    """Every split with what it emits."""
    for counts in itertools.product(range(rows.shape[1] + 1), repeat=rows.shape[0]):
        yield counts, rows.shape[0] + sum(rows[r, :count].sum() for r, count in enumerate(counts))


def worth(rows, counts):
    return rows.shape[0] + sum(rows[r, :count].sum() for r, count in enumerate(counts))


@given(gains(falling=False), st.data())
def test_a_budget_is_split_as_by_brute_force(rows, data):
    total = data.draw(st.integers(0, rows.size))
    best = max(value for counts, value in every_split(rows) if sum(counts) == total)
    found = split_budget(rows, total)
    assert found.certificate.kind == "exact"
    assert found.draft_tokens.sum() == total
    assert found.tokens_per_step == pytest.approx(best)
    assert worth(rows, found.draft_tokens) == pytest.approx(best)


@given(gains(falling=False), st.data())
def test_the_greedy_split_lies_within_its_certificate(rows, data):
    total = data.draw(st.integers(0, rows.size))
    best = split_budget(rows, total).tokens_per_step
    found = split_budget(rows, total, exact=False)
    assert worth(rows, found.draft_tokens) == pytest.approx(found.tokens_per_step)
    assert found.tokens_per_step <= best + 1e-9
    assert best <= found.tokens_per_step + (found.certificate.gap or 0.0) + 1e-9


@given(gains(falling=True), st.data())
def test_the_fastest_split_is_that_of_brute_force(rows, data):
    """Any curve of seconds: steps, dips, and draft passes by the longest draft."""
    shape = (rows.shape[1] + 1, rows.size + 1)
    seconds = np.array(
        [[data.draw(st.floats(0.1, 4.0)) for _ in range(shape[1])] for _ in range(shape[0])]
    )
    best = max(
        value / seconds[longest, sum(counts)]
        for counts, value in every_split(rows)
        for longest in range(max(counts), shape[0])
    )
    found = fastest_split(rows, seconds)
    assert found.certificate.kind == "exact"
    assert found.tokens_per_s == pytest.approx(best)
    assert worth(rows, found.draft_tokens) == pytest.approx(found.tokens_per_step)


@given(gains(falling=False), st.lists(st.floats(0.1, 4.0), min_size=13, max_size=13))
def test_rising_gains_come_with_a_bound(rows, seconds):
    curve = np.array(seconds[: rows.size + 1])
    best = max(value / curve[sum(counts)] for counts, value in every_split(rows))
    found = fastest_split(rows, curve)
    assert found.tokens_per_s <= best + 1e-9
    assert best <= found.tokens_per_s + (found.certificate.gap or 0.0) + 1e-9


def test_likely_requests_draft_more_and_flat_seconds_draft_all():
    survival = np.cumprod(np.array([[0.9] * 4, [0.5] * 4]), axis=1)
    assert fastest_split(survival, np.ones(9)).draft_tokens.tolist() == [4, 4]
    dear = fastest_split(survival, 1.0 + 0.4 * np.arange(9))
    assert dear.draft_tokens[0] > dear.draft_tokens[1]


@pytest.mark.parametrize(
    ("rows", "seconds", "key"),
    [
        (np.zeros((0, 2)), [1.0], "gains"),
        (np.array([[0.5, -0.5]]), [1.0], "gains"),
        (np.ones(3), [1.0], "gains"),
        (np.ones((1, 2)), [1.0, 0.0], "step_s"),
        (np.ones((1, 2)), [[1.0]], "step_s"),
    ],
)
def test_what_makes_no_sense_is_refused(rows, seconds, key):
    with pytest.raises(InputError) as caught:
        fastest_split(rows, np.array(seconds))
    assert caught.value.key == key


def test_more_tokens_than_there_are_gains_are_refused():
    with pytest.raises(InputError, match=r"0\.\.2"):
        split_budget(np.array([[0.5, 0.4, -np.inf]]), 3)
