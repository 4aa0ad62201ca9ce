"""`optimize --search full`: its object, its page, its files, and what it refuses."""

import json

import pytest

SMALL = (
    "optimize",
    "--search",
    "full",
    "--model",
    "llama-3.1-8b",
    "--drafter",
    "eagle-3:0.78,0.61,0.48",
    "--draft-tokens",
    "2,3",
    "--devices",
    "2",
    "--batch-caps",
    "1,8,32",
    "--token-budgets",
    "2048",
)
KEYS = {
    "layout": str,
    "dtype": str,
    "kv_dtype": str,
    "drafter": str,
    "draft": str,
    "batch_cap": int,
    "token_budget": int,
    "replicas": int,
    "devices": int,
    "tokens_per_s_per_user": float,
    "tokens_per_s_per_device": float,
    "tpot_s": float,
    "ttft_s": float,
    "objective": float,
    "predicted_objective": float,
    "meets_limits": bool,
    "configuration": dict,
}


@pytest.fixture
def asked(rooftree, tmp_path):
    """The object that a small search answers with."""

    def ask(*words):
        done = rooftree(*SMALL, "--out", tmp_path / "answer", *words, "--json")
        assert done.code == 0, done.err
        return done.answer

    return ask


def test_the_object_names_a_winner_runners_up_a_front_and_what_being_wrong_costs(asked, tmp_path):
    out = tmp_path / "answer"
    answer = asked("--device", "h100-sxm,l4", "--slo-tpot", "40")
    (winner,), others = answer["choices"], answer["alternatives"]
    for row in (winner, *others, *answer["front"]):
        for key, kind in KEYS.items():
            assert isinstance(row[key], kind), key
    low, high = winner["objective_interval"]
    assert low <= winner["objective"] <= high
    assert all(row["objective"] <= winner["objective"] for row in others if row["meets_limits"])
    assert all(0.0 <= row["loses_to_winner_probability"] <= 1.0 for row in others)
    assert sum(row["best_probability"] for row in (winner, *others)) == pytest.approx(1.0)
    assert answer["expected_regret"] >= 0.0 and winner["simulated"]["seeds"] == 3
    users = [row["tokens_per_s_per_user"] for row in answer["front"]]
    devices = [row["tokens_per_s_per_device"] for row in answer["front"]]
    assert users == sorted(users, reverse=True) and devices == sorted(devices)
    assert answer["search"]["simulations"] > 0
    served = (out / "vllm" / "vllm-serve.sh").read_text()
    assert (
        "--max-num-batched-tokens 2048" in served and f"--max-num-seqs {winner['batch']}" in served
    )
    page = (out / "report.html").read_text()
    assert "tokens/s per user" in page and winner["device"] in page
    again = json.loads((out / "recommendation.json").read_text())
    assert again["choices"] == answer["choices"]


def test_the_same_seed_gives_the_same_answer(asked):
    one, again, other = (asked("--device", "h100-sxm", "--seed", seed) for seed in ("5", "5", "6"))
    assert one == again
    assert one["expected_regret"] != other["expected_regret"]


def test_a_rate_is_served_and_every_objective_is_known(asked):
    for objective in ("tokens", "goodput", "tokens-per-dollar", "tokens-per-joule"):
        answer = asked(
            "--device", "h100-sxm", "--rate", "4", "--maximise", objective, "--no-simulate"
        )
        (winner,) = answer["choices"]
        assert winner["objective"] > 0 and winner["simulated"] is None and winner["devices"] <= 2
    (winner,) = asked("--device", "h100-sxm", "--rate", "4", "--slo-ttft", "2000")["choices"]
    assert winner["simulated"]["good_ratio"] > 0.9 and winner["meets_limits"]


ISSUE = ("optimize", "--search", "full", "--model", "llama-3.1-8b", "--json")


