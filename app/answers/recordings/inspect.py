"""`traces inspect`: what a trace holds, and tokens per step by prompt kind."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from app.answers.answer import Answer, Column, Row, Table
from app.answers.counts import Counts, counts_of
from app.answers.recordings.policies import RecordedPolicyRow, policy_rows, policy_table
from app.questions.field import inputs_of
from app.questions.recordings import TracesInspectQuestion
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.confidence import CANDIDATE_FIELDS, CELL_FIELDS
from traces.kinds.provenance import POLICY_KEY
from traces.library import read_trace, trace_file
from traces.replay.walk import replay_chains
from traces.storage.acceptance_file import describe
from traces.storage.confidence_file import read_confidence

_NOT_LISTED = ("inputs", "metadata", "kinds", "policies")


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedTrees(Row):
    """Sizes of the draft trees that are kept for every position."""

    nodes: Annotated[int, Column("Nodes of a tree at most.")]
    depth: Annotated[int, Column("Levels of a tree at most.")]
    width: Annotated[int, Column("Children of a node at most.")]
    total_nodes: Annotated[int, Column("Nodes of all trees.")]
    nodes_per_position: Annotated[float, Column("Mean nodes of a tree.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptKind(Row):
    """Tokens per step of the requests of one kind, by draft length."""

    kind: Annotated[str, Column("Kind of prompt; `all`: their sum.", "prompt kind")]
    requests: Annotated[int, Column("Requests of this kind.")]
    tokens: Annotated[int, Column("Positions of these requests.")]
    tokens_per_step: Annotated[
        Sequence[float | None], Column("By draft length; None without a step.", decimals=3)
    ]
    proposal_ratio: Annotated[
        Sequence[float | None], Column("Share of steps with a proposal, by draft length.")
    ]


@dataclass(frozen=True, kw_only=True)
class InspectedFile(Answer):
    """The answer of `traces inspect`: of a list of requests all, of other traces what they share.

    Attributes:
        file: that was read.
        bytes: its size; None where it is no Parquet file, as for the next two.
        kind: of trace: `acceptance`, `confidence` or `requests`.
        level: of an acceptance trace; None of others.
        requests: that it holds.
        columns: of the file.
        metadata: its header.
    """

    name: ClassVar[str] = "trace"
    file: str
    bytes: int | None = None
    kind: str
    level: int | None
    requests: int
    columns: Sequence[str] | None = None
    metadata: Mapping[str, Any] | None = None

    @property
    def own_rows(self) -> Sequence[Row]:
        """Nothing that would be a table."""
        return ()

    def shown(self) -> Iterator[Table | str]:
        """Every fact as a line, and where the trace comes from."""
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in _NOT_LISTED or (value is None and field.default is None):
                continue
            facts = asdict(value) if is_dataclass(value) else value  # type: ignore[arg-type]
            yield f"{field.name}: {facts}"
        for key, value in (self.metadata or {}).get("provenance", {}).items():
            yield f"  {key}: {value}"


@dataclass(frozen=True, kw_only=True)
class InspectedRecording(InspectedFile):
    """The answer of `traces inspect` about acceptance.

    Attributes:
        positions: of all requests.
        probabilities: candidates of a position whose probability is kept; None: none.
        expansions: sizes of the draft trees that are kept; None: none.
        kinds: a row for every kind of prompt.
    """

    positions: int
    probabilities: int | None
    expansions: RecordedTrees | None
    kinds: Sequence[PromptKind]

    @property
    def own_rows(self) -> Sequence[PromptKind]:
        """The kinds of prompts."""
        return self.kinds

    def shown(self) -> Iterator[Table | str]:
        """The facts, and tokens per step by prompt kind."""
        yield from super().shown()
        if self.kinds:
            yield Table(
                title="tokens per step",
                rows=self.kinds,
                columns=["kind", "requests", "tokens", "tokens_per_step"],
                spread={
                    "tokens_per_step": [
                        f"K={k}" if k else "off" for k in self.inputs["draft_tokens"]
                    ]
                },
            )


@dataclass(frozen=True, kw_only=True)
class InspectedCounters(Counts, InspectedRecording):
    """The answer of `traces inspect` about counters, which are among its attributes."""


@dataclass(frozen=True, kw_only=True)
class InspectedConfidence(InspectedFile):
    """The answer of `traces inspect` about a masked model's confidence.

    Attributes:
        runs: prompts, each under one policy.
        steps: passes of all runs.
        cells: masked positions over all passes.
        vocabulary: tokens of the model.
        mask_id: token of a masked position.
        end_id: token that ends a text; None: there is none.
        canvas_tokens: behind every prompt.
        holds: optional fields that were recorded.
        policies: a row for every policy.
    """

    runs: int
    steps: int
    cells: int
    vocabulary: int
    mask_id: int
    end_id: int | None
    canvas_tokens: int
    holds: Sequence[str]
    policies: Sequence[RecordedPolicyRow]

    @property
    def own_rows(self) -> Sequence[RecordedPolicyRow]:
        """The policies."""
        return self.policies

    def shown(self) -> Iterator[Table | str]:
        """The facts, and the policies side by side."""
        yield from super().shown()
        if self.policies:
            yield policy_table(self.policies)


def answer(question: TracesInspectQuestion) -> InspectedFile:
    """What a trace of any kind holds.

    Raises:
        InputError: no readable trace.
    """
    file = trace_file(question.file)
    facts: dict[str, Any] = (
        describe(file) if file.suffix.lower() == ".parquet" else {"file": str(file)}
    )
    kind = facts.get("kind", "acceptance")
    if kind == "acceptance":
        return _recording(question, file, facts)
    inputs = inputs_of(question, file=str(file), draft_tokens=question.draft_tokens)
    if kind == "confidence":
        return InspectedConfidence(inputs=inputs, **facts | confidence_facts(file, question.seed))
    return InspectedFile(inputs=inputs, **facts)


def _recording(
    question: TracesInspectQuestion, file: Path, facts: dict[str, Any]
) -> InspectedRecording:
    """What an acceptance trace holds.

    Args:
        question: what is asked.
        file: the trace.
        facts: of its header.
    """
    trace, lengths = read_trace(file), question.draft_tokens
    if (policy := trace.provenance.extra.get(POLICY_KEY)) is not None:
        lengths = (policy,)  # nothing else can be replayed
    facts |= {
        "inputs": inputs_of(question, file=str(file), draft_tokens=lengths),
        "kind": "acceptance",
        "level": trace.level,
        "requests": trace.requests,
        "positions": trace.positions,
        "probabilities": None if trace.draft_ids is None else int(trace.draft_ids.shape[1]),
        "expansions": _recorded_trees(trace),
        "kinds": _by_kind(trace, lengths) if trace.level >= 1 else [],
    }
    counts = counts_of(trace) if trace.level == 0 else None
    if counts is not None:
        return InspectedCounters(**facts, **asdict(counts))
    return InspectedRecording(**facts)


def confidence_facts(file: Path, seed: int) -> dict[str, Any]:
    """What a confidence trace holds, by attribute of `InspectedConfidence`.

    Raises:
        InputError: no such trace.
    """
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
        "policies": policy_rows(file, trace, seed),
    }


def _recorded_trees(trace: AcceptanceTrace) -> RecordedTrees | None:
    trees = trace.expansions
    if trees is None:
        return None
    return RecordedTrees(
        nodes=trees.nodes,
        depth=trees.depth,
        width=trees.width,
        total_nodes=trees.size,
        nodes_per_position=trees.size / max(trees.positions, 1),
    )


def _by_kind(trace: AcceptanceTrace, lengths: Sequence[int]) -> list[PromptKind]:
    """A row for every kind of prompt, and one for all where there are several."""
    members: dict[str, list[int]] = {}
    for request, kind in enumerate(trace.prompt_kinds):
        members.setdefault(kind, []).append(request)
    groups = sorted(members.items()) if len(members) > 1 else []
    rows = []
    for kind, requests in [*groups, ("all", list(range(trace.requests)))]:
        part = trace.select(requests)
        replays = replay_chains(part, lengths)
        rows.append(
            PromptKind(
                kind=kind or "unknown",
                requests=part.requests,
                tokens=int(part.positions),
                tokens_per_step=[r.tokens_per_step if r.steps.any() else None for r in replays],
                proposal_ratio=[r.proposal_ratio if r.steps.any() else None for r in replays],
            )
        )
    return rows
