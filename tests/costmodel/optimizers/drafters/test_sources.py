"""Drafters by name: what METHOD[:SOURCE] means, which sources agree, and what is refused with what
to do."""

import contextlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.optimizers.drafters.named_drafters import drafter_source, names_of, published_source
from costmodel.optimizers.drafters.sources import Source, length_source, trace_source
from costmodel.optimizers.recommend import recommend
from hardware_profiles.errors import InputError, UnknownNameError
from tests.property_examples import examples
from traces.kinds.acceptance import AcceptanceTrace, Provenance
from traces.kinds.summary import Summary
from traces.library import trace_file
from traces.storage.acceptance_file import write_acceptance

LOOKUP = "smollm2-135m--prompt-lookup--greedy"
QUESTION = DecodingConfiguration(
    deployment=DeploymentNames(model="llama-3.1-8b", device="h100-sxm", engine="none")
)
GRID = {"batches": (1, 64), "contexts": (512,), "tree_sizes": ()}


def counters(path, rates=(0.78, 0.61, 0.48), method="eagle-3", **more):
    trace = AcceptanceTrace(
        provenance=Provenance(model="llama-3.1-8b", method=method),
        summary=Summary(acceptance_by_depth=rates, **more) if rates else Summary(**more),
    )
    write_acceptance(trace, path)
    return path


def test_a_drafter_is_a_method_and_where_its_acceptance_is_known_from(tmp_path):
    assert drafter_source("eagle-3:0.72").rates.measured is None
    by_position = drafter_source("eagle-3: 0.78, 0.61 ,.48")
    assert (by_position.kind, by_position.rates.by_depth) == ("stated", (0.78, 0.61, 0.48))
    assert drafter_source("mtp:length=1.7").rates.measured == 1, "the entry's own length"
    assert drafter_source("eagle-3:length=2.4@3").rates.measured == 3
    assert drafter_source("eagle-3:length=2.4", lengths=[0, 2, 5]).rates.measured == 5
    several = drafter_source("eagle-3:length=2.4@3, 2.8@5").rates
    assert (several.measured, several.means) == (5, {3: 2.4, 5: 2.8})
    own = drafter_source("eagle-3:length=4")
    assert (own.rates, own.own_tokens_per_step) == (None, 4.0), "an entry whose own shape is a tree"
    recorded = drafter_source(f"n-gram:{LOOKUP}")
    assert (
        recorded.kind == "recorded"
        and recorded.recorded_as == LOOKUP
        and recorded.positions is not None
    )
    counted = drafter_source(f"eagle-3:{counters(tmp_path / 'counters.parquet')}")
    assert (counted.kind, counted.rates.by_depth, counted.positions) == (
        "counted",
        (0.78, 0.61, 0.48),
        None,
    )


def test_without_a_source_it_is_looked_up(monkeypatch):
    found = drafter_source("eagle-3", model="llama-3.1-8b")
    assert found.kind == "published" and found.rates.measured >= 1 and "published" in found.about
    monkeypatch.setattr(
        "costmodel.optimizers.drafters.named_drafters.best_match", lambda *asked: None
    )
    with pytest.raises(InputError, match="was published; state its acceptance") as caught:
        drafter_source("gumiho", model="llama-3.1-8b")
    assert "gumiho:0.78,0.61,0.48" in str(caught.value), "the message says what to give"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("eagle-3:0.5,0.7", "never increase"),
        ("eagle-3:1.2", "[0, 1]"),
        ("eagle-3:nan", "[0, 1]"),
        ("eagle-3:", "a source is one rate"),
        ("eagle-3:nowhere.parquet", "names no trace that exists"),
        ("eagle-3:length=", "names no trace that exists"),
        ("eagle-3:" + "x" * 5000, "names no trace that exists"),
        ("eagle-3:a\0b", "names no trace that exists"),
        ("eagle-3:length=9@3", "[1, 4]"),
        ("eagle-3:length=2.4@3,9@5", "[1, 6]"),
        ("eagle-3:length=2.4@3,2.5@3", "more than once"),
        ("llada:length=2.4@3,2.5@4", "drafts nothing"),
        ("gear:0.5", "drafts nothing"),
        ("plain-decoding", "drafts nothing"),
        ("x" * 70000, "too long"),
    ],
)
def test_what_is_no_drafter_is_refused(text, said):
    with pytest.raises(InputError) as caught:
        drafter_source(text)
    assert said in str(caught.value)


def test_unknown_methods_offer_the_nearest():
    with pytest.raises(UnknownNameError, match="eagle-3"):
        drafter_source("eagle3x:0.5")


@pytest.mark.heavy
@given(st.text(max_size=40))
@settings(max_examples=examples(300))
def test_any_text_is_a_source_or_an_error_of_ours(text):
    for words in (text, f"eagle-3:{text}", f"eagle-3:length={text}"):
        with contextlib.suppress(InputError):
            assert isinstance(drafter_source(words, model="llama-3.1-8b"), Source)


def test_a_method_that_contradicts_a_trace_says_how_to_override_it():
    path = trace_file(LOOKUP)
    with pytest.raises(InputError) as caught:
        trace_source(path, "eagle-3")
    assert f"--drafter eagle-3:{path}" in str(caught.value) and "n-gram" in str(caught.value)
    assert drafter_source(f"eagle-3:{path}").method == "eagle-3"


