"""How are SpecDecode-Bench's recorded acceptance lengths read?

Format `specdecode-bench`. Yields level 1 for one of the two drafters recorded side by side, EAGLE-3
or n-gram. Three layouts are read: the published JSON lines (`acc_eagle.acc_len`,
`acc_ngram.acc_len`, token ids), the same lines without token ids (`acc_len_eagle`,
`acc_len_ngram`), and one JSON object with `rows` of `eagle` and `ngram`.

Each drafter's array is a text of its own: the two differ in length where generations diverged, so a
request is as long as the chosen array and `gen_len` is not used. Lengths stop at 20 drafts. EAGLE-3
lengths run past the end of the text (replay caps them), n-gram lengths stop there. It cannot know
ranks, nor where the n-gram drafter found a match.

Reference: Liu et al., Speculative Decoding: Performance or Illusion? (2025), arXiv 2601.11580.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hardware_profiles.errors import InputError
from traces.importers.files import (
    expect_list,
    expect_name,
    expect_object,
    expect_whole,
    json_lines,
    lengths_of,
    parse_json,
    read_text,
)
from traces.importers.recognition import Format, Sample
from traces.kinds.acceptance import AcceptanceTrace, Provenance

DRAFTERS = ("eagle", "ngram")
_LENGTHS = (
    "Level 1 from SpecDecode-Bench: lengths up to 20 drafts, no ranks, so chains but no trees."
)


def read(
    path: str | Path, *, drafter: str = "eagle", match_rate: float | None = None
) -> AcceptanceTrace:
    """Read one drafter's lengths.

    Args:
        path: a file in one of the three layouts.
        drafter: "eagle" (EAGLE-3, proposes in every step) or "ngram" (proposes where the context
            matches).
        match_rate: share of steps with an n-gram proposal; None: every step is charged one.

    Returns:
        A trace of level 1.

    Raises:
        InputError: anything that is not as described, or a match rate for EAGLE-3.
    """
    file = str(path)
    if drafter not in DRAFTERS:
        raise InputError(f"must be one of {', '.join(DRAFTERS)}", key="drafter", value=drafter)
    if drafter == "eagle" and match_rate is not None:
        raise InputError(
            "EAGLE-3 proposes in every step: leave it out", key="match_rate", value=match_rate
        )
    rows = list(_rows(read_text(path), file))
    if not rows:
        raise InputError("must hold at least one request", file=file)
    emitted = [lengths_of(_lengths(row, drafter), file, f"{key}.{drafter}", 1) for key, row in rows]
    datasets = [expect_name(row.get("dataset", ""), file, f"{key}.dataset") for key, row in rows]
    return AcceptanceTrace(
        provenance=Provenance(
            drafter={"eagle": "EAGLE-3", "ngram": "n-gram"}[drafter],
            method={"eagle": "eagle3", "ngram": "ngram"}[drafter],
            dataset=", ".join(sorted(set(datasets) - {""})),
            notes=_notes(drafter, match_rate),
            extra={"longest_draft_tokens": 20},
        ),
        request_ids=tuple(expect_name(row.get("id", key), file, f"{key}.id") for key, row in rows),
        prompt_kinds=tuple(datasets),
        prompt_tokens=np.asarray(
            [_prompt_tokens(row, file, key) for key, row in rows], dtype=np.int32
        ),
        offsets=np.cumsum([0, *(len(lengths) for lengths in emitted)], dtype=np.int64),
        emitted=np.concatenate(emitted),
        match_rate=match_rate,
        file=file,
    )


def _rows(text: str, file: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    first = text.lstrip().partition("\n")[0]
    try:
        whole = parse_json(first, file)
    except InputError:
        whole = parse_json(text, file)
    if isinstance(whole, dict) and "rows" in whole:
        for index, row in enumerate(expect_list(whole["rows"], file, "rows")):
            yield f"rows[{index}]", expect_object(row, file, f"rows[{index}]")
    else:
        yield from json_lines(text, file)


def _lengths(row: Mapping[str, Any], drafter: str) -> object:
    """The drafter's array in whichever layout the row has; None where it has none."""
    nested = row.get(f"acc_{drafter}")
    if isinstance(nested, dict):
        return nested.get("acc_len")
    for key in (f"acc_{drafter}.acc_len", f"acc_len_{drafter}", drafter):
        if key in row:
            value: object = row[key]
            return value
    return None


def _prompt_tokens(row: Mapping[str, Any], file: str, key: str) -> int:
    if "prompt_token_ids" in row:
        return len(expect_list(row["prompt_token_ids"], file, f"{key}.prompt_token_ids"))
    return expect_whole(row.get("prompt_len", 0), file, f"{key}.prompt_len")


def _notes(drafter: str, match_rate: float | None) -> str:
    if drafter == "eagle":
        return f"{_LENGTHS} Lengths near the end of a text run past it; replay caps them."
    where = "Where the n-gram drafter proposed is not recorded:"
    if match_rate is None:
        return f"{_LENGTHS} {where} every step is charged a proposal, the dearest reading."
    return f"{_LENGTHS} {where} a match rate of {match_rate} is assumed."


def _claims(sample: Sample) -> bool:
    row = sample.first_of("rows")
    return any(
        key in (row or sample.first)
        for drafter in DRAFTERS
        for key in (f"acc_{drafter}", f"acc_{drafter}.acc_len", f"acc_len_{drafter}")
    ) or any(drafter in row for drafter in DRAFTERS)


FORMATS = (Format(name="specdecode-bench", claims=_claims, read=read),)
