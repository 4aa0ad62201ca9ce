"""How far are predictions from what was measured?

Published runs on GPUs, then the committed results: whole passes against the cost model with the
profile that they name, kernels, decoding runs, masked models, and loads of live servers. Leaves out
measuring (`rooftree validate`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from app.dashboard.answer import Card, PageAnswer, Row, shown_path
from app.dashboard.answers.validation.masked import is_masked, masked_notes, masked_tables
from app.dashboard.answers.validation.published import answer_published
from app.dashboard.answers.validation.runs import Json, run_cards, run_note, run_rows, validated
from app.dashboard.answers.validation.servers import replayed_loads
from app.dashboard.measured import LOADS, PUBLISHED, measured_results
from app.dashboard.state import State, command
from app.render.charts.charts import PALETTE, SYMBOLS, Figure, digits, framed
from app.render.html.kernel_plots import attention_cards, gemm_cards
from hardware_profiles.errors import InputError, UnknownNameError
from hardware_profiles.loader import device_names, load_device
from hardware_profiles.profile import Device
from hardware_profiles.units import MILLI
from real_runs.calibration.passes import pass_rows, predicted_passes
from real_runs.campaigns.decode_summary import Speed, speeds
from real_runs.campaigns.results import read_results, read_runs
from traces.storage.kernels import KernelTrace

RESAMPLES = 400


def answer_validation(state: State) -> PageAnswer:
    """Errors of the present cost model on committed results.

    Raises:
        InputError: no such results, or damaged ones.
    """
    seed, results = state.seed, state.measured
    measured = measured_results()
    if results and results not in measured:
        raise UnknownNameError("results", results, list(measured), key="measured")
    name = results or next(iter(measured))
    if name == PUBLISHED:
        return answer_published()
    folder = measured[name]
    trace, report, loads = read_results(folder), validated(folder), replayed_loads(folder)
    if trace is None and report is None and loads is None:
        raise InputError("hold nothing that was measured", file=folder)
    page = _Page(command=_command(folder, report))
    if report is not None:
        page.words.append(run_note(report))
        page.cards += run_cards(report)
        page.tables.append(("Predicted and measured decoding", run_rows(report)))
        page.tables += masked_tables(report)
        page.notes += masked_notes(report)
    if loads is not None:
        page.words.append(loads.sentence)
        page.cards += loads.cards
        page.tables.append(("A real server under load", loads.rows))
        page.notes += loads.notes
    if trace is not None:
        _add_kernels(page, folder, trace, seed)
    return PageAnswer(
        headline=page.headline or " ".join(page.words),
        command=page.command,
        numbers=page.numbers,
        cards=page.cards,
        tables=page.tables,
        notes=[
            *(page.words if page.headline else ()),
            *page.notes,
            f"Results of {name.replace('.', ', ', 1)}.",
        ],
    )


def _command(folder: Path, report: Json | None) -> str:
    """What measures the same on one's own machine, or says the same of a load."""
    if report is not None and is_masked(report):
        return command(["validate"], {"method": "fast-dllm"})
    return command(["simulate"], {"beside": shown_path(folder / LOADS)})


