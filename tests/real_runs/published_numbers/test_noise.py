"""What several sources measured: spreads between publications, not within one."""

import pytest

from real_runs.published_numbers.noise import noise_floor, source_of


def plain(row, source, value, **changes):
    return row(
        system="Vanilla (in x)",
        source=source,
        acceptance="",
        speedup=None,
        value=value,
        unit="tok/s",
        **changes,
    )


def test_two_publications_of_one_number_make_a_spread(row):
    rows = [
        plain(row, "arXiv:2503.01840 Table 1", 40.0),
        plain(row, "arXiv:2405.18628 Table 1", 50.0),
    ]
    (spread,) = noise_floor(rows)
    assert (spread.target, spread.device, spread.engine, spread.sources) == (
        "vicuna-13b",
        "a100-sxm-80",
        "transformers",
        2,
    )
    assert (spread.lowest, spread.highest, spread.ratio) == pytest.approx((20.0, 25.0, 0.25))


def test_tables_of_one_publication_and_other_settings_make_none(row):
    same = [
        plain(row, "arXiv:2503.01840 Table 1", 40.0),
        plain(row, "arXiv:2503.01840 Table 2", 80.0),
    ]
    other = [
        plain(row, "arXiv:2405.18628 Table 1", 50.0, batch="8"),
        plain(row, "arXiv:2401.15077", 9.0, prompt="32K"),
    ]
    assert noise_floor([*same, *other]) == []


def test_a_system_is_compared_by_what_a_token_more_brings(row):
    rows = [
        row(acceptance="tau=4.0", speedup=2.0),
        row(source="hemingkx/Spec-Bench", acceptance="tau=5.0", speedup=2.0),
    ]
    (spread,) = noise_floor(rows)
    assert spread.what == "EAGLE-2, speedup per emitted token"
    assert spread.ratio == pytest.approx(0.25)


def test_rows_that_cannot_be_read_are_passed_over(row):
    assert (
        noise_floor([row(problem="has 2 cells"), row(hardware="unstated"), row(system="nobody")])
        == []
    )


def test_publications_by_number_or_owner(row):
    assert source_of(row(source="PARD paper arXiv:2504.18583 (no. from memory)")) == "2504.18583"
    assert source_of(row(source="hemingkx/Spec-Bench Leaderboard.md")) == "hemingkx/spec-bench"
