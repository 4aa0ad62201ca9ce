"""`calibrate`: scores, the written profile, and refusals."""

import json
from dataclasses import replace

import numpy as np
import pytest

from costmodel.architectures.library import load_model
from costmodel.calibration.measurements import measurements
from costmodel.calibration.timing import timed
from hardware_profiles.loader import load_device
from hardware_profiles.writer import write_device
from traces.storage.kernels import KernelProvenance, KernelRow, KernelTrace, write_kernels

H100 = load_device("h100-sxm")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Products of a device a fifth slower than the H100's profile says."""
    generator = np.random.default_rng(8)
    m = generator.choice([1, 8, 64, 256], 240)
    n, k = (generator.integers(64, 300, 240) * 64 for _ in range(2))
    sizes = {"rows": m, "outputs": n, "inputs": k}
    rows = measurements("gemm", sizes, np.ones(240), file="made.csv")
    us = timed(H100, rows)[0] * 1.2e6
    lines = [f"bf16,{a},{b},{c},{t:.3f}" for a, b, c, t in zip(m, n, k, us, strict=True)]
    path = tmp_path_factory.mktemp("kernels") / "products.csv"
    path.write_text("\n".join(["dtype,m,n,k,us", *lines]) + "\n", encoding="utf-8")
    return path


def test_score_only_states_the_error_of_the_profile(rooftree, table):
    answer = rooftree(
        "calibrate", "--kernels", table, "--device", "h100-sxm", "--score-only", "--json"
    ).answer
    assert answer["schema"] == 4 and answer["inputs"]["score_only"] is True
    score = answer["operations"]["gemm"]
    assert score["rows"] == 240 and 0 < score["rows_used"] <= 240
    assert score["rows_fitted"] == 0 and score["rows_scored"] == score["rows_used"] - round(
        score["rows_used"] / 4
    )
    assert score["median"] == pytest.approx(1 - 1 / 1.2, rel=1e-3)
    assert score["p90"] == pytest.approx(1 - 1 / 1.2, rel=1e-3)


@pytest.fixture(scope="module")
def fit(rooftree, table, tmp_path_factory):
    """A fit with the seed that is taken where none is named, and the profile that it wrote."""
    out = tmp_path_factory.mktemp("fit") / "new" / "mine.toml"
    return rooftree("calibrate", "--kernels", table, "--out", out, "--json").answer["operations"][
        "gemm"
    ], out


def test_a_fit_writes_a_profile_that_scores_better(rooftree, table, fit):
    fitted, out = fit
    assert fitted["median"] < 0.02 and fitted["rows_fitted"] > 0
    again = rooftree(
        "calibrate", "--kernels", table, "--device", out, "--score-only", "--json"
    ).answer
    assert again["operations"]["gemm"]["median"] == pytest.approx(fitted["median"], rel=1e-6)
    assert (
        load_device(out).constants.gemm.bandwidth_efficiency
        < H100.constants.gemm.bandwidth_efficiency
    )


def test_the_same_seed_gives_the_same_answer_and_another_another(rooftree, table, fit):
    def run(seed):
        return rooftree("calibrate", "--kernels", table, "--seed", seed, "--json").answer[
            "operations"
        ]["gemm"]["median"]

    assert fit[0]["median"] == run(0)
    assert fit[0]["median"] != run(1)


def test_tables_and_quiet(rooftree, table):
    shown = rooftree("calibrate", "--kernels", table, "--score-only")
    assert shown.code == 0 and "gemm" in shown.out and "16.7%" in shown.out
    assert rooftree("calibrate", "--kernels", table, "--score-only", "--quiet").out == ""


def test_several_tables_are_scored_together(rooftree, table):
    answers = [
        rooftree("calibrate", *words, "--score-only", "--json").answer["operations"]["gemm"]["rows"]
        for words in (["--kernels", table, table], ["--kernels", table, "--kernels", table])
    ]
    assert answers == [480, 480]


