"""Published throughput of vLLM with and without speculation, in event mode: closed loops at every
batch.

Llama-3.1-8B with EAGLE-3 and n-gram drafts on one H100 (K = 3, recorded traces of the same models),
and with EAGLE-3 on one A100 (K = 5, at the tokens per step that each run reports). No constant of
the cost model was chosen after seeing these rows. With a KV cache in 8 bits every speculative step
took 7 to 10 ms longer than with one in 16, whatever the batch (0.77 times plain decoding against
1.46 at batch 1, weights in 4 bits): the host's time, because before Hopper vLLM reads such a cache
with FlashInfer and drafts without graphs (vllm-project/vllm, issues 54992 and 57352). No other
measurement tells how long that takes, the model does not know it, and the rows count all the same:
without them the median is 5 %.
"""

import csv
from typing import NamedTuple

import numpy as np
import pytest

from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from simulator.engine import simulate
from simulator.loop.options import Scenario, SchedulerOptions, SpeculationOptions
from simulator.scenario.arrivals import closed_loop, repeated
from simulator.timing.cost_timer import CostModelDraft, CostModelTimer
from traces.importers.formats import import_trace
from traces.kinds.acceptance import AcceptanceTrace, RequestTrace

METHODS = {"EAGLE-3": ("eagle-3", "eagle", None), "n-gram": ("n-gram", "ngram", 0.2)}
WEIGHTS = {"fp16": "fp16", "w4a16": "int4-g128"}
LEAST_REQUESTS = 60


class Row(NamedTuple):
    """One cell of a published curve."""

    group: str
    batch: int
    measured: float
    simulated: float
    tokens_per_step: float

    @property
    def error(self):
        return self.simulated / self.measured - 1.0


def speedup(setting, trace, requests, users, draft_tokens, token_budget):
    workload = closed_loop(requests, users, np.random.default_rng(0))
    options = SchedulerOptions(kv_blocks=20_000, token_budget=token_budget, max_requests=256)
    timer = CostModelTimer(setting)
    speculation = SpeculationOptions(
        topology=draft_tokens, trace=trace, draft=CostModelDraft(setting)
    )
    spec = simulate(
        Scenario(workload=workload, scheduler=options, timer=timer, speculation=speculation)
    )
    plain = simulate(Scenario(workload=workload, scheduler=options, timer=timer))
    assert spec.finished.all() and plain.finished.all() and plain.tokens_per_step == 1.0
    return plain.clock_s / spec.clock_s, spec.tokens_per_step


@pytest.fixture(scope="module")
def on_h100(reference_data):
    folder, rows = reference_data / "acceptance", []
    with (folder / "measured_speedup_llama31_8b_h100_vllm.csv").open() as file:
        for row in csv.DictReader(file):
            if row["method"] not in METHODS:
                continue
            slug, drafter, rate = METHODS[row["method"]]
            known = {} if rate is None else {"match_rate": rate}
            path = folder / f"position_trace_llama31_8b_{row['dataset']}.json"
            trace = import_trace("specdecode-bench", path, drafter=drafter, **known)
            setting = build_setting(
                DecodingConfiguration(method=slug, deployment=DeploymentNames(model="llama-3.1-8b"))
            )
            batch = int(row["batch_size"])
            requests = RequestTrace(
                arrival_s=np.zeros(trace.requests),
                prompt_tokens=np.maximum(trace.prompt_tokens, 1),
                output_tokens=trace.output_tokens.astype(np.int32),
            )
            taken = repeated(
                requests, LEAST_REQUESTS if batch == 1 else max(trace.requests, 6 * batch)
            )
            found, kept = speedup(setting, trace, taken, batch, int(row["k"]), 8192)
            group = f"{row['method']}, {row['dataset']}"
            rows.append(Row(group, batch, float(row["measured_speedup"]), found, kept))
    return rows


def constant_acceptance(tokens_per_step, draft_tokens):
    """A recording whose steps emit so many tokens on average, every draft token being kept equally
    often."""
    low, high = 0.0, 1.0
    for _ in range(60):
        rate = (low + high) / 2
        emitted = sum(rate**depth for depth in range(draft_tokens + 1))
        low, high = (rate, high) if emitted < tokens_per_step else (low, rate)
    drawn = np.random.default_rng(0).geometric(1.0 - low, 200_000)
    return AcceptanceTrace(offsets=[0, drawn.size], emitted=np.minimum(drawn, 64).astype(np.int16))


