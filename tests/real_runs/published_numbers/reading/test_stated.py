"""Acceptance and costs in the words of published tables."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from real_runs.published_numbers.reading.sources import RowFacts, row_facts_of
from real_runs.published_numbers.reading.stated import stated_acceptance, stated_draft_cost


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("tau=3.58 (tokens/step)", 3.58),
        ("tau=5.25 (accepted/verify)", 5.25),
        ("S=1.96", 1.96),
        ("TPF 5.01", 5.01),
        ("tau=3.25; per-position alpha = .67 .62 .61 .64 .63", 3.25),
        ("tau=2.565; head top-1 acc .560 .316", 2.565),
        ("tau=2.98 EXCLUDING bonus (step yields 3.98)", 3.98),
        ("alpha=0.75", None),
        ("", None),
    ],
)
def test_tokens_per_step(text, tokens):
    assert stated_acceptance(text).tokens_per_step == tokens


def test_a_table_that_mixes_two_ways_to_count_names_the_rows_that_leave_out_the_bonus_token():
    medusa, eagle = (
        row_facts_of("arXiv:2412.12639 Table 1", {"system": f"{name} (baseline in Falcon)"})
        for name in ("Medusa", "EAGLE")
    )
    assert stated_acceptance("alpha=60.53%; tau=1.51", medusa).tokens_per_step == 2.51
    assert stated_acceptance("alpha=72.98%; tau=2.43", eagle).tokens_per_step == 2.43
    assert stated_acceptance("tau=1.51").tokens_per_step == 1.51


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("alpha=0.75", 0.75),
        ("alpha=0.81 (StreamingLLM budget 512, PG-19)", 0.81),
        ("alpha=77.64%; tau=3.34", 0.7764),
        ("alpha=3", None),
        ("1-alpha .93, 4-alpha .90", None),
        ("tau=4", None),
    ],
)
def test_rates(text, rate):
    assert stated_acceptance(text).rate == pytest.approx(rate)


@given(st.lists(st.integers(1, 99).map(lambda each: each / 100), min_size=1, max_size=8))
def test_rates_by_position_are_conditional_and_become_unconditional(rates):
    text = (
        f"tau=3.94; per-position alpha 0..{len(rates) - 1} ="
        f" {' '.join(f'{rate:.2f}' for rate in rates)} (chain)"
    )
    by_depth = stated_acceptance(text).by_depth
    product = 1.0
    for rate, reached in zip(rates, by_depth, strict=True):
        product *= rate
        assert reached == pytest.approx(product, abs=1e-6)
    assert list(by_depth) == sorted(by_depth, reverse=True)


def test_means_over_the_first_positions_become_rates_with_those_means():
    by_depth = stated_acceptance("1-alpha .93, 4-alpha .90").by_depth
    conditional = [by_depth[0], *(after / before for before, after in pairwise(by_depth))]
    assert len(by_depth) == 4
    assert sum(conditional) / 4 == pytest.approx(0.90)


def test_known_rates_of_siblings_count_where_the_cell_is_empty():
    facts = RowFacts(siblings=(0.634, 0.108, 0.057))
    assert stated_acceptance("", facts).siblings == facts.siblings
    assert stated_acceptance("tau=3", facts).siblings == ()


@pytest.mark.parametrize(
    ("text", "passes", "seconds"),
    [
        ("0.5 ms/token", 9, 4.5e-3),
        ("1.8 ms/token", 4, 7.2e-3),
        ("c=0.02", 7, 7 * 0.02 * 0.1),
        ("~8.9-9.3 ms/round on 7B (Table 5)", 5, 9.1e-3),
        ("draft 8.91 ms + target 25.63 ms + verify 6.18 ms per round", 5, 8.91e-3),
        ("draft 2.795 s/134 tok = 20.9 ms; target 25.65 s/203 tok = 126.4 ms; c=0.165", 3, 62.7e-3),
        ("~25 ms/step; target ~5 s/step overlapped (15 s naive)", 7, 0.175),
        ("68M", 7, None),
        ("step 25.0-27.1 ms", 4, None),
        ("0 extra passes; L_fp=22 ms vs vanilla 20 ms", 3, None),
    ],
)
def test_what_drafting_takes(text, passes, seconds):
    assert stated_draft_cost(text).seconds(passes, plain_s=0.1) == pytest.approx(seconds)


def test_what_verifying_takes_beside_the_pass():
    stated = stated_draft_cost("draft 8.91 ms + target 25.63 ms + verify 6.18 ms per round")
    assert (stated.step_s, stated.verify_s) == (pytest.approx(8.91e-3), pytest.approx(6.18e-3))
    assert stated_draft_cost("verify 6.18 ms per round").seconds(5, 0.1) is None
    assert stated_draft_cost("0.5 ms/token").verify_s == 0.0


@given(st.text(max_size=60))
def test_no_text_breaks_them(text):
    stated_draft_cost(text)
    found = stated_acceptance(text)
    assert found.rate is None or 0.0 <= found.rate <= 1.0
    assert all(0.0 <= rate <= 1.0 for rate in found.by_depth)
