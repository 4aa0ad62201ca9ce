"""`validate` refuses what it cannot do, and puts benchmarks beside predictions without running
anything."""

import json

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("scipy")

BENCH = {"completed": 10, "max_concurrency": 1, "mean_tpot_ms": 12.5, "mean_ttft_ms": 80.0}


def test_a_benchmark_stands_beside_a_prediction(rooftree, tmp_path):
    predicted = rooftree(
        "predict",
        "--model",
        "llama-3.1-8b",
        "--device",
        "h100-sxm",
        "--acceptance",
        "0.7",
        "--method",
        "eagle-3",
        "--draft-tokens",
        "3",
        "--batch",
        "1,8",
        "--json",
    )
    (tmp_path / "p.json").write_text(predicted.out)
    (tmp_path / "b.json").write_text(json.dumps(BENCH))
    ended = rooftree(
        "validate", "--from-bench", tmp_path / "b.json", "--predict", tmp_path / "p.json", "--json"
    )
    assert ended.code == 0, ended.err
    (run,) = ended.answer["runs"]
    assert run["batch"] == 1 and run["tpot_error_ratio"] == pytest.approx(
        run["predicted_tpot_s"] / 0.0125 - 1
    )
    told = rooftree(
        "validate", "--from-bench", tmp_path / "b.json", "--predict", tmp_path / "p.json"
    )
    assert "benchmark beside predictions" in told.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--profile: name the profile that predicts"),
        (["--profile", "h10"], "unknown device 'h10'"),
        (
            ["--profile", "cpu-generic"],
            "no passes of smollm2-135m in fp32 were measured on cpu-generic",
        ),
        (["--profile", "cpu-generic", "--fidelity", "exact"], "--fidelity"),
        (["--profile", "cpu-generic", "--drafter", "lookup"], "unknown drafter 'lookup'"),
        (["--profile", "cpu-generic", "--dtype", "fp4"], "--dtype"),
        (["--profile", "cpu-generic", "--budget", "soon"], "--budget"),
        (["--profile", "cpu-generic", "--fidelity", "calibrated", "--device", "tpu9"], "device"),
        (["--quick"], "cuda"),
        (["--results", "absent"], "must be a folder"),
        (["--from-bench", "absent.json"], "--predict"),
        (["--from-bench", "absent.json", "--predict", "p.json"], "absent.json"),
        (["--replayed", "absent", "--profile", "h100-sxm"], "holds no measured rows"),
        (["--replayed", "a", "--from-bench", "b"], "either"),
        (
            ["--profile", "cpu-generic", "--engine", "vllm"],
            "--engine: transformers and llama.cpp run here",
        ),
        (["--profile", "cpu-generic", "--engine", "transformers"], "no passes of smollm2-135m"),
        (
            ["--profile", "cpu-generic", "--engine", "llama.cpp", "--model", "absent.gguf"],
            "must be a .gguf file",
        ),
        (["--profile", "cpu-generic", "--engine", "llama.cpp", "--batch", "0"], "--batch"),
        (["--profile", "cpu-generic", "--engine", "llama.cpp", "--budget", "soon"], "--budget"),
        (["--profile", "h100-sxm", "--server", "ftp://host"], "--drafter: name the one drafter"),
        (
            ["--profile", "h100-sxm", "--server", "ftp://host", "--drafter", "eagle-3:0.7"],
            "--server: must be",
        ),
        (
            ["--profile", "h100-sxm", "--server", "http://127.0.0.1:9", "--drafter", "eagle-3:0.7"],
            "cannot be reached",
        ),
    ],
)
def test_refusals_name_the_option(rooftree, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    ended = rooftree("validate", *words)
    assert ended.code == 2 and message in ended.err, ended.err
