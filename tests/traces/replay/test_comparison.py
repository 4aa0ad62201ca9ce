"""Recordings side by side: by kind they sum to the whole, and every row is what its part alone
gives."""

import numpy as np
import pytest

from hardware_profiles.errors import InputError
from traces.kinds.provenance import POLICY_KEY
from traces.library import shipped_traces
from traces.replay.comparison import ALL, compare
from traces.replay.statistics import acceptance_by_depth
from traces.replay.walk import replay_chain
from traces.storage.acceptance_file import read_acceptance


@pytest.fixture(scope="module")
def shipped():
    files = {path.stem: path for path in shipped_traces()}
    return [
        read_acceptance(files[f"smollm2-135m--{d}--greedy"])
        for d in ("prompt-lookup", "early-exit")
    ]


def test_rows_are_what_their_parts_alone_give(shipped):
    for row in compare(shipped, draft_tokens=4):
        trace = next(t for t in shipped if t.provenance.drafter == row.drafter)
        members = [i for i, kind in enumerate(trace.prompt_kinds) if row.kind in (kind, ALL)]
        part = trace.select(np.array(members))
        assert row.requests == len(members) and row.tokens == part.positions
        assert row.tokens_per_step == replay_chain(part, 4).tokens_per_step
        assert np.array_equal(row.acceptance, acceptance_by_depth(part, 4))
        assert (np.diff(row.acceptance) <= 0).all()
        assert row.interval[0] <= row.tokens_per_step <= row.interval[1]
        assert row.temperature == 0.0


def test_kinds_sum_to_all_and_seeds_repeat(shipped):
    rows = compare(shipped[:1], draft_tokens=3)
    assert sum(row.tokens for row in rows if row.kind != ALL) == rows[-1].tokens
    assert rows[-1].kind == ALL and len(rows) == 7
    again = compare(shipped[:1], draft_tokens=3)
    other = compare(shipped[:1], draft_tokens=3, seed=1)
    assert (
        [row.interval for row in rows]
        == [row.interval for row in again]
        != [row.interval for row in other]
    )


def test_one_kind_needs_no_sum(shipped):
    kinds = np.asarray(shipped[0].prompt_kinds)
    rows = compare([shipped[0].select(np.flatnonzero(kinds == "chat"))], draft_tokens=2)
    assert [row.kind for row in rows] == ["chat"]


def test_a_recording_of_one_policy_is_shown_at_that_policy(shipped):
    from dataclasses import replace

    about = shipped[0].provenance
    bound = replace(shipped[0], provenance=replace(about, extra={**about.extra, POLICY_KEY: 20}))
    for row in compare([bound], draft_tokens=3):
        assert row.draft_tokens == 20
        assert row.acceptance.size == 3


def test_lengths_are_needed_and_drafts_too(shipped):
    with pytest.raises(InputError):
        compare(shipped, draft_tokens=0)
