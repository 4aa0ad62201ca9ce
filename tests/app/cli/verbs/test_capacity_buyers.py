"""`capacity` as buyers ask: percentiles, several devices, formats, prices."""

import numpy as np
import pytest

from traces.kinds.acceptance import RequestTrace
from traces.storage.acceptance_file import write_requests

LOAD = ("--rate", "30", "--prompt", "600", "--output", "100")
ASKED = ("capacity", "--model", "llama-3.1-8b", *LOAD)


def test_percentiles_are_planned_by_simulation(rooftree):
    words = (*ASKED, "--device", "h100-sxm,l4", "--slo-ttft", "p99:800", "--slo-tpot", "p95:100")
    answer = rooftree(*words, "--json").answer
    assert answer["inputs"]["limits"] == "p99 TTFT <= 800 ms and p95 TPOT <= 100 ms"
    assert (answer["inputs"]["slo_ttft"], answer["inputs"]["slo_tpot"]) == (
        "p99:800",
        "p95:100",
    )
    for row in answer["plans"]:
        assert row["feasible"] and row["simulated"]["requests"] >= 2000
        assert row["simulated"]["keeps_limits"]
        assert row["simulated"]["ttft_s"] <= 0.8 and row["simulated"]["tpot_s"] <= 0.1
        assert row["ttft_s"] <= row["simulated"]["ttft_s"]
    shown = " ".join(rooftree(*words).out.split())
    assert "p99" in shown and "2,000 Poisson arrivals of the mean lengths, seed 0" in shown
    assert rooftree(*words, "--json").out == rooftree(*words, "--json").out


def test_whole_requests_are_limited_by_their_mean_and_by_a_percentile(rooftree):
    """The mean by the law, a percentile by simulation; a tighter one takes no fewer replicas."""
    (free,) = rooftree(*ASKED, "--json").answer["plans"]
    limit_ms = round(free["e2e_s"] * 1e3 * 0.9)
    answer = rooftree(*ASKED, "--slo-e2e", limit_ms, "--json").answer
    (mean,) = answer["plans"]
    assert answer["inputs"]["limits"] == f"mean E2E <= {limit_ms} ms"
    assert mean["e2e_s"] <= limit_ms / 1e3 and mean["binds"] == "e2e"
    assert mean["replicas"] > free["replicas"]
    assert mean["e2e_s"] == pytest.approx(mean["ttft_s"] + 99 * mean["tpot_s"])
    words = (*ASKED, "--slo-e2e", f"p99:{limit_ms}")
    (tail,) = rooftree(*words, "--json").answer["plans"]
    assert tail["simulated"]["e2e_s"] <= limit_ms / 1e3
    assert tail["replicas"] >= mean["replicas"]
    assert "p99 E2E" in " ".join(rooftree(*words).out.split())
    done = rooftree(*ASKED, "--slo-e2e", "10")
    assert done.code == 3 and "a mean E2E of 10 ms cannot be met" in done.err


USERS = (*ASKED[:3], *LOAD[2:], "--users", "200", "--think-time", "10")


def test_people_who_wait_for_their_answers_make_a_rate(rooftree):
    """Little's law of the plan, and about the same of a closed loop that is simulated."""
    answer = rooftree(*USERS, "--json").answer
    (plan,) = answer["plans"]
    assert (answer["inputs"]["users"], answer["inputs"]["think_time"]) == (200, 10.0)
    assert answer["inputs"]["rate"] is None
    assert plan["requests_per_s"] * (10.0 + plan["e2e_s"]) == pytest.approx(200)
    simulated = plan["simulated"]["requests_per_s"] * plan["replicas"]
    assert simulated == pytest.approx(plan["requests_per_s"], rel=0.04)
    shown = " ".join(rooftree(*USERS).out.split())
    assert "200 users, each of whom asks again 10 s after an answer" in shown
    assert "(Little's law); a closed loop of them, simulated, makes" in shown
    (busy,) = rooftree(*USERS[:-2], "--json").answer["plans"]
    assert busy["requests_per_s"] > plan["requests_per_s"]
    assert busy["requests_per_s"] * busy["e2e_s"] == pytest.approx(200)


