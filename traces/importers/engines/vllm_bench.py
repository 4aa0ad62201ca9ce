"""How is acceptance read from `vllm bench serve`?

Format `vllm-bench`: the result file (`--save-result`, keys `spec_decode_*`) or the text block that it prints. Yields
level 0 of one run, with its largest concurrency as batch: counts, and rates by position, which the block prints in
per cent and the file as fractions. It cannot know positions or single requests. The requests of a result file are
format `vllm-requests`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hardware_profiles.errors import InputError
from traces.importers.counted import counted
from traces.importers.files import expect_list, expect_object, expect_whole, parse_json, read_text
from traces.importers.recognition import Format, Sample
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.summary import Window

_COUNTS = {"Drafts": "drafts", "Draft tokens": "draft_tokens", "Accepted tokens": "accepted_tokens"}
_PERCENT = 0.01
_LENGTH = re.compile(r"^Acceptance length: +(\d{1,6}(?:\.\d{1,9})?) *$", re.MULTILINE | re.ASCII)
_POSITION = re.compile(r"^ *Position (\d{1,4}): +(\d{1,3}(?:\.\d{1,9})?) *$", re.MULTILINE | re.ASCII)
_CONCURRENCY = re.compile(r"^Maximum request concurrency: +(\d{1,9}) *$", re.MULTILINE | re.ASCII)


def read(path: str | Path) -> AcceptanceTrace:
    """Read one run.

    Args:
        path: the result file, or text that holds one printed block.

    Raises:
        InputError: no speculative decoding in it, several blocks, or counts that contradict each other.
    """
    file = str(path)
    text = read_text(path)
    if text.lstrip()[:1] == "{":
        return _from_result(expect_object(parse_json(text, file), file, "document"), file)
    blocks = len(_LENGTH.findall(text))
    if blocks != 1:
        raise InputError("must hold one block with an acceptance length", file=file, key="blocks", value=blocks)
    found = {
        name: re.search(rf"^{label}: +(\d{{1,15}}) *$", text, re.MULTILINE | re.ASCII)
        for label, name in _COUNTS.items()
    }
    rates = [float(match[2]) * _PERCENT for match in _POSITION.finditer(text)]
    batch = _CONCURRENCY.search(text)
    length = _LENGTH.search(text)
    return _run(
        {name: int(match[1]) if match else 0 for name, match in found.items()},
        file, rates, int(batch[1]) if batch else None, float(length[1]) if length else None, "",
    )  # fmt: skip


def _from_result(document: Mapping[str, Any], file: str) -> AcceptanceTrace:
    counts = {
        name: expect_whole(document.get(key, 0), file, key)
        for name, key in (
            ("drafts", "spec_decode_num_drafts"),
            ("draft_tokens", "spec_decode_draft_tokens"),
            ("accepted_tokens", "spec_decode_accepted_tokens"),
        )
    }
    key = "spec_decode_per_position_acceptance_rates"
    rates = [_number(each, file, key) for each in expect_list(document.get(key) or [], file, key)]
    batch = document.get("max_concurrency")
    mean = document.get("spec_decode_acceptance_length")
    return _run(
        counts,
        file,
        rates,
        None if batch is None else expect_whole(batch, file, "max_concurrency"),
        None if mean is None else _number(mean, file, "spec_decode_acceptance_length"),
        str(document.get("model_id") or "")[:300],
    )


def _number(value: object, file: str, key: str) -> float:
    if type(value) not in (int, float) or not -1e300 < value < 1e300:  # type: ignore[operator]
        raise InputError("must be a number", file=file, key=key, value=value)
    return float(value)  # type: ignore[arg-type]


def _run(
    counts: Mapping[str, int], file: str, rates: list[float], batch: int | None, mean: float | None, model: str
) -> AcceptanceTrace:
    if not counts["drafts"] and not (mean or 0) >= 1:
        raise InputError("the run has no drafts: it was served without speculative decoding", file=file, key="Drafts")
    window = Window(**counts, batch_requests=batch) if batch is not None and counts["drafts"] else None
    return counted(
        file,
        source="vllm bench serve",
        drafts=counts["drafts"],
        draft_tokens=counts["draft_tokens"],
        accepted_tokens=counts["accepted_tokens"],
        rates=rates,
        mean_tokens_per_step=None if counts["drafts"] else mean,
        windows=[] if window is None else [window],
        model=model,
        notes=["One benchmark run, its ramps included."],
    )


def _claims(sample: Sample) -> bool:
    if sample.first:
        return any(
            key.startswith("spec_decode_num_drafts") or key == "spec_decode_acceptance_length" for key in sample.first
        )
    return sample.says(r"^Acceptance length: +\d")


FORMATS = (Format(name="vllm-bench", claims=_claims, read=read),)
