"""`simulate`: its answer and files, options over scenario files, and misuse."""

import json
import re

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml

from traces.importers.formats import READERS, REQUEST_READERS
from traces.kinds.acceptance import RequestTrace
from traces.storage.acceptance_file import read_requests, write_requests

DRAWN = (
    "--count",
    "20",
    "--prompt-tokens",
    "uniform:50:300",
    "--output-tokens",
    "10",
    "--rate",
    "20",
)
WORDS = ("simulate", "--model", "llama-3.1-8b", *DRAWN)
TRACED = ("--trace", "smollm2-135m--prompt-lookup--greedy", "--draft-tokens", "3")
COLUMNS = [
    "request",
    "input_tokens",
    "output_tokens",
    "arrival_s",
    "scheduled_s",
    "first_token_s",
    "last_token_s",
]


def keys(*assignments):
    """Words that set keys of the scenario."""
    return [word for assignment in assignments for word in ("--set", assignment)]


def refused(ended, code=2):
    """A command that ended as it should: with this code, one line on standard error and nothing
    else."""
    assert (ended.code, ended.out) == (code, "")
    assert ended.err.startswith("rooftree: ") and ended.err.count("\n") == 1
    return ended.err


@pytest.fixture
def recorded(tmp_path):
    generator = np.random.default_rng(4)
    trace = RequestTrace(
        arrival_s=np.sort(generator.uniform(0, 3, 30)),
        prompt_tokens=generator.integers(20, 900, 30, dtype=np.int32),
        output_tokens=generator.integers(1, 40, 30, dtype=np.int32),
    )
    write_requests(trace, tmp_path / "r.parquet")
    return tmp_path / "r.parquet"


def test_the_answer_follows_its_contract(rooftree):
    answer = rooftree(*WORDS, "--slo-ttft", "500", "--slo-tpot", "30", "--json").answer
    metrics = answer["metrics"]
    assert answer["schema"] == 4 and answer["inputs"]["requests"]["arrivals"] == "poisson"
    for name in ("ttft_s", "tpot_s", "itl_s", "e2e_s"):
        found = metrics[name]
        assert set(found) >= {"mean", "p50", "p90", "p99"}
        assert 0 < found["p50"] <= found["p90"] <= found["p99"]
    assert (
        metrics["requests"] == metrics["finished"] + metrics["rejected"] + metrics["failed"] == 20
    )
    assert metrics["iterations"] > 0 and 0 < metrics["goodput_per_s"] <= metrics["requests_per_s"]
    assert answer["inputs"]["slo"] == {
        "ttft_s": 0.5,
        "tpot_s": 0.03,
        "e2e_s": None,
        "admission": False,
    }


def test_the_same_seed_gives_the_same_answer(rooftree):
    one, same, other = (
        rooftree(*WORDS, "--seed", seed, "--json").answer for seed in ("3", "3", "4")
    )
    assert one == same
    assert one["metrics"]["ttft_s"] != other["metrics"]["ttft_s"]


def test_files(rooftree, recorded, tmp_path):
    out = tmp_path / "new"
    files = ("--per-request", out / "p.parquet", "--timeline", out / "t.json", "--out", out)
    said = rooftree("simulate", "--model", "llama-3.1-8b", "--requests", recorded, *map(str, files))
    assert "as asked" in said.out
    rows = pq.read_table(out / "p.parquet")
    assert rows.column_names[:7] == COLUMNS and rows.num_rows == 30
    known = read_requests(recorded)
    assert rows["arrival_s"].to_pylist() == known.arrival_s.tolist()
    assert rows["output_tokens"].to_pylist() == known.output_tokens.tolist()
    first, last = (
        np.array(rows["first_token_s"].to_pylist()),
        np.array(rows["last_token_s"].to_pylist()),
    )
    metrics = json.loads((out / "simulation.json").read_text())["metrics"]
    assert (first - known.arrival_s).mean() == pytest.approx(metrics["ttft_s"]["mean"])
    assert (last - known.arrival_s).mean() == pytest.approx(metrics["e2e_s"]["mean"])
    assert len(json.loads((out / "t.json").read_text())["traceEvents"]) > 60


