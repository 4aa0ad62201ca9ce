"""Published acceptance: every entry is possible, and its acceptance is what was published."""

import csv
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.acceptance_library import PublishedAcceptance, published, read_entries
from costmodel.method_library import method_names
from hardware_profiles.errors import InputError

NOT_IN_THE_CATALOGUE = {"dflash", "dflash2", "dspark"}
ENTRIES = published()
CHAINS = [entry for entry in ENTRIES if entry.shape == "chain"]


def made(**changes):
    fields = {
        "method": "eagle-3",
        "target": "m",
        "published_target": "M",
        "data_set": "d",
        "temperature": 0.0,
        "tokens_per_step": {2: 2.0},
        "source": "s",
        "place": "p",
        "licence": "fact",
        "checked": "2026-11-22",
    }
    return PublishedAcceptance(**{**fields, **changes})


def test_every_entry_says_where_it_stands():
    assert ENTRIES
    for entry in ENTRIES:
        assert entry.source and entry.place and entry.licence and entry.data_set
        assert len(entry.checked) in (0, 10)
        assert entry.method in method_names() or entry.method in NOT_IN_THE_CATALOGUE


def test_no_figure_is_listed_twice():
    seen = [
        (
            e.method,
            e.target,
            e.published_target,
            e.drafter,
            e.data_set,
            e.temperature,
            e.shape,
            e.engine,
            e.source,
            e.place,
            tuple(e.tokens_per_step),
            len(e.rates),
            e.note,
        )
        for e in ENTRIES
    ]
    assert len(seen) == len(set(seen))


def test_the_acceptance_of_an_entry_is_what_was_published():
    for entry in CHAINS:
        for draft_tokens, mean in entry.tokens_per_step.items():
            assert entry.acceptance(draft_tokens, match_rate=1.0).tokens_per_step == pytest.approx(
                mean, abs=1e-12
            )
        for draft_tokens in range(len(entry.rates) + 1):
            if draft_tokens not in entry.tokens_per_step:
                tokens = entry.acceptance(draft_tokens, match_rate=1.0).tokens_per_step
                assert tokens == pytest.approx(1.0 + sum(entry.rates[:draft_tokens]), abs=1e-12)


def test_published_means_and_published_rates_agree():
    """Where a source prints both, 1 + the rates is the mean to its digits, or the entry says that
    it is not."""
    for entry in ENTRIES:
        mean = entry.tokens_per_step.get(len(entry.rates))
        if entry.rates and mean is not None:
            assert "disagree" in entry.note or mean == pytest.approx(
                1.0 + sum(entry.rates), rel=0.01
            ), entry


def test_rates_come_near_the_means_that_they_are_made_of():
    """Means of separate runs are noisy, so rates that never increase meet them to 10 %, and nine in
    ten to 1 %."""
    off = []
    for entry in CHAINS:
        for draft_tokens, mean in entry.tokens_per_step.items():
            rates = entry.depth_rates(draft_tokens)
            assert all(0.0 <= b <= a + 1e-12 <= 1.0 + 1e-9 for a, b in pairwise((1.0, *rates)))
            off.append(abs(1.0 + sum(rates) - mean) / mean)
    assert max(off) < 0.1
    assert sorted(off)[len(off) * 9 // 10] < 0.01


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=8))
def test_means_made_of_falling_rates_give_them_back(values):
    rates = sorted(values, reverse=True)
    entry = made(tokens_per_step={k: 1.0 + sum(rates[:k]) for k in range(1, len(rates) + 1)})
    assert entry.depth_rates(len(rates)) == pytest.approx(rates, abs=1e-6)


@given(st.floats(0.0, 1.0), st.integers(1, 12), st.integers(0, 20))
def test_one_mean_is_spread_as_one_rate(rate, measured, asked):
    entry = made(tokens_per_step={measured: sum(rate**d for d in range(measured + 1))})
    wanted = [rate**d for d in range(1, min(asked, measured) + 1)]
    rates = entry.depth_rates(asked)
    assert rates[: len(wanted)] == pytest.approx(wanted, abs=1e-5) and len(rates) == asked


