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
