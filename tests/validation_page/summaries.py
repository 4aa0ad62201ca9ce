"""Summarise what a command measured, as the small table that VALIDATION.md is written from.

    rooftree score TABLE.parquet... --leave-out family --out SCORE
    python -m tests.validation_page.summaries unseen-serving SCORE/score.json
    python -m tests.validation_page.summaries peers SCORE/score.json
    rooftree score TABLE.parquet... --leave-out family --seed 1 --out OTHER
    python -m tests.validation_page.summaries unseen-serving-other-halves OTHER/score.json
    rooftree reproduce --rows TABLE.csv --json > published.json
    python -m tests.validation_page.summaries published-numbers published.json
    rooftree traces losses --json > losses.json
    python -m tests.validation_page.summaries trace-losses losses.json
    python -m tests.validation_page.summaries chosen-shapes REFERENCE_DATA
    python -m tests.validation_page.summaries vllm-speedups REFERENCE_DATA
    python -m tests.validation_page.summaries kernels REFERENCE_DATA

Each writes `results/NAME.csv`. The runs themselves are their publishers'; errors of groups of them
are ours. Results of our own runs are read where they are committed (`real_runs/results`).
"""

import csv
import json
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np

from app.answers.scoring.measured import ComparedTime
from app.answers.scoring.summaries import errors
from tests.costmodel.calibration.reference_scores import reference_scores
from tests.golden import chosen_shapes
from tests.golden.measured_speedups import METHODS, measured_speedups
from tests.golden.peers import beside

RESULTS = Path(__file__).parent / "results"
SERVING_SLICES = ("all", "engine", "model", "device", "serving", "layout")
OPERATIONS = (  # each the sum of its parts, such as reductions by library
    "gemm",
    "attention_generation",
    "attention_context",
    "attention_verify",
    "mla_generation",
    "moe",
    "allreduce",
)
ALL_TARGETS = "all targets"
LEAST_MEASUREMENTS = 5  # of a slice; fewer say nothing of the next one
Row = Mapping[str, Any]


def unseen_serving(score: Row) -> list[Row]:
    """Errors by slice of a score that left out the families asked about.

    Args:
        score: what `rooftree score --leave-out family` wrote.
    """
    rows = []
    for part in score["slices"]:
        if part["slice"] in SERVING_SLICES and part["measurements"] >= LEAST_MEASUREMENTS:
            row = {name: part[name] for name in ("slice", "value", "measurements", "answered")}
            for quantity in ("tpot", "ttft"):
                errors = part[quantity] or {}
                for name in ("median_error", "p90_error", "bias", "coverage"):
                    row[f"{quantity}_{name}_ratio"] = errors.get(f"{name}_ratio")
            rows.append(row)
    return rows


def peers(score: Row) -> list[Row]:
    """Our errors and those of other public tools, on the measurements that all of them answer.

    Args:
        score: what `rooftree score --leave-out family` wrote.
    """
    tools, measured = beside.tools_of(score, sorted(Path(beside.__file__).parent.glob("*.parquet")))
    common = sorted(set.intersection(*map(set, tools.values())))
    rows = []
    for tool, answers in tools.items():
        row: dict[str, Any] = {"tool": tool, "measurements": len(common)}
        for quantity in beside.QUANTITIES:
            times = [
                ComparedTime(
                    measured_ms=measured[i][f"measured_{quantity}_ms"],
                    predicted_ms=answers[i][quantity],
                )
                for i in common
            ]
            found = errors(times)
            assert found is not None
            for name in ("median_error", "p90_error", "bias"):
                row[f"{quantity}_{name}_ratio"] = getattr(found, f"{name}_ratio")
        rows.append(row)
    return rows


def published_numbers(answer: Row) -> list[Row]:
    """Errors of predicted numbers by kind, and the systems that are more than 30 % off, with the
    cause.

    Args:
        answer: of `rooftree reproduce`, rows whose inputs are all stated (`full`).
    """
    stated = answer["groups"]["full"]
    kinds = {"a time or rate that was measured": "absolute", "a measured ratio": "ratio"}
    rows = [_published("kind", words, stated[kind], "") for words, kind in kinds.items()]
    measured = [r for r in answer["rows"] if r["group"] == "full" and r["kind"] in kinds.values()]
    off = np.array([r["error_ratio"] for r in measured if r["predicted"] is not None])
    both = {
        "rows": len(measured),
        "predicted": len(off),
        "bias_ratio": float(np.median(off)),
        "median_error_ratio": float(np.median(abs(off))),
        "p90_error_ratio": float(np.quantile(abs(off), 0.9)),
    }
    rows.append(_published("kind", "both", both, ""))
    rows.append(_published("kind", "a number that its source computed", stated["computed"], ""))
    rows += [
        _published("over 30 %", f"{row['system']} ({row['source']})", row, row["cause"])
        for row in answer["systems"]
        if row["group"] == "full" and row["over_30_percent"]
    ]
    spreads = [row["spread_ratio"] for row in answer["noise_floor"]]
    return [
        *rows,
        {
            "part": "noise floor",
            "value": "two sources or more of one number",
            "rows": len(spreads),
            "predicted": len(spreads),
            "median_error_ratio": median(spreads),
        },
    ]


