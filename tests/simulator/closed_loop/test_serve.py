"""What users see: laws of closed loops, capacity, intervals."""

from dataclasses import replace

import numpy as np
import pytest

from costmodel.architectures.library import load_model
from costmodel.engine_library import load_engine
from costmodel.engines.record.engine import ANY, SUSTAINED_RATIO
from costmodel.engines.record.host import Host
from costmodel.engines.record.overhead import BARE
from costmodel.passes.forward import Deployment, pass_cost
from costmodel.passes.precision import Precision
from hardware_profiles.errors import InfeasibleError
from hardware_profiles.loader import load_device
from simulator.closed_loop import serve as front
from simulator.closed_loop.serve import serve, served_interval, timer_for
from simulator.closed_loop.users import TEXT_TOKEN_S, Users
from simulator.engine import simulate
from simulator.scenario.build import prepare
from simulator.scenario.file import checked_scenario

pytestmark = pytest.mark.heavy

H100 = load_device("h100-sxm")
LLAMA = Deployment(architecture=load_model("llama-3.1-8b"), device=H100, precision=Precision())
ENGINES = ["sglang", "tensorrt-llm", "vllm"]


def bare(engine="vllm"):
    """An engine that adds nothing to a pass."""
    return replace(load_engine(engine).on(H100), overheads={ANY: BARE})


def seen(engine="vllm", users=8, prompt=512, output=32, deployment=LLAMA, **more):
    users = Users(users=users, prompt_tokens=prompt, output_tokens=output, **more)
    return serve(deployment, bare(engine), users)


@pytest.mark.parametrize("engine", ENGINES)
def test_tpot_is_at_least_a_decode_step_and_ttft_at_least_a_prefill(engine):
    found = seen(engine)
    step = pass_cost(LLAMA, batch=1, query_tokens=1, context=512).total_s
    prefill = pass_cost(
        LLAMA, batch=1, query_tokens=512, context=0, logits="last", prefill=True
    ).total_s
    assert found.tpot_s >= step * 0.999
    assert found.ttft_s >= prefill * 0.999


@pytest.mark.parametrize("engine", ENGINES)
def test_more_users_never_lower_ttft_or_tpot(engine):
    runs = [seen(engine, users=users) for users in (1, 4, 16, 64)]
    assert np.all(np.diff([r.ttft_s for r in runs]) >= 0)
    assert np.all(np.diff([r.tpot_s for r in runs]) >= 0)
    assert np.all(np.diff([r.requests_per_s for r in runs]) >= 0)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("users", [1, 64])
def test_parts_of_times_are_parts(engine, users):
    found = seen(engine, users=users, length_spread=0.2)
    assert found.ttft_seconds["intake"] > 0.0 and found.ttft_seconds["prefill"] > 0.0
    assert found.ttft_seconds["queue"] >= 0.0
    assert sum(found.ttft_seconds.values()) == pytest.approx(found.ttft_s, rel=1e-9)
    assert min(found.seconds.values()) >= 0.0


@pytest.mark.parametrize("engine", ENGINES)
def test_littles_law_holds_in_the_steady_state(engine):
    found = seen(engine, users=8, output=17, requests_per_user=100)
    answered_in = found.ttft_s + 16 * found.tpot_s
    assert found.in_flight == pytest.approx(found.requests_per_s * answered_in)
    assert (
        8 * 0.98 <= found.in_flight <= 8 * 1.0001
    )  # but for the end, when users have nothing left to send


@pytest.mark.parametrize("engine", ENGINES)
def test_tokens_and_seconds_are_conserved(engine):
    found = serve(
        LLAMA, load_engine(engine).on(H100), Users(users=8, prompt_tokens=512, output_tokens=32)
    )
    result = found.result
    assert result.counters["prompt_tokens_computed"] == 80 * 512
    assert result.counters["emitted"] == 80 * 31
    assert sum(found.seconds.values()) == pytest.approx(result.busy_s)
    assert result.busy_s == pytest.approx(result.clock_s, rel=0.02)  # the rest is idle
    assert (
        result.iterations_by_rows.sum() == result.iterations_by_sampled.sum() == result.iterations
    )
    assert result.iterations_by_rows @ np.arange(result.iterations_by_rows.size) == 80 * (512 + 31)
    assert result.iterations_by_sampled @ np.arange(result.iterations_by_sampled.size) == 80 * 32


def test_one_user_alone_pays_prefill_and_steps():
    found = seen(users=1, prompt=2048, output=64)
    prefill = pass_cost(
        LLAMA, batch=1, query_tokens=2048, context=0, logits="last", prefill=True
    ).total_s
    step = pass_cost(LLAMA, batch=1, query_tokens=1, context=2048 + 32).total_s
    intake_s = front.INTAKE_S + 2048 * TEXT_TOKEN_S
    assert found.ttft_s == pytest.approx(float(prefill) / SUSTAINED_RATIO + intake_s, rel=0.1)
    # between steps the device idles, although host and device overlap
    assert found.tpot_s == pytest.approx(float(step) + bare().host.idle_s, rel=0.002)


def test_a_cache_that_holds_few_requests_queues_the_others():
    roomy = seen(users=32, prompt=4096, output=64)
    small = replace(LLAMA, device=replace(H100, memory_bytes=25e9))
    tight = serve(small, bare(), Users(users=32, prompt_tokens=4096, output_tokens=64))
    assert tight.cache_tokens < 32 * 4160 < roomy.cache_tokens
    assert tight.ttft_s > 1.5 * roomy.ttft_s
    assert tight.tpot_s < roomy.tpot_s  # fewer decode together


