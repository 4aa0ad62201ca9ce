"""What users see: laws of closed loops, capacity, intervals."""

from dataclasses import replace

import numpy as np
import pytest

from costmodel.forward import Deployment, pass_cost
from costmodel.model_library import load_model
from costmodel.overheads import BARE, overhead
from costmodel.precision import Precision
from costmodel.serving import closed_loop
from costmodel.serving.closed_loop import Workload, cache_tokens, serve, served_interval, tables_for
from costmodel.serving.iteration import CONTEXT_STEP, tabulate
from costmodel.serving.narrow import with_narrow_products
from costmodel.serving.policies import policy, policy_names
from hardware_profiles.errors import InfeasibleError, InputError
from hardware_profiles.loader import load_device

H100 = load_device("h100-sxm")
LLAMA = Deployment(architecture=load_model("llama-3.1-8b"), device=H100, precision=Precision())
ENGINES = policy_names()


def seen(engine="vllm", users=8, prompt=512, output=32, deployment=LLAMA, cost=BARE, **more):
    workload = Workload(users=users, prompt_tokens=prompt, output_tokens=output, **more)
    return serve(deployment, policy(engine, H100), cost, workload)


@pytest.mark.parametrize("engine", ENGINES)
def test_tpot_is_at_least_a_decode_step_and_ttft_at_least_a_prefill(engine):
    found = seen(engine)
    step = pass_cost(LLAMA, batch=1, query_tokens=1, context=512).total_s
    prefill = pass_cost(LLAMA, batch=1, query_tokens=512, context=0, logits="last", prefill=True).total_s
    assert found.tpot_s >= step * 0.999
    assert found.ttft_s >= prefill * 0.999


@pytest.mark.parametrize("engine", ENGINES)
def test_more_users_never_lower_ttft_or_tpot(engine):
    runs = [seen(engine, users=users) for users in (1, 4, 16, 64)]
    assert np.all(np.diff([r.ttft_s for r in runs]) >= 0)
    assert np.all(np.diff([r.tpot_s for r in runs]) >= 0)
    assert np.all(np.diff([r.requests_per_s for r in runs]) >= 0)


@pytest.mark.parametrize("engine", ENGINES)
def test_littles_law_holds_in_the_steady_state(engine):
    found = seen(engine, users=8, output=17, requests_per_user=100)
    answered_in = found.ttft_s + 16 * found.tpot_s
    assert found.in_flight == pytest.approx(found.requests_per_s * answered_in)
    assert 8 * 0.98 <= found.in_flight <= 8 * 1.0001  # but for the end, when users have nothing left to send


@pytest.mark.parametrize("engine", ENGINES)
def test_tokens_and_seconds_are_conserved(engine):
    found = seen(engine, users=8, prompt=512, output=32, cost=overhead(engine, "none"))
    assert found.computed_prompt_tokens == 80 * 512
    assert found.decode_tokens == 80 * 31
    assert sum(found.seconds.values()) == pytest.approx(found.clock_s, rel=0.02)  # the rest is idle
    assert sum(found.seconds.values()) <= found.clock_s * (1 + 1e-9)


def test_one_user_alone_pays_prefill_and_steps():
    found = seen(users=1, prompt=2048, output=64)
    prefill = pass_cost(LLAMA, batch=1, query_tokens=2048, context=0, logits="last", prefill=True).total_s
    step = pass_cost(LLAMA, batch=1, query_tokens=1, context=2048 + 32).total_s
    intake_s = closed_loop.INTAKE_S + 2048 * closed_loop.INTAKE_TOKEN_S
    assert found.ttft_s == pytest.approx(float(prefill) + intake_s, rel=0.1)
    assert found.tpot_s == pytest.approx(float(step), rel=0.02)


def test_a_cache_that_holds_few_requests_queues_the_others():
    roomy = seen(users=32, prompt=4096, output=64)
    small = replace(LLAMA, device=replace(H100, memory_bytes=25e9))
    tight = serve(small, policy("vllm", H100), BARE, Workload(users=32, prompt_tokens=4096, output_tokens=64))
    assert tight.cache_tokens < 32 * 4160 < roomy.cache_tokens
    assert tight.ttft_s > 1.5 * roomy.ttft_s
    assert tight.tpot_s < roomy.tpot_s  # fewer decode together