def _published(part: str, value: str, errors: Row, cause: str) -> Row:
    names = ("rows", "predicted", "bias_ratio", "median_error_ratio", "p90_error_ratio")
    return {"part": part, "value": value, **{name: errors[name] for name in names}, "cause": cause}


def trace_losses(answer: Row) -> list[Row]:
    """What a choice from rates, or from a mean, loses against the choice from the recording.

    Args:
        answer: of `rooftree traces losses`.
    """
    groups = defaultdict(list)
    for row in answer["losses"]:
        name = row["trace"] if row["trace"].startswith("gpu/") else "recordings on CPUs"
        groups[name, row["recorded_on"], row["device"]].append(row)
    return [
        {
            "trace": name,
            "recorded_on": place,
            "device": device,
            "cells": len(rows),
            **{
                f"by_{what}_{way.__name__}_ratio": way(lost) if lost else None
                for what in ("rates", "mean")
                for lost in [
                    [r[f"{what}_lost_ratio"] for r in rows if r[f"{what}_lost_ratio"] is not None]
                ]
                for way in (mean, max)
            },
        }
        for (name, place, device), rows in groups.items()
    ]


def chosen(folder: Path) -> list[Row]:
    """What choices lose against the best measured shape, and errors of speedups.

    Args:
        folder: the reference data.
    """
    rows: list[Row] = []
    table = folder / "acceptance" / "speculative_measured.csv"
    runs = {
        "SGLang on H200": chosen_shapes.spec_bundle(table),
        "vLLM 0.9 on H100": chosen_shapes.vllm_chains(table),
    }
    for place, groups in runs.items():
        for way, lost in chosen_shapes.losses(groups).items():
            what = {"place": place, "part": "lost", "value": way, "rows": len(lost)}
            rows.append({**what, "mean_ratio": mean(lost), "most_ratio": max(lost)})
        by_target = chosen_shapes.errors(groups)
        pooled = {
            (ALL_TARGETS, kind): [x for (_, k), off in by_target.items() if k == kind for x in off]
            for kind in dict.fromkeys(kind for _, kind in by_target)
        }
        for (target, kind), off in (pooled | by_target).items():
            what = {"place": place, "part": "speedup", "value": f"{target}: {kind}"}
            absolute = np.abs(off)
            rows.append(
                {
                    **what,
                    "rows": len(off),
                    "median_error_ratio": float(np.median(absolute)),
                    "bias_ratio": float(np.median(off)),
                }
            )
    return rows


def vllm_speedups(folder: Path) -> list[Row]:
    """Speedups of drafts in vLLM on an H100: all, and by method.

    Args:
        folder: the reference data.
    """
    runs = measured_speedups(folder)
    rows = []
    for method in ("", *METHODS):
        own = [run for run in runs if method in ("", run.method)]
        off = np.array([run.predicted / run.measured - 1 for run in own])
        rows.append(
            {
                "method": method or "both",
                "rows": len(own),
                "median_error_ratio": float(np.median(abs(off))),
                "most_error_ratio": float(max(abs(off))),
                "bias_ratio": float(np.median(off)),
                "coverage_ratio": sum(r.low <= r.measured <= r.high for r in own) / len(own),
            }
        )
    return rows


def kernels(folder: Path) -> list[Row]:
    """Errors of kernels on rows of public tables that no constant was fitted to.

    Args:
        folder: the reference data.
    """
    return [
        {
            "device": device,
            "operation": operation.replace("_", " "),
            "rows": score.rows_scored,
            "median_error_ratio": float(score.median),
            "p90_error_ratio": float(score.p90),
            "coverage_ratio": float(score.coverage),
        }
        for (device, operation), score in reference_scores(folder).items()
        if operation.partition(" ")[0] in OPERATIONS
    ]


def write(name: str, rows: Sequence[Row]) -> None:
    """Write `results/NAME.csv`; numbers to four digits, empty where nothing is known."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    with (RESULTS / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows({c: _short(row.get(c)) for c in columns} for row in rows)


def read(name: str) -> list[dict[str, Any]]:
    """The rows of `results/NAME.csv`, numbers as numbers and empty cells as None."""
    with (RESULTS / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return [{key: _value(text) for key, text in row.items()} for row in csv.DictReader(file)]


def _short(value: object) -> object:
    return f"{value:.4f}" if isinstance(value, float) else value


def _value(text: str) -> object:
    if not text:
        return None
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return text


def main() -> None:
    """Write the table named first, of the file or folder named second."""
    of_reference_data = {
        "chosen-shapes": chosen,
        "vllm-speedups": vllm_speedups,
        "kernels": kernels,
    }
    of_answers = {
        "unseen-serving": unseen_serving,
        "unseen-serving-other-halves": unseen_serving,
        "peers": peers,
        "published-numbers": published_numbers,
        "trace-losses": trace_losses,
    }
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=[*of_answers, *of_reference_data])
    parser.add_argument("source", type=Path, help="JSON of an answer, or folder of reference data")
    asked = parser.parse_args()
    if asked.name in of_reference_data:
        rows = of_reference_data[asked.name](asked.source)
    else:
        rows = of_answers[asked.name](json.loads(asked.source.read_text(encoding="utf-8")))
    write(asked.name.replace("-", "_"), rows)


if __name__ == "__main__":
    main()
