"""The page of measured kernels shows what was measured, beside roofs and predictions, and trusts no
name."""

import json
import re
from dataclasses import replace

import pytest

pytest.importorskip("plotly")
pytest.importorskip("pyarrow")

from app.cli.main import main
from app.render.html.kernel_plots import (
    attention_cards,
    gemm_cards,
    kernel_page,
    shown_contexts,
    step_cards,
)
from hardware_profiles.errors import InputError
from hardware_profiles.loader import load_device
from traces.storage.kernels import KernelProvenance, KernelRow, KernelTrace, write_kernels

ROW = KernelRow(
    job="verify",
    operation="attention",
    implementation="flash",
    dtype="bf16",
    mask="causal",
    requests=1,
    query_tokens=1,
    context=4096,
    heads=32,
    kv_heads=8,
    head_dim=128,
    median_s=2e-5,
    low_s=1.9e-5,
    high_s=2.2e-5,
    repeats=9,
    cold=True,
    graph=True,
    flops=1e9,
    bytes=1e6,
)
ATTENTION = tuple(
    replace(ROW, implementation=name, query_tokens=n, context=c, requests=b)
    for name in ("flash", "split-flash")
    for n in (1, 8, 64)
    for c in (512, 4096, 32768, 131072)
    for b in (1, 8)
)
GEMM = tuple(
    replace(
        ROW,
        operation="gemm",
        implementation="linear",
        mask="",
        rows=m,
        outputs=4096,
        inputs=4096,
        context=0,
    )
    for m in (1, 64)
)
COPY = replace(ROW, operation="copy", implementation="torch", mask="", bytes=4e7)
STEP = tuple(
    replace(
        ROW, operation="step", implementation=name, model="llama-3.2-1b", layers=16, query_tokens=n
    )
    for name in ("eager", "graph")
    for n in (1, 8)
)
TRACE = KernelTrace(
    rows=(*ATTENTION, *GEMM, COPY, *STEP), provenance=KernelProvenance(device="NVIDIA H100")
)
H100 = load_device("h100-sxm")


def names(figure):
    return [line["name"] for line in figure["data"]]


def test_contexts_are_the_nearest_measured_ones_filled_up_to_three():
    assert shown_contexts({512, 4096, 32768, 131072}) == [4096, 32768, 131072]
    assert shown_contexts({128, 512, 2048, 8192}) == [512, 2048, 8192]
    assert shown_contexts({64}) == [64]


def test_attention_has_a_line_per_implementation_and_the_models_beside():
    cards = attention_cards(TRACE, H100)
    assert len(cards) == 6 and "8 requests, 131,072 cached tokens" in cards[-1][0]
    title, _, figure = cards[0]
    assert title.startswith("verify: 1 request, 4,096")
    assert names(figure) == [
        "flash",
        "split-flash",
        "2,000 GB/s, measured",
        "model, split",
        "model, unsplit",
    ]
    assert figure["data"][0]["x"] == [1, 8, 64] and figure["data"][0]["y"] == pytest.approx(
        [20.0] * 3
    )
    assert figure["layout"]["xaxis"]["type"] == figure["layout"]["yaxis"]["type"] == "log"
    for line in figure["data"]:
        assert len(line["x"]) == len(line["y"]) == 3 and min(line["y"]) > 0


def test_the_floor_is_bytes_by_rate():
    floor = attention_cards(TRACE, None)[0][2]["data"][2]
    moved = 2 * (4097 * 2 * 8 * 128 + 2 * 32 * 128)
    assert floor["y"][0] == pytest.approx(moved / 2e12 * 1e6)
    without = replace(TRACE, rows=ATTENTION)
    assert names(attention_cards(without, None)[0][2]) == ["flash", "split-flash"]
    assert "profile" in names(attention_cards(without, H100)[0][2])[2]


def test_products_and_passes_are_drawn_too():
    ((title, _, product),) = gemm_cards(TRACE, H100)
    assert (
        "4,096 × 4,096" in title
        and names(product)[0] == "measured"
        and names(product)[-1] == "model"
    )
    ((title, _, passes),) = step_cards(TRACE, H100)
    assert "llama-3.2-1b" in title and names(passes)[:2] == [
        "eager, context 4,096",
        "graph, context 4,096",
    ]


def test_the_page_needs_no_network_and_escapes_names():
    foul = replace(ROW, implementation="<script>alert(1)</script>")
    about = KernelProvenance(device="</title><img src=x onerror=1>")
    page = kernel_page(KernelTrace(rows=(foul,), provenance=about), device=H100)
    assert "<script>alert(1)" not in page and "<img src=x" not in page
    assert not re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="?http', page)
    figures = json.loads(re.search(r'id="figures">(.*?)</script>', page, re.S)[1])
    assert list(figures) == ["plot-0"]
    assert page == kernel_page(KernelTrace(rows=(foul,), provenance=about), device=H100)


def test_rows_with_nothing_to_draw_are_refused():
    with pytest.raises(InputError, match="to draw"):
        kernel_page(KernelTrace(rows=(COPY,)))


def test_the_command_draws_a_table(tmp_path, capsys):
    write_kernels(TRACE, tmp_path / "kernels.parquet")
    page = tmp_path / "deep" / "k.html"
    assert (
        main(["kernels", "--table", str(tmp_path), "--plot", str(page), "--profile", "h100-sxm"])
        == 0
    )
    assert page.read_text().startswith("<!doctype html>") and "drawn in" in capsys.readouterr().out
    assert main(["kernels", "--table", str(tmp_path / "kernels.parquet"), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["rows"]) == len(TRACE.rows)
    assert main(["kernels", "--table", str(page.parent)]) == 2
    assert main(["kernels", "--table", str(tmp_path), "--profile", "h10"]) == 2
    assert main(["kernels", "--table", str(tmp_path), "--plot", str(tmp_path)]) == 2
