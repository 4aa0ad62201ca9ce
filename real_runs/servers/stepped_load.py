"""What trace do the steps of a load's requests make, and do the engine's counts bear it out?

Requests whose steps cannot be told apart are left out and counted. Where no steps can be told, or
the server's counters contradict them, the trace is what those counters say, of level 0. Leaves out
sending (`real_runs.servers.load`) and single requests (`real_runs.servers.steps`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hardware_profiles.errors import InputError
from real_runs.servers.client import StreamedAnswer
from real_runs.servers.events import Mark
from real_runs.servers.identify import Server
from real_runs.servers.steps import (
    SEVERAL_STEPS,
    RequestSteps,
    UnclearStepsError,
    request_steps,
)
from traces.importers.records import is_record, pooled, record_of
from traces.importers.steps import Steps, stepped
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.provenance import Provenance
from traces.kinds.summary import Summary

RECORDER_VERSION = "rooftree-record-load 1"
_BY_REQUESTS = "the engine's own counts of every request"
_BY_COUNTERS = "the server's counters of all requests together"
_BY_NOTHING = "nothing: no counters stand beside these answers alone"
_NO_DRAFT = "drafts nothing: start the server with speculative decoding"


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceLabels:
    """What a trace says of the requests of a load.

    Attributes:
        names: of every request.
        kinds: of every prompt; empty where there are none.
        dataset: name of the prompts.
        dataset_sha256: their digest.
        method: slug of what drafts; empty where it is not known.
        drafter: what the server calls it; empty where it does not say.
        remark: what a reader must know of the requests; empty: nothing.
    """

    names: Sequence[str]
    kinds: Sequence[str]
    dataset: str = ""
    dataset_sha256: str = ""
    method: str = ""
    drafter: str = ""
    remark: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class SteppedTrace:
    """A trace of a load, and how far it goes.

    Attributes:
        trace: level 1, or 0 where steps could not be told.
        requests: whose steps it holds; 0 at level 0.
        steps: of those requests; 0 at level 0.
        left_out: requests by the reason for which their steps could not be told.
        counted_by: what tells the steps; empty at level 0.
        checked_by: what bears them out; empty at level 0.
        why_no_steps: why the level is 0; empty at level 1.
    """

    trace: AcceptanceTrace
    requests: int
    steps: int
    left_out: Mapping[str, int]
    counted_by: str = ""
    checked_by: str = ""
    why_no_steps: str = ""


@dataclass(kw_only=True, slots=True)
class _KnownSteps:
    """Steps by index of the request, and why there are none."""

    steps: dict[int, RequestSteps] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)


def step_columns(answer: StreamedAnswer) -> dict[str, Any]:
    """What is kept of an answer so that its steps can be told, as JSON values."""
    return {
        "marks": [[mark.tokens, mark.drafted, mark.accepted] for mark in answer.marks],
        "speculation": answer.speculation,
    }


def stepped_trace(
    server: Server,
    rows: Sequence[Mapping[str, Any]],
    labels: TraceLabels,
    *,
    sampling: Mapping[str, Any],
    counted: AcceptanceTrace | None,
    first_counted: int = 0,
    is_alone: bool = True,
) -> SteppedTrace:
    """The trace of a load's answers.

    Args:
        server: that gave them.
        rows: answers in the order in which they came, with `step_columns`.
        labels: of the requests.
        sampling: settings of all requests.
        counted: what the server's counters say of the latest answers; None: it publishes none.
        first_counted: place in `rows` of the first of those.
        is_alone: no request failed among them, so that the counters count these answers alone.

    Raises:
        InputError: nothing was drafted, or neither events nor counters tell what was accepted.
    """
    summary = None if counted is None else counted.summary
    if server.kind == "sglang":  # its counters hold a step behind the end of answers
        summary = None
    known = _known_steps(server, rows, summary)
    latest = {row["request"] for row in rows[first_counted:]}
    _require_drafts(server, known, summary)
    checked_by, contradicted = _checked(known, latest, summary, is_alone=is_alone)
    if contradicted or not any(own.emitted for own in known.steps.values()):
        why = contradicted or "; ".join(known.left_out) or "answers end with their first tokens"
        trace = _without_steps(server, rows, counted, why)
        return SteppedTrace(
            trace=_labelled(trace, server, labels, sampling, f"No steps: {why}."),
            requests=0,
            steps=0,
            left_out=dict(known.left_out),
            why_no_steps=why,
        )
    trace = _levelled(server, rows, labels, known, sampling, checked_by)
    steps = sum(len(own.emitted) for own in known.steps.values())
    if trace.drafted is None:
        proposals = [own.proposals for own in known.steps.values() if own.proposals is not None]
        if len(proposals) == len(known.steps):
            trace = replace(trace, match_rate=min(sum(proposals) / steps, 1.0))
        elif checked_by == _BY_COUNTERS and summary is not None:
            beside = sum(len(own.emitted) for at, own in known.steps.items() if at in latest)
            trace = replace(trace, match_rate=summary.drafts / beside)
    return SteppedTrace(
        trace=trace,
        requests=len(known.steps),
        steps=steps,
        left_out=dict(known.left_out),
        counted_by=server.engine.steps_known_by,
        checked_by=checked_by,
    )


def _known_steps(
    server: Server, rows: Sequence[Mapping[str, Any]], summary: Summary | None
) -> _KnownSteps:
    known = _KnownSteps()
    longest = None if summary is None else summary.draft_levels
    for row in rows:
        if not server.engine.steps_known_by:
            known.left_out["events of this engine do not tell steps"] += 1
            continue
        marks = [
            Mark(tokens=tokens, drafted=drafted, accepted=accepted)
            for tokens, drafted, accepted in row["marks"]
        ]
        try:
            own = request_steps(server.kind, marks, row["speculation"], row["output_tokens"])
        except UnclearStepsError as unclear:
            known.left_out[unclear.message] += 1
            continue
        if not own.is_checked and longest and max(own.emitted, default=1) > longest + 1:
            known.left_out[SEVERAL_STEPS] += 1
            continue
        known.steps[row["request"]] = own
    return known


def _require_drafts(server: Server, known: _KnownSteps, summary: Summary | None) -> None:
    """Refuse answers of a server that drafted nothing.

    Raises:
        InputError: so did this one.
    """
    has_counted = summary is not None and bool(summary.drafts or summary.draft_tokens)
    if has_counted or any(own.proposals or own.draft_tokens for own in known.steps.values()):
        return
    emitted = [tokens for own in known.steps.values() for tokens in own.emitted]
    if emitted and max(emitted) == 1:
        raise InputError(_NO_DRAFT, key=str(server.address))


def _checked(
    known: _KnownSteps, latest: set[int], summary: Summary | None, *, is_alone: bool
) -> tuple[str, str]:
    """What bears the steps out, and what contradicts them; empty: nothing does."""
    counted = [own for request, own in known.steps.items() if request in latest]
    # the counters, where they count these answers and no others
    beside = summary if is_alone and len(counted) == len(latest) else None
    if all(own.is_checked for own in known.steps.values()):
        return _BY_REQUESTS + _totals_agree(counted, beside), ""
    if known.left_out[SEVERAL_STEPS]:  # so may those of other requests, of which nothing tells
        return "", SEVERAL_STEPS
    if beside is None:
        return _BY_NOTHING, ""
    return _BY_COUNTERS, _contradiction(counted, beside)


def _totals_agree(counted: Sequence[RequestSteps], beside: Summary | None) -> str:
    """Whether the counts of requests add up to the server's, in words; empty: those are unknown."""
    if beside is None:
        return ""
    proposals = [own.proposals for own in counted if own.proposals is not None]
    sums = (
        sum(proposals) if len(proposals) == len(counted) else beside.drafts,
        sum(own.draft_tokens or 0 for own in counted),
        sum(own.accepted_tokens or 0 for own in counted),
    )
    totals = (beside.drafts, beside.draft_tokens, beside.accepted_tokens)
    if all(own == total for own, total in zip(sums, totals, strict=True) if total):
        return ", which add up to the server's counters"
    return "; the server's counters differ, as with other requests beside"


