"""Written scenarios: what is read, what it becomes, and errors that name the key."""

import json

import numpy as np
import pytest
import yaml

from costmodel.engine_library import load_engine
from costmodel.parallel.plan import BETWEEN_NODES_BYTES_PER_S
from costmodel.passes.streaming import HOST_LINK_EFFICIENCY
from hardware_profiles.errors import InfeasibleError, InputError, UnknownNameError
from hardware_profiles.loader import load_device
from simulator.engine import simulate
from simulator.loop.options import SchedulerOptions
from simulator.scenario.build import prepare
from simulator.scenario.copies import Copies
from simulator.scenario.defaults import swap_block_s
from simulator.scenario.file import checked_scenario, read_scenario, read_scenario_sections
from simulator.scenario.prompt_workers import disaggregation_of
from traces.kinds.acceptance import RequestTrace
from traces.storage.acceptance_file import write_requests

DRAWN = {
    "count": 12,
    "prompt_tokens": "uniform:50:200",
    "output_tokens": 8,
    "arrivals": "poisson",
    "rate_per_s": 5,
}
SECTIONS = {"requests": DRAWN, "deployment": {"model": "llama-3.1-8b", "device": "h100-sxm"}}


@pytest.fixture
def write(tmp_path):
    def place(content, name="s.yaml"):
        file = tmp_path / name
        file.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        return file

    return place


@pytest.fixture
def recorded(tmp_path):
    trace = RequestTrace(
        arrival_s=[0.0, 0.5, 2.0], prompt_tokens=[30, 40, 50], output_tokens=[2, 3, 4]
    )
    write_requests(trace, tmp_path / "r.parquet")
    return "r.parquet"


def test_a_scenario_runs_as_the_engine_does_by_default(write):
    prepared = prepare(read_scenario(write(SECTIONS)))
    usual = load_engine("vllm").on(load_device("h100-sxm")).scheduling
    options = prepared.scheduler
    assert (options.token_budget, options.max_requests) == (usual.token_budget, usual.max_requests)
    assert options.chunked_prefill and options.prefix_cache and not options.prefill_first
    # 72 GB less 16.1 GB of weights and some activations, at 131,072 B a token in blocks of 16
    assert 0.9 * (72e9 - 16.06e9) / (16 * 131072) < options.kv_blocks < 86e9 / (16 * 131072)
    result = simulate(prepared.scenario())
    assert result.finished.all() and result.request.size == 12


def test_engines_differ_by_default(write):
    sglang = prepare(
        checked_scenario(SECTIONS | {"deployment": SECTIONS["deployment"] | {"engine": "sglang"}})
    )
    assert sglang.scheduler.prefill_first and sglang.scheduler.chunked_prefill
    tensorrt = prepare(
        checked_scenario(
            SECTIONS | {"deployment": SECTIONS["deployment"] | {"engine": "tensorrt-llm"}}
        )
    )
    assert tensorrt.scheduler.reserve_ratio == 1.0 and not tensorrt.scheduler.chunked_prefill
    written = {"token_budget": 77, "kv_blocks": 900, "prefix_cache": False, "watermark_ratio": 0.01}
    options = prepare(checked_scenario(SECTIONS | {"scheduler": written})).scheduler
    assert {name: getattr(options, name) for name in written} == written


def test_seeds_and_rates(write):
    prepared = prepare(checked_scenario(SECTIONS))
    one, same, other = (prepared.scenario(seed).workload for seed in (1, 1, 2))
    assert one.arrival_s.tolist() == same.arrival_s.tolist() != other.arrival_s.tolist()
    assert one.prompt_tokens.tolist() != other.prompt_tokens.tolist()
    faster = prepared.scenario(1, rate_per_s=50.0).workload
    np.testing.assert_allclose(faster.arrival_s * 10.0, one.arrival_s)


