"""What sources say of all their rows: engines, captured drafts, services, offloaded caches; and of
some."""

import pytest

from costmodel.engine_library import load_engine
from real_runs.published_numbers.reading.sources import (
    SERVICES,
    RowFacts,
    SourceFacts,
    facts_of,
    row_facts_of,
    source_table,
)
from real_runs.published_numbers.reading.table import COLUMNS, read_rows


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


def test_every_entry_of_rows_is_reached_and_says_why():
    columns = {name for names in COLUMNS.values() for name in names}
    for entry in source_table()["rows"]:
        where = entry.get("where", {})
        assert entry["because"] and where.keys() <= columns
        cells = {column: values[0] for column, values in where.items()}
        for word in entry["words"]:
            facts = row_facts_of(word, cells)
            assert facts != RowFacts()
            assert not facts.engine or load_engine(facts.engine).name == facts.engine
            assert facts.ring in ("pass_kv", "pass_q")


def test_facts_are_of_the_rows_that_they_speak_of_alone():
    source = "arXiv:2401.15077 Table 4 (gpt-fast)"
    plain = {"system": "Vanilla (in EAGLE)", "value": "55.1"}
    assert row_facts_of(source, plain).engine == "none"
    assert row_facts_of(source, plain | {"value": "24.5"}).engine == "transformers"
    assert row_facts_of("a blog", plain | {"value": "24.5"}) == RowFacts()


def test_a_row_may_have_its_time_of_a_step_known_beside_its_speed(tmp_path):
    cells = dict.fromkeys(COLUMNS["refining"], "") | {
        "system": "LPD-XL",
        "source": "mit-han-lab/lpd@f447b83 README",
        "model": "LPD-XL 752M",
        "dataset": "ImageNet 256x256",
        "steps": "32",
        "tps": "26.0",
        "batch": "64",
        "completeness": "high",
    }
    (tmp_path / "t.csv").write_text("\n".join((",".join(cells), ",".join(cells.values()))))
    (known,) = read_rows(tmp_path / "t.csv")
    assert (known.value, known.unit, known.batch) == (20.6, "ms/step", "1")
    cells["steps"] = "20"
    (tmp_path / "t.csv").write_text("\n".join((",".join(cells), ",".join(cells.values()))))
    (other,) = read_rows(tmp_path / "t.csv")
    assert (other.value, other.unit, other.batch) == (26.0, "tok/s", "64")
