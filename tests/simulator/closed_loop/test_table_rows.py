"""Rows of tables of serving runs: what they mean, what is refused, and how close the answers come
to measured runs."""

import csv
import math

import numpy as np
import pytest

from costmodel.architectures.library import load_model
from costmodel.engine_library import load_engine
from hardware_profiles.errors import InputError
from hardware_profiles.loader import load_device
from real_runs.published_runs.stated_launches import with_stated_launches
from simulator.closed_loop import table_rows
from simulator.closed_loop.table_rows import RowAnswer, answer_rows, formats_of_row

pytestmark = pytest.mark.heavy

ROW = {
    "id": "a",
    "backend": "vllm",
    "model_path": "meta-llama/Llama-3.1-8B-Instruct",
    "system": "h100_sxm",
    "isl": 256,
    "osl": 16,
    "concurrency": 4.0,
    "tp_size": 1.0,
}
NAN = float("nan")


def one(**changes):
    return answer_rows([ROW | changes], file="t.csv")[0]


def test_a_row_is_answered_with_times_and_intervals():
    answer = one()
    assert answer.id == "a"
    assert answer.reason is None
    assert answer.ttft_ms_interval[0] < answer.ttft_ms < answer.ttft_ms_interval[1]
    assert answer.tpot_ms_interval[0] < answer.tpot_ms < answer.tpot_ms_interval[1]
    assert 3.0 < answer.tpot_ms < 12.0


def test_amds_engine_answers_too_and_computes_whole_prompts_first():
    row = {"backend": "atom", "system": "mi355x", "model_path": "openai/gpt-oss-120b", "tp_size": 8}
    alone, busy = one(**row, precision="fp4"), one(**row, precision="fp4", isl=8192, concurrency=32)
    assert alone.reason is None and busy.ttft_ms > 2.0 * alone.ttft_ms
    scheduler = load_engine("atom").scheduling
    assert scheduler.prefill_first and not scheduler.chunked_prefill


def test_a_row_gets_the_same_answer_alone_and_among_others():
    rows = [ROW | {"id": str(n), "concurrency": n, "isl": 100 * n} for n in (1, 7, 20)]
    together = answer_rows(rows, file="t.csv")
    for row, answer in zip(rows, together, strict=True):
        alone = answer_rows([row], file="t.csv")[0]
        assert alone.tpot_ms == pytest.approx(answer.tpot_ms, rel=1e-9)
        assert alone.ttft_ms == pytest.approx(answer.ttft_ms, rel=1e-9)


def test_rows_whose_plans_have_a_worker_in_common_are_answered_as_they_are_alone():
    """Of any order of the rows: the larger loads need larger tables."""
    apart = {
        "mode": "disagg",
        "prefill_num_workers": 1,
        "prefill_tp_size": 2,
        "decode_num_workers": 1,
        "decode_tp_size": 2,
    }
    rows = [
        ROW | {"id": "b", "tp_size": 2},
        ROW | apart | {"id": "c"},
        ROW | apart | {"id": "d", "decode_tp_size": 1, "isl": 20_000, "concurrency": 2},
    ]
    answers = answer_rows(rows, file="t.csv")
    assert answers == [answer_rows([row], file="t.csv")[0] for row in rows]
    assert answers == answer_rows(rows[::-1], file="t.csv")[::-1]


def test_equal_rows_are_simulated_once(monkeypatch):
    runs = []
    served = table_rows.serve
    monkeypatch.setattr(
        table_rows, "serve", lambda *given, **more: runs.append(0) or served(*given, **more)
    )
    rows = [ROW, ROW | {"id": "b", "concurrency": 8.0}, ROW | {"id": "c"}]
    first, second, third = answer_rows(rows, file="t.csv")
    assert (
        len(runs) == 2
        and (first.tpot_ms, third.id) == (third.tpot_ms, "c")
        and second.tpot_ms > first.tpot_ms
    )


