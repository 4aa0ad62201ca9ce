"""What sources say of all their rows: engines, captured drafts, services, offloaded caches."""

import pytest

from costmodel.engine_library import load_engine
from real_runs.published_numbers.reading.sources import (
    SERVICES,
    SourceFacts,
    facts_of,
    source_table,
)


def test_a_source_that_nothing_is_known_of_says_nothing():
    assert facts_of("a blog") == SourceFacts()


def test_a_source_may_capture_its_drafts():
    assert facts_of("arXiv:2402.12374v3 Table 1").captured_drafts
    assert not facts_of("arXiv:2503.01840 Table 1").captured_drafts


@pytest.mark.parametrize("table", ["engines", "services", "offloaded_caches"])
def test_every_entry_is_reached_and_says_why(table):
    for entry in source_table()[table]:
        assert entry["because"]
        for word in entry["words"]:
            facts = facts_of(word)
            assert facts != SourceFacts()
            assert facts.service in SERVICES
            assert not facts.engine or load_engine(facts.engine).name == facts.engine


def test_shares_of_a_cache_are_those_of_as_many_devices():
    facts = facts_of("arXiv:2404.11912 Table 1")
    assert facts.offloaded[1].row == 1.0 and facts.offloaded[1].baseline is None
    assert 0.0 < facts.offloaded[2].baseline < facts.offloaded[2].row < 1.0
    assert 8 not in facts.offloaded
