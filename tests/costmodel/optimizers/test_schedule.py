"""Schedules against every assignment of draft lengths to batches."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.answers.batch_ranges import SHORT_RATIO
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.claims import rate_claim
from costmodel.optimizers.allowed import Contender
from costmodel.optimizers.chain_gains import gain_doubt
from costmodel.optimizers.pricing import evaluate
from costmodel.optimizers.schedule import batch_schedule
from costmodel.optimizers.search import scheduled_batches
from hardware_profiles.errors import InfeasibleError, InputError

BATCHES = [1, 2, 4, 8, 16]


@st.composite
def tables(draw):
    """Batches, draft lengths and rates, some of which do not run."""
    batches = draw(st.integers(1, 5))
    lengths = draw(st.integers(1, 3))
    cell = st.one_of(st.integers(1, 12).map(float), st.just(np.nan))
    rates = [[draw(cell) for _ in range(lengths)] for _ in range(batches)]
    for row in rates:
        row[draw(st.integers(0, lengths - 1))] = float(draw(st.integers(1, 12)))
    return BATCHES[:batches], [0, 1, 5][:lengths], np.array(rates)


def losses_by_enumeration(rates, most_at_one=np.inf):
    """Least mean loss for every number of ranges, over all assignments that lose no more than that
    at any batch."""
    batches, lengths = rates.shape
    least = np.full(batches, np.inf)
    for columns in itertools.product(range(lengths), repeat=batches):
        picked = rates[np.arange(batches), columns]
        lost = 1 - picked / np.nanmax(rates, axis=1)
        if np.isnan(picked).any() or lost.max() > most_at_one + 1e-12:
            continue
        used = 1 + int(np.count_nonzero(np.diff(columns)))
        loss = float(np.mean(lost))
        least[used - 1 :] = np.minimum(least[used - 1 :], loss)
    return least


@given(tables())
def test_one_context_is_a_schedule_of_its_own(table):
    batches, lengths, rates = table
    try:
        alone = batch_schedule(batches, lengths, rates, tolerance_ratio=0.0)
    except InfeasibleError:
        with pytest.raises(InfeasibleError):
            batch_schedule(batches, lengths, [rates], tolerance_ratio=0.0)
        return
    shared = batch_schedule(batches, lengths, [rates, rates], tolerance_ratio=0.0)
    assert shared.worst_loss_ratio == pytest.approx(alone.worst_loss_ratio, abs=1e-12)


@given(st.data(), st.integers(1, 4))
def test_the_schedule_of_several_contexts_is_the_best_of_all_assignments(data, contexts):
    rate = st.integers(1, 12).map(float)
    tables = np.array(
        [[[data.draw(rate) for _ in range(3)] for _ in range(4)] for _ in range(contexts)]
    )
    kept = tables / tables.max(axis=2, keepdims=True)
    least = min(
        1.0 - float(kept[:, np.arange(4), list(columns)].mean())
        for columns in itertools.product(range(3), repeat=4)
    )
    found = batch_schedule(BATCHES[:4], [0, 1, 5], tables, tolerance_ratio=0.0)
    picked = [[0, 1, 5].index(found.draft_tokens_at(batch)) for batch in BATCHES[:4]]
    assert found.loss_ratio == pytest.approx(least, abs=1e-12)
    assert found.loss_ratio == pytest.approx(
        1.0 - float(kept[:, np.arange(4), picked].mean()), abs=1e-12
    )


def test_a_draft_that_fits_at_one_context_alone_is_not_scheduled():
    rates = np.array([[[1.0, 2.0], [1.0, 2.0]], [[1.0, 2.0], [1.0, np.nan]]])
    assert batch_schedule([1, 8], [0, 3], rates).ranges == ((1, 1, 3), (2, 8, 0))
    rates[1, 1] = np.nan  # nothing runs at the long context: the batch counts at the short one
    assert batch_schedule([1, 8], [0, 3], rates).ranges == ((1, 8, 3),)


@given(tables(), st.integers(1, 5), st.sampled_from([0.0, 0.02, 0.3]))
def test_equal_to_enumeration(table, max_ranges, tolerance_ratio):
    batches, lengths, rates = table
    least = losses_by_enumeration(rates)
    allowed = min(max_ranges, len(batches))
    options = {"max_ranges": max_ranges, "tolerance_ratio": tolerance_ratio}
    if not np.isfinite(least[allowed - 1]):
        with pytest.raises(InfeasibleError):
            batch_schedule(batches, lengths, rates, **options)
        return
    schedule = batch_schedule(batches, lengths, rates, **options)
    within = losses_by_enumeration(rates, tolerance_ratio)[:allowed]
    kept = np.isfinite(within).any()
    fewest = 1 + int(np.argmax(np.isfinite(within)))
    assert len(schedule.ranges) == fewest if kept else len(schedule.ranges) <= allowed
    assert schedule.loss_ratio == pytest.approx(
        within[fewest - 1] if kept else least[allowed - 1], abs=1e-12
    )
    assert (schedule.worst_loss_ratio <= tolerance_ratio + 1e-12) == kept
    picked = [
        rates[row, lengths.index(schedule.draft_tokens_at(batch))]
        for row, batch in enumerate(batches)
    ]
    achieved = float(np.mean(np.array(picked) / np.nanmax(rates, axis=1)))
    assert schedule.loss_ratio == pytest.approx(1 - achieved, abs=1e-12)


@given(tables())
def test_ranges_cover_every_batch_once(table):
    batches, lengths, rates = table
    schedule = batch_schedule(batches, lengths, rates)
    assert schedule.ranges[0][0] == 1
    assert schedule.ranges[-1][1] == batches[-1]
    for (_, high, left), (low, _, right) in itertools.pairwise(schedule.ranges):
        assert low == high + 1
        assert left != right
    assert all(low <= high and each in lengths for low, high, each in schedule.ranges)
    for batch in range(1, batches[-1] + 1):
        assert [schedule.draft_tokens_at(batch)] == [
            k for low, high, k in schedule.ranges if low <= batch <= high
        ]
    assert schedule.to_json() == [list(each) for each in schedule.ranges]


@given(tables(), st.floats(0.01, 100))
def test_the_unit_of_the_rates_does_not_matter(table, scale):
    batches, lengths, rates = table
    scaled = rates * scale * np.arange(1, len(batches) + 1)[:, None]
    plain = batch_schedule(batches, lengths, rates)
    assert batch_schedule(batches, lengths, scaled).loss_ratio == pytest.approx(
        plain.loss_ratio, abs=1e-9
    )


def test_a_range_ends_where_the_rates_cross():
    rates = [[1.0, 2.0], [1.0, 1.5], [1.0, 0.75]]
    schedule = batch_schedule([1, 8, 68], [0, 3], rates)
    assert schedule.ranges == ((1, 48, 3), (49, 68, 0))
    assert schedule.loss_ratio == 0


def test_a_range_ends_early_where_a_draft_length_stops_running():
    nan = np.nan
    ends_early = batch_schedule([1, 10, 20], [0, 3], [[1.0, 2.0], [1.0, 2.0], [1.0, nan]])
    assert ends_early.ranges == ((1, 10, 3), (11, 20, 0))
    starts_late = batch_schedule([1, 10, 20], [0, 3], [[1.0, nan], [1.0, nan], [1.0, 2.0]])
    assert starts_late.ranges == ((1, 19, 0), (20, 20, 3))


def test_fewer_ranges_where_little_is_lost():
    rates = np.array([[1.0, 1.004], [1.0, 0.9], [1.0, 0.9]])
    assert batch_schedule([1, 2, 4], [0, 1], rates).ranges == ((1, 4, 0),)
    exact = batch_schedule([1, 2, 4], [0, 1], rates, tolerance_ratio=0.0)
    assert exact.ranges == ((1, 1, 1), (2, 4, 0))
    assert exact.loss_ratio == 0


def test_equal_draft_lengths_take_the_shorter():
    assert batch_schedule([1, 2], [2, 4], [[1.0, 1.0], [1.0, 1.0]]).ranges == ((1, 2, 2),)


@given(st.dictionaries(st.integers(1, 512), st.floats(0.2, 4.0), min_size=1, max_size=12))
def test_a_curve_of_speedups_is_followed_where_it_crosses_one(speedup_at):
    batches = sorted(speedup_at)
    rates = [[1.0, speedup_at[batch]] for batch in batches]
    schedule = batch_schedule(batches, [0, 3], rates, tolerance_ratio=0.0)
    for batch in batches:
        if speedup_at[batch] != 1.0:  # where both are as fast, either joins its neighbours
            assert (schedule.draft_tokens_at(batch) > 0) == (speedup_at[batch] > 1.0)
    assert schedule.loss_ratio == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("batches", "lengths", "rates", "options", "key"),
    [
        ([], [0], [], {}, "batches"),
        ([0, 1], [0], [[1.0], [1.0]], {}, "batches"),
        ([2, 1], [0], [[1.0], [1.0]], {}, "batches"),
        ([1.5], [0], [[1.0]], {}, "batches"),
        ([1], [3, 3], [[1.0, 1.0]], {}, "draft_tokens"),
        ([1], [-1], [[1.0]], {}, "draft_tokens"),
        ([1], [0, 1], [[1.0]], {}, "rates"),
        ([1], [0, 1], [[[1.0, 1.0], [1.0, 1.0]]], {}, "rates"),
        ([1], [0], np.ones((0, 1, 1)), {}, "rates"),
        ([1], [0], [[-1.0]], {}, "rates"),
        ([1], [0], [[np.inf]], {}, "rates"),
        ([1], [0], [[1.0]], {"max_ranges": 0}, "max_ranges"),
        ([1], [0], [[1.0]], {"tolerance_ratio": -0.1}, "tolerance_ratio"),
    ],
)
def test_refuses_what_is_no_table(batches, lengths, rates, options, key):
    with pytest.raises(InputError) as caught:
        batch_schedule(batches, lengths, rates, **options)
    assert caught.value.key == key


def test_says_which_batch_cannot_run():
    with pytest.raises(InfeasibleError) as caught:
        batch_schedule([1, 4], [0, 1], [[1.0, 1.0], [np.nan, 0.0]])
    assert caught.value.value == 4
    schedule = batch_schedule([1, 4], [0], [[1.0], [1.0]])
    for batch in (0, 5):
        with pytest.raises(InputError, match=r"covers batches 1\.\.4"):
            schedule.draft_tokens_at(batch)


JAGGED = [
    ("llama-3.1-8b", "h100-sxm", "eagle-3", 0.7),
    ("llama-3.1-8b", "h100-sxm", "n-gram", 0.7),
    ("llama-3.1-8b", "a100-sxm-80", "eagle-3", 0.6),
    ("qwen3-30b-a3b", "h100-sxm", "eagle-3", 0.7),
]


@pytest.mark.parametrize(("model", "device", "method", "rate"), JAGGED)
def test_no_narrow_range_gains_less_than_its_interval(model, device, method, rate):
    chosen = DecodingConfiguration(
        method=method, deployment=DeploymentNames(model=model, device=device)
    )
    setting = build_setting(chosen)
    chains = [rate_claim(setting.drafter.method, rate, k) for k in range(9)]
    contender = Contender(configuration=chosen, setting=setting, candidates=chains)
    grid, doubt = scheduled_batches(256), gain_doubt(contender, 1024)
    rates = evaluate(contender, batch=grid, context=1024).value.T
    runs = np.isfinite(rates).any(axis=1)
    grid, rates = grid[runs], np.where(np.isfinite(rates), rates, np.nan)[runs]
    exact, joined = (
        batch_schedule(grid.tolist(), range(9), rates, doubt=each).ranges for each in (None, doubt)
    )
    assert len(joined) <= len(exact)
    for place, (low, high, k) in enumerate(joined):
        if len(joined) == 1 or high + 1 >= SHORT_RATIO * low:
            continue
        inside = (grid >= low) & (grid <= high)
        for *_, other in joined[max(place - 1, 0) : place] + joined[place + 1 : place + 2]:
            gained = np.log(np.nanmax(rates[inside], axis=1) / rates[inside, other])
            assert not gained.max() < 0.9 * doubt((low + high) // 2, k, other)