def test_counters_without_rates_need_a_draft_length(tmp_path):
    mean = counters(tmp_path / "mean.parquet", (), mean_tokens_per_step=2.2)
    with pytest.raises(
        InputError, match=r"2.2 tokens per step and no draft length.*eagle-3:length=2.4@3"
    ):
        trace_source(mean)
    stated = trace_source(mean, lengths=[0, 2, 4]).rates.chain(4)
    assert stated.tokens_per_step == 2.2 and "taken to be K=4" in stated.remark
    drafted = counters(
        tmp_path / "drafted.parquet", (), drafts=10, draft_tokens=30, accepted_tokens=12
    )
    assert trace_source(drafted).rates.chain(3).tokens_per_step == pytest.approx(2.2)
    lookup = counters(tmp_path / "lookup.parquet", method="n-gram")
    assert "--match-rate" in trace_source(lookup).rates.chain(2).remark
    resting = trace_source(lookup, match_rate=0.5).rates.chain(2)
    assert (resting.tokens_per_step, resting.remark) == (pytest.approx(1 + 0.5 * 1.39), "")


def test_stated_and_counted_rates_give_one_recommendation(tmp_path):
    """Rates by position, counters of the same rates, and their own tokens per step at one
    length."""
    path = counters(tmp_path / "counters.parquet")
    stated, counted = (
        recommend(QUESTION, [source], **GRID)
        for source in (drafter_source("eagle-3:0.78,0.61,0.48"), path)
    )
    for one, other in zip(stated.winners, counted.winners, strict=True):
        assert one.tokens_per_s == other.tokens_per_s and one.acceptance.draft_tokens <= 3
        assert (
            one.configuration.acceptance_by_depth == (0.78, 0.61, 0.48)
            and one.configuration.trace is None
        )
        assert other.configuration.acceptance_by_depth is None and other.configuration.trace == str(
            path
        )
    assert (stated.sources[0].borrowed, counted.sources[0].borrowed) == (False, False)
    single = recommend(QUESTION, [length_source("eagle-3", 2.87, [3])], draft_tokens=[3], **GRID)
    assert single.contenders[0].candidates[1].tokens_per_step == pytest.approx(
        stated.contenders[0].candidates[3].tokens_per_step
    )


def test_lengths_stay_within_what_is_known_unless_asked_for():
    source = drafter_source("eagle-3:0.78,0.61,0.48")
    usual = recommend(QUESTION, [source], **GRID).contenders[0].candidates
    assert [a.draft_tokens for a in usual] == [0, 1, 2, 3]
    asked = recommend(QUESTION, [source], draft_tokens=[2, 5], **GRID).contenders[0].candidates
    assert [(a.draft_tokens, bool(a.remark)) for a in asked] == [(0, False), (2, False), (5, True)]


def test_winner_and_runner_up_are_over_all_drafters():
    sources = [
        drafter_source(text)
        for text in ("eagle-3:0.8", "eagle-3:0.3", f"n-gram:{LOOKUP}", "mtp:0.01")
    ]
    found = recommend(QUESTION, sources, **GRID)
    assert len(set(found.names)) == 4 and found.names[2:] == ["n-gram", "mtp"]
    for cell, ranked in zip(found.optimum.cells, found.optimum.ranked, strict=True):
        assert cell.winner is ranked[0] and cell.winner.contender.source == 0
        plain = float(ranked[0].result.plain.total_s)
        rival = max(*(c.tokens_per_s for c in ranked[1:]), cell.winner.batch / plain)
        assert cell.runner_up.tokens_per_s == pytest.approx(rival)
        assert (
            cell.lost_ratio == pytest.approx(1 - rival / cell.winner.tokens_per_s)
            and cell.lost_ratio > 0
        )


def test_plain_decoding_competes_once():
    never = [drafter_source("mtp:0"), drafter_source("eagle-3:0.01")]
    for cell in recommend(QUESTION, never, **GRID).optimum.cells:
        assert cell.winner.topology == "off" and cell.runner_up.topology == "chain", (
            "not plain decoding once more"
        )
    alone = recommend(QUESTION, [drafter_source("eagle-3:0.8")], **GRID).optimum.cells
    assert [cell.runner_up.topology for cell in alone] == ["off", "off"]
    assert all(np.isclose(float(cell.runner_up.result.speedup), 1.0) for cell in alone)


def test_a_named_draft_model_goes_to_those_that_need_one():
    question = replace(QUESTION, draft_model="llama-3.2-1b")
    both = recommend(
        question,
        [drafter_source("speculative-decoding:0.7"), drafter_source("eagle-3:0.7")],
        **GRID,
    )
    assert [c.configuration.draft_model for c in both.contenders] == ["llama-3.2-1b", None]
    head = recommend(
        replace(QUESTION, draft_model="org/a-head"), [drafter_source("eagle-3:0.7")], **GRID
    )
    assert head.contenders[0].configuration.draft_model == "org/a-head"
    with pytest.raises(InputError, match="is a whole model, and of eagle-3 none drafts with one"):
        recommend(question, [drafter_source("eagle-3:0.7")], **GRID)


def test_the_published_figure_is_that_of_the_library():
    from costmodel.acceptance_library import best_match

    match, source = (
        best_match("eagle-3", "llama-3.1-8b"),
        published_source("eagle-3", "llama-3.1-8b"),
    )
    assert source.rates.by_depth == match.entry.depth_rates(match.entry.draft_tokens)
    assert (source.about, source.borrowed) == (match.label, match.kinship != "own")
    assert names_of([source, source]) == ["eagle-3 (published 1)", "eagle-3 (published 2)"]
