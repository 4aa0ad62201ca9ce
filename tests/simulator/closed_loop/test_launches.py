"""Launches behind rows of tables: what the named scripts set, what the row states, else defaults."""

import pytest

from costmodel.engine_library import load_engine
from costmodel.parallel.plan import ParallelPlan
from costmodel.parallel.pools import ServingPlan, Workers
from hardware_profiles.errors import InputError, UnknownNameError
from hardware_profiles.loader import load_device
from simulator.closed_loop.columns import COUNTS, TEXTS
from simulator.closed_loop.launch_settings import read_launch
from simulator.closed_loop.launches import LaunchedRow, launched

H100, H200, B200 = (load_device(name) for name in ("h100-sxm", "h200-sxm", "b200-sxm"))
ROW = {"users": 16, "prompt_tokens": 1024, "output_tokens": 1024}
ENGINES = ("sglang", "tensorrt-llm", "vllm")


def launch(engine="vllm", model="llama-3.1-8b", device=H100, named=None, **changes):
    row = LaunchedRow(**(ROW | changes), launch=named and read_launch(named))
    return launched(load_engine(engine).on(device), row, model=model, device=device)


@pytest.mark.parametrize("engine", ["sglang", "tensorrt-llm", "vllm"])
def test_rows_that_say_nothing_keep_the_defaults(engine):
    found = launch(engine)
    assert found.engine == load_engine(engine).on(H100)
    assert (found.length_spread, found.cache) == (0.0, None)


@pytest.mark.parametrize("engine", ["vllm", "tensorrt-llm"])
def test_the_generator_sizes_batches_by_the_prompt(engine):
    named = launch(engine, batch=64, named="aiconfigurator")
    assert named.engine.scheduling.token_budget == 64 + 1024 + 1500
    assert named.engine.scheduling.chunked_prefill == load_engine(engine).scheduling.chunked_prefill
    assert (named.length_spread, named.cold, named.cuts) == (0.0, False, True)
    assert launch(engine, batch=64).engine == load_engine(engine).on(H100)


def test_the_generator_leaves_tensorrt_llm_less_memory():
    assert launch("trtllm", batch=8, named="aiconfigurator").engine.memory.ratio == 0.8
    vllm = launch("vllm", batch=8, named="aiconfigurator")
    assert vllm.engine.memory == load_engine("vllm").memory


def test_sglang_fills_its_limit_with_whole_prompts_below_a_chunk():
    def named(prompt_tokens):
        return launch("sglang", batch=8, prompt_tokens=prompt_tokens, named="aiconfigurator").engine

    assert (named(2048).scheduling.token_budget, named(2048).scheduling.chunked_prefill) == (
        3548,
        False,
    )
    assert named(8000) == load_engine("sglang").on(H100)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["inferencex", "inferencex-2025-10-29"])
def test_the_benchmark_draws_lengths_and_caps_requests(engine, name):
    named = launch(engine, batch=16, named=name)
    assert (named.length_spread, named.cold, named.cuts) == (0.2, True, False)
    assert named.engine.scheduling.max_requests == 16
    assert named.engine.scheduling.overlapped_scheduling


def test_an_engine_that_no_script_starts_is_loaded_as_the_benchmark_loads():
    named = launch("llama.cpp", named="inferencex")
    assert named.engine == load_engine("llama.cpp").on(H100)
    assert (named.length_spread, named.cold) == (0.2, True)


