"""How is acceptance read from `vllm bench serve`?

Format `vllm-bench`: the result file (`--save-result`, keys `spec_decode_*`) or the text block that
it prints. Yields level 0, with the largest concurrency of every run as its batch: counts, and rates
by position, which the block prints in per cent and the file as fractions. It cannot know positions
or single requests. The requests of a result file are format `vllm-requests`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hardware_profiles.errors import InputError
from traces.importers.counted import counted
from traces.importers.files import expect_list, expect_object, expect_whole, parse_json, read_text
from traces.importers.recognition import Format, Sample
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.summary import Window

_COUNTS = {  # how the printed block and the result file call each
    "drafts": ("Drafts", "spec_decode_num_drafts"),
    "draft_tokens": ("Draft tokens", "spec_decode_draft_tokens"),
    "accepted_tokens": ("Accepted tokens", "spec_decode_accepted_tokens"),
}
_PERCENT = 0.01
_LENGTH = re.compile(r"^Acceptance length: +(\d{1,6}(?:\.\d{1,9})?) *$", re.MULTILINE | re.ASCII)
_TITLE = re.compile(r"Serving Benchmark Result")
_POSITION = re.compile(
    r"^ *Position (\d{1,4}): +(\d{1,3}(?:\.\d{1,9})?) *$", re.MULTILINE | re.ASCII
)
_CONCURRENCY = re.compile(r"^Maximum request concurrency: +(\d{1,9}) *$", re.MULTILINE | re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Run:
    """One run: counts by name, rates by position, its largest concurrency and its mean, None where
    not told.
    """

    counts: Mapping[str, int]
    rates: Sequence[float]
    batch: int | None
    mean: float | None


def read(path: str | Path) -> AcceptanceTrace:
    """Read one run, or several that were printed one after the other.

    Args:
        path: the result file, or text that holds printed blocks.

    Raises:
        InputError: no speculative decoding in it, or counts that contradict each other.
    """
    file = str(path)
    text = read_text(path)
    if text.lstrip()[:1] == "{":
        document = expect_object(parse_json(text, file), file, "document")
        return _pooled([_result(document, file)], file, str(document.get("model_id") or "")[:300])
    begins = [0, *(match.start() for match in _TITLE.finditer(text)), len(text)]
    blocks = [text[a:b] for a, b in itertools.pairwise(begins)]
    lengths = [len(_LENGTH.findall(block)) for block in blocks]
    if not any(lengths) or max(lengths) > 1:
        rule = (
            "must have a title above every block"
            if any(lengths)
            else "holds no block with an acceptance length"
        )
        raise InputError(rule, file=file, key="blocks", value=sum(lengths))
    blocks = list(itertools.compress(blocks, lengths))
    return _pooled([_block(block) for block in blocks], file, "")


def _block(text: str) -> _Run:
    matches = {
        name: re.search(rf"^{label}: +(\d{{1,15}}) *$", text, re.MULTILINE | re.ASCII)
        for name, (label, _) in _COUNTS.items()
    }
    batch, length = _CONCURRENCY.search(text), _LENGTH.search(text)
    return _Run(
        counts={name: int(match[1]) if match else 0 for name, match in matches.items()},
        rates=[float(match[2]) * _PERCENT for match in _POSITION.finditer(text)],
        batch=int(batch[1]) if batch else None,
        mean=float(length[1]) if length else None,
    )


def _result(document: Mapping[str, Any], file: str) -> _Run:
    key = "spec_decode_per_position_acceptance_rates"
    batch, mean = document.get("max_concurrency"), document.get("spec_decode_acceptance_length")
    return _Run(
        counts={
            name: expect_whole(document.get(key) or 0, file, key)
            for name, (_, key) in _COUNTS.items()
        },
        rates=[
            _number(rate, file, key) for rate in expect_list(document.get(key) or [], file, key)
        ],
        batch=None if batch is None else expect_whole(batch, file, "max_concurrency"),
        mean=None if mean is None else _number(mean, file, "spec_decode_acceptance_length"),
    )


def _number(value: object, file: str, key: str) -> float:
    if type(value) not in (int, float) or not -1e300 < value < 1e300:  # type: ignore[operator]
        raise InputError("must be a number", file=file, key=key, value=value)
    return float(value)  # type: ignore[arg-type]


def _pooled(runs: Sequence[_Run], file: str, model: str) -> AcceptanceTrace:
    """The runs that drafted, added up; a single one may tell its mean alone."""
    drafting = [run for run in runs if run.counts["drafts"]]
    mean = runs[0].mean if len(runs) == 1 and not drafting else None
    if not drafting and not (mean or 0) >= 1:
        raise InputError(
            "has no drafts: it was served without speculative decoding", file=file, key="Drafts"
        )
    total = {name: sum(run.counts[name] for run in drafting) for name in _COUNTS}
    rates = np.zeros(max((len(run.rates) for run in drafting), default=0))
    for run in drafting:
        rates[: len(run.rates)] += np.asarray(run.rates, dtype=np.float64) * run.counts["drafts"]
    notes = [f"{len(drafting) or 1} benchmark runs of {len(runs)}, their ramps included."]
    if len({len(run.rates) for run in drafting}) > 1:
        notes.append(
            "Runs differ in draft length: shorter drafts count as refused below their end."
        )
    return counted(
        file,
        source="vllm bench serve",
        drafts=total["drafts"],
        draft_tokens=total["draft_tokens"],
        accepted_tokens=total["accepted_tokens"],
        rates=(rates / total["drafts"]).tolist() if total["drafts"] else (),
        mean_tokens_per_step=mean,
        windows=[
            Window(**run.counts, batch_requests=run.batch)
            for run in drafting
            if run.batch is not None
        ],
        model=model,
        notes=notes,
    )


def _claims(sample: Sample) -> bool:
    if sample.first:
        return any(
            key.startswith("spec_decode_num_drafts") or key == "spec_decode_acceptance_length"
            for key in sample.first
        )
    return sample.says(r"^Acceptance length: +\d")


FORMATS = (Format(name="vllm-bench", claims=_claims, read=read),)
