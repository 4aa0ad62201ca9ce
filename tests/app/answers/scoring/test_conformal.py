"""Split conformal widths: they hold 80 % of what did not make them, and follow engine and phase."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.answers.scoring.conformal import (
    LEAST,
    Residual,
    conformal_ratios,
    half_of,
    ratio_of,
    with_conformal_intervals,
)
from app.answers.scoring.measured import ComparedTime, PublishedMeasurement

ENGINES = {"vllm": 0.1, "sglang": 0.3}


def residual(log, *, engine="vllm", family="a", kernels=0.05):
    return Residual(
        quantity="tpot",
        serving="aggregated",
        engine=engine,
        family=(family, "h100-sxm", engine),
        log=float(log),
        kernels=kernels,
    )


def drawn(generator, families, runs=400):
    return [
        residual(log, engine=engine, family=family)
        for engine, sigma in ENGINES.items()
        for family in families
        for log in sigma * generator.standard_normal(runs)
    ]


def test_a_ratio_holds_eighty_percent_of_families_that_did_not_make_it():
    """Of 2,000 runs that make a ratio and as many that do not, 80 % are known to 1.3 %."""
    generator = np.random.default_rng(1)
    table = conformal_ratios(drawn(generator, "abcde"))
    for engine in ENGINES:
        unseen = [r for r in drawn(generator, "vwxyz") if r.engine == engine]
        ratio = ratio_of(table, ("tpot", "aggregated", engine))
        assert np.mean([r.needed <= math.log1p(ratio) for r in unseen]) == pytest.approx(
            0.8, abs=0.04
        )
    vllm, sglang = (ratio_of(table, ("tpot", "aggregated", engine)) for engine in ENGINES)
    assert vllm < sglang == ratio_of(table, ("tpot", "disaggregated", "other"))


def test_few_runs_or_one_family_have_no_ratio_of_their_own():
    generator = np.random.default_rng(2)
    one = [r for r in drawn(generator, "ab") if r.engine == "vllm" or r.family[0] == "a"]
    assert ("tpot", "aggregated", "sglang") not in conformal_ratios(one)
    few = [r for r in drawn(generator, "ab") if r.engine == "sglang"][: LEAST - 1]
    assert set(conformal_ratios(few)) == {("tpot", "", "")}


@given(logs=st.lists(st.floats(-2.0, 2.0), min_size=1, max_size=60), more=st.floats(1.0, 3.0))
def test_larger_errors_never_make_narrower_intervals(logs, more):
    own, wider = (
        conformal_ratios([residual(scale * log) for log in logs]) for scale in (1.0, more)
    )
    assert all(wider[key] >= own[key] >= 0.0 for key in own)


@given(families=st.lists(st.text(max_size=3), min_size=2, max_size=20), seed=st.integers(0, 99))
def test_halves_are_equal_in_families_and_repeat(families, seed):
    names = [(name, "h100-sxm", "vllm") for name in families]
    half = half_of(names, seed=seed)
    assert half == half_of(names * 2, seed=seed) and set(half) == set(names)
    counts = [list(half.values()).count(own) for own in (0, 1)]
    assert abs(counts[0] - counts[1]) <= 1


def test_a_family_widens_the_intervals_of_the_other_half_and_not_its_own():
    def run(family, error):
        time = ComparedTime(measured_ms=10.0, predicted_ms=10.0 * error, interval_ms=(9.0, 11.0))
        return PublishedMeasurement(
            ids=(family,),
            family=(family, "h100-sxm", "vllm"),
            place={"serving": "aggregated"},
            tpot=time,
            ttft=None,
            reason=None,
        )

    runs = [run(family, error) for family, error in [("exact", 1.0), ("off", 2.0)] for _ in "abcde"]
    half = {runs[0].family: 0, runs[-1].family: 1}
    exact, off = (with_conformal_intervals(runs, half)[at].tpot for at in (0, -1))
    assert exact.interval_ms[1] / exact.predicted_ms == pytest.approx(2.0)
    assert not off.inside
    assert off.interval_ms[1] / off.predicted_ms < 1.2
