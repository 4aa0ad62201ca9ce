"""`capacity` as buyers ask: percentiles, several devices, formats, prices."""

import pytest

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
        assert row["simulated"]["ttft_s"] <= 0.8 and row["simulated"]["tpot_s"] <= 0.1
        assert row["ttft_s"] <= row["simulated"]["ttft_s"]
    shown = " ".join(rooftree(*words).out.split())
    assert "p99" in shown and "2,000 Poisson arrivals, seed 0" in shown
    assert rooftree(*words, "--json").out == rooftree(*words, "--json").out


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
        (("simulate", "--model", "llama-3.1-8b", "--rate", "1", "--count", "9"), "--good-share"),
    ],
)
def test_verbs_without_percentiles_say_who_has_them(rooftree, words, said):
    done = rooftree(*words, "--slo-tpot", "p99:20")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert done.err.startswith("rooftree: --slo-tpot: ") and said in done.err
