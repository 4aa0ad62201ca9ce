"""How long did decoding one request take, under which configuration, and how is that stored?

One row per run of a request, with its provenance, checked when made and again when read, in Parquet. Leaves out
making the runs (`decode_runs`) and what follows from them (`decode_summary`).

Columns: `job`, `configuration`, `drafter`, `prompt`, `kind`, `ended`, `output_sha256` (text); `draft_tokens`,
`round`, `order`, `prompt_tokens`, `tokens`, `steps`, `drafted_tokens` (int64); `wall_s`, `cpu_s`, `prefill_s`,
`draft_s`, `verify_s`, `rest_s` (float64). The footer's key `rooftree` holds a JSON header of kind "decode".
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hardware_profiles.errors import InputError
from traces.kinds.acceptance import SCHEMA_VERSION
from traces.kinds.naming import naming
from traces.storage.header import MAX_HEADER_BYTES, METADATA_KEY
from traces.storage.parquet_files import numbers, opened_parquet, texts, write_parquet

KIND = "decode"
PLAIN = "plain"
MAX_RUNS = 1_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodeRun:
    """One request decoded once.

    Attributes:
        job: campaign job that ran it.
        configuration: its name; "plain" is decoding without a drafter.
        drafter: what drafted; "" for plain.
        draft_tokens: most tokens drafted in a step, the root not counted; 0 for plain.
        prompt: id of the prompt.
        kind: its kind.
        round: 0, 1, ...
        order: place among the runs of its prompt and round.
        prompt_tokens: length of the prompt.
        tokens: output tokens, the end-of-sequence token included.
        steps: passes of the target after the prefill.
        drafted_tokens: tokens drafted in all steps.
        ended: "eos", "length" or "loop".
        output_sha256: digest of the output ids.
        wall_s: wall time of the whole request.
        cpu_s: process time of the whole request, over all threads.
        prefill_s: wall time until the first token was known.
        draft_s: wall time of drafting.
        verify_s: wall time of the target's passes after the prefill; all of it for plain.
        rest_s: wall time of all else after the prefill; not divided for plain decoding.

    Raises:
        InputError: a number out of range, or times that do not fit into the whole.
    """

    job: str = ""
    configuration: str
    drafter: str = ""
    draft_tokens: int = 0
    prompt: str
    kind: str
    round: int
    order: int = 0
    prompt_tokens: int
    tokens: int
    steps: int
    drafted_tokens: int = 0
    ended: str
    output_sha256: str
    wall_s: float
    cpu_s: float
    prefill_s: float
    draft_s: float = 0.0
    verify_s: float = 0.0
    rest_s: float = 0.0

    def __post_init__(self) -> None:
        for name in (*_INTEGERS, *_REALS):
            value = getattr(self, name)
            if not (math.isfinite(value) and 0 <= value < 1 << 40):
                raise InputError("must be finite and not negative", key=name, value=value)
        if self.tokens < 1 or self.steps > self.tokens - 1:
            raise InputError("every step emits a token, and the prefill the first", key="steps", value=self.steps)
        parts = self.prefill_s + self.draft_s + self.verify_s + self.rest_s
        if not 0 < self.prefill_s <= self.wall_s or parts > self.wall_s * 1.001 + 1e-3:
            raise InputError("must hold the times of its phases", key="wall_s", value=self.wall_s)

    @property
    def decode_s(self) -> float:
        """Wall time after the first token, seconds."""
        return self.wall_s - self.prefill_s


_TEXTS = ("job", "configuration", "drafter", "prompt", "kind", "ended", "output_sha256")
_REALS = ("wall_s", "cpu_s", "prefill_s", "draft_s", "verify_s", "rest_s")
_INTEGERS = tuple(f.name for f in fields(DecodeRun) if f.name not in (*_TEXTS, *_REALS))


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodeTable:
    """Runs and where they come from: `provenance` holds JSON values, by job where there are several."""

    runs: tuple[DecodeRun, ...]
    provenance: Mapping[str, Any] = field(default_factory=dict)


def write_decode(table: DecodeTable, path: str | Path) -> None:
    """Write runs; an existing file is replaced in one move.

    Raises:
        InputError: the place cannot be written, or provenance holds what JSON cannot.
    """
    header = {
        "schema": SCHEMA_VERSION, "kind": KIND, "rows": len(table.runs), "provenance": dict(table.provenance),
    }  # fmt: skip
    try:
        encoded = json.dumps(header, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"must hold JSON values only ({error})", key="provenance") from None
    types = {
        **dict.fromkeys(_TEXTS, pa.string()),
        **dict.fromkeys(_INTEGERS, pa.int64()),
        **dict.fromkeys(_REALS, pa.float64()),
    }
    columns = {name: pa.array([getattr(run, name) for run in table.runs], kind) for name, kind in types.items()}
    write_parquet(pa.table(columns).replace_schema_metadata({METADATA_KEY: encoded}), path)


def read_decode(path: str | Path) -> DecodeTable:
    """Read runs, trusting nothing.

    Raises:
        InputError: absent, truncated, foreign or damaged, of another kind or schema, or with values out of range.
    """
    file = str(path)
    with opened_parquet(path) as parquet:
        header = _header((parquet.schema_arrow.metadata or {}).get(METADATA_KEY), file)
        if parquet.metadata.num_rows > MAX_RUNS:
            raise InputError(f"must hold at most {MAX_RUNS} rows", file=file, value=parquet.metadata.num_rows)
        table = parquet.read()
        table.validate(full=True)
    columns: dict[str, Sequence[Any]] = {name: texts(table, name, file) for name in _TEXTS}
    for name in _INTEGERS:
        values = numbers(table, name, file)
        if values.dtype.kind not in "iu":
            raise InputError("must hold whole numbers", file=file, key=name)
        columns[name] = values.tolist()
    for name in _REALS:
        columns[name] = numbers(table, name, file).astype(np.float64).tolist()
    with naming(file):
        runs = tuple(
            DecodeRun(**dict(zip(columns, values, strict=True))) for values in zip(*columns.values(), strict=True)
        )
    if header.get("rows") != len(runs):
        raise InputError(f"the header contradicts the {len(runs)} rows", file=file, key="rows", value=header["rows"])
    return DecodeTable(runs=runs, provenance=header["provenance"])


def _header(raw: bytes | None, file: str) -> dict[str, Any]:
    if raw is None or len(raw) > MAX_HEADER_BYTES:
        raise InputError("is Parquet but holds no runs (no rooftree header, or one too large)", file=file)
    try:
        header = json.loads(raw)
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict) or header.get("kind") != KIND or header.get("schema") != SCHEMA_VERSION:
        raise InputError(f"must be of kind {KIND} and schema {SCHEMA_VERSION}", file=file, key="kind")
    if not isinstance(header.get("provenance"), dict) or type(header.get("rows")) is not int:
        raise InputError("must state its rows and provenance", file=file, key="provenance")
    return header
