"""Passes as a loop prints them become the trace that was recorded."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from tests.traces.importers.samples import PASSES
from tests.traces.toy_masked import ANCHORS, toy_trace
from traces.importers.formats import detect, import_confidence
from traces.kinds.confidence import STEP_FIELDS


def printed(trace, *, entropy=True):
    """A confidence trace as the lines that a loop would have printed."""
    lines, policy = [], None
    _, step, position = trace.cells()
    order = sorted(range(trace.runs), key=lambda at: trace.policy_of_run[at])
    for at in order:
        if trace.policy_of_run[at] != policy:
            policy = trace.policy_of_run[at]
            lines.append(
                {
                    "model": trace.provenance.model,
                    "vocabulary": trace.vocabulary,
                    "mask_id": trace.mask_id,
                    "end_id": trace.end_id,
                    "canvas_tokens": trace.canvas_tokens,
                    "policy": trace.policies[policy].as_json(),
                }
            )
        for number in range(trace.step_offsets[at], trace.step_offsets[at + 1]):
            cells = np.flatnonzero(step == number)[::-1]  # in any order
            local = number - trace.step_offsets[at]
            row = {
                "request": trace.request_ids[at],
                "prompt_ids": [1, 2],
                "block": [int(trace.block_start[number]), int(trace.block_end[number])],
                "positions": position[cells].tolist(),
                "tokens": trace.top_ids[cells].tolist(),
                "confidence": (1.0 - trace.doubt[cells].astype(float)).tolist(),
                "committed": np.flatnonzero(trace.committed_at[at] == local).tolist(),
                "wall_s": float(trace.wall_s[number]),
            }
            if entropy:
                row["entropy"] = trace.entropy[cells].astype(float).tolist()
            lines.append(row)
    return "\n".join(map(json.dumps, lines))


@given(prompts=st.integers(1, 3), anchors=st.integers(1, 3), entropy=st.booleans())
def test_what_a_loop_prints_is_the_trace(tmp_path_factory, prompts, anchors, entropy):
    trace = toy_trace(ANCHORS[:anchors], prompts=prompts)
    file = tmp_path_factory.mktemp("passes") / "own.jsonl"
    file.write_text(printed(trace, entropy=entropy))
    assert detect(file).name == "masked-passes"
    again = import_confidence("masked-passes", file)
    assert again.policies == trace.policies and set(again.request_ids) == set(trace.request_ids)
    order = np.lexsort((np.arange(trace.runs), trace.policy_of_run))
    np.testing.assert_array_equal(again.final_ids, trace.final_ids[order])
    np.testing.assert_array_equal(again.committed_at, trace.committed_at[order])
    if anchors == 1:
        for name in ("forward", *STEP_FIELDS, "wall_s", "top_ids", "doubt", "prompt_ids"):
            if name != "cached_tokens" or again.policies[0].cache == "none":
                np.testing.assert_array_equal(getattr(again, name), getattr(trace, name), name)
    assert (again.entropy is not None) == entropy


def test_what_a_cache_computes(tmp_path):
    file = tmp_path / "passes.jsonl"
    file.write_text(PASSES)
    trace = import_confidence("masked-passes", file)
    assert trace.computed_tokens.tolist() == [7, 2, 7], "the first pass of a block fills the cache"
    assert trace.cached_tokens.tolist() == [0, 5, 0]
    assert trace.final_ids.tolist() == [[1, 2, 3, 4]]


def changed(line, **values):
    rows = [json.loads(text) for text in PASSES.splitlines()]
    rows[line].update(values)
    return "\n".join(json.dumps({k: v for k, v in row.items() if v is not ...}) for row in rows)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (changed(0, mask_id=None), "line 1, mask_id"),
        (changed(0, policy={"commit": "bold"}), "commit rule"),
        (changed(0, canvas_tokens=0), "line 1, canvas_tokens"),
        (changed(1, confidence=[2.0, 0.5]), r"line 2, confidence.*\[0, 1\]"),
        (changed(1, tokens=[1, 9]), r"line 2, tokens"),
        (changed(1, positions=[0]), "line 2, positions.*all of the block"),
        (changed(1, committed=[3]), "line 2, committed.*masked positions of the pass"),
        (changed(1, block=[0, 9]), "line 2, block"),
        (changed(2, request=...), "line 3, request.*every pass"),
        (changed(2, positions=[0, 1], tokens=[1, 2], confidence=[1, 1]), "line 3, positions"),
        ("\n".join(PASSES.splitlines()[1:]), "line 1.*must come behind"),
        (PASSES.splitlines()[0], "must list a pass"),
    ],
)
def test_refusals_name_line_key_and_rule(tmp_path, text, message):
    file = tmp_path / "own.jsonl"
    file.write_text(text)
    with pytest.raises(InputError, match=message) as error:
        import_confidence("masked-passes", file)
    assert "own.jsonl" in str(error.value)


def test_one_file_is_of_one_model(tmp_path):
    file = tmp_path / "own.jsonl"
    header = json.loads(PASSES.splitlines()[0])
    file.write_text(f"{PASSES}\n{json.dumps(header | {'model': 'other'})}")
    with pytest.raises(InputError, match=r"line 6, model.*must be m as in the first line"):
        import_confidence("masked-passes", file)


def test_a_later_header_begins_another_policy(tmp_path):
    file = tmp_path / "own.jsonl"
    header, *rows = PASSES.splitlines()
    static = json.loads(header)
    static["policy"] = {"commit": "static", "block_tokens": 2, "cache": "dual"}
    file.write_text("\n".join([header, *rows, json.dumps(static), *rows]))
    trace = import_confidence("masked-passes", file)
    assert trace.runs == 2 and [policy.commit for policy in trace.policies] == [
        "threshold",
        "static",
    ]
