"""A measured kernel profile: what was measured comes back, gaps follow their neighbours, sizes
beyond go on."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import InfeasibleError, InputError, UnknownNameError
from simulator.timing.engine_settings import read_engine
from simulator.timing.profile_tables import read_tables
from simulator.timing.profile_timer import ProfileTimer
from tests.simulator.timing.made_up_profile import (
    ENGINE,
    LAYERS,
    attention_us,
    columns,
    write_profile,
)

pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def profile(tmp_path_factory):
    return write_profile(tmp_path_factory.mktemp("profile"))


@pytest.fixture(scope="module")
def timer(profile):
    return ProfileTimer.from_files(profile, profile.with_name("engine.json"))


def expected_s(rows, sampled, attention):
    dense = LAYERS * (10.0 + 0.5 * rows) + 2 * LAYERS * (1.0 + 0.01 * rows) + 3.0
    return 1e-6 * (dense + 99.0 + sampled + 20.0 + LAYERS * attention)


@given(st.integers(1, 64), st.floats(16, 4096))
def test_decodes_alone(timer, requests, context):
    found = timer(requests, 1.0, requests * context, ())
    assert found == pytest.approx(
        expected_s(requests, requests, attention_us(0, 0, requests, context)), rel=1e-9
    )


@given(st.integers(16, 900), st.integers(0, 2048), st.integers(0, 60), st.floats(16, 4096))
def test_a_prompt_beside_decodes(timer, new, cached, requests, context):
    found = timer(requests, 1.0, requests * context, [(new, cached)])
    attention = attention_us(new, cached, requests, context if requests else 16)
    assert found == pytest.approx(expected_s(requests + new, requests + 1, attention), rel=1e-9)


def test_further_prompts_add_their_attention_and_no_launch(timer):
    one, two = ((256, 512),), ((256, 512), (64, 0))
    more = attention_us(64, 0, 0, 16) - attention_us(16, 0, 0, 16)
    rise = expected_s(320, 2, attention_us(256, 512, 0, 16) + more) - expected_s(
        256, 1, attention_us(256, 512, 0, 16)
    )
    assert timer(0, 1.0, 0.0, two) - timer(0, 1.0, 0.0, one) == pytest.approx(rise, rel=1e-9)
    assert timer(0, 1.0, 0.0, two) == timer(0, 1.0, 0.0, two[::-1])


@given(st.integers(1, 200), st.floats(16, 30_000), st.floats(16, 30_000))
def test_time_rises_with_context_and_requests(timer, requests, low, high):
    low, high = sorted((low, high))
    assert timer(requests, 1.0, requests * low, ()) <= timer(requests, 1.0, requests * high, ()) * (
        1 + 1e-12
    )
    assert timer(requests, 1.0, requests * low, ()) < timer(
        requests + 1, 1.0, (requests + 1) * low, ()
    )
    assert timer(requests, 1.0, requests * low, ()) < timer(
        requests, 1.0, requests * low, [(100, 0)]
    )


def test_beyond_the_measured_sizes_lines_go_on(timer):
    assert timer(128, 1.0, 128 * 8192.0, ()) == pytest.approx(
        expected_s(128, 128, attention_us(0, 0, 128, 8192))
    )
    assert timer(0, 1.0, 0.0, [(4096, 4096)]) == pytest.approx(
        expected_s(4096, 1, attention_us(4096, 4096, 0, 16))
    )


def test_queries_of_a_verify_pass_share_the_cache(timer):
    # K = 3: products and sampled rows fourfold, attention on the kernel that prompts run on, once
    # per request
    found = timer(8, 4.0, 8 * 1024.0, ())
    assert found == pytest.approx(expected_s(32, 32, attention_us(16, 0, 8, 1024)), rel=1e-9)


def test_an_iteration_of_nothing_takes_no_time(timer):
    assert timer(0, 1.0, 0.0, ()) == 0.0


def test_overhead_is_added(profile, timer):
    slower = ProfileTimer.from_files(profile, profile.with_name("engine.json"), overhead_s=1e-3)
    assert slower(4, 1.0, 400.0, ()) == pytest.approx(timer(4, 1.0, 400.0, ()) + 1e-3)
    with pytest.raises(InputError, match="overhead_s"):
        ProfileTimer.from_files(profile, profile.with_name("engine.json"), overhead_s=-1.0)


def test_gaps_of_a_partial_grid_are_filled(tmp_path, timer):
    # the largest chunk lacks a context, middle chunks lack a cached length: what is linear comes
    # back exactly
    def keep(c, p, n, k):
        return not (c == 1024 and k == 1024) and not (c in (64, 256) and p == 512)

    thin = ProfileTimer.from_files(write_profile(tmp_path, keep=keep), tmp_path / "engine.json")
    for arguments in (
        (8, 1.0, 8 * 900.0, [(1000, 100)]),
        (3, 1.0, 3 * 100.0, [(100, 512)]),
        (0, 1.0, 0.0, [(64, 512)]),
    ):
        assert thin(*arguments) == pytest.approx(timer(*arguments), rel=1e-9)


def skew_rows(ratio):
    rows = [
        (n, nb, 4.0, pc, kp, kvs, 50.0, 50.0 * ratio)
        for n in (8, 64)
        for nb in (1, n // 4, n // 2)
        for pc, kp in ((0, 0), (16, 0), (16, 512), (1024, 0), (1024, 512))
        for kvs in (128, 1024)
    ]
    return columns(rows, ("n", "nb", "skew", "pc", "kp", "kvs", "t_mean_us", "t_skew_us"))


def test_unequal_contexts_cost_what_was_measured(tmp_path, timer):
    skewed = ProfileTimer.from_files(
        write_profile(tmp_path, skew=skew_rows(1.2)), tmp_path / "engine.json"
    )
    requests, mean = 64, 1000.0
    plain = timer(requests, 1.0, requests * mean, ())
    attention = 1e-6 * LAYERS * attention_us(0, 0, requests, mean)
    # the longest is 2.5 times the mean: a fifth of the requests has it, where 1.2 was measured
    assert skewed(requests, 1.0, requests * mean, (), 2.5 * mean) == pytest.approx(
        plain + 0.2 * attention, rel=1e-9
    )
    assert skewed(requests, 1.0, requests * mean, (), mean) == plain
    assert skewed(requests, 1.0, requests * mean, (), 0.0) == plain
    assert skewed(1, 1.0, mean, (), 5 * mean) == timer(1, 1.0, mean, ())
    near = skewed(requests, 1.0, requests * mean, (), 1.05 * mean)
    assert plain < near < plain + 0.2 * attention


def test_files_that_are_not_a_profile_are_refused(tmp_path, profile):
    engine = read_engine(profile.with_name("engine.json"))
    with pytest.raises(InputError, match="no such file"):
        read_tables(tmp_path / "absent", engine)
    with pytest.raises(InputError, match="measured on 2 devices"):
        read_tables(write_profile(tmp_path, tp=2), engine)
    dense = {"layer": ["qkv_proj"] * 4, "tokens": [1, 2, 3, 4], "time_us": [1.0, 2.0, -3.0, 4.0]}
    prefix = write_profile(tmp_path)
    for change, message in (
        ({}, "out of range"),
        ({"time_us": [1.0, 2.0, float("nan"), 3.0]}, "out of range"),
        ({"tokens": [1, 2, 3, 1 << 40], "time_us": [1.0] * 4}, "out of range"),
        ({"layer": ["a"], "tokens": [1], "time_us": [1.0]}, "at least 4 rows"),
    ):
        pq.write_table(pa.table(dense | change), tmp_path / "p_dense.parquet")
        with pytest.raises(InputError, match=message):
            read_tables(prefix, engine)
    pq.write_table(pa.table({"tokens": [1]}), tmp_path / "p_dense.parquet")
    with pytest.raises(InputError, match="layer"):
        read_tables(prefix, engine)


def test_engine_settings(tmp_path):
    file = tmp_path / "e.json"
    file.write_text(json.dumps(ENGINE))
    engine = read_engine(file)
    assert (engine.layers, engine.started.max_requests) == (LAYERS, 64)
    assert engine.started.token_budget == 1024
    assert engine.started.chunked_prefill and engine.started.prefix_cache  # vLLM's defaults
    options = engine.scheduler(max_requests=7)
    assert (options.max_requests, options.token_budget, options.kv_blocks) == (
        7,
        1024,
        engine.kv_blocks(),
    )
    # 0.9 of 96 GiB less 16.1 GB of weights, at 131,072 B a token
    assert engine.kv_blocks() * 16 * 131072 == pytest.approx(0.9 * 96 * 2**30 - 16.06e9, rel=0.01)
    file.write_text(json.dumps({"model": "llama-3.1-8b", "tensor_parallel_size": 2}))
    assert read_engine(file).tensor_parallel == 2
    with pytest.raises(InputError, match="mem_size"):
        read_engine(file).kv_blocks()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"model": ""}, InputError, "must name the model"),
        ({"model": "llama-3.1-8"}, UnknownNameError, "nearest"),
        ({"max_num_seqs": 0}, InputError, "engine_kwargs.max_num_seqs"),
        ({"max_num_seqs": "many"}, InputError, "engine_kwargs.max_num_seqs"),
        ({"enable_prefix_caching": 1}, InputError, "enable_prefix_caching"),
        ({"dtype": "float4"}, InputError, "dtype"),
        ({"kv_cache_dtype": "int2"}, InputError, "kv_cache_dtype"),
        ({"gpu_memory_utilization": -0.5}, InputError, "gpu_memory_utilization"),
        ({"model": 5}, InputError, "must be text"),
    ],
)
def test_engine_settings_name_what_is_wrong(tmp_path, change, error, message):
    file = tmp_path / "e.json"
    file.write_text(json.dumps({"engine_kwargs": ENGINE["engine_kwargs"] | change}))
    with pytest.raises(error, match=message):
        read_engine(file)


def test_a_model_that_fills_the_memory_leaves_no_cache(tmp_path):
    file = tmp_path / "e.json"
    small = {"sim_config": {"nodes": [{"instances": [{"npu_mem": {"mem_size": 16}}]}]}}
    file.write_text(json.dumps(ENGINE | small))
    with pytest.raises(InfeasibleError, match="no room"):
        read_engine(file).kv_blocks()


def test_measured_points_of_the_reference_profile_come_back(reference_data):
    prefix = reference_data / "kernels" / "rtxpro6000_llama3.1-8b"
    engine = read_engine(reference_data / "serving" / "rtxpro6000_llama3.1-8b_engine.json")
    tables = read_tables(prefix, engine)
    rows = pq.read_table(f"{prefix}_attention.parquet").to_pydict()
    checked = 0
    for tp, c, p, n, k, us in zip(*(rows[name] for name in rows), strict=True):
        if tp != 1 or c == 0 or n not in tables.requests:
            continue
        axes = (tables.chunk, tables.cached, tables.requests, tables.context)
        place = [
            int(np.searchsorted(axis, x))
            for axis, x in zip(axes, (c, p, n, max(k, 16)), strict=True)
        ]
        assert tables.mixed_s[tuple(place)] == pytest.approx(us * 1e-6 * LAYERS, rel=1e-6)
        checked += 1
    assert checked > 19_000
    assert np.all(np.diff(tables.mixed_s[tables.chunk >= 256, 0, 0, 0]) > 0)
    # one request of 1,024 tokens: 8.0e9 weights of two bytes over 1.6e12 B/s and the cache, no
    # faster than the memory
    step = ProfileTimer(tables)(1, 1.0, 1024.0, ())
    assert 16.06e9 / 1.79e12 < step < 0.012