def test_what_a_table_leaves_open_has_defaults():
    full = one(precision="bf16", pp_size=1, attention_dp_size=1, mode="agg", image=None)
    open_ = one(
        precision=NAN, pp_size=NAN, attention_dp_size=None, mode=None, unknown_column=object()
    )
    assert full == open_
    stated = one(batch_size=4.0)
    assert one(concurrency=NAN, batch_size=4.0) == stated
    assert one(tp_size=NAN) == open_
    assert one(id=None).id == "0"


def test_how_the_engine_was_launched_shows():
    long = {"isl": 1024, "osl": 64, "concurrency": 16}
    default = one(**long)  # batches of 8 prompts, or of 2
    sized = one(**long, batch_size=16, launch="aiconfigurator")
    assert sized.ttft_ms < 0.8 * default.ttft_ms
    old, new = (one(**long, backend_version=version) for version in ("0.12.0", "0.18.0"))
    assert new == default
    assert old.ttft_ms < new.ttft_ms
    run = {"isl": 1024, "osl": 1024, "concurrency": 16}
    assert one(**run, launch="inferencex-2026-03").ttft_ms < 0.7 * one(**run).ttft_ms
    tagged, stated = (
        one(**run, **more)
        for more in (
            {"image": "vllm/vllm-openai:v0.11.2"},
            {"image": "vllm/vllm-openai:latest", "backend_version": "0.11.2"},
        )
    )
    assert tagged == stated


def test_neither_a_day_nor_an_image_changes_what_is_predicted():
    """Only a launch that is named may: whoever published a row is not guessed."""
    run = {"isl": 1024, "osl": 1024, "concurrency": 8, "backend_version": "0.18.0"}
    plain = one(**run)
    assert one(**run, measured="2026-03-27") == plain
    assert one(**run, image="vllm/vllm-openai:v0.18.0", batch_size=8) == plain
    assert one(**run, launch="inferencex") != plain
    assert "unknown launch" in one(**run, launch="somebody").reason


def test_numbers_may_come_as_text():
    texts = {key: str(value) for key, value in ROW.items()}
    assert answer_rows([texts], file="t.csv")[0] == one()


def test_narrower_formats_are_faster_and_mean_what_tables_write():
    wide, fp8, four = one(), one(precision="fp8"), one(precision="fp4")
    assert wide.tpot_ms > fp8.tpot_ms > four.tpot_ms
    assert one(gemm_quant_mode="nvfp4", precision="fp4") == four
    assert one(precision="fp8", moe_quant_mode="nvfp4") == fp8  # no experts here
    assert one(gemm_quant_mode="fp8") == fp8


def test_scales_by_block_are_stated_or_those_of_the_checkpoint():
    llama, by_block = one(precision="fp8"), one(gemm_quant_mode="fp8_block")
    assert by_block.tpot_ms > llama.tpot_ms and by_block.ttft_ms > llama.ttft_ms
    qwen = {"model_path": "Qwen/Qwen3-8B"}
    assert one(**qwen, precision="fp8") == one(**qwen, gemm_quant_mode="fp8_block")
    assert one(**qwen, precision="fp8") != one(**qwen, gemm_quant_mode="fp8_static")


def test_experts_take_the_format_of_the_experts():
    model = {"model_path": "openai/gpt-oss-120b", "tp_size": 4, "gemm_quant_mode": "bf16"}
    assert (
        one(**model, moe_quant_mode="nvfp4").tpot_ms < one(**model, moe_quant_mode="bf16").tpot_ms
    )


def test_four_bit_weights_compute_in_16_bits_on_hopper():
    long = {"isl": 4096, "concurrency": 1}
    assert one(precision="fp4", **long).ttft_ms > 0.9 * one(**long).ttft_ms