@pytest.fixture(scope="module")
def on_a100(published):
    with (published / "concurrency_study.csv").open(newline="", encoding="utf-8") as lines:
        cells = list(csv.DictReader(lines))
    rows = []
    for cell in cells:
        users, count = int(cell["users"]), int(cell["requests"])
        requests = RequestTrace(
            arrival_s=np.zeros(count),
            prompt_tokens=np.full(count, 717, np.int32),
            output_tokens=np.full(count, 256, np.int32),
        )
        kept = float(cell["tokens_per_step"])
        setting = build_setting(
            DecodingConfiguration(
                method="eagle-3",
                deployment=DeploymentNames(
                    model="llama-3.1-8b",
                    device="a100-sxm-80",
                    dtype=WEIGHTS[cell["weights"]],
                    kv_dtype="fp8" if cell["cache"] == "fp8" else None,
                ),
            )
        )
        found, seen = speedup(setting, constant_acceptance(kept, 5), requests, users, 5, 2048)
        assert seen == pytest.approx(kept, rel=0.04)  # the last step of an output is cut short
        measured = float(cell["drafted_tokens_per_s"]) / float(cell["plain_tokens_per_s"])
        group = f"EAGLE-3, A100, {cell['weights']} weights, {cell['cache']} cache"
        rows.append(Row(group, users, measured, found, seen))
    return rows


def show(rows):
    print()
    for r in rows:
        print(
            f"{r.group:40} batch {r.batch:3}: measured {r.measured:.3f}, simulated"
            f" {r.simulated:.3f}, error {r.error:+.1%}, {r.tokens_per_step:.2f} tokens per step"
        )
    for group in dict.fromkeys(r.group for r in rows):
        print(
            f"{group}: median error"
            f" {np.median([abs(r.error) for r in rows if r.group == group]):.1%}"
        )
    median = float(np.median([abs(r.error) for r in rows]))
    print(f"all {len(rows)} rows: median error {median:.1%}")
    return median


def test_h100_curves_within_8_percent(on_h100):
    assert len(on_h100) == 16
    assert show(on_h100) <= 0.08
    assert max(abs(r.error) for r in on_h100) <= 0.25


def test_a100_curves_within_8_percent_where_the_cache_has_16_bits(on_a100):
    assert len(on_a100) == 16
    show(on_a100)
    known = [abs(r.error) for r in on_a100 if "fp8 cache" not in r.group]
    assert len(known) == 8 and np.median(known) <= 0.08
    wide = [r for r in on_a100 if "fp16 weights, fp16 cache" in r.group]
    # 9.5 % too fast with 64 users: 7.9 while features counted as fused in every draft pass, which
    # no engine does and which hid a part of what is missing at many users
    assert len(wide) == 4 and max(abs(r.error) for r in wide) <= 0.1


def test_both_sets_within_8_and_a_half_percent(on_h100, on_a100):
    assert show([*on_h100, *on_a100]) <= 0.085
    known = [abs(r.error) for r in (*on_h100, *on_a100) if "fp8 cache" not in r.group]
    assert len(known) == 24 and np.median(known) <= 0.06


@pytest.mark.parametrize("device", ["on_h100", "on_a100"])
def test_speedups_fall_with_batch(request, device):
    rows = request.getfixturevalue(device)
    for group in {r.group for r in rows}:
        curve = [r.simulated for r in sorted(rows, key=lambda r: r.batch) if r.group == group]
        # batch 1 plays fewer requests than the others, of which n-gram keeps 4 % more tokens a step
        assert curve == sorted(curve, reverse=True) or max(np.diff(curve)) < 0.03


def test_it_is_known_from_which_batch_on_speculation_loses(on_a100):
    wide = {r.batch: r for r in on_a100 if "fp16 weights, fp16 cache" in r.group}
    assert wide[32].measured > 1.0 and wide[32].simulated > 1.0
    assert abs(wide[64].simulated - 1.0) < 0.07 and abs(wide[64].measured - 1.0) < 0.05