def _contradiction(counted: Sequence[RequestSteps], beside: Summary) -> str:
    """How the server's counters contradict an event per step; empty where they do not."""
    steps = sum(len(own.emitted) for own in counted)
    accepted = sum(sum(own.emitted) for own in counted) - steps
    # the last step of every answer may have kept more than the answer holds
    most = accepted + len(counted) * (beside.draft_levels or 0)
    if beside.drafts <= steps and accepted <= beside.accepted_tokens <= most:
        return ""
    return (
        f"{SEVERAL_STEPS}, or other requests ran: {steps} events after first tokens hold"
        f" {accepted} accepted tokens, and the server counted {beside.drafts} drafts and"
        f" {beside.accepted_tokens} accepted tokens"
    )


def _levelled(
    server: Server,
    rows: Sequence[Mapping[str, Any]],
    labels: TraceLabels,
    known: _KnownSteps,
    sampling: Mapping[str, Any],
    checked_by: str,
) -> AcceptanceTrace:
    kept = [
        row for row in sorted(rows, key=lambda row: row["request"]) if row["request"] in known.steps
    ]
    left = sum(known.left_out.values())
    notes = [
        f"Steps by {server.engine.steps_known_by}; checked by {checked_by}. The prompt's pass emits position 0.",
        f"{left} of {len(rows)} requests left out: {'; '.join(known.left_out)}." if left else "",
    ]
    trace = stepped(
        [
            Steps(
                request=labels.names[row["request"]],
                kind=labels.kinds[row["request"]] if labels.kinds else "",
                emitted=known.steps[row["request"]].emitted,
                drafted=known.steps[row["request"]].drafted,
                prompt_tokens=row["input_tokens"],
            )
            for row in kept
        ],
        str(server.address),
        Provenance(notes=" ".join(note for note in notes if note)),
        first_step_position=1,
    )
    trace = replace(trace, extra_columns={"ended": [row["finish_reason"] for row in kept]})
    return _labelled(trace, server, labels, sampling)