def test_cache_capacity_by_hand():
    d, rules = LLAMA, replace(policy("sglang", H100), memory_ratio=0.5)
    weights = 8_030_261_248 * 2.0
    per_token = 32 * 2 * 8 * 128 * 2.0
    seen_bytes = H100.memory_bytes - rules.unseen_bytes
    assert cache_tokens(d, rules, context=1600) == pytest.approx((0.5 * seen_bytes - weights) / per_token)


def test_cache_capacity_of_a_running_engine():
    """DeepSeek-R1 on eight H200 under SGLang at a static share of 0.82: about 509,000 tokens (aisimulate, pull 263)."""
    h200 = load_device("h200-sxm")
    d = Deployment(
        architecture=load_model("deepseek-v3"), device=h200, precision=Precision(weights="fp8", kv="bf16"),
        tensor_parallel=8,
    )  # fmt: skip
    found = cache_tokens(d, replace(policy("sglang", h200), memory_ratio=0.82), context=8192)
    print(f"\n{found:,.0f} tokens")
    assert found == pytest.approx(509_000, rel=0.05)


def test_a_model_that_does_not_fit_is_infeasible():
    big = replace(LLAMA, architecture=load_model("llama-3.1-70b"))
    with pytest.raises(InfeasibleError, match="leaves no room"):
        seen(deployment=big)


def test_intake_time_hardly_matters(monkeypatch):
    found = []
    for intake_s in (0.3e-3, 1e-3, 3e-3):
        monkeypatch.setattr(closed_loop, "INTAKE_S", intake_s)
        found.append(seen(users=32, prompt=1024, output=64))
    assert max(f.tpot_s for f in found) < 1.05 * min(f.tpot_s for f in found)
    assert max(f.ttft_s for f in found) < 1.15 * min(f.ttft_s for f in found)


def test_tokenising_a_prompt_delays_its_first_token(monkeypatch):
    with_it = seen(users=1, prompt=2000, output=4)
    monkeypatch.setattr(closed_loop, "INTAKE_TOKEN_S", 0.0)
    without = seen(users=1, prompt=2000, output=4)
    assert with_it.ttft_s - without.ttft_s == pytest.approx(2000 * 2.4e-6)
    assert with_it.tpot_s == pytest.approx(without.tpot_s)


def test_lengths_are_drawn_within_their_spread_and_repeat():
    workload = Workload(users=50, prompt_tokens=1000, output_tokens=500, length_spread=0.2)
    prompts, outputs = workload.lengths()
    assert len(prompts) == len(outputs) == workload.requests
    for found, most in ((prompts, 1000), (outputs, 500)):
        assert found.min() >= 0.8 * most
        assert found.max() <= most
        assert found.mean() == pytest.approx(0.9 * most, rel=0.02)
    again = workload.lengths()
    assert np.array_equal(prompts, again[0])
    assert np.array_equal(outputs, again[1])
    equal = Workload(users=3, prompt_tokens=7, output_tokens=1).lengths()
    assert set(equal[0]) == {7}
    assert set(equal[1]) == {1}
    assert Workload(users=3, prompt_tokens=1, output_tokens=1, length_spread=0.9).lengths()[0].min() == 1


def test_requests_that_differ_in_length_drift_apart_and_wait_less():
    together, apart = (seen(users=16, prompt=1024, output=512, length_spread=spread) for spread in (0.0, 0.2))
    assert apart.ttft_s < 0.6 * together.ttft_s
    assert apart.requests_per_s == pytest.approx(together.requests_per_s / 0.9, rel=0.1)


@pytest.mark.parametrize("spread", [-0.1, 1.0])
def test_a_spread_out_of_range_is_refused(spread):
    with pytest.raises(InputError, match="length_spread"):
        Workload(users=1, prompt_tokens=1, output_tokens=1, length_spread=spread)


def test_tables_do_not_depend_on_their_size():
    small = tabulate(LLAMA, rows=64, requests=4, context=500)
    large = tabulate(LLAMA, rows=128, requests=16, context=3000)
    assert np.array_equal(small.row_seconds, large.row_seconds[:, :65])
    assert np.allclose(small.decode_attention_s, large.decode_attention_s[:5, : small.decode_attention_s.shape[1]])
    reach = small.prompt_attention_s.shape[0]
    assert np.allclose(small.prompt_attention_s, large.prompt_attention_s[:reach])