@pytest.mark.parametrize(
    ("engine", "model", "device", "day", "tokens", "ratio", "cache"),
    [
        ("vllm", "llama-3.1-70b", H200, "2025-10-29", 8192, 0.9, "fp8"),
        ("vllm", "gpt-oss-120b", H200, "2026-03-27", 8192, 0.9, None),
        ("vllm", "gpt-oss-120b", B200, "2025-11-02", 8192, 0.9, None),
        ("vllm", "gpt-oss-120b", B200, "2025-12-05", 8192, 0.9, "fp8"),
        ("trtllm", "llama-3.1-70b", H200, "2025-10-29", 16384, 0.9, "fp8"),
        ("trtllm", "gpt-oss-120b", H200, None, 20000, 0.85, "bf16"),
        ("trtllm", "deepseek-v3", H200, "2025-11-02", 1024 + 64 + 16, 0.75, "fp8"),
        ("trtllm", "deepseek-v3", H200, "2026-01-28", 8192, 0.75, "fp8"),
        ("trtllm", "deepseek-v3", B200, None, 8192, 0.8, "fp8"),
        ("sglang", "deepseek-v3", H200, "2026-03-25", 32768, 0.82, None),
        ("sglang", "deepseek-v3", B200, "2026-03-25", 16384, 0.85, "fp8"),
        ("sglang", "deepseek-r1", load_device("mi325x"), "2025-12-31", 196608, 0.8, None),
        ("sglang", "deepseek-r1", load_device("mi355x"), "2026-01-08", 196608, 0.8, None),
    ],
)
def test_settings_are_those_of_the_scripts_of_the_day(
    engine, model, device, day, tokens, ratio, cache
):
    found = launch(engine, model, device, named=f"inferencex-{day}" if day else "inferencex")
    assert found.engine.scheduling.token_budget == tokens
    assert found.engine.memory.ratio_of(device.memory_bytes) == pytest.approx(ratio)
    assert found.cache == cache


@pytest.mark.parametrize(("ranks", "drafts"), [(1, 3), (8, 1)])
def test_limits_of_a_launch_hold_the_drafts_of_every_user(ranks, drafts):
    changes = {"model": "deepseek-v3", "device": H200, "ranks": ranks, "speculates": True}
    found = launch("trtllm", **changes, named="inferencex-2025-12-31")
    assert found.engine.scheduling.token_budget == 1024 + 64 + 16 * (1 + drafts)


@pytest.mark.parametrize(
    ("changes", "iterations", "ratio"),
    [
        ({"devices": 4}, 20, 0.9),
        ({"devices": 8}, 0, 1.0),
        ({"devices": 4, "output_tokens": 8192}, 0, 1.0),
        ({"model": "deepseek-v3", "device": B200, "precision": "fp8", "users": 64}, 40, 0.8),
        ({"model": "deepseek-v3", "device": B200, "precision": "fp8", "users": 32}, 0, 1.0),
        ({"model": "deepseek-v3", "device": B200, "precision": "fp4", "users": 64}, 0, 1.0),
    ],
)
def test_prompts_wait_for_company_where_the_scripts_say_so(changes, iterations, ratio):
    found = launch(
        "trtllm",
        **({"model": "llama-3.1-70b", "device": H200, "named": "inferencex-2026-02-01"} | changes),
    )
    assert (found.engine.scheduling.wait_iterations, found.engine.scheduling.wait_ratio) == (
        iterations,
        ratio,
    )


def test_sglang_on_blackwell_looks_for_requests_now_and_then():
    def iterations(users, device=B200):
        return launch(
            "sglang", "deepseek-v3", device, users=users, named="inferencex"
        ).engine.scheduling

    assert [iterations(users).receive_iterations for users in (4, 15, 16, 64)] == [10, 10, 30, 30]
    assert iterations(64, H200).receive_iterations == 1


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("run", [{}, {"named": "aiconfigurator"}, {"named": "inferencex-2025-10"}])
def test_what_a_row_states_goes_over_scripts_and_defaults(engine, run):
    stated = launch(engine, token_budget=777, max_requests=5, cache="bf16", **run)
    assert (stated.engine.scheduling.token_budget, stated.engine.scheduling.max_requests) == (
        777,
        5,
    )
    assert stated.cache == "bf16"
    other = launch(engine, **run)
    assert (
        stated.engine.memory == other.engine.memory and stated.length_spread == other.length_spread
    )


def test_caches_are_read_as_engines_spell_them():
    row = dict.fromkeys((*COUNTS, *TEXTS)) | {"isl": 1024, "osl": 64, "concurrency": 4}
    said = {
        name: LaunchedRow.of(row | {"kv_cache_dtype": name}).cache
        for name in ("auto", "fp8_e4m3", "BF16", None)
    }
    assert said == {"auto": None, "fp8_e4m3": "fp8", "BF16": "bf16", None: None}
    assert (
        LaunchedRow.of(row | {"max_num_batched_tokens": 2048, "max_num_seqs": 3}).token_budget
        == 2048
    )
    with pytest.raises(UnknownNameError, match="cache format"):
        LaunchedRow.of(row | {"kv_cache_dtype": "fp3"})


