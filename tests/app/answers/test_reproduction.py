"""Errors of groups and systems, kinds of numbers, reasons and causes."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.answers.reproduction.reproduction import percentile, reproduction
from real_runs.published_numbers.answer import Prediction
from real_runs.published_numbers.causes import cause_of
from real_runs.published_numbers.reading.table import PublishedRow


def found(predicted, reason="", *, system="EAGLE-2", **changes):
    given = {
        "line": 2,
        "kind": "drafting",
        "source": "arXiv:1 Table 1",
        "group": "full",
        "value": 10.0,
        "unit": "tok/s",
    }
    return "", Prediction(
        row=PublishedRow(system=system, **(given | changes)), predicted=predicted, reason=reason
    )


def test_errors_and_their_summary():
    body = reproduction(
        [found(11.0), found(8.0), found(20.0), found(None, "key: says nothing: 'x'")], {}
    )
    full = body.groups["full"]
    assert [row.error_ratio for row in body.rows] == [
        pytest.approx(0.1),
        pytest.approx(-0.2),
        1.0,
        None,
    ]
    assert (full.rows, full.predicted, full.over_30_percent, full.without_cause) == (
        4,
        3,
        1,
        1,
    )
    assert (full.bias_ratio, full.median_error_ratio) == (
        pytest.approx(0.1),
        pytest.approx(0.2),
    )
    assert full.p90_error_ratio == pytest.approx(0.2 + 0.8 * 0.8)
    assert body.groups["headline"].median_error_ratio is None
    (system,) = body.systems
    assert (system.system, system.source, system.predicted) == ("EAGLE-2", "arXiv:1", 3)


def test_kinds_of_numbers_are_told_apart():
    by_formula = ("", replace(found(5.0)[1], computed=True))
    body = reproduction(
        [
            found(1.0),
            found(2.0, value=None, unit="", speedup=2.0),
            found(3.0, value=3.0, unit="x vs HF"),
            found(4.0, value=4.0, unit="tokens/step"),
            by_formula,
        ],
        {},
    )
    assert [row.kind for row in body.rows] == [
        "absolute",
        "ratio",
        "ratio",
        "tokens",
        "computed",
    ]
    full = body.groups["full"]
    assert [(name, part.predicted) for name, part in full.parts] == [
        ("all", 5),
        ("times and rates", 1),
        ("ratios to a baseline", 2),
        ("tokens per step", 1),
        ("computed by the source", 1),
    ]
    assert full.computed.median_error_ratio == 0.5


def test_reasons_are_counted_without_what_they_are_about():
    body = reproduction(
        [
            found(None, "DEER: no entry of the catalogue of that name"),
            found(None, "NAP: no entry of the catalogue of that name"),
            found(None, "is not stated: drafter"),
        ],
        {},
    )
    assert [(each.reason, each.rows) for each in body.refused] == [
        ("no entry of the catalogue of that name", 2),
        ("is not stated", 1),
    ]


def test_only_large_errors_get_a_cause():
    known = {"system": "Falcon", "source": "arXiv:2412.12639 Table 2"}
    near, far = reproduction([found(11.0, **known), found(20.0, **known)], {}).rows
    assert near.cause == ""
    assert far.cause == cause_of(found(20.0, **known)[1].row)


@given(st.lists(st.floats(0.0, 1e6), min_size=1, max_size=30), st.floats(0.0, 1.0))
def test_percentiles_lie_between_the_ends_and_grow(values, share):
    ordered = sorted(values)
    found = percentile(ordered, share)
    assert ordered[0] <= found <= ordered[-1] * (1.0 + 1e-12)
    assert percentile(ordered, share / 2.0) <= found * (1.0 + 1e-12)
