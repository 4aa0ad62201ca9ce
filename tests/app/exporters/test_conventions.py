"""The same K, counted as each engine counts it; the same schedule, looked up as each engine looks
it up."""

import bisect
import dataclasses
import json
import shlex

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from app.exporters.registry import export
from hardware_profiles.errors import InputError

LARGEST = 600


@st.composite
def schedules(draw):
    """Ranges from batch 1 on, with gaps, repeats, zeros and rises; some K is above 0."""
    entries, start = [], 1
    for _ in range(draw(st.integers(1, 6))):
        end = start + draw(st.integers(0, 150))
        entries.append((start, end, draw(st.integers(0, 8))))
        start = end + 1 + draw(st.sampled_from([0, 0, 7]))
    if not any(tokens for _, _, tokens in entries):
        entries[0] = (*entries[0][:2], 3)
    return tuple(entries)


def as_meant(schedule, batch):
    """K by the definition of a schedule: the range that holds the batch, else the last one below
    it."""
    held = None
    for low, high, tokens in schedule:
        if low <= batch <= high:
            return tokens
        if high < batch:
            held = tokens
    return held


def vllm_lookup(result):
    config = json.loads(result.files["vllm-speculative-config.json"])
    most = config["num_speculative_tokens"]
    schedule = config.get("num_speculative_tokens_per_batch_size", [[1, LARGEST, most]])
    dense, held, following = {}, None, 1
    for low, high, tokens in schedule:
        for batch in range(following, high + 1):
            dense[batch] = held if batch < low else min(most, tokens)
        held, following = min(most, tokens), high + 1
    return lambda batch: dense.get(batch, held)


def sglang_lookup(result):
    parts = shlex.split(result.command)
    steps = int(parts[parts.index("--speculative-num-steps") + 1])
    if "sglang-adaptive.json" not in result.files:
        return lambda batch: steps
    slots = {
        int(key): slot for key, slot in json.loads(result.files["sglang-adaptive.json"]).items()
    }
    assert [steps] in [slot["candidate_steps"] for slot in slots.values()]
    captured = [int(part) for part in parts[parts.index("--cuda-graph-bs-decode") + 1 :]]
    keys = sorted(slots)

    def lookup(batch):
        place = bisect.bisect_left(captured, batch)
        padded = captured[place] if place < len(captured) else batch
        (tokens,) = slots[keys[max(0, bisect.bisect_right(keys, padded) - 1)]]["candidate_steps"]
        return tokens

    return lookup


def tensorrt_llm_lookup(result):
    config = yaml.safe_load(result.files["tensorrt-llm-config.yaml"])["speculative_config"]
    schedule = config.get("draft_len_schedule")
    if schedule is None:
        return lambda batch: config["max_draft_len"]
    assert schedule[min(schedule)] == config["max_draft_len"]
    keys = [*sorted(schedule), None]
    return lambda batch: schedule.get(keys[bisect.bisect_left(keys[:-1], batch)], 0)


@given(schedules())
def test_vllm_looks_up_the_k_that_was_meant(build, schedule):
    result = export(build(schedule=schedule), "vllm")
    lookup = vllm_lookup(result)
    for batch in range(1, LARGEST + 1):
        assert lookup(batch) == as_meant(schedule, batch), batch


@given(schedules(), st.sampled_from([None, 600, 37]))
def test_sglang_looks_up_the_k_that_was_meant(build, schedule, max_batch):
    result = export(build(schedule=schedule, max_batch=max_batch), "sglang")
    lookup = sglang_lookup(result)
    for batch in range(1, (max_batch or schedule[-1][1]) + 1):
        assert lookup(batch) == as_meant(schedule, batch), batch


@given(schedules())
def test_tensorrt_llm_looks_up_the_k_that_was_meant_or_refuses(build, schedule):
    choice = build(schedule=schedule, max_batch=LARGEST)
    if schedule[0][2] != max(tokens for _, _, tokens in schedule):
        with pytest.raises(InputError, match="smallest key"):
            export(choice, "tensorrt-llm")
        return
    result = export(choice, "tensorrt-llm")
    lookup = tensorrt_llm_lookup(result)
    for batch in range(1, LARGEST + 1):
        assert lookup(batch) == as_meant(schedule, batch), batch


def test_padding_would_move_a_boundary_that_is_not_captured(build):
    """The control: without the range's last batch among the captured sizes, SGLang reads another
    K."""
    result = export(build(schedule=((1, 19, 5), (20, 64, 1))), "sglang")
    assert sglang_lookup(result)(17) == 5
    parts = shlex.split(result.command)
    parts.remove("19")
    moved = dataclasses.replace(result, command=shlex.join(parts))
    assert sglang_lookup(moved)(17) == 1


@given(st.integers(1, 16))
def test_k_is_counted_as_each_engine_counts_it(build, tokens):
    def written(engine, method="draft_model", **changes):
        return export(build(method, draft_tokens=tokens, **changes), engine)

    def value(result, flag):
        parts = shlex.split(result.command)
        return int(parts[parts.index(flag) + 1])

    assert (
        json.loads(written("vllm").files["vllm-speculative-config.json"])["num_speculative_tokens"]
        == tokens
    )
    assert value(written("sglang"), "--speculative-num-steps") == tokens
    assert value(written("sglang"), "--speculative-num-draft-tokens") == tokens + 1
    assert value(written("sglang", "ngram"), "--speculative-num-draft-tokens") == tokens + 1
    config = yaml.safe_load(written("tensorrt-llm").files["tensorrt-llm-config.yaml"])
    assert config["speculative_config"]["max_draft_len"] == tokens
    assert value(written("llama.cpp"), "--spec-draft-n-max") == tokens
    assistant = json.loads(written("transformers").files["assistant/generation_config.json"])
    assert assistant["num_assistant_tokens"] == tokens


def test_trees_are_counted_as_each_engine_counts_them(build, binary_tree):
    """Six draft nodes and a root: six for vLLM and TensorRT-LLM, seven for SGLang."""
    choice = build(tree=binary_tree)
    config = json.loads(export(choice, "vllm", "0.20.2").files["vllm-speculative-config.json"])
    assert config["num_speculative_tokens"] == 6
    assert "--speculative-num-draft-tokens 7" in export(choice, "sglang", approximate=True).command
    static = yaml.safe_load(export(choice, "tensorrt-llm").files["tensorrt-llm-config.yaml"])
    assert len(static["speculative_config"]["eagle_choices"]) == 6
    dynamic = yaml.safe_load(
        export(choice, "tensorrt-llm", "1.4.0rc1", approximate=True).files[
            "tensorrt-llm-config.yaml"
        ]
    )
    assert dynamic["speculative_config"]["max_total_draft_tokens"] == 6
