"""Settings of an engine whose kernels were measured: every key is read, known to be idle, or
refused by its name."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import InputError, RooftreeError, UnknownNameError
from simulator.timing.engine_settings import EngineSettings, read_engine

INSTANCE = {
    "model_name": "Qwen/Qwen3-30B-A3B-Instruct-2507",
    "hardware": "RTXPRO6000",
    "npu_mem": {"mem_size": 96, "mem_bw": 1597, "mem_latency": 0, "mem_util": 0.9},
    "num_npus": 1,
    "tp_size": 1,
    "ep_size": 2,
    "dp_group": "A",
    "pd_type": None,
}
RANKS = {
    "model": "Qwen/Qwen3-30B-A3B-Instruct-2507",
    "vllm_version": "0.19.0",
    "engine_kwargs": {
        "model": "Qwen/Qwen3-30B-A3B-Instruct-2507",
        "tensor_parallel_size": 1,
        "data_parallel_size": 2,
        "enable_expert_parallel": True,
        "max_num_seqs": 128,
        "max_num_batched_tokens": 2048,
        "max_model_len": None,
        "dtype": "bfloat16",
        "kv_cache_dtype": "auto",
        "seed": 42,
    },
    "sim_config": {
        "num_nodes": 1,
        "link_bw": 16,
        "link_latency": 20000,
        "nodes": [
            {"num_instances": 2, "cpu_mem": {"mem_size": 512}, "instances": [INSTANCE, INSTANCE]}
        ],
    },
}


@pytest.fixture
def read(tmp_path):
    def written(document):
        file = tmp_path / "engine.json"
        file.write_text(json.dumps(document))
        return read_engine(file)

    return written


def changed(*path_and_value):
    *path, last, value = path_and_value
    document = json.loads(json.dumps(RANKS))
    place = document
    for key in path:
        place = place[key]
    place[last] = value
    return document


def test_ranks_of_one_engine(read):
    engine = read(RANKS)
    assert (engine.replicas, engine.in_step, engine.expert_devices) == (2, True, 2)
    assert (engine.link_bytes_per_s, engine.link_latency_s) == (16e9, 20e-6)
    assert (
        engine.started.overlapped_scheduling and engine.scheduler().overlapped_scheduling
    )  # from 0.14 on
    assert not read(changed("vllm_version", "0.13.0")).started.overlapped_scheduling
    assert not read(
        changed("engine_kwargs", "async_scheduling", False)
    ).started.overlapped_scheduling
    # 0.9 of 96 GiB less 31.6 GB of weights and activations, at 98,304 B a token
    assert engine.kv_blocks() * 16 * 98304 == pytest.approx(0.9 * 96 * 2**30 - 31.6e9, rel=0.02)
    alone = changed("engine_kwargs", "data_parallel_size", 1)
    alone["sim_config"]["nodes"][0] |= {
        "num_instances": 1,
        "instances": [INSTANCE | {"ep_size": 1}],
    }
    assert engine.kv_blocks() > read(alone).kv_blocks()
    assert not read(alone).in_step


@pytest.mark.parametrize(
    ("document", "key"),
    [
        (changed("engine_kwargs", "enable_expert_parallel", False), "enable_expert_parallel"),
        (changed("engine_kwargs", "quantization", "fp8"), "quantization"),
        (
            changed("engine_kwargs", "speculative_config", {"method": "eagle3"}),
            "speculative_config",
        ),
        (changed("engine_kwargs", "pipeline_parallel_size", 2), "pipeline_parallel_size"),
        (changed("engine_kwargs", "enforce_eager", True), "enforce_eager"),
        (changed("engine_kwargs", "all2all_backend", "deepep_low_latency"), "all2all_backend"),
        (changed("engine_kwargs", "enable_eplb", True), "enable_eplb"),
        (changed("engine_kwargs", "enable_dbo", True), "enable_dbo"),
        (changed("engine_kwargs", "async_scheduling", 1), "async_scheduling"),
        (changed("sim_config", "num_nodes", 2), "num_nodes"),
        (changed("sim_config", "link_latency", -1), "link_latency"),
        (changed("sim_config", "topology", "ring"), "topology"),
        (changed("sim_config", "nodes", 0, "num_instances", 3), "num_instances"),
        (changed("sim_config", "nodes", 0, "instances", 0, "tp_size", 2), "tp_size"),
        (changed("sim_config", "nodes", 0, "instances", 1, "ep_size", 4), "ep_size"),
        (changed("sim_config", "nodes", 0, "instances", 1, "pd_type", "prefill"), "pd_type"),
        (changed("sim_config", "nodes", 0, "instances", 1, "dp_group", "B"), "instances[1]"),
        (changed("sim_config", "nodes", 0, "instances", 0, "npu_mem", "pim", 1), "pim"),
        (changed("sim_config", "nodes", 0, "instances", [INSTANCE] * 3), "num_instances"),
        (changed("extra", {}), "extra"),
    ],
)
def test_what_nobody_simulates_is_refused_by_its_name(read, document, key):
    with pytest.raises(InputError) as caught:
        read(document)
    assert key in str(caught.value)


def test_what_leaves_times_alone_passes(read):
    idle = {
        "trust_remote_code": True,
        "served_model_name": "q",
        "disable_log_stats": False,
        "tokenizer": "t",
    }
    document = changed("engine_kwargs", RANKS["engine_kwargs"] | idle | {"quantization": None})
    assert read(document) == read(RANKS)
    run = {
        "schema_version": 1,
        "dataset_hash": "0",
        "num_requests": 300,
        "hardware": {"device_name": "RTX"},
    }
    assert read(RANKS | run) == read(RANKS)


PLACES = [
    ("engine_kwargs",),
    ("sim_config",),
    ("sim_config", "nodes", 0),
    ("sim_config", "nodes", 0, "instances", 1),
    ("sim_config", "nodes", 0, "instances", 0, "npu_mem"),
]
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 3000),
    st.floats(allow_nan=True),
    st.text(max_size=5),
    st.lists(st.integers(), max_size=2),
    st.just({}),
    st.just({"a": 1}),
    st.just([{}]),
)


@given(st.data())
def test_any_value_of_any_key_is_read_or_refused(tmp_path_factory, data):
    document = json.loads(json.dumps(RANKS))
    for _ in range(data.draw(st.integers(1, 3))):
        place = document
        for key in data.draw(st.sampled_from(PLACES)):
            inside = isinstance(place, dict | list) and (
                key in place if isinstance(place, dict) else key < len(place)
            )
            place = place[key] if inside else None
        if isinstance(place, dict):
            place[data.draw(st.sampled_from([*place, "new_key"]))] = data.draw(VALUES)
    file = tmp_path_factory.getbasetemp() / "fuzzed.json"
    file.write_text(json.dumps(document))
    try:
        engine = read_engine(file)
    except RooftreeError as error:
        assert str(file) in str(error) or isinstance(error, UnknownNameError)
        return
    assert isinstance(engine, EngineSettings)
    assert "new_key" not in json.dumps(document) or '"new_key": null' in json.dumps(document)


def test_blocks_that_the_engine_said_go_over_those_that_follow(read):
    derived = read(RANKS).kv_blocks()
    told = RANKS | {
        "kv_cache": {"num_gpu_blocks": 1234, "block_size": 32, "num_kv_tokens": 1234 * 32}
    }
    assert (read(told).kv_blocks(), read(told).block_tokens) == (1234, 32)
    for key in ("num_gpu_blocks", "num_gpu_blocks_override"):
        assert read(changed("engine_kwargs", key, 99)).kv_blocks() == 99 != derived
    assert (
        read(
            changed("engine_kwargs", "num_gpu_blocks_override", 99) | {"sim_config": {}}
        ).kv_blocks()
        == 99
    )
    with pytest.raises(InputError, match=r"kv_cache\.num_gpu_blocks"):
        read(RANKS | {"kv_cache": {"num_gpu_blocks": 0}})
    with pytest.raises(InputError, match="blocks"):
        read(RANKS | {"kv_cache": {"blocks": 3}})
