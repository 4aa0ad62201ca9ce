"""What stands in a table of published numbers?

CSV files of two kinds: decoding by drafting, serving and compressed models (`target`,
`tree_or_gamma`, `value`), and refining of masked blocks (`model`, `steps`, `tps`). Both become rows
of one type, in words as published. Leaves out what the words mean (`shapes`, `stated`, `names`).
"""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from hardware_profiles.errors import InputError, UnknownNameError
from real_runs.published_numbers.reading.amounts import is_range, number, token_count
from real_runs.published_numbers.reading.sources import (
    SERVICES,
    RowFacts,
    SourceFacts,
    facts_of,
    row_facts_of,
)
from traces.importers.files import read_text

Group = Literal["full", "partial", "headline"]
GROUPS: tuple[Group, ...] = ("full", "partial", "headline")
MOST_ROWS = 100_000
MOST_CHARACTERS = 1 << 16  # of a cell
_SHARED = (
    "system",
    "source",
    "hardware",
    "precision",
    "batch",
    "prompt_len",
    "dataset",
    "speedup",
    "notes",
    "completeness",
)
_DRAFTING = (
    "target",
    "draft",
    "n_gpus",
    "output_len",
    "temperature",
    "tree_or_gamma",
    "alpha_or_tau",
    "draft_cost",
    "baseline_value",
    "baseline_unit",
    "value",
    "unit",
)
_REFINING = (
    "model",
    "gen_len",
    "block_len",
    "steps_baseline",
    "steps",
    "tps_baseline",
    "tps",
    "accuracy_baseline",
    "accuracy",
)
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "drafting": (*_SHARED, *_DRAFTING),
    "refining": (*_SHARED, *_REFINING),
}
OPTIONAL = ("engine", "service")
_GROUPS: Mapping[str, Group] = {
    "full": "full",
    "high": "full",
    "partial": "partial",
    "medium": "partial",
    "abstract": "headline",
    "low": "headline",
    "headline": "headline",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedRow:
    """One published number with its inputs, in the words of its source; what is not stated is
    empty.

    Attributes:
        line: of the file, from 2; 0 for a row that no file holds.
        kind: of the table.
        system: what was measured.
        source: where it stands.
        group: how much of what a prediction needs is stated.
        target: the model.
        draft: drafter.
        hardware: devices.
        devices: number of them.
        precision: number formats.
        batch: requests.
        prompt: prompt or context.
        output: generated tokens.
        temperature: of sampling.
        data: prompts.
        shape: draft length, tree or block.
        acceptance: acceptance rate, tokens per step, or steps of a refining row.
        draft_cost: what drafting takes.
        plain_steps: steps of a refining row's baseline.
        baseline: what `value` is compared with; None: not stated.
        baseline_unit: of `baseline`.
        value: the number; None: not stated, or a ratio alone.
        unit: of `value`.
        speedup: ratio to the baseline; None: not stated.
        notes: what else is known, for a reader; nothing is read from it.
        engine: that the row states in a column of its own.
        facts: what is known of its source.
        own_facts: what its source says of this row beside its columns.
        problem: why the row cannot be read; empty where it can.
    """

    line: int
    kind: str
    system: str
    source: str
    group: Group
    target: str = ""
    draft: str = ""
    hardware: str = ""
    devices: str = ""
    precision: str = ""
    batch: str = ""
    prompt: str = ""
    output: str = ""
    temperature: str = ""
    data: str = ""
    shape: str = ""
    acceptance: str = ""
    draft_cost: str = ""
    plain_steps: str = ""
    baseline: float | None = None
    baseline_unit: str = ""
    value: float | None = None
    unit: str = ""
    speedup: float | None = None
    notes: str = ""
    engine: str = ""
    facts: SourceFacts = field(default_factory=SourceFacts)
    own_facts: RowFacts = field(default_factory=RowFacts)
    problem: str = ""

    @property
    def published(self) -> float | None:
        """The number that the row is there for: its value, else its speedup, else its baseline."""
        values = (self.value, self.speedup, self.baseline)
        return next((value for value in values if value is not None), None)

    @property
    def quantity(self) -> str:
        """What `published` is."""
        if self.value is not None:
            return self.unit or "value"
        return (
            "speedup"
            if self.speedup is not None or self.baseline is None
            else f"baseline, {self.baseline_unit}"
        )


def read_rows(path: Path) -> list[PublishedRow]:
    """The rows of a file of either kind, in order; rows that cannot be read say why and end
    nothing.

    Raises:
        InputError: no regular file, more than 100,000 rows, or columns that are unknown or missing.
    """
    stream = csv.reader(io.StringIO(read_text(path), newline=""))
    header = [name.strip() for name in next(_lines(stream), (0, []))[1]]
    kind = _kind(header, path)
    rows: list[PublishedRow] = []
    for line, cells in _lines(stream):
        if len(rows) >= MOST_ROWS:
            raise InputError(f"may have {MOST_ROWS} rows", file=path)
        if cells:
            rows.append(_row(line, kind, header, cells))
    return rows


def _lines(stream: Any) -> Iterator[tuple[int, list[str]]]:
    """Cells by line number; a line that is no CSV has one cell too few to be a row."""
    while True:
        try:
            cells = next(stream)
        except StopIteration:
            return
        except csv.Error:
            cells = ["(not CSV)"]
        yield stream.line_num, cells


def _kind(header: Sequence[str], path: Path) -> str:
    kind = "refining" if "tps" in header or "model" in header else "drafting"
    columns = COLUMNS[kind]
    for name in header:
        if name not in (*columns, *OPTIONAL):
            raise UnknownNameError("column", name[:80], (*columns, *OPTIONAL), file=path)
        if header.count(name) > 1:
            raise InputError("the header names the column more than once", file=path, key=name)
    for name in columns:
        if name not in header:
            raise InputError(
                f"lacks the column; needed are {', '.join(columns)}", file=path, key=name
            )
    return kind


def _row(line: int, kind: str, header: Sequence[str], cells: Sequence[str]) -> PublishedRow:
    cell_by_column = {
        name: cell.strip()[:MOST_CHARACTERS] for name, cell in zip(header, cells, strict=False)
    }
    of = cell_by_column.get
    own = row_facts_of(of("source", ""), cell_by_column)
    shared: dict[str, Any] = {
        "line": line,
        "kind": kind,
        "system": of("system", ""),
        "source": of("source", ""),
        "group": _GROUPS.get(
            of("completeness", "").casefold().replace("-", " ").partition(" ")[0], "headline"
        ),
        "hardware": of("hardware", ""),
        "precision": of("precision", ""),
        "batch": of("batch", ""),
        "prompt": of("prompt_len", ""),
        "data": of("dataset", ""),
        "notes": of("notes", ""),
        "engine": of("engine", ""),
        "facts": _facts(of("source", ""), of("service", "")),
        "own_facts": own,
        "speedup": number(of("speedup", "")),
        "problem": _problem(header, cells, cell_by_column),
    }
    if kind == "refining":
        if shared["group"] == "full" and not _states_prompt(
            of("prompt_len", ""), of("dataset", "")
        ):
            shared["group"] = "partial"  # every forward computes the prompt, or attends to it
        row = PublishedRow(
            **shared,
            target=of("model", ""),
            output=of("gen_len", ""),
            shape=of("block_len", ""),
            plain_steps=of("steps_baseline", ""),
            acceptance=of("steps", ""),
            value=number(of("tps", "")),
            unit="tok/s" if of("tps") else "",
            baseline=number(of("tps_baseline", "")),
            baseline_unit="tok/s" if of("tps_baseline") else "",
        )
        if own.step_ms is None:
            return row
        per_step: dict[str, Any] = {"value": own.step_ms, "unit": "ms/step", "batch": "1"}
        return replace(row, **per_step, baseline=None, baseline_unit="")
    return PublishedRow(
        **shared,
        target=of("target", ""),
        draft=of("draft", ""),
        devices=of("n_gpus", ""),
        output=of("output_len", ""),
        temperature=of("temperature", ""),
        shape=of("tree_or_gamma", ""),
        acceptance=of("alpha_or_tau", ""),
        draft_cost=of("draft_cost", ""),
        baseline=number(of("baseline_value", "")),
        baseline_unit=of("baseline_unit", ""),
        value=number(of("value", "")),
        unit=of("unit", ""),
    )


def _facts(source: str, service: str) -> SourceFacts:
    """What is known of a source, with the service that the row itself states."""
    facts = facts_of(source)
    return replace(facts, service=service) if service in SERVICES[1:] else facts  # type: ignore[arg-type]


def _states_prompt(prompt: str, data: str) -> bool:
    """Whether a masked model's prompts have a stated length; images of a class have none."""
    return ("shot" not in prompt and token_count(prompt) is not None) or data.startswith("ImageNet")


def _problem(header: Sequence[str], cells: Sequence[str], cell_by_column: Mapping[str, str]) -> str:
    """Why a row cannot be read; empty where it can."""
    if len(cells) != len(header):
        return f"has {len(cells)} cells and the header {len(header)}"
    return next(_problems(cell_by_column), "")


def _problems(cell_by_column: Mapping[str, str]) -> Iterator[str]:
    if not cell_by_column.get("system"):
        yield "names no system"
    stated = cell_by_column.get("completeness", "")
    if stated.casefold().replace("-", " ").partition(" ")[0] not in _GROUPS:
        yield f"completeness must begin with one of {', '.join(_GROUPS)}, got {stated[:40]!r}"
    service = cell_by_column.get("service", "")
    if service not in SERVICES:
        yield f"service must be one of {', '.join(SERVICES[1:])}, got {service[:40]!r}"
    for name in ("value", "speedup", "baseline_value", "tps", "tps_baseline"):
        text = cell_by_column.get(name, "")
        amount = number(text)
        if text and amount is None:
            yield f"{name} is no single number: {text[:40]!r}"
        elif amount is not None and amount <= 0.0 and not is_range(text):
            yield f"{name} must be above 0, got {text[:40]!r}"
