"""Workers for prompts and workers that decode, sized together."""

from hypothesis import given
from hypothesis import strategies as st

from app.answers.sizing.pools import pooled_plan
from app.answers.sizing.replicas import fewest
from costmodel.answers.workload import Limits, load_of_means
from tests.app.answers.sizing.services import small_service


@given(st.integers(1, 50), st.sets(st.integers(1, 1000)), st.sets(st.integers(1, 1000)))
def test_looser_limits_never_take_a_larger_number(least, keeps, more):
    """Whatever chance lets numbers keep: those that keep tight limits keep looser ones."""
    most = least << 5
    tight = fewest(lambda n: n in keeps, least, most)
    loose = fewest(lambda n: n in keeps or n in more, least, most)
    assert tight is None or (loose is not None and least <= loose <= tight)


@given(st.integers(1, 50), st.integers(1, 1600))
def test_the_fewest_is_the_threshold_where_there_is_one(least, threshold):
    number = fewest(lambda n: n >= threshold, least, least << 5)
    assert number == (None if threshold > least << 5 else max(least, threshold))


def pools(ttft_ms, tpot_ms, output=60):
    load = load_of_means(requests_per_s=40.0, prompt_tokens=800, output_tokens=output)
    limits = Limits(
        ttft_s=ttft_ms / 1e3, tpot_s=tpot_ms / 1e3, ttft_percentile=95, tpot_percentile=95
    )
    return pooled_plan(small_service(load, limits))


def test_each_pool_follows_its_own_limit():
    """Tighter first tokens take workers for prompts, tighter tokens workers that decode."""
    base, first, tokens = (pools(*limits) for limits in ((900, 60), (40, 60), (900, 14)))
    assert first.prompts > base.prompts and first.decoding <= base.decoding
    assert tokens.decoding > base.decoding and tokens.prompts == base.prompts
    for found in (base, first, tokens):
        assert found.workers == found.prompts + found.decoding
        assert 0.0 < found.utilisation_ratio <= 0.8 and found.times.sustained


def test_longer_outputs_take_more_workers_that_decode():
    short, long = (pools(900, 40, output) for output in (60, 400))
    assert long.decoding > short.decoding and long.prompts == short.prompts