LENGTHS = ("--prompt-tokens", "uniform:50:300", "--output-tokens", 10)
FLEET = ("simulate", "--model", "llama-3.1-8b", *LENGTHS, "--rate", 300, *keys("replicas=64"))


def test_a_fleet_is_told_by_some_of_its_replicas(rooftree, tmp_path):
    words = (*FLEET, "--count", 6400, "--slo-ttft", 100, *keys("sample_replicas=4"))
    answer = rooftree(*words, "--json").answer
    metrics, sampled = answer["metrics"], answer["metrics"]["sampled"]
    assert metrics["requests"] == metrics["finished"] == 6400
    assert metrics["requests_per_s"] == pytest.approx(300, rel=0.2)
    assert sampled["of"] == 64 and len(set(sampled["replicas"])) == 4
    assert list(metrics["by_replica"]) == [str(number) for number in sampled["replicas"]]
    for name in ("ttft_s", "tpot_s", "e2e_s"):
        for part, value in metrics[name].items():
            low, high = sampled["interval"][name][part]
            assert 0.0 <= low <= value <= high
    shown = rooftree(*words, "--seeds", 2, "--per-request", tmp_path / "p.parquet").out
    assert "4 of 64 replicas were simulated; 95% of such samples" in shown
    rows = pq.read_table(tmp_path / "p.parquet")
    assert rows.num_rows == 400 and set(rows["replica"].to_pylist()) == set(sampled["replicas"])
    turns = np.array(rows["request"].to_pylist()) % 64
    assert turns.tolist() == rows["replica"].to_pylist()


def test_more_requests_than_fit_in_memory_are_sampled(rooftree):
    """Nobody makes the requests of replicas that are not simulated."""
    words = ("simulate", "--model", "llama-3.1-8b", *LENGTHS, "--rate", 10**9, "--count", 10**8)
    some = keys("replicas=4096", "sample_replicas=2", "scheduler.horizon_s=1e-6")
    metrics = rooftree(*words, *some, "--json").answer["metrics"]
    assert metrics["requests"] == 10**8 and metrics["finished"] == 0


def test_what_depends_on_all_replicas_is_not_sampled(rooftree):
    words = (*FLEET, "--count", 6400, *keys("sample_replicas=4"))
    assert "router: looks at the load" in refused(rooftree(*words, *keys("router=least-loaded")))
    assert "--good-share" in refused(rooftree(*words, "--good-share", 0.9, "--slo-ttft", 100))
    assert "--policies" in refused(rooftree(*words, "--policies", "all"))
    assert "sample_replicas" in refused(rooftree(*words, *keys("sample_replicas=1")))
    assert "has 3 replicas" in refused(rooftree(*words, *keys("replicas=3")))


def test_requests_that_never_run_have_no_times(rooftree, recorded, tmp_path):
    words = (
        "--set",
        "scheduler.kv_blocks=20",
        "--per-request",
        str(tmp_path / "p.parquet"),
        "--json",
    )
    answer = rooftree(
        "simulate", "--model", "llama-3.1-8b", "--requests", str(recorded), *words
    ).answer
    rows = pq.read_table(tmp_path / "p.parquet").to_pydict()
    assert answer["metrics"]["rejected"] == rows["state"].count("rejected") > 0
    for state, start, end in zip(
        rows["state"], rows["scheduled_s"], rows["last_token_s"], strict=True
    ):
        assert (state == "finished") == (end is not None) == (start is not None)


def test_options_go_over_a_scenario_file(rooftree, tmp_path, recorded):
    sections = {
        "requests": {"file": recorded.name, "arrivals": "gamma", "rate_per_s": 4, "count": 10},
        "deployment": {"model": "llama-3.1-8b"},
        "scheduler": {"token_budget": 128, "max_requests": 3},
    }
    file = tmp_path / "s.yaml"
    file.write_text(yaml.safe_dump(sections))
    plain = rooftree("simulate", "--scenario", str(file), "--json").answer
    assert (
        plain["scheduler"]["token_budget"] == 128
        and plain["inputs"]["requests"]["arrivals"] == "gamma"
    )
    changed = refused(rooftree("simulate", "--scenario", str(file), "--users", "2", "--json"))
    assert "users goes with closed arrivals" in changed and str(file) in changed
    words = ("--set", "scheduler.token_budget=64", "--count", "12", "--json")
    answer = rooftree("simulate", "--scenario", str(file), *words).answer
    assert answer["scheduler"]["token_budget"] == 64 and answer["scheduler"]["max_requests"] == 3
    assert answer["metrics"]["requests"] == 12