@pytest.mark.parametrize(
    "words",
    [
        ("--slo-ttft", "45"),
        ("--slo-ttft", "45", "--rate", "5"),
        ("--slo-ttft", "40", "--slo-tpot", "6"),
        ("--slo-ttft", "60", "--good-share", "0.9", "--rate", "8"),
        ("--slo-ttft", "60", "--maximise", "goodput"),
        ("--slo-e2e", "1500", "--rate", "5"),
    ],
    ids=["busy", "at a rate", "both limits", "by share", "goodput", "whole requests"],
)
def test_what_is_recommended_was_simulated_and_meets_the_limits(rooftree, tmp_path, words):
    done = rooftree(*ISSUE, *words, "--out", tmp_path)
    assert done.code == 0, done.err
    (winner,), limits = done.answer["choices"], done.answer["limits"]
    run = winner["simulated"]
    assert winner["meets_limits"] and run["meets_limits"] and run["sustained"] and run["seeds"] == 3
    if limits["good_share"] is None:
        times = [name for name in ("ttft_s", "tpot_s", "e2e_s") if limits[name] is not None]
        assert times and all(run[name] <= limits[name] for name in times)
        assert limits["meaning"].startswith(f"mean {times[0][:-2].upper()} <= ")
    else:
        assert run["good_ratio"] >= limits["good_share"] and limits["meaning"].startswith(
            "90% of the requests"
        )
    others = [row for row in done.answer["alternatives"] if row["meets_limits"]]
    assert all(row["objective"] <= winner["objective"] for row in others if not row["ties"])
    tied = [row for row in others if row["ties"]]
    assert all(row["objective"] <= 1.01 * winner["objective"] for row in tied)
    assert all(row["simulated"]["tpot_s"] >= run["tpot_s"] / 1.01 for row in tied)


def test_at_a_rate_that_all_designs_serve_the_one_with_the_lowest_time_per_token_is_run(
    rooftree, tmp_path
):
    words = (*SMALL, "--rate", "3", "--slo-tpot", "25", "--out", tmp_path)
    answer = rooftree(*words, "--json").answer
    (winner,), others = answer["choices"], answer["alternatives"]
    off = [row for row in others if row["topology"] == "off"]
    assert winner["draft"].startswith("chain:") and off and all(row["ties"] for row in off)
    assert all(row["objective"] == pytest.approx(winner["objective"]) for row in off)
    assert winner["simulated"]["tpot_s"] < min(row["simulated"]["tpot_s"] for row in off)
    assert winner["best_probability"] > 0.4 and all(
        row["loses_to_winner_probability"] > 0.9 for row in off
    )
    shown = " ".join(rooftree(*words).out.split())
    assert "serve all 3.00 requests/s; this one is first because it" in shown


def test_where_all_designs_serve_the_rate_only_times_and_prices_that_can_be_told_apart_are_shown(
    rooftree, tmp_path
):
    words = ("optimize", "--search", "full", "--model", "llama-3.1-8b", "--rate", "4", "--devices")
    words = (*words, "2", "--device", "h100-sxm,l4", "--batch-caps", "8,32", "--out", tmp_path)
    answer = rooftree(*words, "--json").answer
    (winner,), others = answer["choices"], answer["alternatives"]
    assert others and all(row["ties"] for row in others)
    out = rooftree(*words).out
    shown = " ".join(out.split())
    assert f"All {1 + len(others)} designs compared serve all 4.00 requests/s" in shown
    assert "Its time per token is the lowest of those compared with probability" in shown
    assert "expected to lose" not in shown  # nobody loses a token by being wrong
    table = out[out.index("the best design of each") : out.index("cap: requests in flight")]
    assert "simulated" not in table and "tokens/s" not in table
    cheapest = min([winner, *others], key=lambda row: row["usd_per_hour"])
    assert ("Cheapest is" in shown) == (cheapest["usd_per_hour"] < winner["usd_per_hour"])
    for row in others:
        own_s, first_s = row["simulated"]["tpot_s"], winner["simulated"]["tpot_s"]
        assert row["as_fast"] or max(own_s, first_s) > 1.01 * min(own_s, first_s)
        assert not row["as_fast"] or own_s < 1.2 * first_s
    assert any(row["as_fast"] for row in others) == (" same" in table)


def test_it_is_at_least_as_good_as_a_design_that_is_known_to_meet_the_limits(rooftree, tmp_path):
    """EAGLE-3 with K=5, at most 8 requests and 8,192 tokens takes 43.3 ms."""
    alone = (
        "--method",
        "eagle-3",
        "--draft-tokens",
        "5",
        "--batch-caps",
        "8",
        "--token-budgets",
        "8192",
    )
    (known,) = rooftree(*ISSUE, "--slo-ttft", "45", *alone, "--out", tmp_path / "known").answer[
        "choices"
    ]
    (winner,) = rooftree(*ISSUE, "--slo-ttft", "45", "--out", tmp_path / "all").answer["choices"]
    assert known["meets_limits"] and winner["objective"] >= known["objective"]