def test_limits_of_users_are_kept_on_average_and_of_percentiles(rooftree):
    (free,) = rooftree(*USERS, "--json").answer["plans"]
    limit_ms = round(free["tpot_s"] * 1e3 * 0.9, 3)
    (mean,) = rooftree(*USERS, "--slo-tpot", limit_ms, "--json").answer["plans"]
    assert mean["tpot_s"] <= limit_ms / 1e3 and mean["replicas"] > free["replicas"]
    (tail,) = rooftree(*USERS, "--slo-tpot", f"p95:{limit_ms}", "--json").answer["plans"]
    assert tail["simulated"]["tpot_s"] <= limit_ms / 1e3
    assert tail["replicas"] >= mean["replicas"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((*USERS, "--rate", "3"), "--rate: goes without --users"),
        ((*USERS, "--search", "full"), "--search: goes without --users"),
        ((*USERS, "--disaggregate"), "--disaggregate: goes without --users"),
        ((*ASKED, "--think-time", "3"), "--think-time: goes with --users"),
        ((*USERS[:-1], "-1"), "--think-time: "),
        ((*USERS[:-1], "1e9"), "--think-time: must be 0 to 86,400 seconds"),
        ((*USERS[:-3], "0"), "--users: "),
        (("capacity", "--model", "llama-3.1-8b", "--users", "3"), "--prompt-tokens and"),
    ],
)
def test_users_and_what_does_not_go_with_them(rooftree, words, said):
    done = rooftree(*words)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1) and said in done.err


def test_a_full_search_is_planned_by_simulation_too(rooftree):
    words = (*ASKED, "--method", "plain-decoding", "--search", "full", "--devices", "4")
    answer = rooftree(*words, "--slo-ttft", "p99:400", "--json").answer
    best = min(
        (row for row in answer["plans"] if row["feasible"]), key=lambda row: row["usd_per_hour"]
    )
    assert best["simulated"]["ttft_s"] <= 0.4


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("--slo-ttft", "p100:800"),
            "--slo-ttft: must be milliseconds behind a percentile of 1 to",
        ),
        (("--slo-ttft", "p99"), "--slo-ttft: must be a positive number of milliseconds"),
        (("--slo-tpot", "p99:0"), "--slo-tpot: must be a positive number of milliseconds"),
        (("--slo-tpot", "q9:10"), "--slo-tpot: must be a positive number of milliseconds"),
    ],
)
def test_a_limit_that_is_none_is_bad_input(rooftree, words, said):
    done = rooftree(*ASKED, *words)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1) and said in done.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("optimize", "--model", "llama-3.1-8b", "--batch", "1"), "`rooftree capacity`"),
        (
            ("optimize", "--model", "llama-3.1-8b", "--search", "full", "--no-simulate"),
            "leave out --no-simulate",
        ),
        (("simulate", "--model", "llama-3.1-8b", "--rate", "1", "--count", "9"), "--good-share"),
    ],
)
def test_verbs_without_percentiles_say_who_has_them(rooftree, words, said):
    done = rooftree(*words, "--slo-tpot", "p99:20")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert done.err.startswith("rooftree: --slo-tpot: ") and said in done.err


@pytest.mark.parametrize("verb", ["predict", "optimize"])
def test_verbs_of_a_batch_say_that_outputs_are_missing(rooftree, verb):
    done = rooftree(verb, "--model", "llama-3.1-8b", "--batch", "1", "--slo-e2e", "9000")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert done.err.startswith("rooftree: --slo-e2e: ") and "--output-tokens" in done.err