def test_variants_loads_and_seeds(rooftree, recorded):
    answer = rooftree(
        "simulate",
        "--model",
        "llama-3.1-8b",
        "--requests",
        str(recorded),
        "--set",
        "scheduler.token_budget=256",
        "--compare",
        "prefill-first",
        "--rates",
        "5,50",
        "--seeds",
        "3",
        "--json",
    ).answer
    assert [case["name"] for case in answer["cases"]] == ["as asked", "prefill-first"]
    assert answer["cases"][0]["metrics"] == answer["metrics"]
    # the budget grows to the longest prompt where prompts stay whole, so nobody is turned away
    assert answer["cases"][1]["metrics"]["finished"] == 30
    assert [(p["rate_per_s"], p["name"]) for p in answer["load"]] == [
        (rate, name) for rate in (5.0, 50.0) for name in ("as asked", "prefill-first")
    ]
    slow, fast = (answer["load"][i]["metrics"]["ttft_s"]["mean"] for i in (0, 2))
    assert fast > slow
    assert answer["seeds"] == [0, 1, 2]
    low, high = answer["metrics_interval"]["ttft_s"]["mean"]
    assert (
        low == high == pytest.approx(answer["metrics"]["ttft_s"]["mean"])
    )  # recorded arrivals are no draw
    drawn = rooftree(*WORDS, "--seeds", "4", "--json").answer["metrics_interval"]["ttft_s"]["mean"]
    assert drawn[0] < drawn[1]


def test_speculation(rooftree):
    words = ("--trace", "smollm2-135m--prompt-lookup--greedy", "--draft-tokens", "3", "--json")
    answer = rooftree(*WORDS, *words, "--set", "speculation.schedule=1-8:3,9-64:1").answer
    assert answer["metrics"]["tokens_per_step"] > 1.0 and answer["metrics"]["drafted"] > 0
    assert answer["inputs"]["speculation"]["schedule"] == [[1, 8, 3], [9, 64, 1]]
    assert any("borrowed" in note for note in answer["notes"])


def test_a_closed_loop_and_several_replicas(rooftree):
    words = (
        "simulate",
        "--model",
        "llama-3.1-8b",
        "--count",
        "30",
        "--prompt-tokens",
        "200",
        "--output-tokens",
        "20",
    )
    few = rooftree(*words, "--users", "2", "--json").answer
    many = rooftree(
        *words, "--users", "20", *keys("replicas=2", "router=least-loaded"), "--json"
    ).answer
    assert few["inputs"]["requests"]["arrivals"] == "closed"
    assert many["metrics"]["requests_per_s"] > few["metrics"]["requests_per_s"]
    thinking = rooftree(*words, "--users", "2", "--think-time", "0.5", "--json").answer
    assert thinking["metrics"]["clock_s"] > few["metrics"]["clock_s"] + 6 * 0.5


def test_decoders_and_disaggregated_devices(rooftree):
    block = keys("blocks.block_tokens=5", "blocks.passes=2", "blocks.closing_passes=1")
    blocks = rooftree(*WORDS, *block, "--json").answer
    assert blocks["metrics"]["finished"] == 20 and blocks["metrics"]["steps"] == 20 * 5
    assert blocks["inputs"]["blocks"]["passes"] == 2
    plain = rooftree(*WORDS, "--json").answer
    sides = [
        f"feed_forward.{key}"
        for key in ("tensor_parallel=2", "attention_groups=2", "link_latency_s=1e-5")
    ]
    apart = rooftree(*WORDS, *keys(*sides), "--json").answer
    assert apart["inputs"]["feed_forward"]["link_latency_s"] == pytest.approx(1e-5)
    assert apart["scheduler"]["kv_blocks"] > 2 * plain["scheduler"]["kv_blocks"]
    assert apart["metrics"]["watts"] is None and plain["metrics"]["watts"] > 0
    for shares in ("0:0.25,1:0.75", "{0: 0.25, 1: 0.75}"):
        ranked = rooftree(*WORDS, *keys(f"requests.priorities={shares}"), "--json").answer
        assert ranked["inputs"]["requests"]["priorities"] == {"0": 0.25, "1": 0.75}
        assert ranked["scheduler"]["priorities"]


