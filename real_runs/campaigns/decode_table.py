"""How long did decoding one request take, under which configuration, and how is that stored?

One row per run of a request, with its provenance, checked when made and again when read, in
Parquet. Leaves out making the runs (`decode_runs`) and what follows from them (`decode_summary`).

Columns: `job`, `configuration`, `drafter`, `prompt`, `kind`, `ended`, `output_sha256` (text);
`draft_tokens`, `round`, `order`, `prompt_tokens`, `tokens`, `steps`, `drafted_tokens` (int64);
`wall_s`, `cpu_s`, `prefill_s`, `draft_s`, `verify_s`, `rest_s` (float64). The footer's key
`rooftree` holds a JSON header of kind "decode".
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hardware_profiles.errors import InputError
from traces.storage.parquet_files import write_parquet
from traces.storage.row_table import columns_of, read_rows, row_table

KIND = "decode"


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
        for name in _NUMBERS:
            value = getattr(self, name)
            if not (math.isfinite(value) and 0 <= value < 1 << 40):
                raise InputError("must be finite and not negative", key=name, value=value)
        if self.tokens < 1 or self.steps > self.tokens - 1:
            raise InputError(
                "every step emits a token, and the prefill the first", key="steps", value=self.steps
            )
        parts = self.prefill_s + self.draft_s + self.verify_s + self.rest_s
        if not 0 < self.prefill_s <= self.wall_s or parts > self.wall_s * 1.001 + 1e-3:
            raise InputError("must hold the times of its phases", key="wall_s", value=self.wall_s)

    @property
    def decode_s(self) -> float:
        """Wall time after the first token, seconds."""
        return self.wall_s - self.prefill_s


_NUMBERS = columns_of(DecodeRun, "int", "float")


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodeTable:
    """Runs and where they come from.

    Attributes:
        runs: of one job or several.
        provenance: JSON values, by job where there are several.
    """

    runs: tuple[DecodeRun, ...]
    provenance: Mapping[str, Any] = field(default_factory=dict)


def write_decode(table: DecodeTable, path: str | Path) -> None:
    """Write runs; an existing file is replaced in one move.

    Raises:
        InputError: the place cannot be written, or provenance holds what JSON cannot.
    """
    write_parquet(
        row_table(table.runs, DecodeRun, kind=KIND, provenance=dict(table.provenance)), path
    )


def read_decode(path: str | Path) -> DecodeTable:
    """Read runs, trusting nothing.

    Raises:
        InputError: absent, truncated, foreign or damaged, of another kind or schema, or with values
            out of range.
    """
    runs, header = read_rows(path, DecodeRun, kind=KIND)
    about = header.get("provenance")
    if not isinstance(about, dict):
        raise InputError("must be an object", file=path, key="provenance", value=about)
    return DecodeTable(runs=runs, provenance=about)
