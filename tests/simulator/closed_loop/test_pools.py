"""What users see before workers for prompts and workers that decode: sums of parts, monotony,
conservation."""

from dataclasses import replace

import numpy as np
import pytest

from costmodel.architectures.library import load_model
from costmodel.engine_library import load_engine
from costmodel.engines.record.host import Host
from costmodel.parallel.plan import BETWEEN_NODES_LATENCY_S
from costmodel.parallel.pools import ServingPlan, transfer_seconds, workers_of
from costmodel.passes.forward import Deployment
from costmodel.passes.precision import Precision
from hardware_profiles.errors import InfeasibleError, InputError
from hardware_profiles.loader import load_device
from simulator.closed_loop import pools
from simulator.closed_loop.pools import serve_pools
from simulator.closed_loop.serve import INTAKE_S, serve
from simulator.closed_loop.table_rows import answer_rows
from simulator.closed_loop.users import TEXT_TOKEN_S, Users
from simulator.engine import simulate
from simulator.scenario.build import prepare
from simulator.scenario.file import checked_scenario

pytestmark = pytest.mark.heavy

H100 = load_device("h100-sxm")
LLAMA = Deployment(architecture=load_model("llama-3.1-8b"), device=H100, precision=Precision())
QWEN = Deployment(architecture=load_model("qwen3-30b-a3b"), device=H100, precision=Precision())
WIDE = Deployment(architecture=load_model("llama-3.1-70b"), device=H100, precision=Precision())
ENGINE = load_engine("vllm").on(H100)
TIMERS = {}


def seen(
    prefill="1xtp1", decode="1xtp1", users=16, prompt=512, output=32, deployment=LLAMA, **more
):
    plan = ServingPlan(prefill=workers_of(prefill), decode=workers_of(decode))
    asked = Users(users=users, prompt_tokens=prompt, output_tokens=output, **more)
    return serve_pools(
        deployment, ENGINE, asked, plan, timers=TIMERS.setdefault(deployment.architecture.name, {})
    )[0]


def test_a_load_too_small_to_queue_is_the_sum_of_its_parts():
    found = seen(users=1, prompt=2048, output=64)
    together = serve(LLAMA, ENGINE, Users(users=1, prompt_tokens=2048, output_tokens=64))
    plan = ServingPlan(prefill=workers_of("1xtp1"), decode=workers_of("1xtp1"))
    latency_s, token_s = transfer_seconds(
        LLAMA.architecture, LLAMA.precision, H100, plan, tokens=2048
    )
    assert found.ttft_s == pytest.approx(together.ttft_s + latency_s + 2048 * token_s, rel=1e-6)
    assert found.tpot_s == pytest.approx(together.tpot_s, rel=1e-6)
    assert found.ttft_s > INTAKE_S + 2048 * TEXT_TOKEN_S


def test_a_part_of_a_long_run_stands_for_it(monkeypatch):
    whole = seen(prefill="2xtp1", users=48, output=96)
    monkeypatch.setattr(pools, "_MOST_REQUESTS", 4 * 48)
    part = seen(prefill="2xtp1", users=48, output=96)
    assert part.result.request.size == 4 * 48 < whole.result.request.size == 10 * 48
    assert part.ttft_s == pytest.approx(whole.ttft_s, rel=0.05)
    assert part.tpot_s == pytest.approx(whole.tpot_s, rel=0.02)


@pytest.mark.parametrize(
    ("way", "most"),
    [
        ({"users": 1}, 10**6),
        ({"prefill": "2xtp1", "users": 48, "output": 96}, 4 * 48),
        ({"output": 1}, 10**6),
    ],
)
def test_parts_of_the_time_to_the_first_token_are_parts(way, most, monkeypatch):
    """Of a run in full and in part, of prompts that never wait, and of answers that no other worker
    continues."""
    monkeypatch.setattr(pools, "_MOST_REQUESTS", most)
    found = seen(**way)
    assert sum(found.ttft_seconds.values()) == pytest.approx(found.ttft_s, rel=1e-9)
    assert found.ttft_seconds["prefill"] > 0.0 and min(found.ttft_seconds.values()) >= 0.0
    assert min(found.seconds.values()) >= 0.0


def test_more_workers_that_decode_never_raise_the_time_per_token():
    runs = [seen(decode=f"{count}xtp1") for count in (1, 2, 4)]
    assert np.all(np.diff([run.tpot_s for run in runs]) <= 0.0)


def test_more_workers_for_prompts_never_raise_the_time_to_the_first_token():
    runs = [seen(prefill=f"{count}xtp1", decode="2xtp1", output=4) for count in (1, 2, 4)]
    assert np.all(np.diff([run.ttft_s for run in runs]) <= 0.0)