def test_overlap_and_ragged_batches(rooftree):
    words = (
        *WORDS,
        "--trace",
        "smollm2-135m--prompt-lookup--greedy",
        "--draft-tokens",
        "3",
        "--json",
    )
    for name in ("pearl", "faser"):
        changes = keys(f"speculation.overlap={name}", "speculation.interference_ratio=0.5")
        answer = rooftree(*words, *changes).answer
        assert answer["inputs"]["speculation"]["overlap"] == name
        m = answer["metrics"]
        assert m["wasted"] == m["drafted"] - m["accepted"] + m["rolled_back"]
        assert (m["rolled_back"] > 0) == (name == "pearl")
    grouped = rooftree(
        *words, *keys("speculation.ragged=regroup", "speculation.group_requests=2")
    ).answer
    assert grouped["metrics"]["finished"] == 20
    said = refused(rooftree(*words, *keys("speculation.overlap=specbranch")))
    assert "level 2" in said


def test_a_device_s_numbers_are_set_like_keys(rooftree):
    slow = rooftree(*WORDS, *keys("device.bandwidth_bytes_per_s=1e12"), "--json").answer
    assert (
        slow["metrics"]["tpot_s"]["mean"]
        > 2 * rooftree(*WORDS, "--json").answer["metrics"]["tpot_s"]["mean"]
    )


def test_every_key_is_explained(rooftree):
    told = rooftree("simulate", "--explain-schema", "--json").answer["keys"]
    shown = rooftree("simulate", "--explain-schema").out
    assert all(f"\n{key['key']}  (" in shown and key["meaning"] in shown for key in told)
    assert {key["key"] for key in told} >= {
        "requests.file",
        "scheduler.token_budget",
        "router",
        "slo.admission",
    }


@pytest.mark.parametrize(
    ("option", "key"),
    [
        ("--token-budget", "scheduler.token_budget"),
        ("--no-prefix-cache", "scheduler.prefix_cache"),
        ("--think", "requests.think_s"),
        ("--burst", "requests.burst_s"),
        ("--ffn-tp", "feed_forward.tensor_parallel"),
        ("--watermark", "scheduler.watermark_ratio"),
        ("--profile", "profile.prefix"),
        ("--transfer", "disaggregation.transfer_token_s"),
        ("--schedule", "speculation.schedule"),
        ("--priorities", "requests.priorities"),
        ("--router", "router"),
    ],
)
def test_an_option_of_an_earlier_version_names_its_key(rooftree, option, key):
    assert f"--set {key}=VALUE" in refused(rooftree(*WORDS, option, "2"))


def test_keys_that_simulations_alone_have_stay_keys(rooftree):
    """The deployment and the drafter have the other verbs' options; the rest is in the file."""
    named = re.findall(
        r"^ +(?:-\w, )?(--[a-z-]+)", rooftree("simulate", "--help-all").out, flags=re.MULTILINE
    )
    assert {"--set", "--explain-schema", "--tp", "--kv-dtype"} <= set(named)
    assert not [name for name in named if re.match("--(watermark|burst|token-budget|router)", name)]


