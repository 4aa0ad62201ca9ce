"""Benchmarks of engines are read as what they are, and foreign files are refused."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from real_runs.validation.engines.bench_results import compare, read_bench

VLLM = {
    "completed": 100,
    "max_concurrency": 8,
    "total_input_tokens": 50_000,
    "total_output_tokens": 20_000,
    "mean_tpot_ms": 12.5,
    "mean_ttft_ms": 80.0,
    "output_throughput": 610.0,
    "spec_decode_acceptance_length": 2.5,
    "spec_decode_acceptance_rate": 50.0,
    "ttfts": [0.1],
    "itls": [[0.01]],
}
SGLANG = {
    "backend": "sglang",
    "completed": 10,
    "concurrency": 3.7,
    "max_concurrency": 4,
    "total_input_tokens": 1000,
    "total_output_tokens": 400,
    "mean_tpot_ms": 5.0,
    "mean_ttft_ms": 20.0,
    "accept_length": 3.1,
}
PREDICTION = {
    "predictions": [
        {
            "batch": b,
            "context": c,
            "draft_tokens": 3,
            "tokens_per_s": 80.0 * b,
            "tokens_per_step": 2.4,
            "tokens_per_s_interval": [75.0 * b, 85.0 * b],
        }
        for b in (1, 8, 64)
        for c in (512, 4096)
    ]
}


def test_vllm_and_sglang_runs_stand_beside_the_nearest_prediction(tmp_path):
    (tmp_path / "v.json").write_text(json.dumps(VLLM))
    (tmp_path / "s.jsonl").write_text(
        "\n".join(json.dumps(each) for each in (SGLANG, {**SGLANG, "concurrency": 50}))
    )
    runs = [run for name in ("v.json", "s.jsonl") for run in read_bench(tmp_path / name)]
    assert [run.source for run in runs] == ["vllm-serve", "sglang-serving", "sglang-serving"]
    assert runs[0].batch == 8 and runs[0].context == 600 and runs[0].tokens_per_step == 2.5
    assert runs[1].batch == 3.7 and runs[1].tpot_s == pytest.approx(0.005)
    found = compare(runs, PREDICTION)
    assert [(each.batch, each.context) for each in found] == [(8, 512), (8, 512), (64, 512)]
    assert found[0].predicted_tpot_s == pytest.approx(1 / 80) and found[
        0
    ].tpot_error_ratio == pytest.approx(0.0)
    assert found[0].covered is True and found[1].covered is False
    assert found[0].tokens_per_step_error_ratio == pytest.approx(2.4 / 2.5 - 1)


def test_a_latency_run_tells_whole_batches_alone(tmp_path):
    (tmp_path / "l.json").write_text(
        json.dumps({"avg_latency": 1.5, "latencies": [1.4, 1.6], "percentiles": {}})
    )
    (run,) = read_bench(tmp_path / "l.json")
    assert (run.source, run.latency_s, run.tpot_s) == ("vllm-latency", 1.5, None)
    with pytest.raises(InputError, match="no time per output token"):
        compare([run], PREDICTION)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no run"),
        ("{", "must be JSON"),
        ("[1]", "must hold JSON objects"),
        ("{}", "must be the JSON of"),
        (json.dumps({**VLLM, "mean_tpot_ms": -1}), "finite number"),
        ('{"avg_latency": NaN}', "finite number"),
        (json.dumps({**VLLM, "completed": "many"}), "finite number"),
        ("[" * 100_000, "must be JSON"),
    ],
)
def test_foreign_files_are_refused(tmp_path, text, message):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(InputError, match=message):
        read_bench(tmp_path / "x.json")


def test_absent_files_and_foreign_predictions_are_refused(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_bench(tmp_path / "absent.json")
    (tmp_path / "v.json").write_text(json.dumps(VLLM))
    runs = read_bench(tmp_path / "v.json")
    for wrong in ({}, {"predictions": []}, {"predictions": [1]}):
        with pytest.raises(InputError, match="JSON answer of predict"):
            compare(runs, wrong)
    with pytest.raises(InputError, match="finite number"):
        compare(runs, {"predictions": [{"batch": 1, "context": 2, "tokens_per_s": "fast"}]})


@given(
    st.dictionaries(
        st.sampled_from([*VLLM]),
        st.one_of(st.none(), st.floats(), st.text(), st.integers()),
        max_size=8,
    )
)
def test_no_object_ends_in_anything_but_runs_or_an_input_error(tmp_path_factory, value):
    path = tmp_path_factory.mktemp("bench") / "x.json"
    path.write_text(json.dumps(value))
    with suppress(InputError):
        assert len(read_bench(path)) == 1