@pytest.mark.parametrize(
    "name", ["Qwen/Qwen3-32B", "qwen3-32b", "Qwen/Qwen3-32B-FP8", "/models/Qwen3-32B/"]
)
def test_models_go_by_hub_id_name_and_folder(name):
    assert one(model_path=name, tp_size=2).reason is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model_path": "acme/unheard-of-9b"}, "unheard-of"),
        ({"system": "abacus"}, "abacus"),
        ({"backend": "telegraph"}, "telegraph"),
        ({"precision": "fp3"}, "fp3"),
        ({"mode": "apart"}, "mode"),
        ({"mode": "disagg"}, "prefill_num_workers"),
        ({"mode": "disagg", "prefill_num_workers": 1, "decode_num_workers": 2}, "prefill_tp_size"),
        ({"mode": "disagg", "prefill_num_workers": 1, "prefill_tp_size": 1}, "decode_num_workers"),
        ({"tp_size": 3}, "tp"),
        ({"isl": NAN}, "isl"),
        ({"backend": None}, "backend"),
        ({"concurrency": None}, "concurrency"),
        ({"model_path": "meta-llama/Llama-3.1-405B-Instruct"}, "no room"),
        ({"isl": 200_000, "osl": 100_000}, "tokens"),
        ({"model_path": "/etc/passwd/config.json"}, "config.json"),
        ({"system": "../../device.toml"}, "device.toml"),
    ],
)
def test_what_cannot_be_answered_gets_a_reason(changes, said):
    answer = one(**changes)
    assert said in answer.reason
    assert answer == RowAnswer(id="a", reason=answer.reason)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("isl", "many"),
        ("osl", 0),
        ("isl", -5),
        ("osl", 1.5),
        ("concurrency", math.inf),
        ("tp_size", True),
        ("isl", 10**9),
        ("osl", "1e400"),
        ("backend", b"vllm"),
        ("isl", [1]),
        ("concurrency", -1),
    ],
)
def test_values_that_mean_nothing_name_file_row_and_column(column, value):
    with pytest.raises(InputError, match=rf"t\.csv: row 1, column {column}"):
        answer_rows([ROW, ROW | {column: value}], file="t.csv")