@dataclass(kw_only=True, slots=True)
class _Page:
    """An answer in the making."""

    command: str
    headline: str = ""
    words: list[str] = field(default_factory=list)
    numbers: list[tuple[str, str]] = field(default_factory=list)
    cards: list[Card] = field(default_factory=list)
    tables: list[tuple[str, Sequence[Row]]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def _add_kernels(page: _Page, folder: Path, trace: KernelTrace, seed: int) -> None:
    """Whole passes and kernels against the cost model, and decoding runs of the same campaign."""
    device, runs = _device(trace), read_runs(folder)
    predicted, measured, dtypes = _passes(trace, device)
    decoded = (
        speeds(runs, generator=np.random.default_rng(seed), resamples=RESAMPLES)
        if runs is not None
        else []
    )
    page.numbers += [
        ("Measured device", trace.provenance.device),
        ("Kernels timed", f"{len(trace.rows):,}"),
    ]
    page.headline = f"{len(trace.rows):,} kernels measured on {trace.provenance.device}"
    if predicted.size:
        error = np.abs(predicted / measured - 1.0)
        middle, late = float(np.median(error)), float(np.quantile(error, 0.9))
        page.headline += (
            f"; whole passes are predicted within {middle:.1%} in the median, {late:.1%} at p90"
        )
        page.numbers += [
            ("Median error of passes", f"{100 * middle:.1f} %"),
            ("p90 error", f"{100 * late:.1f} %"),
        ]
        page.cards += [
            Card(
                title="Predicted against measured passes",
                note="On the line they agree.",
                figure=_against(predicted, measured, dtypes),
            ),
            Card(
                title="Errors of passes",
                note="Right of zero: predicted too fast.",
                figure=_errors(predicted, measured),
            ),
        ]
    if drawn := [row for row in decoded if row.kind == "all" and row.speedup is not None]:
        page.cards.append(
            Card(
                title="Measured speedup of drafting",
                note="Bars are 80 % intervals over prompts.",
                figure=_speedups(drawn),
            )
        )
    for title, note, figure in (
        *attention_cards(trace, device)[:2],
        *gemm_cards(trace, device)[:1],
    ):
        page.cards.append(Card(title=title, note=note, figure=figure))
    if decoded:
        page.tables.append(("Decoding runs", [_row(row) for row in decoded]))
    page.command = command(
        ["kernels"], {"table": shown_path(folder), "profile": device.name if device else None}
    )
    page.notes.append(_beside(device))


def _device(trace: KernelTrace) -> Device | None:
    name = trace.provenance.profile
    return load_device(name) if name in device_names() else None


def _beside(device: Device | None) -> str:
    if device is None:
        return "The measured device has no shipped profile: nothing is predicted for it."
    return (
        f"Predictions are those of the profile {device.name}, whose constants come from"
        f" {device.constants_from}."
    )


def _passes(trace: KernelTrace, device: Device | None) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Predicted and measured seconds of the whole passes, and the format of each."""
    predicted, measured, names = [np.zeros(0)], [np.zeros(0)], []
    for dtype in sorted({row.dtype for row in trace.rows if row.operation == "step"}):
        if device is None or dtype not in device.peak_flops_per_s:
            continue
        rows = pass_rows(trace.rows, dtype=dtype)
        predicted.append(np.asarray(predicted_passes(device, rows, dtype=dtype)))
        measured.append(np.array([row.median_s for row in rows]))
        names += [dtype] * len(rows)
    return np.concatenate(predicted), np.concatenate(measured), names


def _against(predicted: np.ndarray, measured: np.ndarray, dtypes: list[str]) -> Figure:
    ends = [
        float(min(predicted.min(), measured.min())) / MILLI / 1.2,
        float(max(predicted.max(), measured.max())) / MILLI * 1.2,
    ]
    data = [
        {
            "type": "scatter",
            "mode": "lines",
            "x": ends,
            "y": ends,
            "name": "equal",
            "hoverinfo": "skip",
            "line": {"color": "#8A8F98", "dash": "dash"},
        }
    ]
    for place, dtype in enumerate(sorted(set(dtypes))):
        at = np.array([row_dtype == dtype for row_dtype in dtypes])
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": f"passes in {dtype}",
                "x": (measured[at] / MILLI).tolist(),
                "y": (predicted[at] / MILLI).tolist(),
                "marker": {
                    "color": PALETTE[place],
                    "symbol": list(SYMBOLS.values())[place % 3],
                    "size": 9,
                },
                "hovertemplate": "measured %{x:.4g} ms<br>predicted %{y:.4g} ms<extra></extra>",
            }
        )
    return framed(
        data,
        {"type": "log", "title": {"text": "measured (ms)"}},
        {"type": "log", "title": {"text": "predicted (ms)"}},
    )


def _errors(predicted: np.ndarray, measured: np.ndarray) -> Figure:
    data = [
        {
            "type": "histogram",
            "x": (100 * (1.0 - predicted / measured)).tolist(),
            "nbinsx": 24,
            "marker": {"color": PALETTE[0]},
            "hovertemplate": "%{x} %: %{y} passes<extra></extra>",
        }
    ]
    return framed(
        data,
        {"title": {"text": "predicted time short of the measured (%)"}},
        {"title": {"text": "passes"}},
    )


def _speedups(speeds: list[Speed]) -> Figure:
    values = [row.speedup or 0.0 for row in speeds]
    spans = [row.speedup_interval or (v, v) for row, v in zip(speeds, values, strict=True)]
    data = [
        {
            "type": "bar",
            "x": [row.configuration for row in speeds],
            "y": values,
            "marker": {"color": PALETTE[0]},
            "error_y": {
                "type": "data",
                "symmetric": False,
                "array": [s[1] - v for s, v in zip(spans, values, strict=True)],
                "arrayminus": [v - s[0] for s, v in zip(spans, values, strict=True)],
            },
            "hovertemplate": "%{x}: %{y:.3f}×<extra></extra>",
        }
    ]
    return framed(data, {"title": {"text": "configuration"}}, {"title": {"text": "speedup (×)"}})


def _row(speed: Speed) -> dict[str, object]:
    span = speed.speedup_interval
    return {
        "configuration": speed.configuration,
        "prompts": speed.kind,
        "runs": speed.runs,
        "tokens per step": _rounded(speed.tokens_per_step),
        "tokens/s": _rounded(speed.tokens_per_s),
        "speedup (×)": _rounded(speed.speedup),
        "80 % interval (×)": "" if span is None else f"{digits(span[0])}–{digits(span[1])}",
        "output differs": speed.differing,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