def test_adapters_cost_time_and_memory_at_every_door(rooftree):
    adapters = ("--max-loras", "32", "--max-lora-rank", "64")
    model = ("--model", "llama-3.1-8b")
    (plain,), (served,) = (
        rooftree("capacity", *model, *LOAD, *words, "--json").answer["plans"]
        for words in ((), adapters)
    )
    assert served["tpot_s"] > plain["tpot_s"]
    assert served["memory"]["weight_bytes"] > plain["memory"]["weight_bytes"] + 1e10
    step = ("--batch", "16", "--draft-tokens", "0", "--json")
    slower, base = (
        rooftree("predict", *model, *words, *step).answer["predictions"][0]["step_s"]
        for words in (adapters, ())
    )
    assert slower > 1.05 * base
    (best,) = rooftree("optimize", *model, "--batch", "16", *adapters, "--json").answer["cells"]
    assert best["winner"]["tokens_per_s"] > 0
    load = ("--rate", "2", "--count", "20", "--prompt-tokens", "64", "--output-tokens", "30")
    seen, free = (
        rooftree("simulate", *model, *load, *words, "--json").answer["metrics"]["tpot_s"]["mean"]
        for words in (adapters, ())
    )
    assert seen > 1.05 * free


DEVICES = ("--device", "h100-sxm,b200-sxm,tpu-v6e")


def test_formats_are_compared_and_every_device_has_its_rows(rooftree):
    """Goodput of a dollar, sources of prices and borrowed kernels among them."""
    words = (*ASKED, *DEVICES, "--dtype", "fp8,nvfp4", "--slo-tpot", "30")
    answer = rooftree(*words, "--json").answer
    assert [(row["device"], row["dtype"]) for row in answer["plans"]] == [
        (device, dtype) for device in DEVICES[1].split(",") for dtype in ("fp8", "nvfp4")
    ]
    for row in answer["plans"]:
        good = row["simulated"]["good_ratio"] * 30
        assert row["goodput_per_s"] == pytest.approx(good)
        if row["usd_per_hour"] is None:
            assert row["goodput_per_usd"] is None and row["price_source"] is None
        else:
            assert row["goodput_per_usd"] == pytest.approx(good * 3600 / row["usd_per_hour"])
            assert row["price_source"]
    assert answer["best"]["by"] == "usd_per_hour" and answer["best"]["device"] != "tpu-v6e"
    shown = " ".join(rooftree(*words).out.split())
    assert "tpu-v6e: price: unknown; state one with --set device.price_usd_per_hour=2.5" in shown
    assert "kernel times are carried over from" in shown and "RunPod" in shown


def test_what_does_not_fit_keeps_its_row_beside_others(rooftree):
    words = ("capacity", "--model", "llama-3.1-70b", *LOAD, "--device", "l4,h100-sxm,b200-sxm")
    rows = rooftree(*words, "--dtype", "fp8", "--json").answer["plans"]
    assert [row["feasible"] for row in rows] == [False, True, True]
    assert rows[0]["reason"].startswith("memory:")


def test_layouts_are_printed_whole(rooftree):
    words = ("--model", "deepseek-v3", "--device", "h200-sxm", "--tp", "8", "--dp", "2")
    done = rooftree("capacity", *words, *LOAD, "--ep", "16")
    assert "tp8 dp2 ep16 fp8" in done.out


def test_a_profile_is_planned_at_its_peak_hour(rooftree, tmp_path):
    path = tmp_path / "hours.csv"
    path.write_text("hour,rate\n0,2\n7,90\n9,0\n12,40.5\n", encoding="utf-8")
    words = ("capacity", "--model", "llama-3.1-8b", *LOAD[2:], "--device", "h100-sxm")
    answer = rooftree(*words, "--profile", path, "--slo-ttft", "p99:300", "--json").answer
    (peak,) = answer["plans"]
    alone = rooftree(*words, "--rate", "90", "--slo-ttft", "p99:300", "--json").answer["plans"]
    assert answer["inputs"]["rate"] == 90 and alone == [peak]
    day = answer["day"]
    assert [hour["hour"] for hour in day["hours"]] == [0, 7, 9, 12] and day["peak_hour"] == 7
    assert [hour["requests_per_s"] for hour in day["hours"]] == [2, 90, 0, 40.5]
    assert day["hours"][2]["replicas"] == 0 and day["hours"][2]["ttft_s"] is None
    assert day["hours"][1]["replicas"] == peak["replicas"]
    for hour in day["hours"]:
        assert hour["replicas"] <= peak["replicas"] and hour["utilisation_ratio"] <= 0.8
        assert hour["ttft_s"] is None or hour["ttft_s"] <= 0.3
    assert day["usd_at_peak"] == pytest.approx(4 * peak["usd_per_hour"])
    assert day["usd_scaled"] == pytest.approx(sum(hour["usd"] for hour in day["hours"]))
    assert day["usd_scaled"] < day["usd_at_peak"]
    shown = " ".join(rooftree(*words, "--profile", path, "--slo-ttft", "p99:300").out.split())
    assert "the best plan by hour; the peak is hour 7" in shown
    assert "with the replicas of the peak and" in shown