def test_other_number_formats_leave_no_rows(rooftree, table):
    score = rooftree("calibrate", "--kernels", table, "--dtype", "fp8", "--json").answer[
        "operations"
    ]["gemm"]
    assert (score["rows"], score["rows_used"], score["median"], score["p90"]) == (
        240,
        0,
        None,
        None,
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--score-only"], "--kernels: at least one table"),
        (["--kernels", "absent.csv"], "absent.csv: there is no such file"),
        (["--kernels", "TABLE", "--device", "h10"], "unknown device 'h10'"),
        (["--kernels", "TABLE", "--dtype", "bf61"], "unknown number format 'bf61'"),
        (["--kernels", "TABLE", "--device", "a100-sxm-80", "--dtype", "fp8"], "has no such peak"),
        (["--kernels", "TABLE", "--model", "llama-9"], "unknown model 'llama-9'"),
        (["--kernels", "TABLE", "--out", "x.json"], "--out: must be a .toml file"),
        (["--kernels", "TABLE", "--out", "x.toml", "--score-only"], "--score-only fits none"),
        (["--kernels", "TABLE", "--seed", "-1"], "--seed"),
        (["--kernels", "TABLE", "--here", "cpu"], "--here: measures this machine"),
        (["--here", "cpu", "--out", "x.json"], "--out: must be a .toml file"),
        (["--here", "cpu", "--budget", "soon"], "--budget: must be a positive time"),
    ],
)
def test_refusals_name_the_option(rooftree, table, tmp_path, monkeypatch, words, message):
    if words[0] == "--here":
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    ended = rooftree("calibrate", *(table if word == "TABLE" else word for word in words))
    assert ended.code == 2 and message in ended.err
    assert ended.out == "" and not list(tmp_path.iterdir())


def test_a_foreign_table_names_the_layouts(rooftree, tmp_path):
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n", encoding="utf-8")
    ended = rooftree("calibrate", "--kernels", path)
    assert ended.code == 2 and "no known layout" in ended.err and "m, n, us" in ended.err


def test_out_may_not_be_a_folder(rooftree, table, tmp_path):
    (tmp_path / "x.toml").mkdir()
    ended = rooftree("calibrate", "--kernels", table, "--out", tmp_path / "x.toml")
    assert ended.code == 2 and "--out" in ended.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--server", "ftp://host"), "--server: must be a server's address"),
        (("--server", "http://127.0.0.1:1"), "127.0.0.1:1"),
        (("--server", "http://127.0.0.1:1", "--engine", "llama.cpp"), "leave out --server"),
        (("--engine", "vllm"), "only llama.cpp is started here"),
        (("--engine", "llama.cpp", "--model", "absent.gguf"), "absent.gguf"),
        (("--engine", "llama.cpp", "--here", "cpu"), "leave out tables"),
        (("--engine", "llama.cpp", "--budget", "soon"), "--budget"),
        (("--engine", "llama.cpp", "--out", "mine.json"), "must be a .toml file"),
    ],
)
def test_an_engine_is_measured_on_its_own_and_only_where_it_answers(
    rooftree, tmp_path, arguments, words
):
    done = rooftree("calibrate", *arguments, "--results", str(tmp_path / "results"))
    assert done.code == 2
    assert words in " ".join(done.err.split())


def test_optimize_takes_whole_passes_of_a_profile_beside_them(rooftree, tmp_path):
    device, model = replace(load_device("cpu-generic"), name="mine"), load_model("smollm2-135m")
    write_device(device, tmp_path / "mine.toml")
    row = KernelRow(
        operation="step",
        implementation="server",
        dtype="q4_1",
        mask="causal",
        requests=1,
        query_tokens=1,
        context=64,
        model=model.name,
        layers=model.layers,
        median_s=0.5,
        low_s=0.5,
        high_s=0.5,
        repeats=1,
        cold=True,
        graph=False,
        flops=1.0,
        bytes=1.0,
    )
    write_kernels(
        KernelTrace(rows=(row,), provenance=KernelProvenance(profile="mine")),
        tmp_path / "kernels.parquet",
    )
    asked = (
        "--model",
        model.name,
        "--device",
        str(tmp_path / "mine.toml"),
        "--engine",
        "none",
        "--dtype",
        "q4_1",
        "--batch",
        "1",
        "--context",
        "64",
        "--method",
        "n-gram",
        "--fidelity",
        "measured",
        "--json",
    )
    best = json.loads(rooftree("optimize", *asked, "--out", tmp_path / "out").out)["choices"][0]
    off = json.loads(rooftree("predict", *asked, "--draft-tokens", "0", "--acceptance", "0.5").out)
    assert best["step_s"] >= 0.5
    assert off["predictions"][0]["step_s"] == pytest.approx(0.5)
