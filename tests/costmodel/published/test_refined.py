"""Rows of masked models: tokens per forward, kinds of forwards, what needs no hardware."""

from dataclasses import replace

import pytest

from costmodel.published.predict import predictions
from costmodel.published.reading.table import PublishedRow
from costmodel.published.refined import as_drafting, drafts, method_of_row, tokens_per_forward
from hardware_profiles.errors import InputError

ROW = PublishedRow(
    line=2, kind="refining", system="Fast-dLLM DualCache tau=0.9", source="a compiled loop", group="full",
    target="LLaDA-8B-Instruct", hardware="1x H100", precision="bf16", batch="1", prompt="0-shot", output="256",
    shape="32", acceptance="TPF 2.77", data="GSM8K-CoT (0-shot)", value=114.29, unit="tok/s",
)  # fmt: skip


def one(**changes):
    return predictions([replace(ROW, **changes)])[0]


@pytest.mark.parametrize(
    ("changes", "tokens"),
    [({}, 2.77), ({"acceptance": "64"}, 4.0), ({"acceptance": "", "system": "Few-step (4 tok/step)"}, 4.0)],
)
def test_tokens_of_a_forward(changes, tokens):
    assert tokens_per_forward(replace(ROW, **changes)) == tokens


def test_more_tokens_of_a_forward_are_more_tokens_per_second():
    slow, fast = (one(acceptance=f"TPF {tokens}").predicted for tokens in (2.0, 8.0))
    assert slow < fast < 4.0 * slow  # a block is renewed once however few forwards it takes


@pytest.mark.parametrize(
    ("system", "forward"),
    [("LLaDA (static)", "full"), ("Fast-dLLM +PrefixCache", "suffix"), ("Fast-dLLM +Parallel+DualCache", "block"),
     ("SDAR-8B-Chat", "block"), ("dParallel", "full")],
)  # fmt: skip
def test_kinds_of_forwards(system, forward):
    method = method_of_row(replace(ROW, system=system), 2.0)
    assert (method.refine.forward, method.shape.nodes) == (forward, 32)


def test_caches_make_forwards_cheaper():
    canvas, suffix, block = (
        one(system=system).predicted for system in ("dParallel", "Fast-dLLM +PrefixCache", "Fast-dLLM DualCache")
    )
    assert canvas < suffix < block


@pytest.mark.parametrize("system", ["D2F pipelined blocks", "d3LLM multi-block", "dKV-Cache (static 1 tok/step)"])
def test_forwards_that_nothing_prices_are_refused(system):
    with pytest.raises(InputError, match="not priced"):
        method_of_row(replace(ROW, system=system), 2.0)


def test_without_hardware_forwards_over_the_whole_canvas_still_have_a_ratio():
    found = one(system="dParallel", hardware="1 GPU, type not stated in repo", acceptance="32", plain_steps="256",
                baseline=13.76, baseline_unit="tok/s", speedup=8.45)  # fmt: skip
    assert found.predicted is None
    assert "hardware" in found.reason
    assert found.speedup == pytest.approx(8.0)
    cached = one(hardware="not stated", acceptance="32", plain_steps="256", baseline=13.76, speedup=8.0)
    assert cached.speedup is None


def test_tokens_until_the_end_of_a_text_are_not_those_of_a_canvas():
    found = one(notes="TPS counts tokens until EOS; baseline 1 token/step", acceptance="256", plain_steps="256",
                system="Fast-dLLM +PrefixCache", baseline=6.7, baseline_unit="tok/s", speedup=3.16)  # fmt: skip
    assert (found.predicted, found.baseline) == (None, None)
    assert found.speedup > 1.0


def test_tokens_per_forward_alone_are_an_input():
    assert "an input here" in one(hardware="(hardware-free TPF)", value=None, unit="", speedup=5.0).reason


def test_rows_of_the_same_tables_that_draft():
    row = replace(ROW, system="CLLM + Jacobi", target="LLaMA2-7B family", shape="n=16", acceptance="TPF 3.0")
    assert drafts(row)
    assert (as_drafting(row).shape, as_drafting(row).acceptance) == ("block <= 15 chain", "tau=3.0")
    found = predictions([row])[0]
    assert found.row is row
    assert found.predicted > 0.0