def test_recorded_requests_of_hours_are_planned_at_their_peak(rooftree, tmp_path):
    drawn, path = np.random.default_rng(0), tmp_path / "requests.parquet"
    per_hour = (900, 3600, 1800)
    arrivals = [np.sort(drawn.uniform(at, at + 1, n)) for at, n in enumerate(per_hour)]
    n = sum(per_hour) + 1
    recorded = RequestTrace(
        arrival_s=3600.0 * np.concatenate([[0.0], *arrivals[:2], arrivals[2][:-1], [3.0001]]),
        prompt_tokens=drawn.integers(50, 900, n),
        output_tokens=drawn.integers(10, 300, n),
    )
    write_requests(recorded, path)
    words = ("capacity", "--model", "llama-3.1-8b", "--requests", path, "--json")
    answer = rooftree(*words).answer
    assert answer["inputs"]["rate"] == pytest.approx(1.0, rel=1e-3)
    assert [hour["hour"] for hour in answer["day"]["hours"]] == [0, 1, 2]
    assert "day" not in rooftree(*words, "--rate", "2").answer


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "must begin with the line hour,rate"),
        ("time,rate\n1,2\n", "must begin with the line hour,rate"),
        ("hour,rate\n", "must hold 1 to"),
        ("hour,rate\n0,1\n0,2\n", "hour: must hold every hour once"),
        ("hour,rate\n0,1\n1,-2\n", "line 3: the rate must be a number of requests per second"),
        ("hour,rate\n0.5,1\n", "line 2: the hour must be a whole number"),
        ("hour,rate\n0,1,2\n", "line 2: must be an hour and a rate"),
        ("hour,rate\n0,0\n", "rate: must have requests in some hour"),
    ],
)
def test_a_profile_that_is_none_names_its_line(rooftree, tmp_path, text, said):
    path = tmp_path / "hours.csv"
    path.write_text(text, encoding="utf-8")
    words = ("capacity", "--model", "llama-3.1-8b", *LOAD[2:], "--profile", path)
    done = rooftree(*words)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert str(path) in done.err and said in done.err
    beside = rooftree(*words, "--rate", "3")
    assert "--profile: has rates of its own; leave out --rate" in beside.err


def test_pools_stand_beside_one_pool(rooftree):
    words = (
        *ASKED,
        "--device",
        "h100-sxm,b200-sxm",
        "--slo-ttft",
        "p99:250",
        "--slo-tpot",
        "p99:12",
    )
    answer = rooftree(*words, "--disaggregate", "--json").answer
    rows = answer["plans"]
    assert [row["device"] for row in rows] == ["h100-sxm"] * 2 + ["b200-sxm"] * 2
    assert rooftree(*words, "--json").answer["plans"] == rows[::2]
    for one, pools in zip(rows[::2], rows[1::2], strict=True):
        assert "prompt_workers" not in one
        assert pools["devices"] == pools["prompt_workers"] + pools["decode_workers"] >= 2
        assert pools["simulated"]["ttft_s"] <= 0.25 and pools["simulated"]["tpot_s"] <= 0.012
        assert 0.0 < pools["utilisation_ratio"] <= 0.8
        assert pools["usd_per_hour"] / pools["devices"] == pytest.approx(
            one["usd_per_hour"] / one["devices"]
        )
    shown = rooftree(*words, "--disaggregate").out
    assert "prompts + decode" in shown and "1 + 1" in shown


