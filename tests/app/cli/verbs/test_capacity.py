"""`capacity`: its answer, comparisons, prices that are unknown, what cannot be, and bad input."""

import json
from pathlib import Path

import numpy as np
import pytest

from hardware_profiles import loader
from traces.kinds.acceptance import RequestTrace
from traces.storage.acceptance_file import write_requests

DEVICES = Path(loader.__file__).parent / "data"
LOAD = ("--rate", "20", "--prompt", "600", "--output", "150")
WORDS = ("capacity", "--model", "llama-3.1-8b", *LOAD)
PLAN = {
    "device",
    "tp",
    "method",
    "draft_tokens",
    "batch",
    "binds",
    "replicas",
    "devices",
    "utilisation_ratio",
    "headroom_ratio",
    "ttft_s",
    "tpot_s",
    "watts",
    "joules_per_token",
    "decode_joules_per_token",
    "prefill_joules_per_token",
    "usd_per_hour",
    "usd_per_million_tokens",
    "memory",
    "calibrated",
}


def held(record):
    for key, (low, high) in ((k, v) for k, v in record.items() if k.endswith("_interval")):
        assert low <= record[key.removesuffix("_interval")] <= high, key


def test_devices_and_methods_are_compared(rooftree):
    answer = rooftree(
        *WORDS,
        "--method",
        "eagle-3",
        "--acceptance",
        "0.7",
        "--device",
        "h100-sxm",
        "--device",
        "mi300x",
        "--tp",
        "1,2",
        "--slo-tpot",
        "20",
        "--json",
    ).answer
    rows = answer["plans"]
    assert [(r["device"], r["tp"], r["method"]) for r in rows] == [
        (device, tp, method)
        for device in ("h100-sxm", "mi300x")
        for tp in (1, 2)
        for method in ("plain-decoding", "eagle-3")
    ]
    for row in rows:
        assert row["feasible"] and set(row) >= PLAN
        held(row)
        assert row["devices"] == row["replicas"] * row["tp"] and row["tpot_s"] <= 0.02
        assert row["utilisation_ratio"] + row["headroom_ratio"] == pytest.approx(1.0)
    cheapest = min(rows, key=lambda r: r["usd_per_hour"])["usd_per_hour"]
    assert answer["best"]["by"] == "usd_per_hour"
    assert any(
        r["usd_per_hour"] == cheapest and r["device"] == answer["best"]["device"] for r in rows
    )
    assert (
        "gpu_memory_utilization" in answer["assumptions"]["memory"]
        and "ASSUMED" in answer["assumptions"]["power"]["gpu"]
    )


def test_plain_decoding_alone_needs_no_acceptance(rooftree):
    answer = rooftree(*WORDS, "--json").answer
    assert [r["method"] for r in answer["plans"]] == ["plain-decoding"]
    assert answer["schema"] == 4 and answer["inputs"]["rate"] == 20


def test_a_drafter_takes_memory_from_the_batch(rooftree):
    off, on = rooftree(*WORDS, "--method", "eagle-3", "--acceptance", "0.7", "--json").answer[
        "plans"
    ]
    assert on["memory"]["largest_batch"] < off["memory"]["largest_batch"]
    assert on["memory"]["drafter_bytes"] > off["memory"]["drafter_bytes"] == 0


def test_recorded_requests_and_acceptance(rooftree, files, tmp_path):
    path, generator = tmp_path / "requests.parquet", np.random.default_rng(0)
    trace = RequestTrace(
        arrival_s=np.sort(generator.uniform(0, 10, 50)),
        prompt_tokens=generator.integers(50, 900, 50),
        output_tokens=generator.integers(10, 300, 50),
    )
    write_requests(trace, path)
    words = (
        "capacity",
        "--model",
        "llama-3.2-1b",
        "--requests",
        path,
        "--trace",
        files.lookup,
        "--json",
    )
    answer = rooftree(*words).answer
    assert answer["inputs"]["output_tokens"] == pytest.approx(trace.output_tokens.mean())
    assert 4 < answer["inputs"]["rate"] < 6 and answer["inputs"]["method"] == "n-gram"
    assert answer["plans"][1]["tokens_per_step"] > 1
    assert (
        rooftree(*words, "--rate", "500").answer["plans"][0]["replicas"]
        >= answer["plans"][0]["replicas"]
    )


def test_an_unknown_price_is_null_and_said(rooftree, tmp_path):
    lines = (DEVICES / "h100-sxm.toml").read_text(encoding="utf-8").splitlines()
    path = tmp_path / "mine.toml"
    path.write_text(
        "\n".join(line for line in lines if not line.startswith("price")), encoding="utf-8"
    )
    answer = rooftree(*WORDS, "--device", path, "--json").answer
    assert (
        answer["plans"][0]["usd_per_hour"] is None
        and answer["plans"][0]["usd_per_million_tokens"] is None
    )
    assert answer["best"]["by"] == "watts"
    shown = rooftree(*WORDS, "--device", path)
    assert (
        "price unknown" in " ".join(shown.out.split())
        and "fewest watts (no price is known)" in shown.out
    )


