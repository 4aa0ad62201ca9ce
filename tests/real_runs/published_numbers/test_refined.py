"""Rows of masked models: tokens per forward, kinds of forwards, what needs no hardware."""

from dataclasses import replace

import pytest

from real_runs.published_numbers.predict import predictions
from real_runs.published_numbers.reading.sources import RowFacts
from real_runs.published_numbers.reading.table import PublishedRow
from real_runs.published_numbers.refined import as_drafting, drafts

ROW = PublishedRow(
    line=2,
    kind="refining",
    system="Fast-dLLM DualCache tau=0.9",
    source="a compiled loop",
    group="full",
    target="LLaDA-8B-Instruct",
    hardware="1x H100",
    precision="bf16",
    batch="1",
    prompt="0-shot",
    output="256",
    shape="32",
    acceptance="TPF 2.77",
    data="GSM8K-CoT (0-shot)",
    value=114.29,
    unit="tok/s",
)


def one(**changes):
    return predictions([replace(ROW, **changes)])[0]


def test_more_tokens_of_a_forward_are_more_tokens_per_second():
    slow, fast = (one(acceptance=f"TPF {tokens}").predicted for tokens in (2.0, 8.0))
    assert slow < fast < 4.0 * slow  # a block is renewed once however few forwards it takes


def test_caches_make_forwards_cheaper():
    canvas, suffix, block = (
        one(system=system).predicted
        for system in ("dParallel", "Fast-dLLM +PrefixCache", "Fast-dLLM DualCache")
    )
    assert canvas < suffix < block


def test_a_prompt_that_is_not_stated_is_reported_by_a_static_baseline():
    known = {
        "data": "unheard of",
        "acceptance": "256",
        "plain_steps": "256",
        "baseline_unit": "tok/s",
    }
    slow, fast = (one(**known, baseline=baseline) for baseline in (20.0, 60.0))
    assert slow.speedup > fast.speedup
    assert (slow.baseline, "baseline is as fast" in slow.remarks[-1]) == (None, True)
    length = int(slow.remarks[-1].split()[3])
    again = one(**known | {"prompt": str(length)}, baseline=20.0)
    assert again.baseline == pytest.approx(20.0, rel=0.02)  # rows are computed in tiles
    assert again.predicted == pytest.approx(slow.predicted, rel=0.02)
    assert "ASSUMED" in one(**known | {"plain_steps": ""}, baseline=20.0).remarks[-1]


def test_steps_of_images_are_times():
    found = one(
        system="LPD-XL",
        target="LPD-XL 752M",
        value=20.6,
        unit="ms/step",
        acceptance="32",
        shape="",
        data="ImageNet 256x256",
        prompt="",
    )
    faster = one(
        system="LPD-L",
        target="LPD-L 337M",
        value=20.6,
        unit="ms/step",
        acceptance="32",
        shape="",
        data="ImageNet 256x256",
        prompt="",
    )
    assert found.method == "lpd"
    assert faster.predicted < found.predicted < 100.0


def test_without_hardware_forwards_over_the_whole_canvas_still_have_a_ratio():
    found = one(
        system="dParallel",
        hardware="1 GPU, type not stated in repo",
        acceptance="32",
        plain_steps="256",
        baseline=13.76,
        baseline_unit="tok/s",
        speedup=8.45,
    )
    assert found.predicted is None
    assert "hardware" in found.reason
    assert found.speedup == pytest.approx(8.0)
    cached = one(
        hardware="not stated", acceptance="32", plain_steps="256", baseline=13.76, speedup=8.0
    )
    assert cached.speedup is None


def test_tokens_until_the_end_of_a_text_are_not_those_of_a_canvas():
    found = one(
        own_facts=RowFacts(counts_text_alone=True),
        acceptance="256",
        plain_steps="256",
        system="Fast-dLLM +PrefixCache",
        baseline=6.7,
        baseline_unit="tok/s",
        speedup=3.16,
    )
    assert (found.predicted, found.baseline) == (None, None)
    assert found.speedup > 1.0


def test_tokens_per_forward_alone_are_an_input():
    assert (
        "an input here"
        in one(hardware="(hardware-free TPF)", value=None, unit="", speedup=5.0).reason
    )


def test_rows_of_the_same_tables_that_draft():
    row = replace(
        ROW, system="CLLM + Jacobi", target="LLaMA2-7B family", shape="n=16", acceptance="TPF 3.0"
    )
    assert drafts(row)
    assert (as_drafting(row).shape, as_drafting(row).acceptance) == ("block <= 15 chain", "tau=3.0")
    found = predictions([row])[0]
    assert found.row is row
    assert found.predicted > 0.0
