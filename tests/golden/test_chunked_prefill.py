"""Sarathi-Serve's effect: prompts in chunks beside decodes, against prompts first and whole, on the
same requests.

Reference: Agrawal et al. 2024, "Sarathi-Serve" (arXiv:2403.02310), figures 1 and 13: prompts first
stall everybody who decodes, chunks bound the stall for a later first token. Lengths are drawn: with
medians of 1,020 tokens in and 129 out, as Splitwise (arXiv:2311.18677, section 3) reports of
conversations, and with tails like those.
"""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.answers.simulations.runs import run_cases, run_loads
from simulator.scenario.build import prepare
from simulator.scenario.file import checked_scenario

CHUNKED = {"chunked_prefill": True, "prefill_first": False}
FIRST = {"chunked_prefill": False, "prefill_first": True}
VARIANTS = [("chunked", CHUNKED), ("prefill first", FIRST)]


def silent(name, ended, total):
    pass


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    draw = np.random.default_rng(0)
    lengths = {
        "input_tokens": np.clip(draw.lognormal(np.log(1020), 0.9, 800), 8, 8000).astype(int),
        "output_tokens": np.clip(draw.lognormal(np.log(129), 0.8, 800), 8, 1000).astype(int),
    }
    file = tmp_path_factory.mktemp("requests") / "lengths.parquet"
    pq.write_table(pa.table({"arrival_s": np.arange(800) / 5.0, **lengths}), file)
    sections = {
        "requests": {"file": str(file), "count": 800},
        "deployment": {"model": "llama-3.1-8b", "device": "h100-sxm"},
        "scheduler": {"token_budget": 512},
        "slo": {"ttft_s": 1.0, "tpot_s": 0.025},
    }
    return prepare(checked_scenario(sections))


@pytest.fixture(scope="module")
def points(prepared):
    found = run_loads(prepared, VARIANTS, [6.0, 10.0, 14.0], 0, silent)
    print()
    for p in found:
        m = p.metrics
        print(
            f"{p.name:14} {p.rate_per_s:4.0f}/s: TTFT p90 {m['ttft_s']['p90']:.3f} s, TPOT mean "
            f"{m['tpot_s']['mean'] * 1e3:.1f} ms, ITL p99 {m['itl_s']['p99'] * 1e3:.1f} ms, "
            f"goodput {m['goodput_per_s']:.2f}/s"
        )
    return {(p.name, p.rate_per_s): p.metrics for p in found}


@pytest.mark.parametrize("rate", [6.0, 10.0, 14.0])
def test_chunks_end_stalls_and_delay_first_tokens(points, rate):
    chunked, first = points["chunked", rate], points["prefill first", rate]
    assert chunked["itl_s"]["p99"] < 0.6 * first["itl_s"]["p99"]
    assert chunked["tpot_s"]["p99"] < first["tpot_s"]["p99"]
    assert chunked["ttft_s"]["mean"] > first["ttft_s"]["mean"]
    assert chunked["finished"] == first["finished"] == 800


def test_a_stall_of_chunks_is_bounded_by_the_budget(points, prepared):
    # an iteration of the whole budget beside as many decodes as ever ran, with the longest contexts
    # of the trace
    bound = prepared.timer(256, 1.0, 256 * 4000.0, [(512 - 256, 8000)])
    assert all(m["itl_s"]["p99"] <= bound for (name, _), m in points.items() if name == "chunked")


def test_under_load_chunks_serve_more_requests_in_time(points):
    assert points["chunked", 10.0]["goodput_per_s"] > points["prefill first", 10.0]["goodput_per_s"]


def test_all_cases_see_the_same_requests(prepared):
    cases = run_cases(prepared, VARIANTS, 0, silent)
    assert cases[0].result.arrival_s.tolist() == cases[1].result.arrival_s.tolist()
    assert all(
        case.result.counters["prompt_tokens_computed"] == cases[0].result.input_tokens.sum()
        for case in cases
    )