@pytest.mark.parametrize(
    ("changes", "copied"),
    [
        ({}, True),
        ({"users": 32}, False),
        ({"named": "inferencex-2025-11-03"}, False),
        ({"named": "inferencex"}, False),
        ({"named": None}, False),
        ({"prompt_tokens": 1024}, False),
        ({"prompt_tokens": 1024, "users": 128}, True),
        ({"device": B200, "precision": "fp4"}, True),
        ({"device": B200, "precision": "fp8"}, False),
        ({"model": "llama-3.1-70b"}, False),
    ],
)
def test_scripts_of_a_day_copied_attention_although_rows_do_not_say_so(changes, copied):
    row = {
        "model": "deepseek-v3",
        "device": H200,
        "named": "inferencex-2025-11-02",
        "prompt_tokens": 8192,
        "users": 64,
    }
    found = launch("trtllm", **(row | changes))
    assert found.copied is copied
    eight = ServingPlan(decode=Workers(plan=ParallelPlan(tensor=8)))
    spread = found.spread(eight).decode.plan
    assert (spread.tensor, spread.data, spread.expert) == ((1, 8, 8) if copied else (8, 1, 1))
    stated = ServingPlan(decode=Workers(plan=ParallelPlan(tensor=1, data=8, expert=8)))
    assert found.spread(stated) == stated


def test_a_day_before_the_first_script_takes_that_one():
    early = "inferencex-2025-01-01"
    assert launch(model="gpt-oss-120b", device=B200, named=early).cache is None


def test_a_load_that_hid_how_many_ran_is_refused():
    run = {"model": "gpt-oss-120b", "batch": 512, "users": 512}
    with pytest.raises(InputError, match="512 requests at once"):
        launch(**run, named="inferencex-2025-12-05")
    for other in (
        {"named": "inferencex-2025-12-09"},
        {"named": "inferencex-2025-11-02"},
        {"device": H200},
    ):
        assert launch(**({"named": "inferencex-2025-12-05"} | run | other)).length_spread == 0.2
    assert launch(**(run | {"users": 64}), named="inferencex-2025-12-05").length_spread == 0.2


def test_the_batch_of_one_engine_is_no_load_of_a_deployment():
    row = dict.fromkeys((*COUNTS, *TEXTS)) | {"isl": 4000, "osl": 1000, "batch_size": 24}
    assert LaunchedRow.of(row).users == 24
    assert (
        str(LaunchedRow.of(row | {"launch": "inferencex-2025-10"}).launch) == "inferencex-2025-10"
    )
    assert LaunchedRow.of(row | {"measured": "2025-10-29T00:00:00.000Z"}) == LaunchedRow.of(row)
    dynamo = row | {"image": "nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.8.0"}
    assert LaunchedRow.of(dynamo | {"concurrency": 48}).users == 48
    for unsaid in (dynamo, row | {"batch_size": None}):
        with pytest.raises(InputError, match="concurrency"):
            LaunchedRow.of(unsaid)


def test_prompts_of_several_ranks_wait_for_each_other_where_the_scripts_balance_them():
    run = {
        "engine": "trtllm",
        "model": "deepseek-r1",
        "device": H200,
        "named": "inferencex",
        "users": 64,
    }
    one, ranks = (launch(**run, ranks=count).engine.scheduling for count in (1, 8))
    assert (one.wait_iterations, ranks.wait_iterations) == (0, 60)
    assert ranks.wait_ratio * ranks.token_budget == pytest.approx(
        1024
    )  # of every rank: a prompt each


@pytest.mark.parametrize(
    ("day", "ranks", "tokens", "requests"),
    [
        ("2026-01-08", 1, 262_144, 128),
        ("2026-01-08", 8, 32_768, 1),
        ("2026-03", 1, 262_144, 128),
        ("2026-03", 8, 16_384, 3),
    ],
)
def test_workers_for_prompts_alone_have_limits_that_their_ranks_share(day, ranks, tokens, requests):
    run = {"engine": "sglang", "model": "deepseek-r1", "device": load_device("mi355x")}
    named = launch(**run, prompt_ranks=ranks, named=f"inferencex-{day}")
    limits = named.prompts.scheduling
    assert (limits.token_budget, limits.max_requests) == (tokens, requests)
    usual = load_engine("sglang").on(run["device"])
    assert named.engine == usual  # limits of workers that decode were not read
    assert launch(**run, prompt_ranks=ranks).prompts == usual