def test_recorded_requests_keep_their_times_and_speed_up(write, recorded):
    prepared = prepare(read_scenario(write(SECTIONS | {"requests": {"file": recorded}})))
    assert prepared.scenario().workload.arrival_s.tolist() == [0.0, 0.5, 2.0]
    # 3 requests in 2 s are 1.5 a second; at 6 a second they take half a second
    np.testing.assert_allclose(
        prepared.scenario(rate_per_s=6.0).workload.arrival_s, [0.0, 0.125, 0.5]
    )
    assert prepared.scenario().workload.prompt_tokens.tolist() == [30, 40, 50]


def test_recorded_lengths_under_other_arrivals(write, recorded):
    closed = {"file": recorded, "arrivals": "closed", "users": 2, "think_s": 0.5, "count": 5}
    workload = prepare(read_scenario(write(SECTIONS | {"requests": closed}))).scenario().workload
    assert (workload.users, workload.prompt_tokens.tolist()) == (2, [30, 40, 50, 30, 40])
    assert (workload.think_s > 0.0).all() and workload.think_s.shape == (5,)
    for law in ({"arrivals": "gamma"}, {"arrivals": "modulated", "calm_s": 1.0, "burst_s": 1.0}):
        drawn = prepare(
            read_scenario(
                write(SECTIONS | {"requests": {"file": recorded, "rate_per_s": 2.0} | law})
            )
        )
        assert np.all(np.diff(drawn.scenario().workload.arrival_s) >= 0)


def test_speculation_walks_a_shipped_recording():
    sections = SECTIONS | {
        "speculation": {"trace": "smollm2-135m--prompt-lookup--greedy", "draft_tokens": 3},
        "requests": DRAWN | {"output_tokens": 60},
    }
    prepared = prepare(checked_scenario(sections))
    assert any("borrowed" in note for note in prepared.notes)
    result = simulate(prepared.scenario())
    assert result.tokens_per_step > 1.0
    plain = simulate(prepare(checked_scenario(sections | {"speculation": None})).scenario())
    assert plain.iterations > result.iterations and plain.tokens_per_step == 1.0


def test_replicas_and_disaggregation():
    parts = {"replicas": 2, "router": "least-loaded", "disaggregation": {"prefill_replicas": 1}}
    scenario = prepare(checked_scenario(SECTIONS | parts)).scenario()
    assert (scenario.replicas, scenario.router, scenario.disaggregation.prefill_replicas) == (
        2,
        "least-loaded",
        1,
    )
    assert simulate(scenario).finished.all()


def test_moving_a_cache_takes_time_unless_it_is_said_to_be_free():
    swapping = SECTIONS | {"scheduler": {"preemption": "swap"}}
    block = 16 * 131072  # bytes of 16 tokens
    assert prepare(checked_scenario(swapping)).scheduler.swap_block_s == pytest.approx(
        block / (HOST_LINK_EFFICIENCY * 64e9)
    )
    free = SECTIONS | {"scheduler": {"preemption": "swap", "swap_block_s": 0.0}}
    assert prepare(checked_scenario(free)).scheduler.swap_block_s == 0.0
    split = SECTIONS | {"disaggregation": {"prefill_replicas": 2}}
    assert prepare(checked_scenario(split)).disaggregation.transfer_token_s == pytest.approx(
        131072 / 450e9
    )
    wide = split | {"deployment": SECTIONS["deployment"] | {"tensor_parallel": 2}}
    assert prepare(checked_scenario(wide)).disaggregation.transfer_token_s == pytest.approx(
        131072 / 900e9
    )


def test_a_profile_knows_no_links():
    with pytest.raises(InputError, match="beside a measured profile"):
        swap_block_s(None, 16)
    told = {"copies": Copies(), "scheduler": SchedulerOptions(kv_blocks=10)}
    with pytest.raises(InputError, match="beside a measured profile"):
        disaggregation_of(checked_scenario(SECTIONS | {"disaggregation": {}}), None, 100, **told)
    with pytest.raises(InputError, match="not by a profile"):
        disaggregation_of(
            checked_scenario(SECTIONS | {"disaggregation": {"prefill": "1xtp1"}}), None, 100, **told
        )


