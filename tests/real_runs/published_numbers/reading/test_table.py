"""Tables of published numbers: both kinds of columns, rows that cannot be read, files that are no
table."""

import csv

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import InputError, UnknownNameError
from real_runs.published_numbers.reading.table import COLUMNS, OPTIONAL, PublishedRow, read_rows

ROW = {
    "system": "EAGLE-2",
    "source": "arXiv:1, table 1",
    "target": "Vicuna-7B",
    "hardware": "A100-80GB",
    "n_gpus": "1",
    "batch": "1",
    "tree_or_gamma": "dynamic tree 60 nodes depth 7 top-k 10",
    "alpha_or_tau": "tau=4.0",
    "value": "100.5",
    "unit": "tok/s",
    "speedup": "3.1",
    "completeness": "full",
}
REFINING = {
    "system": "Fast-dLLM",
    "source": "a page",
    "model": "LLaDA-8B",
    "steps": "64",
    "tps": "20",
    "speedup": "2",
    "completeness": "medium-high",
}


@pytest.fixture
def written(tmp_path):
    def write(rows, kind="drafting", columns=None):
        path = tmp_path / "rows.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            names = columns or COLUMNS[kind]
            writer = csv.writer(file)
            writer.writerow(names)
            writer.writerows(
                [row.get(name, "") for name in names] if isinstance(row, dict) else row
                for row in rows
            )
        return path

    return write


def test_a_row_of_drafting_is_read(written):
    (row,) = read_rows(written([ROW]))
    assert (row.value, row.unit, row.speedup, row.group, row.kind, row.line) == (
        100.5,
        "tok/s",
        3.1,
        "full",
        "drafting",
        2,
    )
    assert (row.published, row.quantity, row.problem) == (100.5, "tok/s", "")


def test_a_row_of_refining_is_read_in_any_order_of_columns(written):
    (row,) = read_rows(written([REFINING], columns=sorted(COLUMNS["refining"])))
    assert (row.target, row.acceptance, row.value, row.unit, row.group) == (
        "LLaDA-8B",
        "64",
        20.0,
        "tok/s",
        "partial",
    )


@pytest.mark.parametrize(
    ("completeness", "group"),
    [
        ("full", "full"),
        ("partial", "partial"),
        ("abstract", "headline"),
        ("headline", "headline"),
        ("high (GPU type missing)", "full"),
        ("medium-high", "partial"),
        ("low (accuracy only)", "headline"),
    ],
)
def test_how_much_is_stated_makes_the_group(written, completeness, group):
    (row,) = read_rows(written([ROW | {"completeness": completeness}]))
    assert (row.group, row.problem) == (group, "")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"value": "fast"}, "value is no single number"),
        ({"speedup": "2.04/2.26"}, "speedup is no single number"),
        ({"value": "0"}, "must be above 0"),
        ({"system": ""}, "names no system"),
        ({"completeness": "total"}, "completeness must begin"),
    ],
)
def test_a_row_that_cannot_be_read_says_why_and_ends_nothing(written, change, problem):
    bad, good = read_rows(written([ROW | change, ROW]))
    assert problem in bad.problem
    assert good.problem == ""


def test_a_row_of_too_few_or_too_many_cells_says_so(written):
    short, long, good = read_rows(written([["EAGLE"], [*COLUMNS["drafting"], "more"], ROW]))
    assert "cells" in short.problem
    assert "cells" in long.problem
    assert good.problem == ""


def test_what_a_row_is_there_for_is_its_value_else_its_speedup_else_its_baseline():
    row = PublishedRow(
        line=0,
        kind="drafting",
        system="x",
        source="y",
        group="full",
        baseline=2.0,
        baseline_unit="s",
    )
    assert (row.published, row.quantity) == (2.0, "baseline, s")


def test_unknown_and_missing_columns_are_refused_by_name(written):
    with pytest.raises(UnknownNameError, match=r"rows\.csv.*colour"):
        read_rows(written([], columns=[*COLUMNS["drafting"], "colour"]))
    with pytest.raises(InputError, match=r"rows\.csv: alpha_or_tau: lacks the column"):
        read_rows(
            written([], columns=[name for name in COLUMNS["drafting"] if name != "alpha_or_tau"])
        )
    with pytest.raises(InputError, match="more than once"):
        read_rows(written([], columns=[*COLUMNS["drafting"], "system"]))


def test_what_is_no_table_is_refused(tmp_path):
    empty = tmp_path / "empty.csv"
    empty.write_text("")
    for path in (empty, tmp_path / "absent.csv", tmp_path):
        with pytest.raises(InputError):
            read_rows(path)


@given(st.binary(max_size=400))
def test_bytes_of_any_kind_are_rows_or_refused(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("bytes") / "rows.csv"
    path.write_bytes(",".join(COLUMNS["drafting"]).encode() + b"\n" + content)
    assert all(isinstance(row, PublishedRow) for row in read_rows(path))


def test_a_row_may_state_its_engine_and_service_in_columns(written):
    columns = (*COLUMNS["drafting"], *OPTIONAL)
    plain, stated, wrong = read_rows(
        written(
            [ROW, ROW | {"engine": "vllm", "service": "shared-prefix"}, ROW | {"service": "taxi"}],
            columns=columns,
        )
    )
    assert (plain.engine, plain.facts.service) == ("", "")
    assert (stated.engine, stated.facts.service) == ("vllm", "shared-prefix")
    assert "service must be one of" in wrong.problem