def test_a_model_that_does_not_fit_is_infeasible():
    big = replace(LLAMA, architecture=load_model("llama-3.1-70b"))
    with pytest.raises(InfeasibleError, match="leaves no room"):
        seen(deployment=big)


def test_intake_time_hardly_matters(monkeypatch):
    found = []
    for intake_s in (0.3e-3, 1e-3, 3e-3):
        monkeypatch.setattr(front, "INTAKE_S", intake_s)
        found.append(seen(users=32, prompt=1024, output=64))
    assert max(f.tpot_s for f in found) < 1.05 * min(f.tpot_s for f in found)
    assert max(f.ttft_s for f in found) < 1.15 * min(f.ttft_s for f in found)


def test_tokenising_a_prompt_delays_its_first_token():
    with_it = seen(users=1, prompt=2000, output=4)
    without = seen(users=1, prompt=2000, output=4, tokenise_s=0.0)
    assert with_it.ttft_s - without.ttft_s == pytest.approx(2000 * 2.4e-6)
    assert with_it.tpot_s == pytest.approx(without.tpot_s)


def test_cold_kernels_delay_the_first_burst_alone():
    """Its share of the requests counts in the mean; neither median nor decoding notices."""
    cold, warm = (
        seen("sglang", users=8, prompt=512, output=16, cold=is_cold) for is_cold in (True, False)
    )
    burst_s = load_engine("sglang").host.cold_s("h100-sxm", 8)
    assert burst_s == pytest.approx(2 * 0.48)
    assert cold.ttft_s - warm.ttft_s == pytest.approx(burst_s / 10)
    assert cold.ttft_seconds["cold"] == pytest.approx(burst_s / 10)
    assert (cold.ttft_median_s, cold.tpot_s) == (warm.ttft_median_s, warm.tpot_s)
    assert sum(cold.ttft_seconds.values()) == pytest.approx(cold.ttft_s)


def test_a_timer_serves_many_loops_with_the_answers_that_each_has_alone():
    engine = load_engine("vllm").on(H100)
    shared = timer_for(LLAMA, engine)
    for users, prompt in ((1, 100), (40, 700), (600, 30_000), (3, 64)):
        asked = Users(users=users, prompt_tokens=prompt, output_tokens=3, requests_per_user=1)
        together, alone = serve(LLAMA, engine, asked, timer=shared), serve(LLAMA, engine, asked)
        assert (together.ttft_s, together.tpot_s) == (alone.ttft_s, alone.tpot_s)


def test_prompts_that_stay_whole_fit_beside_those_who_decode():
    found = seen("tensorrt-llm", users=6, prompt=9000, output=8)
    assert found.result.finished.all()


def test_requests_that_differ_in_length_drift_apart_and_wait_less():
    together, apart = (
        seen(users=16, prompt=1024, output=512, length_spread=spread) for spread in (0.0, 0.2)
    )
    assert apart.ttft_s < 0.6 * together.ttft_s
    assert apart.requests_per_s == pytest.approx(together.requests_per_s / 0.9, rel=0.1)


def test_intervals_hold_the_estimate_and_repeat(generator):
    found = serve(
        LLAMA, load_engine("vllm").on(H100), Users(users=8, prompt_tokens=512, output_tokens=32)
    )
    timer = timer_for(LLAMA, load_engine("vllm").on(H100))
    ttft, tpot = served_interval(found, timer, generator=generator)
    assert ttft[0] < found.ttft_s < ttft[1]
    assert tpot[0] < found.tpot_s < tpot[1]
    again = [served_interval(found, timer, generator=np.random.default_rng(3)) for _ in range(2)]
    assert again[0] == again[1]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("users", "prompt", "output"), [(4, 700, 20), (48, 3000, 200)])
def test_a_written_scenario_and_a_row_of_a_table_get_the_same_times(engine, users, prompt, output):
    """In 16 bits, where kernels are those of every pass, at full clocks, and with a host that
    nothing hides."""
    usual = load_engine(engine).on(H100)
    plain = replace(
        usual,
        host=Host(layer_ratio=0.0),
        started=replace(usual.scheduling, overlapped_scheduling=False),
        kernels=replace(usual.kernels, sustained_ratio=1.0),
    )
    row = serve(LLAMA, plain, Users(users=users, prompt_tokens=prompt, output_tokens=output))
    written = {
        "requests": {
            "arrivals": "closed",
            "users": users,
            "count": 10 * users,
            "prompt_tokens": prompt,
            "output_tokens": output,
        },
        "deployment": {"model": "llama-3.1-8b", "device": "h100-sxm", "engine": engine},
        "scheduler": {
            "intake_s": front.INTAKE_S,
            "intake_token_s": TEXT_TOKEN_S,
            "overlapped_scheduling": False,
        },
    }
    result = simulate(prepare(checked_scenario(written)).scenario())
    assert result.iterations == row.result.iterations
    assert result.ttft_s.mean() == pytest.approx(row.ttft_s, rel=2e-3)
    assert result.tpot_s.mean() == pytest.approx(row.tpot_s, rel=2e-3)