def test_where_nothing_meets_the_limits_the_nearest_is_shown_and_the_code_says_so(
    rooftree, tmp_path
):
    done = rooftree(*ISSUE, "--slo-ttft", "10", "--out", tmp_path)
    answer = json.loads(done.out)
    (nearest,) = answer["choices"]
    assert done.code == 3 and "No design meets the limits (mean TTFT <= 10 ms)" in done.err
    assert not nearest["meets_limits"] and nearest["simulated"]["ttft_s"] > 0.010
    assert all(
        row["simulated"]["ttft_s"] >= 0.99 * nearest["simulated"]["ttft_s"]
        for row in answer["alternatives"]
    )
    assert not list(tmp_path.glob("*/*.sh")), (
        "engines get no files of what does not do what was asked"
    )
    shown = rooftree(*ISSUE[:-1], "--slo-ttft", "10", "--out", tmp_path / "again")
    assert shown.code == 3 and "Nearest is" in shown.out and not shown.out.startswith("Run ")


def test_a_load_that_is_not_carried_is_said(rooftree, tmp_path):
    light = rooftree(*ISSUE, "--rate", "12", "--out", tmp_path / "light")
    heavy = rooftree(*ISSUE, "--rate", "100", "--out", tmp_path / "heavy")
    assert light.code == 0 and light.answer["carried_per_s"] == light.answer["load_per_s"] == 12.0
    assert heavy.code == 3 and "of 100 requests/s at most" in heavy.err
    answer = json.loads(heavy.out)
    assert answer["carried_per_s"] < 100.0 and not answer["choices"][0]["carries_load"]
    (beyond,) = rooftree(
        *ISSUE, "--rate", "100", "--devices", "8", "--out", tmp_path / "more"
    ).answer["choices"]
    assert beyond["carries_load"] and beyond["replicas"] > 1


def test_a_placement_that_does_not_fit_is_a_marked_row(rooftree, tmp_path):
    large = (
        "optimize",
        "--search",
        "full",
        "--model",
        "llama-3.3-70b",
        "--drafter",
        "n-gram:0.5",
        "--no-simulate",
    )
    few = (
        "--device",
        "h100-sxm,l4",
        "--devices",
        "4",
        "--draft-tokens",
        "2",
        "--batch-caps",
        "8",
        "--json",
    )
    answer = rooftree(*large, *few, "--out", tmp_path).answer
    marked = {(row["device"], row["layout"]): row["reason"] for row in answer["unmet"]}
    assert "memory" in marked["l4", "tp4"] and all(
        row["feasible"] is False for row in answer["unmet"]
    )
    shown = " ".join(rooftree(*large, *few[:-1], "--out", tmp_path).out.split())
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    for (device, layout), reason in marked.items():
        assert f"{device}, {layout}: {reason}" in shown
        assert f"{device} {layout}" in page and reason in page


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("optimize", "--devices", "4"), "--devices: goes with --search full"),
        (("optimize", "--search", "all"), "--search: must be drafts or full"),
        ((*SMALL, "--maximise", "speed"), "--maximise: must be one of"),
        ((*SMALL, "--layouts", "two"), "--layouts: must be layouts"),
        ((*SMALL, "--stop", "product:0.3"), "--stop: goes with --search drafts"),
        ((*SMALL, "--model", "llama-3.1-8b,qwen3-32b"), "--model: one at a time"),
        ((*SMALL, "--batch-caps", "0"), "--batch-caps"),
        ((*SMALL, "--device", "h100-sxn"), "h100-sxm"),
    ],
)
def test_refusals_name_the_option(rooftree, words, says):
    done = rooftree(*words, "--json")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1) and says in done.err


def test_what_no_placement_can_run_is_bad_input_as_without_a_search(rooftree, tmp_path):
    words = (
        "optimize",
        "--model",
        "llama-3.1-8b",
        "--layouts",
        "tp3",
        "--devices",
        "3",
        "--no-simulate",
    )
    searched = rooftree(*words, "--search", "full", "--out", tmp_path)
    alone = rooftree("optimize", "--model", "llama-3.1-8b", "--tp", "3", "--out", tmp_path)
    assert searched.code == alone.code == 2 and "divide the heads" in searched.err