def _without_steps(
    server: Server,
    rows: Sequence[Mapping[str, Any]],
    counted: AcceptanceTrace | None,
    reasons: str,
) -> AcceptanceTrace:
    """What the engine counted of the requests, each for itself or all together, at level 0.

    Raises:
        InputError: neither was counted.
    """
    records = [
        record_of(row["speculation"], str(server.address), f"request {row['request']}")
        for row in rows
        if row["speculation"] is not None and is_record(row["speculation"])
    ]
    if len(records) == len(rows):
        steps_left_out = [replace(record, per_step=None) for record in records]
        return pooled(steps_left_out, str(server.address), source=RECORDER_VERSION)
    if counted is None:
        raise InputError(
            f"no trace can be made: {reasons}; and the server publishes no counters of drafts",
            key=str(server.address),
        )
    return counted


def _labelled(
    trace: AcceptanceTrace,
    server: Server,
    labels: TraceLabels,
    sampling: Mapping[str, Any],
    note: str = "",
) -> AcceptanceTrace:
    about = trace.provenance
    return replace(
        trace,
        file=None,
        provenance=replace(
            about,
            model=_model_name(server),
            drafter=labels.drafter or about.drafter,
            method=labels.method or about.method,
            sampling=dict(sampling),
            dataset=labels.dataset,
            dataset_sha256=labels.dataset_sha256,
            recorder_version=RECORDER_VERSION,
            notes=" ".join(text for text in (about.notes, note, labels.remark) if text),
            extra={**about.extra, "engine": server.kind},
        ),
    )


def _model_name(server: Server) -> str:
    """The model; of llama.cpp, which names a file with its folders, the file's name."""
    if server.kind != "llama.cpp":
        return server.model
    return server.model.replace("\\", "/").rpartition("/")[2].removesuffix(".gguf")
