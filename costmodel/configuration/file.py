"""Which configuration does a file hold?

A file is one configuration, or an answer of `optimize`, of which one choice or one schedule is
taken. Leaves out what the keys of a configuration mean (`costmodel.configuration.decoding`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from costmodel.configuration.decoding import DecodingConfiguration
from hardware_profiles.errors import InputError
from hardware_profiles.outside_file import read_bounded

MAX_FILE_BYTES = 16 << 20


# configurations are alike in all: 2 spells drafts in another way, 3 repeats every field of a question,
# 4 has one form for drafts and policies of masked blocks
ANSWER_SCHEMAS = (1, 2, 3, 4)


def read_configuration(
    path: str | Path,
    *,
    batch: int | None = None,
    context: int | None = None,
    scheduled: bool | None = None,
) -> DecodingConfiguration:
    """Read a configuration from a JSON file.

    Args:
        path: a configuration, or an answer of `optimize`.
        batch: of an answer: take the choice at this batch; None: the first one.
        context: of an answer: take the choice at this context; None: the first one.
        scheduled: of an answer: take the batch schedule of the choice's method at its context in
            place of the choice, where there is one; None: only where the choice is no speculation
            or a chain of one length, which a schedule holds too.

    Raises:
        InputError: no such file, no JSON, no configuration, or no choice at this batch and context.
    """
    document = _read(Path(path))
    if "choices" not in document:
        return DecodingConfiguration.from_json(document, file=str(path))
    choice = _choice(document, str(path), batch, context)
    chosen = _configuration(choice, str(path))
    plain_chain = chosen.topology in ("off", "chain") and chosen.stop.rule == "length"
    if scheduled is False or (scheduled is None and not plain_chain):
        return chosen
    for row in _rows(document, "schedules", str(path)):
        if all(row.get(key) == choice.get(key) for key in ("drafter", "method", "context")):
            return _configuration(row, str(path))
    return chosen


def points_of(path: str | Path) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The batches and the contexts that a file was made for; empty where it does not say.

    Args:
        path: a configuration, or an answer of `optimize`, whose choices are those of batches and
            contexts.

    Raises:
        InputError: as `read_configuration`.
    """
    document = _read(Path(path))
    rows = [document]
    if "choices" in document:
        rows = list(_rows(document, "choices", str(path)))
    batches, contexts = (
        tuple(dict.fromkeys(row[key] for row in rows if isinstance(row.get(key), int)))
        for key in ("batch", "context")
    )
    return batches, contexts


def _read(path: Path) -> Mapping[str, Any]:
    try:
        document = json.loads(read_bounded(path, MAX_FILE_BYTES))
    except (ValueError, RecursionError) as error:
        raise InputError("must be a readable JSON file", file=path, value=str(error)) from None
    if not isinstance(document, dict):
        raise InputError("must be a configuration or an answer of `rooftree optimize`", file=path)
    return document


def _choice(
    document: Mapping[str, Any], file: str, batch: int | None, context: int | None
) -> Mapping[str, Any]:
    if document.get("schema") not in ANSWER_SCHEMAS:
        rule = f"must be an answer of `rooftree optimize` with schema 1 to {ANSWER_SCHEMAS[-1]}"
        raise InputError(rule, file=file, key="schema")
    choices = _rows(document, "choices", file)
    fits = [
        choice
        for choice in choices
        if (batch is None or choice.get("batch") == batch)
        and (context is None or choice.get("context") == context)
    ]
    if not fits:
        there = [(choice.get("batch"), choice.get("context")) for choice in choices]
        rule = f"holds no such choice; (batch, context) are {there}"
        raise InputError(rule, file=file, key="choices", value=(batch, context))
    return fits[0]


def _rows(document: Mapping[str, Any], key: str, file: str) -> list[Mapping[str, Any]]:
    rows = document.get(key)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError("must be a list, as `rooftree optimize` writes it", file=file, key=key)
    return rows


def _configuration(row: Mapping[str, Any], file: str) -> DecodingConfiguration:
    if "configuration" not in row:
        rule = "is absent: the answer is of an older version; run `rooftree optimize` again"
        raise InputError(rule, file=file, key="configuration")
    return DecodingConfiguration.from_json(row["configuration"], file=file)