def test_what_pools_cannot_do_is_a_row(rooftree):
    spread = ("--model", "deepseek-v3", "--device", "h200-sxm", "--tp", "8", "--dp", "2")
    words = ("capacity", *spread, *LOAD, "--ep", "16", "--disaggregate")
    one, pools = rooftree(*words, "--json").answer["plans"]
    assert one["feasible"] and not pools["feasible"]
    assert pools["reason"].startswith("pools: prompts have workers of their own where no data")


def test_a_buyer_goes_from_devices_to_a_day_without_a_dead_end(rooftree, tmp_path):
    """Three devices in two formats, percentiles, pools, then the hours of a day."""
    devices = ("--device", "h100-sxm,b200-sxm,tpu-v6e", "--dtype", "fp8,nvfp4")
    first = rooftree(*ASKED, *devices, "--json").answer
    assert len(first["plans"]) == 6 and all(row["feasible"] for row in first["plans"])
    best = first["best"]
    limits = ("--slo-ttft", "p99:500", "--slo-tpot", "p95:25")
    chosen = ("--device", best["device"], "--dtype", best["dtype"])
    held = rooftree(*ASKED, *chosen, *limits, "--disaggregate", "--json").answer
    assert held["best"]["devices"] <= min(
        row["devices"] for row in held["plans"] if row["feasible"]
    )
    path = tmp_path / "day.csv"
    path.write_text("hour,rate\n" + "".join(f"{at},{at + 7}\n" for at in range(24)))
    day = rooftree(
        *("capacity", "--model", "llama-3.1-8b", *LOAD[2:], *chosen, *limits),
        *("--profile", path, "--json"),
    ).answer
    assert day["inputs"]["rate"] == 30 and len(day["day"]["hours"]) == 24
    assert day["plans"][0] == held["plans"][0]
    searched = rooftree(
        *ASKED,
        *devices[:2],
        *limits,
        "--search",
        "full",
        "--devices",
        "8",
        "--json",
        *("--method", "plain-decoding"),
    ).answer
    named = {row["device"] for row in searched["plans"]}
    assert named == {"h100-sxm", "b200-sxm", "tpu-v6e"}


def test_a_search_under_a_load_holds_its_simulations_against_percentiles(rooftree, tmp_path):
    words = ("optimize", "--model", "llama-3.1-8b", "--device", "h100-sxm", "--search", "full")
    narrow = ("--method", "n-gram", "--acceptance", "0.5", "--draft-tokens", "2", "--devices", "2")
    load = ("--rate", "10", "--prompt-tokens", "512", "--output-tokens", "64")
    answer = rooftree(
        *words, *narrow, *load, "--slo-ttft", "p99:300", "--json", "--out", tmp_path
    ).answer
    assert answer["limits"]["meaning"] == "p99 TTFT <= 300 ms"
    (winner,) = answer["choices"]
    assert winner["meets_limits"] and winner["simulated"]["ttft_s"] <= 0.3


def test_lengths_that_vary_are_refused_where_a_mean_is_planned_for(rooftree):
    words = ("capacity", "--model", "llama-3.1-8b", "--rate", "10", "--output-tokens", "100")
    ended = rooftree(*words, "--prompt-tokens", "lognormal:500:1")
    assert ended.code == 2 and "--prompt-tokens: must be the mean number" in ended.err


@pytest.mark.parametrize("verb", ["predict", "optimize", "capacity"])
def test_every_verb_says_what_the_price_of_adapters_leaves_out(verb, rooftree, tmp_path):
    load = ("--rate", "1", "--prompt-tokens", "500", "--output-tokens", "50")
    rest = {
        "predict": ("--draft-tokens", "0"),
        "optimize": ("--batch", "1", "--out", tmp_path),
        "capacity": load,
    }[verb]
    done = rooftree(verb, "--model", "qwen3-30b-a3b", "--max-loras", "2", "--dtype", "fp8", *rest)
    assert "adapters of routed experts have no price" in " ".join(done.out.split()), done.err
