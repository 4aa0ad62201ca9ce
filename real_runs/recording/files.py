"""How do finished requests become trace files?

One Parquet file per drafter and sampling mode, with everything that the recording depended on in
its provenance. Leaves out how requests are run and kept (`record`, `log`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from real_runs.prompt_set import PromptSet
from real_runs.recording.arrays import concatenated
from real_runs.recording.timed import TIMED, timed_steps
from traces.kinds.acceptance import AcceptanceTrace, Provenance
from traces.kinds.provenance import POLICY_KEY
from traces.replay.walk import replay_chain
from traces.storage.acceptance_file import write_acceptance

if TYPE_CHECKING:
    from real_runs.drafters.drafter import RecordedDrafter

SHOWN_DRAFT_TOKENS = (1, 3, 5, 8)
_COLUMNS = (
    "ended",
    "tokens",
    "looped_tokens",
    "output_sha256",
    "wall_s",
    "cpu_s",
    "prefill_wall_s",
    "prefill_cpu_s",
    "decode_wall_s",
    "decode_cpu_s",
    "observe_wall_s",
    "observe_cpu_s",
    "drafted_tokens",
    "draft_passes",
    "judged_tokens",
    "accepted_tokens",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedFile:
    """One trace that was written.

    Attributes:
        path: where.
        drafter: its drafter.
        temperature: its sampling mode.
        tokens: output tokens.
        looped_ratio: share of them that only repeat the span before.
        kinds: results per prompt kind, and over all under "all".
    """

    path: Path
    drafter: str
    temperature: float
    tokens: int
    looped_ratio: float
    kinds: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordReport:
    """What a recording left.

    Attributes:
        files: one per drafter and sampling mode.
    """

    files: tuple[RecordedFile, ...]


def mode_name(temperature: float) -> str:
    """The sampling mode's part of a file name."""
    return "greedy" if temperature == 0 else f"t{temperature:g}"


def write_recordings(
    out: Path,
    setup: Mapping[str, Any],
    prompts: PromptSet,
    drafters: Sequence[RecordedDrafter],
    entries: Sequence[Mapping[str, Any]],
) -> RecordReport:
    """Write every trace of a finished recording.

    Args:
        out: folder.
        setup: what the recording depended on.
        prompts: the prompts, which set the order of the requests.
        drafters: the drafters that watched.
        entries: the finished requests, in any order.
    """
    for left in out.glob(f".{setup['name']}--*.parquet.*.part"):
        left.unlink()  # a run that was killed while it wrote this very file
    timed = [entry for entry in entries if TIMED in entry]
    places = {
        (entry["temperature"], entry["request"]): place
        for place, entry in enumerate(entries)
        if TIMED not in entry
    }
    files = []
    for temperature in setup["temperatures"]:
        for drafter in drafters:
            watched = [
                _of(drafter.name, entries[places[temperature, prompt.id]])
                for prompt in prompts.prompts
            ]
            trace, kinds = _trace(setup, prompts, drafter, temperature, watched)
            trace = _with_steps(trace, timed, prompts, drafter, temperature)
            path = out / f"{setup['name']}--{drafter.name}--{mode_name(temperature)}.parquet"
            write_acceptance(trace, path)
            files.append(
                RecordedFile(
                    path=path,
                    drafter=drafter.name,
                    temperature=temperature,
                    tokens=trace.positions,
                    looped_ratio=kinds["all"]["looped_ratio"],
                    kinds=kinds,
                )
            )
    return RecordReport(files=tuple(files))