def test_the_measured_replay_from_the_command(rooftree, reference_data, tmp_path):
    name = "rtxpro6000_llama3.1-8b"
    rows = tmp_path / "p.parquet"
    answer = rooftree(
        "simulate",
        "--requests",
        str(reference_data / "serving" / f"{name}_workload.parquet"),
        *keys(f"profile.prefix={reference_data / 'kernels' / name}"),
        *keys(f"profile.engine={reference_data / 'serving' / f'{name}_engine.json'}"),
        "--per-request",
        str(rows),
        "--json",
    ).answer
    measured = pq.read_table(
        reference_data / "serving" / f"{name}_vllm_requests.parquet"
    ).to_pydict()
    found = pq.read_table(rows).to_pydict()
    assert found["input_tokens"] == measured["input_tokens"]
    spans = zip(
        measured["first_token_s"], measured["last_token_s"], measured["output_tokens"], strict=True
    )
    tpot = np.mean([(last - first) / (count - 1) for first, last, count in spans])
    assert answer["metrics"]["tpot_s"]["mean"] == pytest.approx(tpot, rel=0.03)
    assert (
        answer["scheduler"]["max_requests"] == 128 and answer["scheduler"]["token_budget"] == 2048
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--rate", "3", "--users", "3"), "--rate goes with poisson"),
        (("--count", "-3"), "--count: Input should be greater"),
        (("--set", "requests.arrivals=recorded"), "recorded arrivals need a file"),
        ((*DRAWN, "--prompt-tokens", "many"), "uniform:LOW:HIGH"),
        ((*DRAWN, "--set", "requests.arrivals=often"), "requests.arrivals"),
        ((*DRAWN, "--rate", "-1"), "--rate"),
        ((*DRAWN, "--set", "requests.rate_per_s=-1"), "requests.rate_per_s"),
        ((*DRAWN, "--rates", "1,x"), "--rates"),
        ((*DRAWN, "--rates", "0"), "--rates"),
        ((*DRAWN, "--compare", "prefil-first"), "nearest: prefill-first"),
        ((*DRAWN, *TRACED, "--set", "speculation.schedule=1:3"), "1-16:5"),
        ((*DRAWN, "--slo-ttft", "0"), "--slo-ttft"),
        ((*DRAWN, "--set", "requests.think_s=-5"), "requests.think_s"),
        ((*DRAWN, "--set", "scheduler.token_budget=0"), "scheduler.token_budget"),
        ((*DRAWN, "--set", "router=nearest"), "router"),
        (
            (*DRAWN, "--trace", "smollm2-135m--prompt-lookup--greedy"),
            "exactly one of shape, draft_tokens and tree",
        ),
        ((*DRAWN, "--draft-tokens", "3"), "exactly one of trace, acceptance and tokens_per_step"),
        ((*DRAWN, "--acceptance", "0.5", "--tokens-per-step", "2"), "one drafter is taken here"),
        ((*DRAWN, "--drafter", "eagle-3:0.5,0.6"), "must never increase"),
        ((*DRAWN, "--drafter", "eagle-3:0.5"), "say how many draft tokens"),
        (
            (*DRAWN, *keys("speculation.acceptance=0.5", "speculation.tree=x.json")),
            "trees need a trace",
        ),
        (
            (*DRAWN, *keys("speculation.acceptance=0.5,x", "speculation.draft_tokens=2")),
            "speculation.acceptance",
        ),
        ((*DRAWN, "--set", "profile.prefix=x"), "profile.engine"),
        ((*DRAWN, "--device", "h10"), "unknown device"),
        ((*DRAWN, "--seeds", "0"), "--seeds"),
        (("--requests", "absent.parquet"), "no such file"),
        (("--scenario", "absent.yaml"), "no such file"),
        ((*DRAWN, "--plot", "/"), "--plot"),
        ((*DRAWN, "--set", "blocks.block_tokens=8"), "exactly one of passes"),
        ((*DRAWN, *keys("blocks.block_tokens=8", "blocks.passes=9")), "the block's 8 tokens"),
        ((*DRAWN, "--set", "feed_forward.micro_batches=0"), "feed_forward.micro_batches"),
        ((*DRAWN, "--set", "feed_forward.link_latency_s=-1"), "feed_forward.link_latency_s"),
        ((*DRAWN, "--set", "feed_forward.device=h10"), "unknown device"),
        (
            (*DRAWN, *keys("feed_forward.device=h200-sxm", "deployment.pipeline_parallel=2")),
            "tensor_parallel alone",
        ),
        ((*DRAWN, "--set", "requests.priorities=0=1"), "requests.priorities"),
        ((*DRAWN, "--set", "requests.priorities=0:0.5,0:0.5"), "different priorities"),
        ((*DRAWN, "--set", "requests.priorities=0:0.5"), "sum to 1"),
        ((*DRAWN, *TRACED, "--set", "speculation.branches=2"), "go with an overlap"),
        ((*DRAWN, "--set", "scheduler.token_budgt=2"), "nearest: scheduler.token_budget"),
        ((*DRAWN, "--set", "scheduler.token_budget"), "section.key=value"),
        ((*DRAWN, "--set", "scheduler.token_budget={"), "as in a scenario file"),
        ((*DRAWN, "--set", "device.bandwidth=2"), "nearest: device.bandwidth_bytes_per_s"),
    ],
)
def test_misuse_is_named(rooftree, words, message):
    assert message in refused(rooftree("simulate", "--model", "llama-3.1-8b", *words))


