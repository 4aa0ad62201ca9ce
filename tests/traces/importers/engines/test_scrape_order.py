"""Of two scrapes the earlier one is told by its counters, and a restart by the time that a process
began."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from tests.traces.importers.engines.test_running import KEPT, VLLM, vllm
from traces.importers.engines.running import read_running
from traces.importers.engines.scrape_order import in_order

GREW = st.lists(st.integers(0, 1000), min_size=len(VLLM), max_size=len(VLLM))


@pytest.fixture(scope="module")
def scrapes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scrapes")

    def write(early, late):
        for name, text in (("early", early), ("late", late)):
            (folder / name).write_text(text)
        return str(folder / "early"), str(folder / "late")

    return write


@given(GREW)
def test_the_order_of_two_scrapes_does_not_matter(scrapes, grew):
    later = {name: value + more for (name, value), more in zip(VLLM.items(), grew, strict=True)}
    early, late = scrapes(vllm(), vllm(**later))
    if any(grew):
        assert in_order(late, early) == in_order(early, late) == (early, late)


def test_what_ran_is_the_same_either_way_and_it_is_said(scrapes):
    twice = {name: 2 * value for name, value in VLLM.items()}
    early, late = scrapes(vllm(), vllm(positions=[2 * kept for kept in KEPT], **twice))
    right, swapped = read_running(early, late), read_running(late, early)
    assert (right.reordered, swapped.reordered) == (False, True)
    assert right.files == swapped.files == (early, late)
    assert right.summary == swapped.summary and right.batch == swapped.batch


@pytest.mark.parametrize(
    "began",
    [
        "process_start_time_seconds {at}\n",
        'vllm:spec_decode_num_drafts_created{{model_name="llama"}} {at}\n',
    ],
)
def test_a_restart_is_no_earlier_scrape(scrapes, began):
    twice = {name: 2 * value for name, value in VLLM.items()}
    before = vllm(positions=[2 * kept for kept in KEPT], **twice) + began.format(at=1.7640e9)
    after = vllm() + began.format(at=1.7641e9)
    with pytest.raises(InputError, match="restarted, or scrapes swapped"):
        read_running(*scrapes(before, after))
    alike = vllm() + began.format(at=1.7640e9)
    assert read_running(*scrapes(before, alike)).reordered
