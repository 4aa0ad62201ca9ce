"""Which forwards rows of masked models describe: kinds, canvases, blocks, pace."""

from dataclasses import replace

import pytest

from hardware_profiles.errors import InputError
from real_runs.published_numbers.forwards import method_of_row, plain_tokens, tokens_per_forward
from real_runs.published_numbers.reading.table import PublishedRow

ROW = PublishedRow(
    line=2,
    kind="refining",
    system="Fast-dLLM DualCache tau=0.9",
    source="a compiled loop",
    group="full",
    target="LLaDA-8B-Instruct",
    hardware="1x H100",
    batch="1",
    output="512",
    shape="32",
    acceptance="TPF 2.77",
)


@pytest.mark.parametrize(
    ("changes", "tokens"),
    [
        ({}, 2.77),
        ({"acceptance": "128"}, 4.0),
        ({"acceptance": "", "system": "Few-step (4 tok/step)"}, 4.0),
    ],
)
def test_tokens_of_a_forward(changes, tokens):
    assert tokens_per_forward(replace(ROW, **changes)) == tokens


def test_without_forwards_there_are_no_tokens_of_one():
    with pytest.raises(InputError, match="number of forwards"):
        tokens_per_forward(replace(ROW, acceptance=""))


def test_a_static_baseline_commits_evenly():
    assert plain_tokens(replace(ROW, plain_steps="512", baseline=10.0)) == 1.0
    assert plain_tokens(replace(ROW, plain_steps="512")) is None
    assert plain_tokens(replace(ROW, plain_steps="1 tok/forward", baseline=10.0)) is None


@pytest.mark.parametrize(
    ("system", "slug", "forward"),
    [
        ("LLaDA (static)", "llada", "full"),
        ("dParallel (entropy<=0.45/0.5)", "llada", "full"),
        ("Fast-dLLM +Parallel tau=0.9 (no cache)", "llada", "full"),
        ("d3LLM SGLang FullAttnMultiBlock", "llada", "full"),
        ("Fast-dLLM +PrefixCache", "fast-dllm-prefix", "suffix"),
        ("Fast-dLLM +Parallel+DualCache", "fast-dllm", "block"),
        ("d3LLM multi-block", "d3llm", "suffix"),
        ("D2F pipelined blocks", "d2f", "block"),
        ("dKV-Cache (static 1 tok/step)", "dkv-cache", "suffix"),
        ("dLLM-Cache (static 1 tok/step)", "dllm-cache", "canvas"),
        ("Sparse-dLLM (static 1 tok/step)", "sparse-dllm", "block"),
        ("SDAR-8B-Chat", "sdar", "block"),
        ("Fast-dLLM v2", "fast-dllm-v2", "block"),
        ("LPD-XL", "lpd", "group"),
        ("ARPG-XXL", "arpg", "group"),
        ("APD R=0.5", "adaptive-parallel-decoding", "full"),
        ("WeDLM", "wedlm", "block"),
        ("Something new", "llada", "full"),
    ],
)
def test_kinds_of_forwards(system, slug, forward):
    method = method_of_row(replace(ROW, system=system), 2.0)
    assert (method.slug, method.refine.forward) == (slug, forward)


@pytest.mark.parametrize(
    ("system", "nodes", "canvas"),
    [
        ("Fast-dLLM DualCache", 32, 512),
        ("D2F pipelined blocks", 32, 512),
        ("SDAR-8B-Chat", 32, 32),
        ("LPD-XL", 512, 512),
        ("dParallel", 32, 512),
    ],
)
def test_canvases_are_the_rows(system, nodes, canvas):
    method = method_of_row(replace(ROW, system=system), 2.0)
    assert (method.shape.nodes, method.refine.canvas_tokens) == (nodes, canvas)


def test_forwards_that_only_store_count_as_forwards():
    stored = method_of_row(replace(ROW, system="Fast-dLLM v2"), 2.21).refine
    assert 32 / (32 / stored.tokens_per_pass + 1) == pytest.approx(2.21)
    assert method_of_row(ROW, 2.21).refine.tokens_per_pass == 2.21
