"""Speeds of decode jobs: intervals hold their medians, nest by coverage, and shrink to what all
prompts share."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from real_runs.campaigns.decode_summary import ALL_KINDS, speeds
from real_runs.campaigns.decode_table import DecodeRun, DecodeTable

SECONDS = st.floats(0.2, 20.0)
TIMES = st.lists(st.tuples(st.sampled_from("ab"), SECONDS, SECONDS), min_size=2, max_size=12)


def run(configuration, prompt, kind, seconds):
    drafts = {} if configuration == "plain" else {"drafter": "x", "draft_tokens": 2}
    return DecodeRun(
        job="d",
        configuration=configuration,
        prompt=prompt,
        kind=kind,
        round=0,
        prompt_tokens=5,
        tokens=11,
        steps=10,
        ended="eos",
        output_sha256="x",
        wall_s=0.1 + seconds,
        cpu_s=0.1 + seconds,
        prefill_s=0.1,
        verify_s=seconds,
        **drafts,
    )


def summary(times, coverage=0.8):
    """Of prompts that took so long without and with a drafter, by kind."""
    runs = [
        run(name, f"p{at}", kind, seconds)
        for at, (kind, plain, fast) in enumerate(times)
        for name, seconds in (("plain", plain), ("k", fast))
    ]
    table = DecodeTable(runs=tuple(runs), provenance={"d": {"device_type": "cuda"}})
    found = speeds(table, generator=np.random.default_rng(0), coverage=coverage, resamples=300)
    return {each.kind: each for each in found if each.configuration == "k"}


@given(TIMES)
def test_intervals_of_speedups_hold_their_medians(times):
    for kind, found in summary(times).items():
        ratios = [plain / fast for each, plain, fast in times if kind in (ALL_KINDS, each)]
        assert found.prompts == len(ratios) and found.speedup == pytest.approx(np.median(ratios))
        if len(ratios) < 2:
            assert found.speedup_interval is None
        else:
            low, high = found.speedup_interval
            assert (
                min(ratios) - 1e-9 <= low <= found.speedup + 1e-9
                and found.speedup - 1e-9 <= high <= max(ratios) + 1e-9
            )


@given(TIMES, st.lists(st.floats(0.05, 0.99), min_size=2, max_size=2).map(sorted))
def test_a_wider_coverage_never_narrows_an_interval(times, coverages):
    (low, high), (least, most) = (
        summary(times, each)[ALL_KINDS].speedup_interval for each in coverages
    )
    assert least <= low <= high <= most


@given(st.lists(SECONDS, min_size=2, max_size=8), st.floats(0.2, 5.0))
def test_a_speedup_that_all_prompts_share_is_its_interval(plain, speedup):
    found = summary([("a", seconds, seconds / speedup) for seconds in plain])[ALL_KINDS]
    assert found.speedup_interval == pytest.approx((speedup, speedup))