def test_an_output_of_one_token_has_no_time_per_token():
    answer = one(osl=1)
    assert answer.ttft_ms > 0
    assert answer.tpot_ms is None
    assert answer.reason is None


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("every", "slack"), [(5, 1.4), pytest.param(1, 1.0, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(
    ("table", "answered", "most", "held"),
    [
        (
            "silicon_sample",
            0.97,
            {"tpot": 0.048, "ttft": 0.19},
            {"tpot": (0.81, 0.90), "ttft": (0.73, 0.82)},
        ),
        (
            "silicon_sample_2",
            0.87,
            {"tpot": 0.070, "ttft": 0.22},
            {"tpot": (0.76, 0.85), "ttft": (0.81, 0.90)},
        ),
    ],
)
def test_measured_serving_runs(reference_data, table, answered, most, held, every, slack):
    """Aggregated serving, each measurement once: median errors, and what share lies in the 80 %
    intervals.

    Of every fifth row, 57 measurements at least, two standard errors of a median error are a third
    of it, and those of a share a tenth.
    """
    import pyarrow.parquet as pq

    rows = [
        row
        for row in pq.read_table(reference_data / "serving" / f"{table}.parquet").to_pylist()
        if row["mode"] == "agg"
    ][::every]
    rows = with_stated_launches(rows, file=table)
    pairs = [
        (r, a) for r, a in zip(rows, answer_rows(rows, file=table), strict=True) if a.reason is None
    ]
    assert len(pairs) >= answered * len(rows) / slack
    once = list(
        {
            (row["silicon_tpot_ms"], row["silicon_ttft_ms"]): (row, answer) for row, answer in pairs
        }.values()
    )
    for kind in ("tpot", "ttft"):
        measured = np.array([row[f"silicon_{kind}_ms"] for row, _ in once])
        predicted = np.array([getattr(answer, f"{kind}_ms") for _, answer in once])
        low, high = np.array([getattr(answer, f"{kind}_ms_interval") for _, answer in once]).T
        assert np.median(abs(predicted / measured - 1.0)) <= slack * most[kind]
        least, largest = np.add(held[kind], (0.25 * (1.0 - slack), 0.25 * (slack - 1.0)))
        assert least <= np.mean((low <= measured) & (measured <= high)) <= largest


@pytest.mark.parametrize("label", ["nvfp4", "mxfp4", "w4a8_mxfp4_mxfp8"])
@pytest.mark.parametrize(("system", "arithmetic"), [("b200_sxm", "fp8"), ("h200_sxm", "bf16")])
def test_a_checkpoint_in_mxfp4_holds_experts_alone_whatever_the_table_calls_it(
    label, system, arithmetic
):
    row = {**dict.fromkeys(("gemm_quant_mode", "precision")), "moe_quant_mode": label}
    device = load_device(system.replace("_", "-"))
    formats = formats_of_row(row, architecture=load_model("gpt-oss-120b"), device=device)
    assert (formats.weights, formats.experts, formats.experts_alone) == (
        "bf16",
        ("fp4-g32", arithmetic),
        True,
    )
    other = formats_of_row(row, architecture=load_model("deepseek-v3"), device=device)
    assert not other.experts_alone


def test_records_of_inferencex_are_read_as_they_are():
    raw = {
        "id": "a",
        "engine": "vllm",
        "hardware": "h100",
        "model": "openai/gpt-oss-120b",
        "image": "vllm/vllm-openai:v0.11.2",
        "date": "2025-12-15",
        "precision": "fp4",
        "isl": 1024,
        "osl": 1024,
        "concurrency": 4,
        "tp": 4,
        "ep": 1,
        "dp_attention": False,
        "disagg": False,
        "speculation": "none",
    }
    ours = {
        "backend": "vllm",
        "system": "h100_sxm",
        "model_path": raw["model"],
        "image": raw["image"],
        "measured": raw["date"],
        "tp_size": 4,
        **{name: raw[name] for name in ("id", "precision", "isl", "osl", "concurrency")},
    }
    drafted = raw | {"speculation": "mtp"}
    read, same, refused = answer_rows([raw, ours, drafted], file="rows")
    assert read.ttft_ms is not None and read == same
    assert refused.reason.startswith("speculation")  # nothing was published of it for gpt-oss


@pytest.mark.parametrize("unset", [False, "False", "false", "0", None, NAN, ""])
def test_flags_of_inferencex_mean_the_same_in_a_table_of_text(unset):
    raw = {"id": "a", "engine": "vllm", "hardware": "h100", "model": "openai/gpt-oss-120b"}
    raw |= {"precision": "fp4", "isl": 1024, "osl": 64, "concurrency": 4, "tp": 4, "ep": 1}
    plain, written = answer_rows([raw, raw | {"disagg": unset, "dp_attention": unset}], file="rows")
    assert plain.reason is None and written == plain
    (copied, worded) = answer_rows([raw | {"dp_attention": yes} for yes in (True, "True")], file="")
    assert copied == worded != plain


def test_measured_serving_runs_that_travel_with_the_tests(published):
    """44 runs of InferenceX on five devices in three engines: median errors, and what share lies in
    the 80 % intervals; two standard errors of such a share are 0.12."""
    file = published / "serving_runs.csv"
    with file.open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    answers = answer_rows(with_stated_launches(rows, file=str(file)), file=str(file))
    assert len(rows) == 44 and all(answer.reason is None for answer in answers)
    for kind, most in (("tpot", 0.15), ("ttft", 0.2)):
        measured = np.array([float(row[f"{kind}_mean_ms"]) for row in rows])
        predicted = np.array([getattr(answer, f"{kind}_ms") for answer in answers])
        low, high = np.array([getattr(answer, f"{kind}_ms_interval") for answer in answers]).T
        assert np.median(abs(predicted / measured - 1.0)) <= most
        assert 0.68 <= np.mean((low <= measured) & (measured <= high)) <= 0.92
        assert np.corrcoef(np.log(predicted), np.log(measured))[0, 1] >= 0.95
