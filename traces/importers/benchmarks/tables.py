"""How is one row of a table of acceptance lengths read?

Format `acceptance-table`: a CSV with a name and a mean per row (TensorRT-LLM's `test, ref_al`,
leaderboards' `method, mean_accepted_tokens`, `accept_len` with `K`), speculators' `acceptance.csv`
with counts and rates by position, TensorRT-LLM's `acceptance_length.yaml`, SpecForge's results, the
averages that REST prints, or the head accuracies that Medusa's training logged. Yields level 0 of
the row that `--drafter` names. It cannot know what is not in the row: mostly the draft length.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from hardware_profiles.errors import InputError
from traces.importers.counted import MOST_POSITIONS, counted
from traces.importers.files import MAX_LINE_CHARACTERS
from traces.importers.recognition import Format, Sample, sample_of
from traces.kinds.acceptance import AcceptanceTrace, Provenance
from traces.kinds.naming import naming
from traces.kinds.summary import Summary

_MOST_ROWS = 100_000
_MOST_YAML_CHARACTERS = 1 << 20
_MEANS = ("ref_al", "mean_accepted_tokens", "accept_len", "acceptance_length", "accept_length")
_NAMES = ("test", "method", "subset", "Name")
_DETAILS = (
    "leaderboard",
    "model",
    "target",
    "draft",
    "hardware",
    "batch",
    "K",
    "note",
    "temperature",
)
_REST = re.compile(
    r"^accept_lengths_tree_average_micro: +(\d{1,6}(?:\.\d{1,18})?) *$", re.MULTILINE | re.ASCII
)
_HEAD = re.compile(r"train/medusa(\d)_top(\d)", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Row:
    name: str
    details: str
    values: Mapping[str, Any]


def read(path: str | Path, *, drafter: str | None = None) -> AcceptanceTrace:
    """Read one row.

    Args:
        path: the table.
        drafter: the row where there are several: its name, or words of its name and details that no
            other row has.

    Raises:
        InputError: no such table, no such row, or a number that is none.
    """
    file = str(path)
    rows = list(_rows(sample_of(path), file))
    if not rows:
        raise InputError("holds no row with an acceptance length", file=file, key="drafter")
    row = _chosen(rows, drafter, file)
    if any(_HEAD.fullmatch(str(key)) for key in row.values):
        return _heads(row, file)
    values = row.values
    mean = _number(next(values[key] for key in _MEANS if _filled(values.get(key))), file, row.name)
    drafts, proposed, accepted = (
        int(_number(values.get(key) or 0, file, key))
        for key in ("num_drafts", "num_draft_tokens", "num_accepted_tokens")
    )
    rates = []
    for depth in count():
        if depth >= MOST_POSITIONS or not _filled(values.get(f"acceptance_at_pos_{depth}")):
            break
        rates.append(
            _number(values[f"acceptance_at_pos_{depth}"], file, f"acceptance_at_pos_{depth}")
        )
    levels = str(values.get("K") or values.get("steps") or "")
    return counted(
        file,
        source="table of acceptance lengths",
        drafts=drafts,
        draft_tokens=proposed,
        accepted_tokens=accepted,
        rates=rates,
        mean_tokens_per_step=None if drafts else mean,
        longest_draft=(
            int(levels) if levels.isascii() and levels.isdigit() and len(levels) < 4 else 0
        ),
        drafter=row.name,
        notes=[f"Row {row.name} ({row.details})." if row.details else f"Row {row.name}."],
    )


def _rows(sample: Sample, file: str) -> Iterator[_Row]:
    """The rows that hold an acceptance length or head accuracies."""
    if sample.columns:
        lines = csv.DictReader(sample.text.lstrip("\r\n").splitlines())
        try:
            for number, line in enumerate(lines):
                if number >= _MOST_ROWS:
                    raise InputError(f"must have at most {_MOST_ROWS} rows", file=file, key="rows")
                if any(_filled(line.get(key)) for key in _MEANS) or _filled(
                    line.get("train/medusa0_top1")
                ):
                    yield _row(
                        line,
                        next(
                            (str(line[k]) for k in _NAMES if _filled(line.get(k))),
                            f"row {number + 1}",
                        ),
                    )
        except csv.Error as error:
            raise InputError(f"must be CSV ({error})", file=file) from None
    elif (printed := _REST.search(sample.text)) is not None:
        yield _Row(name="REST", details="mean over all steps", values={"ref_al": printed[1]})
    elif sample.document is not None:
        yield from _specforge(sample)
    else:
        yield from _yaml(sample, file)


def _row(line: Mapping[str, Any], name: str) -> _Row:
    details = ", ".join(
        f"{key} {line[key]}"
        for key in _DETAILS
        if _filled(line.get(key)) and str(line[key]) != name
    )
    return _Row(name=name[:200], details=details[:300], values=line)


def _specforge(sample: Sample) -> Iterator[_Row]:
    for name, runs in sample.first.items():
        for run in runs if isinstance(runs, list) else ():
            metrics = run.get("metrics") if isinstance(run, dict) else None
            for metric in metrics if isinstance(metrics, list) else ():
                if isinstance(metric, dict) and _filled(metric.get("accept_length")):
                    keys = ("batch_size", "steps", "topk", "num_draft_tokens")
                    details = ", ".join(
                        f"{key} {run[key]}" for key in keys if run.get(key) is not None
                    )
                    yield _Row(
                        name=str(name)[:200], details=details[:300], values={**run, **metric}
                    )


def _yaml(sample: Sample, file: str) -> Iterator[_Row]:
    # only one of the layouts is YAML
    import yaml

    if len(sample.text) > _MOST_YAML_CHARACTERS:
        raise InputError(f"must not exceed {_MOST_YAML_CHARACTERS} characters", file=file)
    # anchors let a small file unfold to a huge one
    if re.search(r"(?<![\w'\"])[&*]\w", sample.text):
        raise InputError("must not use anchors", file=file)
    try:
        document = yaml.safe_load(sample.text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"must be YAML ({str(error).splitlines()[0]})", file=file) from None
    for name, value in document.items() if isinstance(document, dict) else ():
        for entry in value if isinstance(value, list) else [value]:
            if isinstance(entry, dict) and any(_filled(entry.get(key)) for key in _MEANS):
                yield _row(entry, str(name))


def _chosen(rows: list[_Row], drafter: str | None, file: str) -> _Row:
    if drafter is None:
        chosen = rows
    else:
        words = drafter.casefold().replace(",", " ").split()
        texts = [f"{row.name}, {row.details}".casefold() for row in rows]
        split = [set(text.replace(",", " ").split()) for text in texts]
        wholly = [row for row, words_of in zip(rows, split, strict=True) if set(words) <= words_of]
        partly = [
            row
            for row, text in zip(rows, texts, strict=True)
            if all(word in text for word in words)
        ]
        # a name wins over whole words, and these over parts of words
        chosen = [row for row in rows if row.name == drafter] or wholly or partly
    if len(chosen) == 1:
        return chosen[0]
    shown = "; ".join(
        f"{row.name} ({row.details})" if row.details else row.name for row in (chosen or rows)[:6]
    )
    rule = (
        f"has {len(rows)} rows: choose one by --drafter"
        if drafter is None
        else f"must name one row, not {len(chosen)}"
    )
    raise InputError(f"{rule}: {shown[:600]}", file=file, key="drafter", value=drafter)


def _heads(row: _Row, file: str) -> AcceptanceTrace:
    """Accuracies of Medusa heads: the probability that the k-th candidate of head d is the true
    token.
    """
    tops: dict[int, dict[int, float]] = {}
    for key, value in row.values.items():
        if (match := _HEAD.fullmatch(str(key))) is not None and _filled(value):
            tops.setdefault(int(match[1]), {})[int(match[2])] = _number(value, file, str(key))
    vectors = []
    for head in sorted(tops):
        # accuracies add up over the top candidates; their differences are those of single ones
        within = [tops[head][top] for top in sorted(tops[head])]
        vectors.append(tuple(max(0.0, b - a) for a, b in zip([0.0, *within], within, strict=False)))
    notes = (
        f"Head accuracies of run {row.name}, each given the true text before it: what the"
        " candidates of every head accept on their own. Tokens per step were not measured."
    )
    with naming(file):
        summary = Summary(sibling_vectors=tuple(vectors))
    about = Provenance(
        drafter=row.name,
        method="medusa",
        recorder_version="head accuracies",
        notes=f"Level 0. {notes}",
    )
    return AcceptanceTrace(summary=summary, provenance=about, file=file)


def _filled(value: object) -> bool:
    return value is not None and str(value).strip() not in ("", "-", "null", "None")


def _number(value: object, file: str, key: str) -> float:
    try:
        number = float(str(value))
    except ValueError:
        number = math.nan
    if not 0 <= number < 1e15:
        raise InputError("must be a number >= 0", file=file, key=key, value=value)
    return number


def _claims(sample: Sample) -> bool:
    if sample.columns:
        return (
            any(key in sample.columns for key in _MEANS) or "train/medusa0_top1" in sample.columns
        )
    if sample.document is not None:
        return any(
            isinstance(runs, list)
            and bool(runs)
            and isinstance(runs[0], dict)
            and isinstance(runs[0].get("metrics"), list)
            and "batch_size" in runs[0]
            for runs in sample.first.values()
        )
    return _REST.search(sample.text) is not None or (
        len(sample.text) < MAX_LINE_CHARACTERS and sample.says(r"^ +(?:- )?ref_al: *\d")
    )


FORMATS = (Format(name="acceptance-table", claims=_claims, read=read),)
