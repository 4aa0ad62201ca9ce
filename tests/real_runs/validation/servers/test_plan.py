"""Cells of a server, in its own tokens, and what runs in each of them."""

import dataclasses

import pytest

from hardware_profiles.errors import InputError
from real_runs.prompt_set import read_prompts
from real_runs.servers.address import Address
from real_runs.servers.asking import repeating_prompt
from real_runs.servers.identify import identify
from real_runs.servers.llama_cpp.ngram_simple import ngram_simple_lengths
from real_runs.validation.servers import plan as planning
from real_runs.validation.servers.configurations import plain
from real_runs.validation.servers.plan import SYNTHETIC, Wanted, cell_plan, chat_ids, server_cells
from tests.real_runs.servers.stub_server import serving
from tests.real_runs.validation.servers.served_runs import ASKED

WANTED = Wanted(slots=(1, 2), contexts=(256, 512), per_slots=3, drafts=True, synthetic=True, seed=0)


@pytest.fixture
def cells(monkeypatch):
    """Cells of a server whose tokens are words."""
    monkeypatch.setattr(
        planning, "chat_ids", lambda server, text: [len(word) for word in text.split()]
    )
    return server_cells(None, read_prompts(None), WANTED)


def test_cells_hold_prompts_of_their_length_and_repeating_ones(cells):
    found, ids = cells
    assert len({cell.name for cell in found}) == len(found) == 2 * 2 * 2 + 2
    for cell in found:
        assert all(0.5 * cell.context < len(ids[name]) <= cell.context for name in cell.prompts)
        assert cell.phase == "score" and (cell.batch == 1 or len(cell.prompts) == cell.batch)
    first, second = (ids[f"{SYNTHETIC}-{slot}"] for slot in (0, 1))
    assert not set(first) & set(second)


def test_every_cell_runs_plain_what_was_chosen_and_a_spread_that_all_cells_of_its_slots_share(
    cells,
):
    found, _ = cells
    chosen = {cell.name: plain(ASKED) for cell in found if cell.kind != SYNTHETIC}
    plan = cell_plan(found, ASKED, chosen, WANTED)
    shared = {}
    for cell, every in plan:
        names = [each.name for each in every]
        assert len(set(names)) == len(names) and names[0] == "plain"
        assert all(each.chosen.max_batch == cell.batch for each in every)
        assert any(each.drafter == "speculative-decoding" for each in every) == (
            cell.kind != SYNTHETIC and cell.context == min(WANTED.contexts)
        )
        assert all(each.synthetic or not each.drafter for each in every) == (cell.kind == SYNTHETIC)
        if cell.kind != SYNTHETIC:
            lookups = {name for name in names if name.startswith("n-gram")}
            assert (
                len(lookups) == WANTED.per_slots
                and shared.setdefault(cell.batch, lookups) == lookups
            )


def test_synthetic_cells_draft_with_a_model_only_where_there_is_one(cells):
    found, _ = cells
    grids = [
        cell_plan(
            found,
            ASKED,
            {c.name: plain(ASKED) for c in found},
            dataclasses.replace(WANTED, drafts=drafts),
        )[-1][1]
        for drafts in (True, False)
    ]
    drafters = [{each.drafter for each in grid} for grid in grids]
    assert drafters[0] - drafters[1] == {"speculative-decoding, synthetic"}


@pytest.mark.parametrize("draft_tokens", [1, 8, 16])
def test_a_lookup_proposes_whole_drafts_after_a_prompt_that_repeats(draft_tokens):
    text = repeating_prompt(1, 400)
    found = ngram_simple_lengths(text[:352], text[352:], size_n=1, size_m=draft_tokens)
    assert set(found.drafted[1:].tolist()) == {draft_tokens}


def test_a_server_that_does_not_tokenise_is_refused():
    with serving("vllm") as (url, _), pytest.raises(InputError, match="no such endpoint"):
        chat_ids(identify(Address.parse(url)), "hello")