def _of(drafter: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """One drafter's arrays of a finished request, and its columns: its own where it has them."""
    mine = entry["drafters"][drafter]
    columns = {**entry, **mine["columns"]} if "tokens" not in mine["columns"] else mine["columns"]
    columns = {name: columns[name] for name in _COLUMNS if name in columns}
    return {"prompt_tokens": entry["prompt_tokens"], "columns": columns, "arrays": mine["arrays"]}


def _trace(
    setup: Mapping[str, Any],
    prompts: PromptSet,
    drafter: RecordedDrafter,
    temperature: float,
    entries: Sequence[Mapping[str, Any]],
) -> tuple[AcceptanceTrace, dict[str, dict[str, Any]]]:
    """The trace, its results per kind in the provenance, and those results."""
    arrays: dict[str, Any] = {
        key: concatenated([entry["arrays"][key] for entry in entries])
        for key in entries[0]["arrays"]
    }
    columns = {
        name: [entry["columns"][name] for entry in entries] for name in entries[0]["columns"]
    }
    bare = AcceptanceTrace(
        request_ids=tuple(prompt.id for prompt in prompts.prompts),
        prompt_kinds=tuple(prompt.kind for prompt in prompts.prompts),
        prompt_tokens=np.array([entry["prompt_tokens"] for entry in entries], dtype=np.int32),
        offsets=np.cumsum([0, *columns["tokens"]], dtype=np.int64),
        # the prefill's own logits give the first token: the first step starts behind it
        first_step_position=1,
        extra_columns=columns,
        **arrays,
        **drafter.trace_fields,
    )
    policy = drafter.policy_draft_tokens
    kinds = results_by_kind(bare, SHOWN_DRAFT_TOKENS if policy is None else (policy,))
    provenance = Provenance(
        model=setup["model"],
        drafter=drafter.title,
        method=drafter.method,
        device=f"{setup['device']}, {setup['threads']} thread(s)",
        dtype=setup["dtype"],
        sampling={
            "temperature": temperature,
            "seed": setup["seed"],
            "max_new_tokens": setup["max_new_tokens"],
        },
        dataset=setup["dataset"],
        dataset_sha256=setup["dataset_sha256"],
        recorder_version=setup["recorder"],
        notes=(
            f"{drafter.notes} The prefill emits position 0. An answer ends at an end-of-sequence"
            " token, at max_new_tokens, or when a span stands three times in a row."
        ),
        extra={
            "model_file": setup["model_file"],
            "model_sha256": setup["model_sha256"],
            "torch": setup["torch"],
            "parameters": dict(drafter.parameters),
            "looped_ratio": kinds["all"]["looped_ratio"],
            "results": kinds,
        }
        | ({} if policy is None else {POLICY_KEY: policy}),
    )
    return replace(bare, provenance=provenance), kinds


def _with_steps(
    trace: AcceptanceTrace,
    timed: Sequence[Mapping[str, Any]],
    prompts: PromptSet,
    drafter: RecordedDrafter,
    temperature: float,
) -> AcceptanceTrace:
    """The trace with the steps of the loops that were timed on its texts."""
    steps, counts = timed_steps(timed, drafter, temperature, prompts, trace.prompt_tokens.tolist())
    if steps is None:
        return trace
    about = {**trace.provenance.extra, "timing": {"drafter": drafter.name, **counts}}
    return replace(trace, steps=steps, provenance=replace(trace.provenance, extra=about))


def results_by_kind(
    trace: AcceptanceTrace, draft_tokens: Sequence[int] = SHOWN_DRAFT_TOKENS
) -> dict[str, dict[str, Any]]:
    """Sizes, looped share, tokens per step by K and shares of ranks, per prompt kind and for "all".

    Args:
        trace: a finished recording.
        draft_tokens: K of the chains that are replayed, >= 1.

    Returns:
        Kind to JSON values: `requests`, `tokens`, `looped_ratio`, `tokens_per_step` by K, and where
        the trace has them `proposal_ratio`, `top1_ratio` and `top8_ratio`.
    """
    kinds = list(dict.fromkeys(trace.prompt_kinds))
    chosen = {
        kind: [i for i, prompt_kind in enumerate(trace.prompt_kinds) if prompt_kind == kind]
        for kind in kinds
    }
    parts = {kind: trace.select(requests) for kind, requests in chosen.items()} | {"all": trace}
    return {kind: _results(part, draft_tokens) for kind, part in parts.items()}


def _results(trace: AcceptanceTrace, draft_tokens: Sequence[int]) -> dict[str, Any]:
    stepping = int(np.maximum(trace.output_tokens - trace.first_step_position, 0).sum()) > 0
    results: dict[str, Any] = {
        "requests": trace.requests,
        "tokens": trace.positions,
        "looped_ratio": sum(trace.extra_columns["looped_tokens"]) / max(trace.positions, 1),
        "tokens_per_step": (
            {
                str(count): round(replay_chain(trace, count).tokens_per_step, 4)
                for count in draft_tokens
            }
            if stepping
            else {}
        ),
    }
    if trace.drafted is not None:
        results["proposal_ratio"] = round(float((trace.drafted > 0).mean()), 4)
    if trace.rank is not None:
        for width in (1, 8):
            hit = (trace.rank >= 0) & (trace.rank < width)
            results[f"top{width}_ratio"] = round(float(hit.mean()), 4)
    return results