def test_prompts_apart_do_not_hold_up_those_who_decode():
    apart = seen(prompt=4096, output=64, length_spread=0.2)
    together = serve(
        LLAMA, ENGINE, Users(users=16, prompt_tokens=4096, output_tokens=64, length_spread=0.2)
    )
    assert apart.tpot_s < 0.8 * together.tpot_s


def test_every_token_is_made_once():
    found = seen(prefill="2xtp1", decode="3xtp1", users=8, prompt=300, output=20)
    result = found.result
    assert result.finished.all() and result.request.size == 80
    assert result.counters["prompt_tokens_computed"] == 80 * 300
    assert result.counters["emitted"] == 80 * 19  # the first of each comes from its prompt
    assert np.all(result.arrival_s <= result.scheduled_s)
    assert np.all(result.scheduled_s <= result.first_token_s)
    assert np.all(result.first_token_s <= result.last_token_s)


def test_copies_of_attention_share_experts_and_take_more_requests():
    narrow, wide = (seen(decode=f"1x{way}", users=64, deployment=QWEN) for way in ("tp1", "dp4ep4"))
    assert wide.tpot_s < narrow.tpot_s
    assert wide.cache_tokens > 4 * narrow.cache_tokens  # nobody holds all experts


def test_one_prompt_on_one_of_several_copies_waits_for_its_own_rank():
    alone, copies, group = (
        seen(prefill=f"1x{way}", users=1, prompt=4096, deployment=QWEN)
        for way in ("tp1", "dp4ep4", "tp4")
    )
    assert group.ttft_s < copies.ttft_s < alone.ttft_s


@pytest.mark.parametrize("decode", [{}, {"data_parallel": 2, "expert_parallel": 2}])
def test_a_written_scenario_of_the_same_workers_gets_the_same_times(decode):
    """In 16 bits, where kernels are those of every pass, at full clocks, and with a host that
    nothing hides."""
    model = "qwen3-30b-a3b" if decode else "llama-3.1-8b"
    plain = replace(
        ENGINE,
        host=Host(layer_ratio=0.0),
        started=replace(ENGINE.scheduling, overlapped_scheduling=False),
        kernels=replace(ENGINE.kernels, sustained_ratio=1.0),
    )
    plan = ServingPlan(
        prefill=workers_of("2xtp2"), decode=workers_of("2xdp2ep2" if decode else "2xtp1")
    )
    asked = Users(users=24, prompt_tokens=1500, output_tokens=50)
    row = serve_pools(QWEN if decode else LLAMA, plain, asked, plan)[0]
    written = {
        "requests": {
            "arrivals": "closed",
            "users": 24,
            "count": 240,
            "prompt_tokens": 1500,
            "output_tokens": 50,
        },
        "deployment": {"model": model, "device": "h100-sxm", "engine": "vllm"} | decode,
        "scheduler": {"overlapped_scheduling": False},
        "replicas": 2,
        "router": "least-loaded",
        "disaggregation": {
            "prefill": "2xtp2",
            "delivers": "decode",
            "transfer_latency_s": INTAKE_S + 1500 * TEXT_TOKEN_S,
        },
    }
    result = simulate(prepare(checked_scenario(written)).scenario())
    assert result.iterations == row.result.iterations
    assert result.ttft_s.mean() == pytest.approx(row.ttft_s, rel=5e-3)
    assert result.tpot_s.mean() == pytest.approx(row.tpot_s, rel=5e-3)


def test_a_tensor_group_over_two_nodes_pays_for_the_network():
    near, far = (
        seen(prefill="1xtp8", decode=f"1xtp{width}", users=1, deployment=WIDE) for width in (8, 16)
    )
    calls = 2 * WIDE.architecture.layers
    assert far.tpot_s > near.tpot_s + calls * 2 * BETWEEN_NODES_LATENCY_S


def test_what_does_not_fit_or_divide_is_refused():
    with pytest.raises(InputError, match="heads"):
        seen(decode="1xtp3")
    with pytest.raises(InfeasibleError, match="no room"):
        seen(
            prompt=131_000,
            output=1000,
            users=1,
            deployment=Deployment(
                architecture=load_model("llama-3.1-70b"), device=H100, precision=Precision()
            ),
        )


def test_a_row_with_two_kinds_of_workers_is_answered():
    row = {
        "id": "a",
        "backend": "vllm",
        "model_path": "Qwen/Qwen3-30B-A3B",
        "system": "h100_sxm",
        "isl": 256,
        "osl": 16,
        "mode": "disagg",
        "prefill_num_workers": 1,
        "prefill_tp_size": 2,
        "decode_num_workers": 2,
        "decode_tp_size": 1,
        "decode_attention_dp_size": 2,
        "decode_moe_ep_size": 2,
        "decode_batch_size": 4,
        "concurrency": 16,
    }
    stated, counted = answer_rows([row, row | {"concurrency": None}], file="t.csv")
    assert stated.reason is None and stated == counted
    assert stated.ttft_ms > 0.0 and stated.tpot_ms > 0.0