POOLS = (
    *("optimize", "--search", "full", "--model", "llama-3.1-8b", "--drafter", "eagle-3"),
    *("--draft-tokens", "3", "--device", "h100-sxm", "--devices", "16", "--layouts", "tp1"),
    *("--batch-caps", "12,32", "--token-budgets", "2048", "--maximise", "tokens-per-dollar"),
    *("--rate", "20", "--prompt-tokens", "4096", "--output-tokens", "200"),
)


@pytest.mark.heavy
def test_prompts_on_workers_of_their_own_are_one_more_placement(rooftree, tmp_path):
    """Where every token must come soon beside long prompts, pools serve with fewer devices."""
    words = (*POOLS, "--slo-ttft", "p99:300", "--slo-tpot", "p99:7", "--out", tmp_path / "answer")
    alone = rooftree(*words, "--json").answer
    answer = rooftree(*words, "--disaggregate", "--json").answer
    rows = [*answer["choices"], *answer["alternatives"]]
    pools = [row for row in rows if "prompt_workers" in row]
    same = [row for row in rows if "prompt_workers" not in row]
    assert pools and pools[0] == answer["choices"][0]
    assert [(row["draft"], row["objective"]) for row in same] == [
        (row["draft"], row["objective"]) for row in (*alone["choices"], *alone["alternatives"])
    ]
    for row in pools:
        assert row["devices"] == row["replicas"] == row["prompt_workers"] + row["decode_workers"]
        assert row["predicted_objective"] == pytest.approx(
            20 * 200 * 3600 / row["usd_per_hour"], rel=1e-9
        )
    assert pools[0]["meets_limits"] and pools[0]["objective"] > alone["choices"][0]["objective"]
    assert sum(row["best_probability"] for row in rows) == pytest.approx(1.0)
    assert answer["exports"] == {} and alone["exports"]
    shown = rooftree(*words, "--disaggregate").out
    assert "prompt and" in shown and "workers: of prompts + of decoding" in shown


@pytest.mark.heavy
def test_pools_of_a_search_are_those_that_capacity_plans(rooftree, tmp_path):
    limits = ("--slo-ttft", "p95:600", "--slo-tpot", "p95:15", "--disaggregate", "--json")
    rows = rooftree(*POOLS, *limits, "--out", tmp_path / "answer").answer
    (pools, *_) = [
        row
        for row in (*rows["choices"], *rows["alternatives"])
        if "prompt_workers" in row and row["draft"] == "chain:3"
    ]
    planned = rooftree(
        *("capacity", "--model", "llama-3.1-8b", "--drafter", "eagle-3", "--draft-tokens", "3"),
        *("--rate", "20", "--prompt-tokens", "4096", "--output-tokens", "200", *limits),
    ).answer["plans"]
    (like,) = [p for p in planned if p.get("prompt_workers") and p["draft"] == "chain:3"]
    assert pools["prompt_workers"] == like["prompt_workers"]
    # the search caps batches, which capacity leaves to memory
    assert pools["decode_workers"] >= like["decode_workers"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--maximise", "tokens-per-joule"), "what pools draw is not known"),
        (("--no-simulate",), "sizes pools by simulation"),
    ],
)
def test_what_pools_cannot_be_asked(rooftree, words, why):
    done = rooftree(*POOLS, *words, "--disaggregate")
    assert done.code == 2 and why in done.err and "--disaggregate" in done.err


@pytest.mark.heavy
def test_pools_need_a_rate_and_copies_have_none(rooftree, tmp_path):
    done = rooftree(*SMALL, "--disaggregate", "--out", tmp_path / "a")
    assert done.code == 2 and "--rate" in done.err
    words = (*POOLS, "--out", tmp_path / "a", "--disaggregate", "--json")
    unmet = rooftree(*words, "--layouts", "tp1dp2").answer["unmet"]
    assert unmet and all(row["reason"].startswith("pools of ") for row in unmet)
    few = rooftree(*words, "--devices", "1", "--rate", "2").answer["unmet"]
    assert "needs 2 devices, more than --devices" in few[0]["reason"]