def test_workers_for_prompts_have_a_plan_limits_and_links_of_their_own():
    wide = {"replicas": 3, "disaggregation": {"prefill": "2xtp4dp2", "delivers": "decode"}}
    found = prepare(checked_scenario(SECTIONS | wide))
    apart, usual = found.disaggregation, found.scheduler
    assert apart.prefill_replicas == 2 and apart.delivers == "decode"
    assert apart.prefill_scheduler.token_budget == 2 * usual.token_budget
    assert apart.prefill_scheduler.kv_blocks > 2 * usual.kv_blocks
    assert apart.transfer_token_s == pytest.approx(
        131072 / BETWEEN_NODES_BYTES_PER_S
    )  # 19 devices, two nodes or more
    near = prepare(checked_scenario(SECTIONS | {"disaggregation": {"prefill": "1xtp4"}}))
    assert near.disaggregation.transfer_token_s == pytest.approx(131072 / 450e9)
    for wrong, said in (("4", "2xtp4"), ("1xtp3", "heads")):
        with pytest.raises(InputError, match=said):
            prepare(checked_scenario(SECTIONS | {"disaggregation": {"prefill": wrong}}))
    with pytest.raises(InputError, match="prefill_replicas"):
        checked_scenario(SECTIONS | {"disaggregation": {"prefill": "1xtp1", "prefill_replicas": 2}})


def test_plans_spread_the_model_and_its_cache():
    def prepared(**sizes):
        return prepare(
            checked_scenario(SECTIONS | {"deployment": {"model": "llama-3-70b"} | sizes})
        )

    alone = prepared(tensor_parallel=4)
    piped, copied = (
        prepared(tensor_parallel=4, pipeline_parallel=2),
        prepared(tensor_parallel=4, data_parallel=2),
    )
    assert alone.copies == (1, False, None) and piped.copies.plan.pipeline == 2
    assert copied.copies == (2, False, None) and copied.scenario().replicas == 2
    # with half the layers a device holds half the weights, and half the bytes of every block
    assert piped.scheduler.kv_blocks > 2 * alone.scheduler.kv_blocks
    assert copied.scheduler.kv_blocks == alone.scheduler.kv_blocks  # of each copy
    for spread in (piped, copied):
        assert simulate(spread.scenario()).finished.all()
    with pytest.raises(InputError, match="expert"):
        prepared(tensor_parallel=2, expert_parallel=3)
    with pytest.raises(InfeasibleError, match="no room"):
        prepared(tensor_parallel=1, data_parallel=2)


