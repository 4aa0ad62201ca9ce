"""Write which measured runs answers call nearest, of the results that VALIDATION.md shows.

rooftree score TABLE.parquet... --leave-out family --out SCORE
python -m tests.validation_page.nearest SCORE/score.json
"""

import csv
import json
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from app.answers.scoring.names import device_name
from app.answers.scoring.nearest import FILE
from costmodel.architectures.library import named_model
from costmodel.engine_library import load_engine
from hardware_profiles.errors import InputError
from tests.validation_page.page import own_runs
from tests.validation_page.summaries import ALL_TARGETS, read

CHAINS = {  # places of chosen shapes whose chains of EAGLE-3 are quoted, and their source
    "SGLang on H200": ("sglang", "h200-sxm", "SpecBundle"),
    "vLLM 0.9 on H100": ("vllm", "h100-sxm", "vLLM 0.9 issue 20780"),
}
DRAFTED = {"EAGLE-3": "eagle-3", "n-gram": "n-gram"}
OWN = {("cpu-amd-epyc--1-thread", "validation"): "none"}
OWN |= {("cpu-intel-xeon--1-thread", "llama.cpp"): "llama.cpp"}
Row = Mapping[str, Any]


def serving(score: Row) -> list[Row]:
    """Errors of both times by every combination of engine, device and model.

    Args:
        score: what `rooftree score --leave-out family` wrote.
    """
    groups = defaultdict(list)
    for row in score["measurements"]:
        names = (load_engine(row["engine"]).name, device_name(row["device"]), _model(row))
        for kept in product((False, True), repeat=len(names)):
            group = tuple(name if keep else "" for name, keep in zip(names, kept, strict=True))
            groups[group].append(row)
    return [
        _summary(group, rows, quantity)
        for quantity in ("tpot", "ttft")
        for group, rows in sorted(groups.items())
        if _errors(rows, quantity)
    ]


def _summary(group: Sequence[str], rows: Sequence[Row], quantity: str) -> Row:
    engine, device, model = group
    errors = _errors(rows, quantity)
    return {
        "engine": engine,
        "device": device,
        "model": model,
        "method": "",
        "quantity": quantity,
        "measurements": len(rows),
        "runs": len(errors),
        "median_error_ratio": float(np.median(np.abs(errors))),
        "p90_error_ratio": float(np.quantile(np.abs(errors), 0.9)),
        "bias_ratio": float(np.median(errors)),
        "source": " and ".join(sorted({_publisher(row) for row in rows})),
    }


def _errors(rows: Sequence[Row], quantity: str) -> list[float]:
    return [
        row[f"{quantity}_ms"] / row[f"measured_{quantity}_ms"] - 1
        for row in rows
        if row["reason"] is None and row[f"{quantity}_ms"] and row[f"measured_{quantity}_ms"]
    ]


def _model(row: Row) -> str:
    try:
        return named_model(row["model"]).name
    except InputError:
        return str(row["model"])


def _publisher(row: Row) -> str:
    return "InferenceX" if row["launch"].startswith("inferencex") else "aiconfigurator"


def drafted() -> list[Row]:
    """Errors of speedups by method and model."""
    vllm = [
        _row("vllm", "h100-sxm", "llama-3.1-8b", DRAFTED[row["method"]], row, "arXiv:2601.11580")
        for row in read("vllm_speedups")
        if row["method"] in DRAFTED
    ]
    shapes = [
        _row(engine, device, _target(row["value"]), "eagle-3", row, source)
        for row in read("chosen_shapes")
        for engine, device, source in [CHAINS[row["place"]]]
        if row["part"] == "speedup"
        and row["value"].endswith(": chains")
        and "EAGLE-1" not in row["value"]
        and ALL_TARGETS not in row["value"]
    ]
    return vllm + shapes


def _target(value: str) -> str:
    return _model({"model": value.partition(":")[0].removesuffix(", EAGLE-3")})


def own() -> list[Row]:
    """Errors of decoding on machines of ours."""
    return [
        _row(
            OWN[run["place"], run["what"]],
            run["place"],
            "smollm2-135m",
            "",
            run,
            "our own runs",
            quantity="tokens_per_s",
            runs=run["configurations"],
        )
        for run in own_runs()
        if (run["place"], run["what"]) in OWN
    ]


def _row(
    engine: str,
    device: str,
    model: str,
    method: str,
    row: Row,
    source: str,
    *,
    quantity: str = "speedup",
    runs: int = 0,
) -> Row:
    return {
        "engine": engine,
        "device": device,
        "model": model,
        "method": method,
        "quantity": quantity,
        "measurements": runs or row["rows"],
        "runs": runs or row["rows"],
        "median_error_ratio": row["median_error_ratio"],
        "p90_error_ratio": row.get("p90_error_ratio"),
        "bias_ratio": row["bias_ratio"],
        "source": source,
    }


def write(rows: Sequence[Row]) -> None:
    """Write the table."""
    with FILE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(
            {name: f"{v:.4f}" if isinstance(v, float) else v for name, v in row.items()}
            for row in rows
        )


def main() -> None:
    """Write the table of the score that is named."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("score", type=Path, help="score.json that left out families")
    score = json.loads(parser.parse_args().score.read_text(encoding="utf-8"))
    write([*serving(score), *drafted(), *own()])


if __name__ == "__main__":
    main()
