"""What may stand in a row of a table of serving runs?

The columns that published tables of measured runs carry, as text, whole numbers or nothing. Leaves
out reading files (the app) and what a row asks for (`simulator.closed_loop.table_rows`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from hardware_profiles.errors import InputError
from simulator.closed_loop.users import MOST_TOKENS

REQUIRED = ("backend", "model_path", "system", "isl", "osl")
WIDTHS = ("tp_size", "pp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")
SIDES = ("prefill", "decode")
_OF_A_SIDE = ("num_workers", "batch_size", *WIDTHS)
COUNTS = (
    "isl",
    "osl",
    "concurrency",
    "batch_size",
    "max_num_batched_tokens",
    "max_num_seqs",
    *WIDTHS,
    *(f"{side}_{name}" for side in SIDES for name in _OF_A_SIDE),
)
TEXTS = (
    "id",
    "backend",
    "model_path",
    "system",
    "precision",
    "gemm_quant_mode",
    "moe_quant_mode",
    "mode",
    "backend_version",
    "image",
    "measured",
    "kv_cache_dtype",
    "speculation",
    "launch",
)
# InferenceX's own records -> ours; where a record has ours, that counts
_RAW = {
    "backend": "engine",
    "model_path": "model",
    "system": "hardware",
    "measured": "date",
    "tp_size": "tp",
    "moe_ep_size": "ep",
    "prefill_num_workers": "prefill_workers",
    "decode_num_workers": "decode_workers",
}
# of theirs that need more than another name
_RAW_WIDTHS = (
    "disagg",
    "dp_attention",
    *(f"{side}_{name}" for side in SIDES for name in ("gpus_per_worker", "dp_attention")),
)
# options of the command line -> ours; where a record has ours, that counts
_OPTIONS = {
    "backend": "engine",
    "model_path": "model",
    "system": "device",
    "isl": "prompt_tokens",
    "osl": "output_tokens",
    "tp_size": "tp",
    "concurrency": "users",
    "batch_size": "batch",
}
RAW = tuple(dict.fromkeys((*_RAW.values(), *_RAW_WIDTHS, *_OPTIONS.values())))
MOST_COUNT = 1 << 20
_TEXT_LIMIT = 300


def usual_columns(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record of InferenceX's, or one by the names of options, by our columns; any other one as it
    is.

    Its workers state their devices (`gpus_per_worker`) and whether attention is copied on them. The
    widths beside, tp and ep, were wrong for a time and are not read.

    >>> row = usual_columns({"engine": "vllm", "hardware": "h100", "tp": 8, "dp_attention": True})
    >>> row["backend"], row["system"], row["tp_size"], row["attention_dp_size"]
    ('vllm', 'h100', 1, 8)
    """
    if _absent(record.get("hardware")) or not _absent(record.get("system")):
        stated = {
            ours: record[option]
            for ours, option in _OPTIONS.items()
            if _absent(record.get(ours)) and not _absent(record.get(option))
        }
        return {**record, **stated} if _absent(record.get("hardware")) else dict(record)
    row = {**record, **{ours: record.get(theirs) for ours, theirs in _RAW.items()}}
    row["mode"] = "disagg" if _is_set(record.get("disagg")) else "agg"
    widths = {
        "": record.get("tp"),
        **{f"{side}_": record.get(f"{side}_gpus_per_worker") for side in SIDES},
    }
    for side, devices in widths.items():
        if _absent(devices):
            continue
        copied = _is_set(record.get(f"{side}dp_attention"))
        row[f"{side}tp_size"] = 1 if copied else devices
        row[f"{side}attention_dp_size"] = devices if copied else 1
        row[f"{side}moe_tp_size"] = 1
        row[f"{side}moe_ep_size"] = devices if copied or record.get("ep") == devices else 1
    return row


def read_columns(record: Mapping[str, Any], *, file: str, row: int) -> dict[str, Any]:
    """Known columns of a row as text, whole numbers or None.

    Args:
        record: values by our columns or InferenceX's.
        file: where the row comes from, for messages.
        row: its number, which is its id where it has none.

    Raises:
        InputError: a value that no table can mean; names file, column and row.
    """
    record = usual_columns(record)
    values: dict[str, Any] = {name: _text(record.get(name), name, file, row) for name in TEXTS}
    values |= {name: _count(record.get(name), name, file, row) for name in COUNTS}
    values["id"] = values["id"] or str(row)
    return values


def _absent(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value)) or value == ""


def _is_set(flag: Any) -> bool:
    """Whether a flag is set, which a table of text writes as a word."""
    return not _absent(flag) and str(flag).strip().casefold() not in ("false", "0", "none", "nan")


def _text(value: Any, column: str, file: str, row: int) -> str | None:
    if _absent(value):
        return None
    if isinstance(value, bytes | list | dict | tuple):
        raise InputError(
            "must be text", file=file, key=f"row {row}, column {column}", value=type(value).__name__
        )
    return str(value)[:_TEXT_LIMIT]


def _count(value: Any, column: str, file: str, row: int) -> int | None:
    if _absent(value) or (
        isinstance(value, str) and value.strip().casefold() in ("", "nan", "none", "null")
    ):
        return None
    most = MOST_TOKENS if column in ("isl", "osl") else MOST_COUNT
    least = 1 if column in ("isl", "osl") else 0
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if isinstance(value, bool) or not (least <= number <= most) or number != int(number):
        shown = str(value)[:40]
        raise InputError(
            f"must be a whole number in {least}..{most}",
            file=file,
            key=f"row {row}, column {column}",
            value=shown,
        )
    return int(number)