def test_steps_without_a_proposal_need_their_share():
    entry = made(method="n-gram", counted="proposals", tokens_per_step={3: 2.5})
    with pytest.raises(InputError, match="share of steps"):
        entry.acceptance(3)
    assert entry.acceptance(3, match_rate=0.2).tokens_per_step == pytest.approx(1.3)
    assert entry.acceptance(3, match_rate=0.2).proposal_ratio == 0.2


def test_a_tree_is_no_chain():
    tree = next(entry for entry in ENTRIES if entry.shape == "dynamic_tree")
    with pytest.raises(InputError, match="dynamic_tree"):
        tree.acceptance(3)


@pytest.mark.parametrize(
    "changes",
    [
        {"tokens_per_step": {}},
        {"tokens_per_step": {3: 4.01}},
        {"tokens_per_step": {3: 0.99}},
        {"tokens_per_step": {0: 1.0}},
        {"rates": (0.5, 0.6)},
        {"rates": (1.1,)},
        {"rates": (0.5, -0.1)},
        {"rates": (float("nan"),)},
    ],
)
def test_impossible_numbers_are_refused(changes):
    with pytest.raises(InputError):
        made(**changes)


def test_a_damaged_file_is_refused(tmp_path):
    path = tmp_path / "a.toml"
    for text in ("no toml", "x = 1", '[[entries]]\nmethod = "mtp"', "entries = 3"):
        path.write_text(text)
        with pytest.raises(InputError, match="is no list"):
            read_entries(path)


TABLE = """
method = "eagle-3"
source = "s"
place = "p"
licence = "fact"
columns = [{ draft_tokens = [3, 5] }, { draft_tokens = [5], shape = "dynamic_tree", note = "t", target = "n" }]
[[entries]]
target = "m"
published_target = "M"
rows = [["d", [2.0, 2.5], [3.0]], ["e", [1.5, 1.75], [2.25]]]
"""


def test_a_table_is_its_cells_written_out(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text(TABLE)
    shared = {"temperature": None, "checked": ""}
    tree = {**shared, "target": "n", "shape": "dynamic_tree", "note": "t"}
    assert read_entries(path) == [
        made(**shared, data_set="d", tokens_per_step={3: 2.0, 5: 2.5}),
        made(**tree, data_set="d", tokens_per_step={5: 3.0}),
        made(**shared, data_set="e", tokens_per_step={3: 1.5, 5: 1.75}),
        made(**tree, data_set="e", tokens_per_step={5: 2.25}),
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[2.0, 2.5]", "[2.0]"),
        ("[2.0, 2.5]", "2.0"),
        (", [3.0]]", "]"),
        (", [3.0]]", ", [3.0], [4.0]]"),
        ("draft_tokens = [3, 5]", "data_set = 'x'"),
        ("columns =", "column ="),
        ("{ draft_tokens = [3, 5] }", "3"),
        ("rows =", "row ="),
        ('[["d", [2.0, 2.5], [3.0]], ', "[3, "),
        ("[2.0, 2.5]", "[2.0, 7.5]"),
    ],
)
def test_a_damaged_table_is_refused(tmp_path, old, new):
    path = tmp_path / "a.toml"
    assert old in TABLE
    path.write_text(TABLE.replace(old, new))
    with pytest.raises(InputError):
        read_entries(path)


def test_shipped_tables_equal_the_shared_rows(reference_data):
    """Every row of the two licensed tables is shipped, with its number."""
    path = reference_data / "acceptance" / "published_acceptance.csv"
    if not path.exists():
        pytest.skip("the reference data is absent")
    with path.open() as file:
        rows = [row for row in csv.DictReader(file) if row["licence"] in ("MIT", "Apache-2.0")]
    shipped = {
        (entry.published_target, entry.drafter, entry.place.split(" ")[0], mean)
        for entry in ENTRIES
        for mean in entry.tokens_per_step.values()
    }
    assert len(rows) > 300
    for row in rows:
        place, mean = row["source"].split(" ")[2], float(row["mean_accepted_length"])
        near = {
            (
                row["target"],
                row["drafter"].replace("built-in", "built in"),
                place,
                round(mean + step * 1e-4, 4),
            )
            for step in (-1, 0, 1)
        }
        assert near & shipped, row
