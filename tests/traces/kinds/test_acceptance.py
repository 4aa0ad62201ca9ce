"""What a trace may hold: levels, ranges, and the agreement of lengths with ranks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace, Provenance, RequestTrace
from traces.kinds.summary import Summary, Window

LENGTHS = {"offsets": [0, 2, 3], "emitted": [2, 1, 1]}
RANKS = {**LENGTHS, "rank": [[0, 1], [-1, 0], [2, 0]], "rank_width": 3}


def probabilities(n=3, width=2):
    return {
        "draft_ids": np.zeros((n, width)).astype(int),
        "draft_probs": np.full((n, width), 0.5),
        "target_probs": np.full((n, width), 0.25),
        "emitted_target_prob": np.ones(n),
        "residual_mass": np.zeros(n),
    }


def test_levels():
    summary = Summary(
        drafts=2, draft_tokens=6, accepted_tokens=3, mean_tokens_per_step=1.5, longest_draft=3
    )
    traces = [
        AcceptanceTrace(summary=summary),
        AcceptanceTrace(**LENGTHS),
        AcceptanceTrace(**RANKS),
        AcceptanceTrace(**RANKS, **probabilities()),
    ]
    assert [trace.level for trace in traces] == [0, 1, 2, 3]
    for trace in traces:
        for level in range(trace.level + 1):
            trace.require(level, "this")
        for level in range(trace.level + 1, 4):
            with pytest.raises(InputError, match=rf"this needs a trace of level {level}"):
                trace.require(level, "this")


def test_derived_values_and_types():
    trace = AcceptanceTrace(**RANKS, prompt_tokens=[7, 9])
    assert (trace.requests, trace.positions, trace.output_tokens.tolist(), trace.depth) == (
        2,
        3,
        [2, 1],
        2,
    )
    assert (trace.emitted.dtype, trace.rank.dtype, trace.prompt_tokens.dtype) == (
        np.int16,
        np.int8,
        np.int32,
    )
    assert trace.request_ids == ("0", "1") and trace.prompt_kinds == ("", "")
    wide = AcceptanceTrace(**{**RANKS, "rank_width": 200})
    assert wide.rank.dtype == np.int16
    assert AcceptanceTrace(**LENGTHS).depth is None


def test_arrays_are_read_only_and_the_callers_stay_writable():
    emitted = np.array([2, 1, 1], dtype=np.int16)
    trace = AcceptanceTrace(offsets=[0, 3], emitted=emitted)
    with pytest.raises(ValueError, match="read-only"):
        trace.emitted[0] = 5
    emitted[0] = 2
    assert emitted.flags.writeable


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"emitted": [0, 1, 1]}, "emitted"),
        ({"emitted": [40_000, 1, 1]}, "emitted"),
        ({"emitted": [1.5, 1, 1]}, "emitted"),
        ({"emitted": [True, True, True]}, "emitted"),
        ({"emitted": ["a", "b", "c"]}, "emitted"),
        ({"emitted": [10**30, 1, 1]}, "emitted"),
        ({"emitted": [[1], [1, 2], [1]]}, "emitted"),
        ({"emitted": [2, 1]}, "emitted"),
        ({"emitted": None}, "emitted"),
        ({"drafted": [-1, 0, 0]}, "drafted"),
        ({"drafted": [1, 0]}, "drafted"),
        ({"offsets": [1, 2, 3]}, "offsets"),
        ({"offsets": [0, 4, 3]}, "offsets"),
        ({"offsets": []}, "offsets"),
        ({"prompt_tokens": [1, 2, 3]}, "prompt_tokens"),
        ({"prompt_tokens": [-1, 2]}, "prompt_tokens"),
        ({"request_ids": ("a",)}, "request_ids"),
        ({"prompt_kinds": ("a",) * 3}, "prompt_kinds"),
        ({"extra_columns": {"wall_s": [1.0]}}, "wall_s"),
        ({"first_step_position": -1}, "first_step_position"),
        ({"match_rate": 1.5}, "match_rate"),
        ({"match_rate": float("nan")}, "match_rate"),
        ({"rank": [0, 1, 2], "rank_width": 3}, "rank"),
        ({"rank": [[0], [1], [3]], "rank_width": 3}, "rank"),
        ({"rank": [[0], [1], [-2]], "rank_width": 3}, "rank"),
        ({"rank": [[0], [1], [2]], "rank_width": 0}, "rank_width"),
        ({"draft_ids": [[0], [1], [2]]}, "draft_probs"),
        ({**probabilities()}, "draft_probs"),
    ],
)
def test_refusals_name_file_and_key(change, key):
    with pytest.raises(InputError) as caught:
        AcceptanceTrace(**{**LENGTHS, **change}, file="some.parquet")
    assert caught.value.key == key
    assert str(caught.value).startswith(f"some.parquet: {key}: ")


@pytest.mark.parametrize("name", ["draft_probs", "residual_mass"])
@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), float("inf")])
def test_probabilities_lie_in_their_range(name, value):
    arrays = probabilities()
    arrays[name] = np.full_like(arrays[name], value)
    with pytest.raises(InputError, match=name):
        AcceptanceTrace(**RANKS, **arrays)


def test_probabilities_must_have_one_width():
    with pytest.raises(InputError, match="target_probs"):
        AcceptanceTrace(**RANKS, **{**probabilities(), "target_probs": np.zeros((3, 5))})


def test_nothing_at_all_is_no_trace():
    with pytest.raises(InputError, match="at least a summary"):
        AcceptanceTrace()
    with pytest.raises(InputError, match="positions without"):
        AcceptanceTrace(summary=Summary(), offsets=[0, 2])


@given(st.data())
def test_lengths_must_follow_from_ranks(data):
    """Change one length that the ranks pin down: it is found."""
    generator = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    n, depth = 12, 3
    invariant = data.draw(st.booleans())
    rank = generator.integers(0, 2, (n,) if invariant else (n, depth))
    run = np.zeros(n, dtype=int)
    for i in range(n):
        reach = n - i if invariant else min(depth, n - i)
        while run[i] < reach and (rank[i + run[i]] if invariant else rank[i, run[i]]) == 0:
            run[i] += 1
    emitted = run + 1
    settings = {"offsets": [0, n], "rank": rank, "rank_width": 2, "depth_invariant": invariant}
    assert AcceptanceTrace(**settings, emitted=emitted).level == 2
    reach = np.minimum(n - np.arange(n), n if invariant else depth)
    pinned = np.flatnonzero((run < reach) & (emitted < emitted.max()))
    if pinned.size:
        wrong = emitted.copy()
        wrong[data.draw(st.sampled_from(pinned.tolist()))] += 1
        with pytest.raises(InputError, match="leading hits in rank"):
            AcceptanceTrace(**settings, emitted=wrong)


def test_lengths_may_stop_at_the_longest_draft_and_go_on_past_the_ranks():
    rank = np.zeros((6, 2), dtype=int)
    AcceptanceTrace(offsets=[0, 6], emitted=[9, 8, 7, 6, 5, 4], rank=rank, rank_width=1)
    AcceptanceTrace(offsets=[0, 6], emitted=[3, 3, 3, 3, 2, 1], rank=rank, rank_width=1)
    stopped = {"offsets": [0, 6], "emitted": [3, 3, 3, 3, 2, 2], "rank": [0] * 6, "rank_width": 1}
    AcceptanceTrace(**stopped, depth_invariant=True)
    cut = {"offsets": [0, 3], "emitted": [2, 1, 1], "drafted": [1, 0, 3], "rank_width": 2}
    AcceptanceTrace(**cut, rank=[[0, 0], [0, 1], [1, 0]])
    with pytest.raises(InputError, match="position 2"):
        AcceptanceTrace(**{**cut, "emitted": [2, 1, 2]}, rank=[[0, 0], [0, 1], [1, 0]])


def test_select_keeps_positions_with_their_request():
    trace = AcceptanceTrace(
        **RANKS, prompt_kinds=("a", "b"), extra_columns={"wall_s": [0.5, 0.25]}, drafted=[1, 1, 1]
    )
    picked = trace.select([1, 0, 1])
    assert picked.emitted.tolist() == [1, 2, 1, 1] and picked.offsets.tolist() == [0, 1, 3, 4]
    assert picked.rank.tolist() == [[2, 0], [0, 1], [-1, 0], [2, 0]]
    assert picked.prompt_kinds == ("b", "a", "b") and picked.extra_columns["wall_s"] == [
        0.25,
        0.5,
        0.25,
    ]
    for wrong in ([2], [-1]):
        with pytest.raises(InputError, match="request indices"):
            trace.select(wrong)
    with pytest.raises(InputError, match="level 1"):
        AcceptanceTrace(summary=Summary()).select([0])


def test_summary_and_windows():
    assert Summary(drafts=4, draft_tokens=8, accepted_tokens=6).tokens_per_step == 2.5
    assert Summary(acceptance_by_depth=(0.5, 0.25)).tokens_per_step == 1.75
    assert Summary().tokens_per_step is None
    assert Window(drafts=2, draft_tokens=2, accepted_tokens=1).tokens_per_step == 1.5
    assert Window(drafts=0, draft_tokens=2, accepted_tokens=1).tokens_per_step is None
    assert Window(mean_tokens_per_step=2.17, batch_requests=1).tokens_per_step == 2.17


def test_a_mean_alone_is_a_summary_and_levels_are_told_where_they_can_be():
    alone = Summary(mean_tokens_per_step=2.4, longest_draft=5)
    assert (alone.tokens_per_step, alone.draft_levels) == (2.4, 5)
    assert Summary(mean_tokens_per_step=2.4).draft_levels is None
    assert Summary(acceptance_by_depth=(0.5, 0.25), longest_draft=7).draft_levels == 2
    assert Summary(drafts=10, draft_tokens=25, accepted_tokens=5).draft_levels == 3
    counted = Summary(drafts=10, accepted_tokens=15, mean_tokens_per_step=9.0)
    assert (counted.tokens_per_step, counted.draft_levels) == (2.5, None)


@pytest.mark.parametrize(
    "wrong",
    [
        {"drafts": -1},
        {"draft_tokens": 1, "accepted_tokens": 2},
        {"acceptance_by_depth": (0.5, 0.6)},
        {"acceptance_by_depth": (1.5,)},
        {"acceptance_by_depth": (float("nan"),)},
        {"sibling_vectors": ((0.6, 0.6),)},
        {"sibling_vectors": ((-0.1,),)},
        {"mean_tokens_per_step": 0.5},
        {"mean_tokens_per_step": float("nan")},
        {"longest_draft": -1},
        {"longest_draft": 10**9},
        {"drafts": 1, "draft_tokens": 10**9},
    ],
)
def test_refused_summaries(wrong):
    with pytest.raises(InputError, match="summary"):
        Summary(**wrong)


def test_refused_windows():
    for wrong in ({"drafts": -1}, {"accepted_tokens": 5}, {"batch_requests": -1}):
        with pytest.raises(InputError, match="window"):
            Window(**{"drafts": 1, "draft_tokens": 1, "accepted_tokens": 1, **wrong})


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"arrival_s": [1.0, 0.5]}, "arrival_s"),
        ({"arrival_s": [-1.0, 0.5]}, "arrival_s"),
        ({"arrival_s": [0.0, float("inf")]}, "arrival_s"),
        ({"prompt_tokens": [0, 1]}, "prompt_tokens"),
        ({"output_tokens": [1]}, "output_tokens"),
        ({"prefix_blocks": ((1,),)}, "prefix_blocks"),
    ],
)
def test_request_traces(change, key):
    sound = {"arrival_s": [0.0, 0.0], "prompt_tokens": [3, 4], "output_tokens": [1, 2]}
    assert RequestTrace(**sound).requests == 2
    with pytest.raises(InputError) as caught:
        RequestTrace(**{**sound, **change}, provenance=Provenance())
    assert caught.value.key == key