def test_traffic_that_nobody_states_is_assumed_and_said(rooftree):
    words = ("simulate", "--model", "llama-3.1-8b", "--json")
    whole = rooftree(*words).answer
    assert (
        whole["notes"][0]
        == "assumed: 32 users, 320 requests, 1024 prompt tokens, 256 output tokens"
    )
    assert (
        whole["metrics"]["finished"] == 320 and whole["inputs"]["requests"]["arrivals"] == "closed"
    )
    part = rooftree(*words, "--rate", "5", "--count", "50", "--output-tokens", "16").answer
    assert part["notes"][0] == "assumed: 1024 prompt tokens"
    assert part["inputs"]["requests"]["arrivals"] == "poisson" and part["metrics"]["finished"] == 50
    stated = rooftree(*words, *DRAWN).answer
    assert not any("assumed:" in note for note in stated["notes"])


def test_tables_keep_to_their_width_where_requests_are_rejected(rooftree):
    tight = (
        "--set",
        "slo.ttft_s=0.3",
        "--set",
        "slo.admission=true",
        "--set",
        "scheduler.kv_blocks=2000",
    )
    shown = rooftree(
        "simulate", "--model", "llama-3.1-8b", "--rate", "40", "--count", "150", *tight
    ).out
    assert "rejected" in shown and "preempted" in shown
    assert max(len(line.rstrip()) for line in shown.splitlines()) <= 100


def test_what_cannot_be_met_is_infeasible(rooftree):
    assert "slo_tpot_s" in refused(
        rooftree(*WORDS, "--slo-tpot", "0.001", "--set", "slo.admission=true"), 3
    )
    assert "no room" in refused(rooftree(*WORDS, "--model", "llama-3.1-405b"), 3)


def test_requests_are_imported(rooftree, tmp_path):
    source, target = tmp_path / "a.csv", tmp_path / "a.parquet"
    source.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.68,374,44\n2023-11-16"
        " 18:15:47.68,3,4\n"
    )
    answer = rooftree(
        "traces", "import", "--format", "azure", str(source), "-o", str(target), "--json"
    ).answer
    assert (answer["kind"], answer["requests"], answer["prompt_tokens"]) == ("requests", 2, 377)
    assert read_requests(target).arrival_s.tolist() == [0.0, 1.0]
    said = rooftree("traces", "import", "--format", "azure", str(source), "-o", str(target))
    assert "2 requests over 1 s" in said.out
    words = ("traces", "import", "--format", "azure", str(source), "-o", str(target))
    assert "takes no such option" in refused(rooftree(*words, "--model", "x"))
    assert "takes one file" in refused(rooftree(*words, str(source)))
    assert "nearest: azure" in refused(rooftree(*words[:3], "azur", *words[4:]))


def test_help_names_every_request_and_acceptance_format(rooftree):
    said = "".join(rooftree("traces", "import", "--help").out.split())  # lines break after hyphens
    assert all(name in said for name in (*READERS, *REQUEST_READERS))