def test_tables_hold_the_costs_of_passes():
    tables = tabulate(LLAMA, rows=64, requests=8, context=1024)
    cost = pass_cost(LLAMA, batch=8, query_tokens=1, context=2 * CONTEXT_STEP)
    together = tables.row_seconds[:, 8].sum() + tables.head_seconds[:, 8].sum() + tables.decode_attention_s[8, 2]
    assert together == pytest.approx(float(cost.total_s))
    assert tables.covers(rows=64, requests=8, context=1024)
    assert not tables.covers(rows=65, requests=8, context=1024)


def test_what_stands_between_narrow_products_stays_in_16_bits():
    wide = replace(LLAMA, tensor_parallel=4)
    fp8 = replace(wide, precision=Precision(weights="fp8", activations="fp8"))
    tables = {name: tabulate(d, rows=600, requests=4, context=600) for name, d in (("wide", wide), ("fp8", fp8))}
    rows = {
        name: dict(zip(t.row_operations, t.row_seconds[:, 600].tolist(), strict=True)) for name, t in tables.items()
    }
    assert rows["fp8"]["gemm"] < rows["wide"]["gemm"]
    for name in ("allreduce", "elementwise"):
        assert rows["fp8"][name] == rows["wide"][name]
    assert np.array_equal(tables["fp8"].head_seconds, tables["wide"].head_seconds)
    assert np.array_equal(tables["fp8"].decode_attention_s, tables["wide"].decode_attention_s)
    half = replace(fp8, precision=Precision(weights="fp8", activations="fp8", kv="fp8"))
    small = tabulate(half, rows=600, requests=4, context=600).decode_attention_s
    assert np.all(small <= tables["wide"].decode_attention_s)  # the cache alone is narrower


def test_small_tables_are_refused():
    workload = Workload(users=4, prompt_tokens=64, output_tokens=8)
    tables = tabulate(LLAMA, rows=16, requests=2, context=64)
    with pytest.raises(InputError, match="too small"):
        serve(LLAMA, policy("vllm", H100), BARE, workload, tables=tables)
    serve(LLAMA, policy("vllm", H100), BARE, workload, tables=tables_for(LLAMA, policy("vllm", H100), workload))


def test_intervals_hold_the_estimate_and_repeat(generator):
    found = seen(cost=overhead("vllm", "none"))
    ttft, tpot = served_interval(found, LLAMA, overhead("vllm", "none"), generator=generator)
    assert ttft[0] < found.ttft_s < ttft[1]
    assert tpot[0] < found.tpot_s < tpot[1]
    again = [served_interval(found, LLAMA, BARE, generator=np.random.default_rng(3)) for _ in range(2)]
    assert again[0] == again[1]


@pytest.mark.parametrize("key", ["users", "prompt_tokens", "output_tokens", "requests_per_user"])
def test_workloads_of_nothing_are_refused(key):
    good = {"users": 1, "prompt_tokens": 1, "output_tokens": 1, "requests_per_user": 1}
    with pytest.raises(InputError, match=key):
        Workload(**(good | {key: 0}))


def test_workloads_beyond_reason_are_refused():
    with pytest.raises(InputError, match="tokens"):
        Workload(users=1, prompt_tokens=1 << 18, output_tokens=1)
    with pytest.raises(InputError, match="users"):
        Workload(users=1 << 20, prompt_tokens=1, output_tokens=1 << 10)


def test_fp8_products_have_constants_of_their_own_on_hopper_alone(reference_data):
    fp8 = replace(LLAMA, precision=Precision(weights="fp8", activations="fp8"))
    assert with_narrow_products(LLAMA) is LLAMA
    l4 = replace(fp8, device=load_device("l4"))
    assert with_narrow_products(l4) is l4
    narrow = with_narrow_products(fp8)
    plain, own = (
        float(pass_cost(d, batch=1, query_tokens=4096, context=0, prefill=True).seconds["gemm"]) for d in (fp8, narrow)
    )
    assert own > 1.3 * plain
    assert own < float(pass_cost(LLAMA, batch=1, query_tokens=4096, context=0, prefill=True).seconds["gemm"])
    lines = (reference_data / "kernels" / "gemm_h100_sxm.csv").read_text().splitlines()[1:]
    rows = [line.split(",") for line in lines if line.startswith("fp8,1024,")]
    shares = [
        2.0 * 1024 * float(n) * float(k) / (float(us) * 1e-6) / H100.peak("fp8")
        for _, _, n, k, us in rows if float(n) >= 2048 and float(k) >= 2048
    ]  # fmt: skip
    assert narrow.device.constants.prefill_compute_efficiency == pytest.approx(np.median(shares), abs=0.005)
