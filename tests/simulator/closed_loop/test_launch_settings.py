"""Names of launches: of benchmarks, with a month or a day, and what begins until then."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import UnknownNameError
from simulator.closed_loop.launch_settings import LOAD_PATTERNS, read_launch

DAYS = st.dates(date(2025, 1, 1), date(2098, 12, 31)).map(date.isoformat)


@given(scripts=st.sampled_from(sorted(LOAD_PATTERNS)), day=DAYS)
def test_a_name_reads_as_it_is_written(scripts, day):
    for name in (scripts, f"{scripts}-{day[:7]}", f"{scripts}-{day}"):
        assert str(read_launch(name)) == name


@given(day=DAYS, since=DAYS)
def test_scripts_of_a_month_are_those_at_its_end(day, since):
    of_day, of_month = (read_launch(f"inferencex-{day[:size]}") for size in (10, 7))
    assert of_day.includes(since) == (since <= day)
    assert of_month.includes(since) == (since[:7] <= day[:7])
    assert read_launch("inferencex").includes(since) and of_day.includes("")


@pytest.mark.parametrize("name", ["", "inferencemax", "inferencex-", "inferencex-2026", "vllm"])
def test_a_name_of_no_benchmark_is_refused(name):
    with pytest.raises(UnknownNameError, match="launch"):
        read_launch(name)
