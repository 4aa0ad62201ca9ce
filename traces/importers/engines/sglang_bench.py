"""How is acceptance read from SGLang's benchmarks?

Format `sglang-bench`: JSON lines of `bench_speculative` (`steps`, `topk`, `num_draft_tokens`,
`acc_length`), of `bench_serving` (`accept_length`) and of `bench_one_batch_server` (`acc_length`,
-1 without speculation), and the text block of `bench_serving` (`Accept length:`). Yields level 0:
the mean, with steps where the tokens were counted. It cannot know rates by position. Lines of
different settings are not pooled: the draft length chooses one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hardware_profiles.errors import InputError
from traces.importers.counted import counted
from traces.importers.files import json_lines, read_text
from traces.importers.recognition import Format, Sample
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.summary import Window

_BLOCK = re.compile(r"^Accept length: +(\d{1,9}(?:\.\d{1,9})?) *$", re.MULTILINE | re.ASCII)
_MEANS = ("acc_length", "accept_length")
_SETTING = ("steps", "topk", "num_draft_tokens")
_TOKENS = ("completion_tokens", "total_output_tokens")
_BATCH = ("batch_size", "max_concurrency")


def read(path: str | Path, *, draft_tokens: int | None = None) -> AcceptanceTrace:
    """Read a benchmark's results.

    Args:
        path: JSON lines, or the text that the benchmark printed.
        draft_tokens: draft levels (`steps`) of the setting to read where lines have several.

    Raises:
        InputError: no accept length, or several settings and none chosen.
    """
    file = str(path)
    text = read_text(path)
    if text.lstrip()[:1] == "{":
        return _from_lines(
            [(name, row) for name, row in json_lines(text, file) if _mean(row)], file, draft_tokens
        )
    means = [float(match[1]) for match in _BLOCK.finditer(text)]
    if len(means) != 1 or means[0] < 1:
        raise InputError(
            "must print one accept length of at least 1",
            file=file,
            key="Accept length",
            value=means[:4],
        )
    return counted(
        file,
        source="SGLang bench_serving",
        mean_tokens_per_step=means[0],
        longest_draft=draft_tokens or 0,
    )


def _mean(row: Mapping[str, Any]) -> float:
    """The accept length of a line; 0 where it has none."""
    value = next((row[key] for key in _MEANS if isinstance(row.get(key), int | float)), 0)
    return float(value) if math.isfinite(value) and value >= 1 else 0.0


def _from_lines(
    rows: Sequence[tuple[str, Mapping[str, Any]]], file: str, draft_tokens: int | None
) -> AcceptanceTrace:
    settings: dict[tuple[int, ...], list[Mapping[str, Any]]] = {}
    for name, row in rows:
        key = tuple(_whole(row.get(field), file, f"{name}.{field}") for field in _SETTING)
        settings.setdefault(key, []).append(row)
    drafting = {
        key: members
        for key, members in settings.items()
        if key[0] != 0 or not any("steps" in r for r in members)
    }
    if draft_tokens is not None and any(key[0] for key in drafting):
        drafting = {key: members for key, members in drafting.items() if key[0] == draft_tokens}
    if len(drafting) != 1:
        shown = "; ".join(
            f"steps {s}, topk {k}, draft tokens {n}" for s, k, n in list(drafting or settings)[:8]
        )
        rule = (
            "must hold one setting; --draft-tokens chooses one by its steps"
            if settings
            else "holds no accept length"
        )
        raise InputError(rule, file=file, key="steps", value=shown or None)
    ((steps, topk, nodes), chosen) = next(iter(drafting.items()))
    windows = [_window(row, file) for row in chosen]
    drafts = sum(window.drafts for window in windows)
    all_counted = all(window.drafts for window in windows)
    weights = [window.batch_requests or 1 for window in windows]
    means = [_mean(row) for row in chosen]
    notes = (
        [f"A tree of {nodes} tokens with its root was drafted (topk {topk})."] if topk > 1 else []
    )
    if not all_counted and len(chosen) > 1:
        notes.append("Tokens were not counted: lines are weighted by their batch.")
    return counted(
        file,
        source="SGLang benchmark",
        drafts=drafts if all_counted else 0,
        draft_tokens=drafts * (nodes - 1) if all_counted and nodes > 1 else 0,
        accepted_tokens=sum(window.accepted_tokens for window in windows) if all_counted else 0,
        mean_tokens_per_step=math.fsum(m * w for m, w in zip(means, weights, strict=True))
        / sum(weights),
        longest_draft=steps or draft_tokens or 0,
        windows=windows,
        model=str(
            next(
                (row["model_path"] for row in chosen if isinstance(row.get("model_path"), str)), ""
            )
        ),
        notes=notes,
    )


def _window(row: Mapping[str, Any], file: str) -> Window:
    """One line: steps are tokens over the accept length, which is rounded."""
    tokens = next((_whole(row[key], file, key) for key in _TOKENS if row.get(key)), 0)
    batch = next((_whole(row[key], file, key) for key in _BATCH if row.get(key)), 0)
    # the accept length counts the bonus token, so tokens over it are steps
    steps = round(tokens / _mean(row))
    nodes = _whole(row.get("num_draft_tokens"), file, "num_draft_tokens")
    accepted = tokens - steps
    draft_tokens = steps * (nodes - 1) if nodes > 1 and accepted <= steps * (nodes - 1) else 0
    return Window(
        drafts=steps,
        draft_tokens=draft_tokens,
        accepted_tokens=accepted,
        batch_requests=batch or None,
        mean_tokens_per_step=_mean(row),
    )


def _whole(value: object, file: str, key: str) -> int:
    if value is None:
        return 0
    if type(value) not in (int, float) or not 0 <= value < 1 << 31 or value != int(value):  # type: ignore[operator, call-overload]
        raise InputError("must be a whole number >= 0", file=file, key=key, value=value)
    return int(value)  # type: ignore[call-overload, no-any-return]


def _claims(sample: Sample) -> bool:
    if sample.document is None and sample.columns == () and not sample.first:
        return sample.says(r"^Accept length: +\d")
    return any(key in sample.first for key in _MEANS) and (
        sample.holds("num_draft_tokens")
        or sample.holds("backend")
        or sample.holds("run_name", "batch_size")
    )


FORMATS = (Format(name="sglang-bench", claims=_claims, read=read),)
