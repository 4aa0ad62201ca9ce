"""Counters between two scrapes: sums, means, quantiles, and what a restart leaves of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from real_runs.servers.address import Address
from real_runs.servers.counters import scrape
from real_runs.servers.engines import KINDS
from real_runs.servers.identify import identify
from tests.real_runs.servers.prometheus_text import ENDS, histogram
from tests.real_runs.servers.stub_server import serving
from traces.importers.scrapes import Scrape, observed


def between(before, after, **options):
    return observed(Scrape(at_s=1.0, text=before), Scrape(at_s=3.0, text=after), **options)


WAITS = st.lists(st.floats(0.01, 0.99), min_size=1, max_size=30)


@given(first=st.lists(st.floats(0.01, 2.0), max_size=10), more=WAITS, share=st.floats(0.05, 1.0))
def test_what_a_histogram_took_in_between_is_told_from_what_it_held(first, more, share):
    span = between(histogram(first), histogram(first + more))
    assert span.mean("vllm:time_to_first_token_seconds") == pytest.approx(sum(more) / len(more))
    rank = sorted(more)[max(0, -int(-share * len(more) // 1) - 1)]
    bucket = next(end for end in ENDS if rank <= end)
    start = max((end for end in ENDS if end < bucket), default=0.0)
    assert start <= span.quantile("vllm:time_to_first_token_seconds", share) <= bucket + 1e-12


def test_beyond_the_last_bucket_a_quantile_is_its_beginning():
    assert (
        between(histogram([]), histogram([5.0, 7.0])).quantile(
            "vllm:time_to_first_token_seconds", 0.5
        )
        == 1.0
    )


def test_nothing_between_has_no_mean():
    span = between(histogram([0.2]), histogram([0.2]))
    assert span.mean("vllm:time_to_first_token_seconds") is None
    assert span.quantile("vllm:time_to_first_token_seconds", 0.5) is None
    assert (span.total("vllm:none"), span.level("vllm:none"), span.fell) == (None, None, ())


def test_counters_are_summed_over_labels_and_gauges_are_levels():
    text = "# TYPE a gauge\n" + "".join(
        f'{name}{{{{engine="{at}"}}}} {{0}}\n' for name in ("a", "b_total") for at in "01"
    )
    span = between(text.format(1), text.format(4))
    assert (span.level("a"), span.total("b"), span.seconds) == (8.0, 6.0, 2.0)


def test_other_models_are_left_out():
    text = 'b_total{{model_name="m"}} {0}\nb_total{{model_name="n"}} {1}\nb_total {0}\n'
    assert between(text.format(0, 0), text.format(2, 50), model="m").total("b") == 4.0


def test_a_counter_that_fell_or_vanished_is_named():
    assert between("b_total 5\nc_total 1\n", "b_total 4\nc_total 1\n").fell == ("b_total",)
    assert between("b_total 5\nc_total 1\n", "c_total 1\n").fell == ("b_total",)


def test_a_mean_since_the_start_becomes_one_between():
    text = "# TYPE busy gauge\nbusy {}\nsteps_total {}\n"
    assert between(text.format(1.0, 10), text.format(2.0, 30)).weighted_mean("busy", "steps") == 2.5


@given(st.text(alphabet='ab_total{}="\\n0123456789.#eE+- \nNaInf', max_size=200))
def test_no_text_of_a_server_does_harm(text):
    span = between(text, text)
    assert all(value == 0 for value in span.gained.values()) and span.fell == ()


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_without_counters_is_told_what_to_start_with(kind):
    wanted = {"llama.cpp": "--metrics", "sglang": "--enable-metrics"}.get(
        kind, "publishes no counters"
    )
    with serving(kind, scrapes=()) as (url, _):
        server = identify(Address.parse(url))
        with pytest.raises(InputError, match=wanted):
            scrape(server)