def test_what_cannot_be_ends_in_three_after_its_table(rooftree):
    memory = rooftree("capacity", "--model", "llama-3.1-70b", *LOAD, "--device", "l4")
    assert (
        memory.code == 3
        and "memory: llama-3.1-70b takes" in memory.err
        and "tp 8 fits" in memory.err
    )
    assert "does not fit" in memory.out
    limit = rooftree(*WORDS, "--slo-tpot", "1")
    assert (
        limit.code == 3
        and "a mean TPOT of 1 ms cannot be met" in limit.err
        and limit.err.count("\n") == 1
    )
    assert "misses limits" in limit.out


def test_a_mark_names_changes_that_meet_the_limits_when_asked(rooftree):
    words = (*WORDS, "--device", "l4", "--slo-tpot", "40")
    (row,) = json.loads(rooftree(*words, "--json").out)["plans"]
    assert not row["feasible"] and row["misses"] == "limits" and row["nearest"]
    for change in row["nearest"]:
        again = rooftree(
            *words, *(str(word) for option in change.items() for word in option), "--json"
        )
        assert again.answer["plans"][0]["feasible"], change


def test_cells_of_lists_are_single_questions(rooftree):
    load = ("capacity", *LOAD, "--method", "eagle-3", "--acceptance", "0.7", "--json")
    models, devices, engines = (
        ("llama-3.1-8b", "llama-3.1-70b"),
        ("h100-sxm", "l4"),
        ("vllm", "sglang"),
    )
    listed = rooftree(
        *load,
        "--model",
        ",".join(models),
        "--device",
        ",".join(devices),
        "--engine",
        ",".join(engines),
    )
    rows = listed.answer["plans"]
    assert len(rows) == 2 * 2 * 2 * 2
    for model in models:
        for device in devices:
            for engine in engines:
                single = rooftree(*load, "--model", model, "--device", device, "--engine", engine)
                mine = [
                    r
                    for r in rows
                    if (r["model"], r["device"], r["engine"]) == (model, device, engine)
                ]
                assert json.loads(single.out)["plans"] == mine


def test_a_spread_model_counts_all_of_its_devices(rooftree):
    words = (
        "capacity",
        "--model",
        "deepseek-v3",
        *LOAD,
        "--device",
        "h200-sxm",
        "--tp",
        "8",
        "--dp",
        "2",
    )
    (row,) = rooftree(*words, "--ep", "16", "--json").answer["plans"]
    assert row["devices"] == 16 * row["replicas"] and row["batch"] % 2 == 0
    held(row)
    wrong = rooftree("capacity", "--model", "gpt2", *LOAD, "--tp", "2", "--ep", "2")
    assert (wrong.code, wrong.out) == (2, "") and "gpt2 has no experts" in wrong.err


def test_one_device_that_can_is_an_answer(rooftree):
    words = ("capacity", "--model", "llama-3.1-70b", *LOAD, "--device", "l4", "--device", "mi300x")
    answer = rooftree(*words, "--json").answer
    small, large = answer["plans"]
    assert not small["feasible"] and small["reason"].startswith("memory:") and large["feasible"]
    shown = rooftree(*words)
    assert (
        "does not fit" in shown.out
        and "memory: llama-3.1-70b" in shown.out
        and "cheapest: " in shown.out
    )


def test_files_and_silence(rooftree, tmp_path):
    assert rooftree(*WORDS, "--out", tmp_path, "--quiet").out == ""
    assert json.loads((tmp_path / "capacity.json").read_text(encoding="utf-8"))["plans"]


def test_the_same_twice(rooftree):
    first, second = (rooftree(*WORDS, "--json", "--seed", "2").out for _ in range(2))
    assert first == second and first.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--rate", "0"), "rate: must be a positive number"),
        (("--rate", "nan"), "rate: must be a positive number"),
        (("--prompt", "0"), "--prompt-tokens: must be the mean number of tokens"),
        (("--output", "-3"), "--output-tokens: must be the mean number of tokens"),
        (("--slo-ttft", "0"), "--slo-ttft: must be a positive number of milliseconds"),
        (("--utilisation", "1"), "--utilisation: must lie between 0 and 1"),
        (("--tp", "0"), "--tp: must lie in 1.."),
        (("--tp", "3"), "tp: must be >= 1 and divide the heads"),
        (
            ("--method", "hydra"),
            "--method: nothing says what is accepted: state it by --acceptance",
        ),
        (("--method", "eagle-33"), "--method: unknown method 'eagle-33'"),
        (
            ("--acceptance", "0.5", "--trace", "x.parquet"),
            "--trace and --acceptance exclude each other",
        ),
        (("--device", "h100-sx"), "unknown device 'h100-sx'; nearest: h100-sxm"),
        (("--engine", "vlm"), "unknown engine 'vlm'"),
        (("--requests", "missing.parquet"), "leave out --prompt-tokens and --output-tokens"),
    ],
)
def test_bad_input_ends_in_one_line(rooftree, words, said):
    done = rooftree(*WORDS, *words)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert said in done.err


def test_a_load_must_be_whole(rooftree):
    done = rooftree("capacity", "--model", "llama-3.1-8b", "--rate", "3")
    assert (
        done.code == 2
        and "--rate or --users, --prompt-tokens and --output-tokens are needed, or --requests FILE"
        in done.err
    )
    missing = rooftree("capacity", "--model", "llama-3.1-8b", "--requests", "missing.parquet")
    assert missing.code == 2
    assert missing.err == "rooftree: --requests: missing.parquet: there is no such file\n"
