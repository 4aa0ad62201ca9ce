"""`traces inspect` and `compare` of confidence traces: the recorded policies, side by side."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from traces.kinds.confidence import ConfidenceTrace


def confidence_facts(file: Path, seed: int) -> dict[str, Any]:
    """What a confidence trace holds: model, canvas, fields, and a row for every policy."""
    from traces.kinds.confidence import CANDIDATE_FIELDS, CELL_FIELDS
    from traces.storage.confidence_file import read_confidence

    trace = read_confidence(file)
    optional = ("wall_s", *CELL_FIELDS, *CANDIDATE_FIELDS)
    return {
        "kind": "confidence",
        "requests": len(set(trace.request_ids)),
        "runs": trace.runs,
        "steps": len(trace.forward),
        "cells": trace.top_ids.size,
        "vocabulary": trace.vocabulary,
        "mask_id": trace.mask_id,
        "end_id": trace.end_id,
        "canvas_tokens": trace.canvas_tokens,
        "holds": [name for name in optional if getattr(trace, name) is not None],
        "policies": _rows(trace, file, seed),
    }


def compared_policies(files: Sequence[Path], seed: int) -> list[dict[str, Any]]:
    """The policies of several confidence traces as rows."""
    from traces.storage.confidence_file import read_confidence

    return [row for file in files for row in _rows(read_confidence(file), file, seed)]


def print_policies(rows: Sequence[dict[str, Any]]) -> None:
    """Policies as a table."""
    from app.answers.numbers import fixed, plain
    from app.render.text import print_table

    columns = [
        "policy",
        "prompts",
        "passes",
        "tokens/pass",
        "80 %",
        "doubt",
        "agreement",
        "ms a pass",
    ]
    shown = [
        [
            row["policy"],
            plain(row["runs"]),
            plain(row["steps"]),
            fixed(row["tokens_per_step"], 3),
            "{:.2f}–{:.2f}".format(*row["tokens_per_step_interval"]),
            f"{row['commit_doubt']:.3f}",
            "–" if row["agreement"] is None else f"{row['agreement']:.3f}",
            ", ".join(f"{kind} {1e3 * seconds:.2f}" for kind, seconds in row["pass_s"].items())
            or "–",
        ]
        for row in rows
    ]
    title = (
        "recorded policies; agreement is the share of positions with the token of one token a pass"
    )
    print_table(title, columns, shown)


def _rows(trace: "ConfidenceTrace", file: Path, seed: int) -> list[dict[str, Any]]:
    from traces.replay.confidence.summary import recorded_policies

    return [
        {
            "file": str(file),
            "model": trace.provenance.model,
            "policy": each.policy.name,
            **each.policy.as_json(),
            "runs": each.runs,
            "tokens": each.tokens,
            "steps": each.steps,
            "tokens_per_step": each.tokens_per_step,
            "tokens_per_step_interval": list(each.interval),
            "commit_doubt": each.commit_doubt,
            "agreement": each.agreement,
            "pass_s": dict(each.pass_s),
        }
        for each in recorded_policies(trace, seed=seed)
    ]