@pytest.mark.parametrize(
    ("change", "key", "message"),
    [
        ({"requests": None}, "requests", "valid dictionary"),
        ({"request": {}}, "request", "unknown section .request.; nearest: requests"),
        (
            {"requests": DRAWN | {"rat_per_s": 3}},
            "requests.rat_per_s",
            "unknown key .rat_per_s.; nearest: rate_per_s",
        ),
        ({"requests": DRAWN | {"rate_per_s": 0}}, "requests.rate_per_s", "greater than 0"),
        ({"requests": DRAWN | {"rate_per_s": float("nan")}}, "requests.rate_per_s", "finite"),
        ({"requests": DRAWN | {"arrivals": "bursty"}}, "requests.arrivals", "modulated"),
        ({"requests": {"count": 3}}, "requests", "prompt_tokens and output_tokens are needed"),
        ({"requests": {"file": "x.parquet", "prompt_tokens": 3}}, "requests", "without a file"),
        (
            {"requests": DRAWN | {"arrivals": "recorded", "rate_per_s": None}},
            "requests",
            "need a file",
        ),
        ({"requests": DRAWN | {"arrivals": "closed"}}, "requests", "rate_per_s"),
        ({"requests": DRAWN | {"users": 3}}, "requests", "users"),
        ({"deployment": {"model": ""}}, None, "deployment.model is needed"),
        (
            {"scheduler": {"token_budget": 0}},
            "scheduler.token_budget",
            "greater than or equal to 1",
        ),
        ({"scheduler": {"preemption": "drop"}}, "scheduler.preemption", "recompute"),
        ({"scheduler": {"watermark_ratio": 1.0}}, "scheduler.watermark_ratio", "less than 1"),
        ({"speculation": {"trace": "x", "stop": "gain:a"}}, "speculation.stop.at", "number"),
        (
            {"speculation": {"trace": "x", "stop": "product:1.5"}},
            "speculation.stop",
            "must lie in 0..1",
        ),
        (
            {"speculation": {"trace": "x", "draft_tokens": 1, "tree": "y"}},
            "speculation",
            "exactly one",
        ),
        ({"slo": {"admission": True}}, None, "slo.admission needs"),
        ({"slo": {"ttft_s": -1.0}}, "slo.ttft_s", "greater than 0"),
        ({"schema": 2}, "schema", "1"),
        ({"router": "nearest"}, "router", "least-loaded"),
        ({"replicas": 0}, "replicas", "greater than or equal to 1"),
        ({"replicas": 4097}, "replicas", "less than or equal to 4096"),
    ],
)
def test_errors_name_the_key(write, change, key, message):
    file = write(SECTIONS | change)
    with pytest.raises(InputError, match=message) as error:
        read_scenario(file)
    assert error.value.key == key and str(file) in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("requests: [", "must be YAML"),
        ("- requests", "must hold sections"),
        ("", "must hold sections"),
        ("requests: !!python/object/apply:os.system ['true']", "must be YAML"),
        ("a: &a [*a]\n" + "x" * (1 << 20), "must be at most"),
    ],
)
def test_files_that_are_no_scenario(write, content, message):
    with pytest.raises(InputError, match=message):
        read_scenario_sections(write(content))


def test_absent_files_and_unknown_names(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_scenario_sections(tmp_path / "absent.yaml")
    with pytest.raises(InputError, match="no such file"):
        prepare(
            checked_scenario(SECTIONS | {"requests": {"file": str(tmp_path / "absent.parquet")}})
        )
    with pytest.raises(UnknownNameError, match="nearest"):
        prepare(checked_scenario(SECTIONS | {"deployment": {"model": "llama-3.1-8"}}))
    closed = DRAWN | {"arrivals": "closed", "users": 2, "rate_per_s": None}
    with pytest.raises(InputError, match="no rate of its own"):
        prepare(checked_scenario(SECTIONS | {"requests": closed})).scenario(rate_per_s=3.0)


def test_recorded_arrivals_that_span_no_time_have_no_rate(tmp_path, write):
    lengths = tmp_path / "l.jsonl"
    lengths.write_text(json.dumps({"input_tokens": 3, "output_tokens": 4}))
    sections = SECTIONS | {"requests": {"file": "l.jsonl", "format": "lengths"}}
    with pytest.raises(InputError, match="span no time"):
        prepare(read_scenario(write(sections))).scenario(rate_per_s=3.0)


def test_paths_count_from_the_file(tmp_path, write, recorded):
    model = tmp_path / "phi.toml"
    model.write_text("x")
    parts = {"file": recorded}
    found = read_scenario_sections(
        write({"requests": parts, "deployment": {"model": "phi.toml", "device": "h100-sxm"}})
    )
    assert found["requests"]["file"] == str(tmp_path / recorded)
    assert found["deployment"] == {"model": str(model), "device": "h100-sxm"}


def test_the_scenario_of_the_readme_is_one(root):
    text = (root / "simulator" / "README.md").read_text()
    written = checked_scenario(yaml.safe_load(text.split("```yaml")[1].split("```")[0]))
    assert (
        written.speculation.schedule == ((1, 32, 3), (33, 256, 1))
        and written.router == "least-loaded"
    )


@pytest.mark.parametrize("key", ["model", "device"])
def test_names_too_long_for_a_file_are_names(write, key):
    sections = SECTIONS | {"deployment": SECTIONS["deployment"] | {key: "x" * 3000}}
    with pytest.raises(UnknownNameError):
        prepare(read_scenario(write(sections)))
