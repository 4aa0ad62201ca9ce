"""What do the public configurators say of the rows of a table of serving runs?

Runs in an environment of their own (README.md beside it), where rooftree is not installed, and
reads configurations alone: columns of measured times are dropped before a row is asked. Writes the
tool's own numbers by id of the row.
"""

import argparse
import contextlib
import importlib
import importlib.util
import io
import logging
import math
import sys
import warnings
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas

# where each tool answers a configuration, and where it knows its kernel tables
TOOLS = {
    "aiconfigurator": ("aiconfigurator.cli.api", "aiconfigurator_core.sdk.perf_database"),
    "aisimulate": ("aisimulate.legacy_cli.api", "aisimulate_core.sdk.perf_database"),
}
SIDES = ("tp_size", "pp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")
HOPPER_MXFP4, BLACKWELL_MXFP4 = "w4a16_mxfp4", "w4a8_mxfp4_mxfp8"
# ids whose configuration the tools ship under another name; the shapes are the same
SHIPPED = {
    "meta-llama/Llama-3.1-8B-Instruct": "meta-llama/Meta-Llama-3.1-8B",
    "meta-llama/Llama-3.1-70B": "meta-llama/Meta-Llama-3.1-70B",
}
Row = Mapping[str, Any]
Times = tuple[float, float, str]


def main() -> None:
    """Ask for every row of the tables and write one file."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("tables", nargs="+", type=Path, help="Parquet files of serving runs")
    words.add_argument("--out", type=Path, required=True)
    words.add_argument(
        "--served", action="store_true", help="8-bit caches and gpt-oss's kernels, set by hand"
    )
    words.add_argument(
        "--database", default="SILICON", help="SILICON, or HYBRID where kernels may be estimated"
    )
    given = words.parse_args()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    tool = next(name for name in TOOLS if importlib.util.find_spec(name))
    peer = Peer(tool, given.database)
    refused: Counter[str] = Counter()
    answers = []
    for row in (row for table in given.tables for row in rows_of(table)):
        ttft_ms, tpot_ms, reason = peer.times(row, served=given.served)
        refused[reason] += 1
        if not reason:
            answers.append({"id": row["id"], "ttft_ms": ttft_ms, "tpot_ms": tpot_ms})
    frame = pandas.DataFrame(answers).round({"ttft_ms": 2, "tpot_ms": 3})
    frame.astype({"ttft_ms": "float32", "tpot_ms": "float32"}).to_parquet(
        given.out, compression="zstd", index=False
    )
    for reason, rows in refused.most_common():
        sys.stdout.write(f"{rows} rows: {reason or 'answered'}\n")


def rows_of(table: Path) -> list[dict[str, Any]]:
    """Configurations of a table, absent values left out, and without what was measured."""
    frame = pandas.read_parquet(table)
    frame = frame.drop(
        columns=[
            name for name in frame.columns if name.endswith(("ttft_ms", "tpot_ms", "measurement"))
        ]
    )
    return [
        {k: v for k, v in row.items() if not pandas.isna(v)} for row in frame.to_dict("records")
    ]


class Peer:
    """A tool, asked once for every question."""

    def __init__(self, tool: str, database: str) -> None:
        module, tables = TOOLS[tool]
        self._estimate = importlib.import_module(module).cli_estimate
        self._latest = lru_cache(importlib.import_module(tables).get_latest_database_version)
        self._database = database
        self._known: dict[str, Times] = {}

    def times(self, row: Row, *, served: bool) -> Times:
        """TTFT and TPOT in milliseconds, and the reason where there are none."""
        try:
            words = question(row, served=served)
            key = repr(sorted(words.items()))
            if key not in self._known:
                self._known[key] = self._asked(words)
            return self._known[key]
        except ValueError as error:
            return math.nan, math.nan, str(error)

    def _asked(self, words: dict[str, Any]) -> Times:
        """The answer with the latest kernel tables of the engine on the system, which is the tool's
        own default."""
        try:
            with (
                contextlib.redirect_stdout(io.StringIO()),
                contextlib.redirect_stderr(io.StringIO()),
            ):
                tables = self._latest(words["system_name"], words["backend_name"])
                answer = self._estimate(
                    **words, backend_version=tables, database_mode=self._database
                )
        except Exception as error:  # whatever a foreign tool raises is its reason
            return math.nan, math.nan, " ".join(f"{type(error).__name__}: {error}".split())[:80]
        return answer.ttft, answer.tpot, ""


def question(row: Row, *, served: bool) -> dict[str, Any]:
    """A row in the tool's words; sizes of a batch are the users of one rank."""
    disaggregated = row.get("mode") == "disagg"
    found: dict[str, Any] = {
        "model_path": SHIPPED.get(row["model_path"], row["model_path"]),
        "system_name": row["system"],
        "backend_name": row["backend"],
        "isl": int(row["isl"]),
        "osl": int(row["osl"]),
        "mode": "disagg" if disaggregated else "agg",
    }
    found |= {key: mode for key in ("gemm_quant_mode", "moe_quant_mode") if (mode := row.get(key))}
    users = int(row.get("concurrency") or row.get("batch_size") or 0)
    if not disaggregated:
        return found | sizes(row, "") | batch(row, "", users) | (by_hand(row) if served else {})
    for side in ("prefill_", "decode_"):
        if not row.get(f"{side}num_workers"):
            raise ValueError(f"the row does not say {side}num_workers")
        found |= (
            sizes(row, side)
            | batch(row, side, users)
            | {f"{side}num_workers": int(row[f"{side}num_workers"])}
        )
    return found | (by_hand(row) if served else {})


def sizes(row: Row, side: str) -> dict[str, int]:
    """Parallel widths of a worker; labels that hold TP x EP or EP beside TP are read as the width
    that fits."""
    found = {name: int(row[f"{side}{name}"]) for name in SIDES if row.get(f"{side}{name}")}
    if not side and row.get("tp_repaired"):
        found["tp_size"] = int(row["tp_repaired"])
    width = found.get("tp_size", 1) * found.get("attention_dp_size", 1)
    experts = found.get("moe_ep_size", 1)
    if "moe_tp_size" in found and found["moe_tp_size"] * experts != width and width % experts == 0:
        found["moe_tp_size"] = width // experts
    return {f"{side}{name}": value for name, value in found.items()}


def batch(row: Row, side: str, users: int) -> dict[str, int]:
    """Requests of one rank: as stated of a side, else one prompt, and the users over workers and
    ranks."""
    stated = row.get(f"{side}batch_size") if side else None
    ranks = int(row.get(f"{side}attention_dp_size") or 1) * int(row.get(f"{side}num_workers") or 1)
    size = int(stated or (1 if side == "prefill_" else max(1, -(-users // ranks))))
    return {f"{side}batch_size": size}


def by_hand(row: Row) -> dict[str, str]:
    """What launch scripts say and labels do not: 8-bit caches of 8- and 4-bit models, gpt-oss in
    its own format."""
    if "gpt-oss" in row["model_path"]:
        blackwell = row["system"].startswith(("b", "gb"))
        return {
            "gemm_quant_mode": "bfloat16",
            "kvcache_quant_mode": "fp8" if blackwell else "bfloat16",
            "moe_quant_mode": BLACKWELL_MXFP4 if blackwell else HOPPER_MXFP4,
        }
    return {"kvcache_quant_mode": "fp8"} if row.get("precision") in ("fp8", "fp4") else {}


if __name__ == "__main__":
    main()
