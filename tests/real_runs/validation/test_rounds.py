"""Rounds of the same work become one run, in the machine's usual state as the probes beside them
tell it."""

import numpy as np
import pytest

pytest.importorskip("torch")

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from real_runs.decoding.timed_pass import TimedPass
from real_runs.validation.rounds import (
    faster_half,
    pooled,
    probe_correlation,
    steadied,
    undisturbed,
)
from real_runs.validation.runs import Run

SIZES = ((1, 1, 8), (1, 3, 9), (1, 1, 12))


def run(
    seconds,
    *,
    turn=0,
    sizes=SIZES,
    configuration="a",
    prompts=("p",),
    draft=0.2,
    rest=0.1,
    share=1.0,
    probe=0.01,
):
    decode_s = sum(seconds) + draft + rest
    return Run(
        cell="c",
        configuration=configuration,
        round=turn,
        prompts=prompts,
        tokens=5,
        steps=len(seconds),
        request_steps=len(seconds),
        drafted_tokens=2,
        decode_s=decode_s,
        cpu_s=share * decode_s,
        draft_s=draft,
        verify_s=sum(seconds),
        passes=tuple(TimedPass(*size, s) for size, s in zip(sizes, seconds, strict=True)),
        output_sha256="",
        probe_s=probe,
    )


def test_runs_that_waited_for_the_processor_do_not_count():
    quiet, held = run([1.0, 1.0, 1.0]), run([1.0, 1.0, 1.0], share=0.8)
    assert undisturbed([quiet, held, quiet]) == [quiet, quiet]
    assert undisturbed([quiet, held], on_cpu=False) == [quiet, held]
    assert undisturbed([]) == []


@given(st.lists(st.floats(0.1, 9.0), min_size=1, max_size=9))
def test_the_faster_half_of_a_work_counts_and_of_every_work_one_run_at_least(times):
    rounds = [run([each, 1.0, 1.0], turn=turn) for turn, each in enumerate(times)]
    other = run([50.0, 1.0, 1.0], configuration="b")
    kept = faster_half([*rounds, other])
    own = sorted(each.decode_s for each in kept if each is not other)
    assert other in kept and own == sorted(each.decode_s for each in rounds)[: -(-len(times) // 2)]


def test_every_pass_counts_at_its_median_over_rounds():
    made = [
        run([1.0, 3.0, 1.1], turn=0),
        run([5.0, 2.0, 1.0], turn=1, draft=0.4),
        run([1.2, 2.2, 9.0], turn=2),
    ]
    (found,) = pooled(made)
    assert [s for *_, s in found.passes] == pytest.approx([1.2, 2.2, 1.1])
    assert (
        found.rounds == 3
        and found.draft_s == pytest.approx(0.2)
        and found.rest_s == pytest.approx(0.1)
    )
    assert found.decode_s == pytest.approx(1.2 + 2.2 + 1.1 + 0.2 + 0.1)
    assert found.process_share == pytest.approx(1.0) and (found.tokens, found.steps) == (5, 3)


def test_what_is_not_the_same_work_is_not_pooled():
    other_text = run([1.0, 1.0, 0.1], sizes=(*SIZES[:2], (1, 1, 10)))
    found = pooled(
        [
            run([1.0, 1.0, 1.0]),
            other_text,
            run([1.0, 1.0, 1.0]),
            run([2.0] * 3, configuration="b"),
            run([3.0] * 3, prompts=("q",)),
        ]
    )
    assert [(each.configuration, each.prompts, each.rounds) for each in found] == [
        ("a", ("p",), 2),
        ("b", ("p",), 1),
        ("a", ("q",), 1),
    ]
    assert found[0].passes[-1] == (1, 1, 12, 1.0)


def times(least):
    shapes = st.tuples(st.integers(least, 7), st.just(3))
    return arrays.arrays(np.float64, shapes, elements=st.floats(0.1, 10.0))


@given(times(1))
def test_a_round_by_itself_stays_and_more_rounds_stay_within_what_was_seen(seconds):
    (found,) = pooled([run(row.tolist(), turn=turn) for turn, row in enumerate(seconds)])
    here = np.array([s for *_, s in found.passes])
    assert np.all(here >= seconds.min(axis=0)) and np.all(here <= seconds.max(axis=0))
    if len(seconds) == 1:
        assert found.decode_s == pytest.approx(seconds.sum() + 0.3)


@given(times(1), st.lists(st.floats(0.5, 3.0), min_size=7, max_size=7))
def test_what_slows_a_run_and_its_probe_alike_leaves_no_trace(seconds, slower):
    quiet = [run([1.0, 2.0, 3.0], turn=turn) for turn in range(len(seconds))]
    held = [
        run(
            [ratio, 2.0 * ratio, 3.0 * ratio],
            turn=turn,
            draft=0.2 * ratio,
            rest=0.1 * ratio,
            probe=0.01 * ratio,
        )
        for turn, ratio in zip(range(len(seconds)), slower, strict=False)
    ]
    steady = steadied([*quiet, *held])
    (one,), (other,) = (pooled(part) for part in (steady[: len(quiet)], steady[len(quiet) :]))
    assert other.decode_s == pytest.approx(one.decode_s)
    assert [s for *_, s in other.passes] == pytest.approx([s for *_, s in one.passes])
    usual = sorted(each.probe_s for each in held)[len(held) // 2 :][:1]
    if len(held) % 2:
        assert pooled(steadied(held))[0].probe_s == pytest.approx(usual[0])


def test_without_probes_times_stay():
    runs = [run([1.0, 1.0, 1.0], probe=0.0), run([2.0, 2.0, 2.0], probe=0.0)]
    assert steadied(runs) == runs and steadied([]) == []


def test_the_correlation_says_whether_probes_tell_anything():
    told = [
        run([t, t, t], draft=0.0, rest=0.0, probe=0.01 * t, turn=turn)
        for turn, t in enumerate((1.0, 2.0, 3.0))
    ]
    assert probe_correlation(told) == pytest.approx(1.0)
    against = [run([t, t, t], draft=0.0, rest=0.0, probe=0.01 / t) for t in (1.0, 2.0, 3.0)]
    assert probe_correlation(against) == pytest.approx(-1.0)
    different = [
        run([1.0] * 3, configuration=name, probe=p)
        for name, p in (("a", 0.01), ("b", 0.02), ("c", 0.03))
    ]
    assert np.isnan(probe_correlation(different)), "nothing was repeated"
