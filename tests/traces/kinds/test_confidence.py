"""Confidence traces: what fits together is taken, and what contradicts itself is not."""

import dataclasses

import numpy as np
import pytest

from hardware_profiles.errors import InputError
from tests.traces.toy_masked import ANCHORS, EVERY_RULE, MASK, toy_trace


def test_cells_are_the_masked_positions_of_every_pass():
    trace = toy_trace(EVERY_RULE)
    run, step, position = trace.cells()
    assert len(run) == len(trace.doubt) == trace.cell_counts().sum()
    local = step - trace.step_offsets[run]
    assert np.all(trace.committed_at[run, position] >= local)
    held = (trace.committed_at[:, None, :] < np.arange(20)[:, None]).sum(axis=2)
    for at in range(trace.runs):
        counted = trace.cell_counts()[trace.step_offsets[at] : trace.step_offsets[at + 1]]
        assert counted.tolist() == [trace.canvas_tokens - n for n in held[at][: len(counted)]]


def test_one_token_a_pass_takes_as_many_passes_as_positions():
    trace = toy_trace(ANCHORS)
    assert trace.steps[trace.policy_of_run == 0].tolist() == [16, 16, 16]
    assert trace.committed_tokens.tolist() == [16] * trace.runs


def _changed(name, at, value):
    def change(trace):
        values = np.array(getattr(trace, name), dtype=np.float64 if name == "doubt" else np.int64)
        values[at] = value
        return {name: values}

    return change


@pytest.mark.parametrize(
    ("key", "change"),
    [
        ("mask_id", lambda t: {"mask_id": 32}),
        ("mask_id", lambda t: {"mask_id": True}),
        ("end_id", lambda t: {"end_id": MASK}),
        ("vocabulary", lambda t: {"vocabulary": 0}),
        ("canvas_tokens", lambda t: {"canvas_tokens": 10**6}),
        ("block_tokens", lambda t: {"canvas_tokens": 17}),
        ("policies", lambda t: {"policies": ()}),
        ("policy_of_run", _changed("policy_of_run", 0, 9)),
        ("request_ids", _changed("policy_of_run", 0, 1)),
        ("prompt_kinds", lambda t: {"prompt_kinds": ("a",)}),
        ("final_ids", _changed("final_ids", (0, 0), 99)),
        (
            "final_ids",
            lambda t: {"final_ids": np.where(t.final_ids == t.final_ids[0, 0], 29, t.final_ids)},
        ),
        ("committed_at", _changed("final_ids", (0, 0), MASK)),
        ("committed_at", _changed("committed_at", (0, 0), 99)),
        ("step_offsets", _changed("step_offsets", 1, 99999)),
        ("prompt_offsets", _changed("prompt_offsets", 0, 1)),
        ("forward", _changed("forward", 0, 7)),
        ("block_end", _changed("block_end", 0, 99)),
        ("block_end", _changed("block_end", 0, 0)),
        (
            "committed_at",
            lambda t: {"block_start": t.block_start * 0, "block_end": t.block_end * 0 + 8},
        ),
        ("top_ids", lambda t: {"forward": np.full(len(t.forward), 2)}),
        ("doubt", _changed("doubt", 0, 1.5)),
        ("doubt", _changed("doubt", 0, np.nan)),
        ("entropy", lambda t: {"entropy": -t.entropy - 1}),
        ("logit_gap", lambda t: {"logit_gap": t.logit_gap[1:]}),
        ("candidate_ids", lambda t: {"candidate_ids": t.top_ids[:, None]}),
        (
            "candidate_ids",
            lambda t: {"candidate_ids": np.zeros((t.top_ids.size, 0)), "candidate_probs": t.doubt},
        ),
        ("wall_s", lambda t: {"wall_s": -t.wall_s}),
    ],
)
def test_what_contradicts_itself_is_refused(key, change):
    trace = toy_trace(ANCHORS)
    with pytest.raises(InputError) as caught:
        dataclasses.replace(trace, file="x.parquet", **change(trace))
    assert caught.value.key == key
    assert caught.value.file == "x.parquet"


def test_a_missing_field_is_named():
    trace = toy_trace(ANCHORS, logit_gap=None)
    trace.require(["entropy"], "a question")
    with pytest.raises(InputError, match="a question needs it") as caught:
        trace.require(["entropy", "logit_gap"], "a question")
    assert caught.value.key == "logit_gap"
