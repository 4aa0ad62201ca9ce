"""How is acceptance read from two scrapes of vLLM's Prometheus counters?

Format `vllm-metrics`. Yields level 0: drafts, draft tokens and accepted tokens between the scrapes, and the
unconditional probability that each draft position is accepted, summed over engines. It cannot know
positions, batch sizes or single requests, nor distinguish lengths where a dynamic schedule mixed them: the
rates hold for the draft lengths in use and no others.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from hardware_profiles.errors import InputError
from traces.importers.files import read_text
from traces.kinds.acceptance import AcceptanceTrace, Provenance
from traces.kinds.naming import naming
from traces.kinds.summary import Summary

_PREFIX = "vllm:spec_decode_num_"
_NAMES = ("drafts", "draft_tokens", "accepted_tokens", "accepted_tokens_per_pos")
_SAMPLE = re.compile(r"(?P<name>[A-Za-z_:][\w:]*)(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)(?:\s+-?\d+)?\s*", re.ASCII)
_LABEL = re.compile(r'\s*(?P<name>[A-Za-z_]\w*)\s*=\s*"(?P<value>(?:[^"\\]|\\.)*)"\s*,?', re.ASCII)
_MAX_POSITIONS = 1024
_MAX_LINE = 1 << 14

Series = dict[tuple[str, tuple[tuple[str, str], ...]], int]


def read(before: str | Path, after: str | Path | None = None, *, model: str | None = None) -> AcceptanceTrace:
    """Read the difference of two scrapes.

    Args:
        before: text of `/metrics` at the start; the only file where `after` is absent, counted from engine
            start.
        after: text of `/metrics` at the end.
        model: `model_name` to read where several models are served.

    Returns:
        A trace of level 0.

    Raises:
        InputError: no counters, several models and none chosen, a counter that fell (engine restarted), no
            draft.
    """
    start = {} if after is None else _scrape(before, model)
    file = str(before if after is None else after)
    end = _scrape(file, model)
    counts = dict.fromkeys(_NAMES[:3], 0)
    positions: dict[int, int] = {}
    for key in sorted(start.keys() | end.keys()):
        name, labels = key
        gained = end.get(key, -1) - start.get(key, 0)
        if gained < 0:
            raise InputError(
                f"the counter fell or vanished after {before} was scraped (engine restarted)",
                file=file,
                key=name,
            )
        if name in counts:
            counts[name] += gained
        else:
            position = _position(dict(labels), file)
            positions[position] = positions.get(position, 0) + gained
    if counts["drafts"] == 0:
        raise InputError("no draft was verified between the scrapes", file=file, key=f"{_PREFIX}drafts")
    summary = _summary(counts, positions, file)
    models = {value for _, labels in end for name, value in labels if name == "model_name"}
    return AcceptanceTrace(
        summary=summary,
        provenance=Provenance(
            model=", ".join(sorted(models)),
            recorder_version="vLLM Prometheus counters",
            notes=_notes(summary, positions, after is None),
            extra={"draft_tokens_per_draft": summary.draft_tokens / summary.drafts},
        ),
        file=file,
    )


def _scrape(path: str | Path, model: str | None) -> Series:
    """The speculative counters of one scrape, by name and labels."""
    file = str(path)
    found: Series = {}
    models = set()
    for line in read_text(path).splitlines():
        if not line.startswith(_PREFIX) or len(line) > _MAX_LINE:
            continue
        match = _SAMPLE.fullmatch(line)
        if match is None:
            raise InputError("must be a Prometheus sample", file=file, value=line)
        name = match["name"].removeprefix(_PREFIX).removesuffix("_total")
        if name not in _NAMES:
            continue
        labels = {label["name"]: label["value"] for label in _LABEL.finditer(match["labels"] or "")}
        served = labels.get("model_name", "")
        if model is not None and served != model:
            continue
        models.add(served)
        key = (name, tuple(sorted(labels.items())))
        found[key] = found.get(key, 0) + _count(match["value"], file, match["name"])
    if len(models) > 1:
        raise InputError(f"choose one of the models {', '.join(sorted(models))[:300]}", file=file, key="model")
    if not found:
        wanted = "no speculative decoding counters" + ("" if model is None else f" of model {model}")
        raise InputError(wanted, file=file, key=f"{_PREFIX}drafts")
    return found


def _count(text: str, file: str, key: str) -> int:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < 2**53 or value != int(value):
        raise InputError("a counter must be a whole number >= 0", file=file, key=key, value=text)
    return int(value)


def _position(labels: Mapping[str, str], file: str) -> int:
    text = labels.get("position", "")
    if not (text.isascii() and text.isdigit() and len(text) < 6) or int(text) >= _MAX_POSITIONS:
        raise InputError(f"must be a position in 0..{_MAX_POSITIONS - 1}", file=file, key="position", value=text)
    return int(text)


def _summary(counts: Mapping[str, int], positions: Mapping[int, int], file: str) -> Summary:
    accepted = [positions.get(position, 0) for position in range(max(positions, default=-1) + 1)]
    rates = np.asarray(accepted, dtype=float) / counts["drafts"]
    # Counters are read one after the other while the engine runs: allow a few steps of difference, not more.
    slack = 0.01 + 8 / counts["drafts"]
    if rates.size and (rates.max() > 1 + slack or np.diff(rates).max(initial=0) > slack):
        raise InputError(
            "acceptance must lie in [0, 1] and not rise from one position to the next",
            file=file,
            key=f"{_PREFIX}accepted_tokens_per_pos",
            value=accepted,
        )
    falling = np.minimum.accumulate(np.minimum(rates, 1.0))
    with naming(file):
        return Summary(
            acceptance_by_depth=tuple(falling.tolist()),
            drafts=counts["drafts"],
            draft_tokens=counts["draft_tokens"],
            accepted_tokens=counts["accepted_tokens"],
        )


def _notes(summary: Summary, positions: Mapping[int, int], since_start: bool) -> str:
    notes = ["Level 0 from vLLM counters: no positions, so no replay; holds for the draft lengths in use only."]
    if since_start:
        notes.append("One scrape only: everything since the engine started, warm-up included.")
    if positions and sum(positions.values()) != summary.accepted_tokens:
        notes.append("The counters per position do not add up to the accepted tokens: scraped under load.")
    if not positions:
        notes.append("No counters per position: only the mean is known.")
    elif summary.draft_tokens != summary.drafts * (max(positions) + 1):
        notes.append("Draft lengths were mixed: deeper positions count steps that never drafted so deep as refused.")
    return " ".join(notes)
