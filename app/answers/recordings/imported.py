"""`traces import`: bring what engines log and count, benchmarks write and public traces list into a
trace file.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from app.answers.answer import Answer
from app.answers.counts import Counts, counts_of
from app.answers.numbers import fixed, plain
from app.questions.field import inputs_of
from app.questions.places import require_file
from app.questions.recordings import TracesImportQuestion
from hardware_profiles.errors import InputError
from hardware_profiles.places import is_place
from hardware_profiles.whole_file import make_folder
from traces.importers.formats import detect, import_confidence, import_requests, import_trace
from traces.kinds.acceptance import AcceptanceTrace
from traces.storage.acceptance_file import write_acceptance, write_requests
from traces.storage.confidence_file import write_confidence

_ACCEPTANCE_OPTIONS = ("drafter", "draft_tokens", "model", "method", "match_rate")
_MOST_POSITIONS = 32
_MOST_BATCHES = 16


@dataclass(frozen=True, kw_only=True)
class ImportedFile(Answer):
    """The answer of `traces import`.

    Attributes:
        format: of the file that was read.
        requests: of the trace.
        out: the trace.
        notes: what the file cannot tell.
    """

    name: ClassVar[str] = ""
    is_written: ClassVar[bool] = True
    format: str
    requests: int
    out: str
    notes: str

    @property
    def own_rows(self) -> Sequence[Any]:
        """Nothing that would be a table."""
        return ()


@dataclass(frozen=True, kw_only=True)
class ImportedAcceptance(ImportedFile):
    """The answer of `traces import` about acceptance.

    Attributes:
        level: what the trace tells: 0 counters, 1 positions, 2 ranks.
        positions: of all requests.
        model: target; empty: unknown.
        method: of drafting; empty: unknown.
    """

    level: int
    positions: int
    model: str
    method: str

    def shown(self) -> Iterator[str]:
        """What was read, and what it cannot tell."""
        line = f"{self.out}: level {self.level}, read as {self.format}"
        if self.level:
            line += f", {self.requests:,} requests, {self.positions:,} positions"
        yield line
        yield from self.counted_lines()
        yield self.notes

    def counted_lines(self) -> Iterator[str]:
        """What was counted, in sentences."""
        return iter(())


@dataclass(frozen=True, kw_only=True)
class ImportedCounters(Counts, ImportedAcceptance):
    """The answer of `traces import` about counters, which are among its attributes."""

    def counted_lines(self) -> Iterator[str]:
        """The counters, and what verbs make of them."""
        if self.tokens_per_step is not None:
            steps = accepted = ""
            if self.drafts:
                drafted = f" of {self.draft_tokens:,} drafted" if self.draft_tokens else ""
                steps = f" over {self.drafts:,} steps"
                accepted = f": {self.accepted_tokens:,} tokens accepted{drafted}"
            yield f"tokens per step {fixed(self.tokens_per_step, 3)}{steps}{accepted}"
        elif self.draft_tokens:
            yield f"{self.accepted_tokens:,} of {self.draft_tokens:,} draft tokens accepted"
        if self.acceptance_by_depth:
            yield f"accepted by position {_rates(self.acceptance_by_depth[:_MOST_POSITIONS])}"
        if len(self.tokens_per_step_by_batch) > 1:
            yield "by running requests " + ", ".join(
                f"{batch:,}: {fixed(mean, 2)}"
                for batch, mean in self.tokens_per_step_by_batch[:_MOST_BATCHES]
            )
        for vector in self.sibling_vectors:
            yield f"candidates of a head {_rates(vector)}"
        if self.geometric_acceptance is not None:
            yield (
                "verbs take a geometric law with that mean:"
                f" {fixed(self.geometric_acceptance, 3)} for each of {self.draft_levels} draft"
                " tokens"
            )
        elif not (
            self.level or self.acceptance_by_depth or self.draft_levels or self.sibling_vectors
        ):
            yield (
                "the draft length is unknown: name it with --draft-tokens, and verbs take a"
                " geometric law"
            )


def _rates(rates: Sequence[float]) -> str:
    return ", ".join(fixed(rate, 3) for rate in rates)


@dataclass(frozen=True, kw_only=True)
class ImportedRequests(ImportedFile):
    """The answer of `traces import` about requests.

    Attributes:
        kind: of trace.
        last_arrival_s: of the last request.
        prompt_tokens: of all requests.
        output_tokens: of all requests.
    """

    kind: str = "requests"
    last_arrival_s: float
    prompt_tokens: int
    output_tokens: int

    def shown(self) -> Iterator[str]:
        """The requests, and who plays them."""
        yield (
            f"{self.out}: {self.requests:,} requests over {plain(self.last_arrival_s, 6)} s, read"
            f" as {self.format}"
        )
        yield f"{self.prompt_tokens:,} prompt tokens, {self.output_tokens:,} output tokens"
        yield self.notes
        yield f"simulate --requests {self.out} plays them"


@dataclass(frozen=True, kw_only=True)
class ImportedConfidence(ImportedFile):
    """The answer of `traces import` about passes of masked blocks.

    Attributes:
        kind: of trace.
        model: that decoded; empty: unknown.
        policies: that were recorded.
        passes: of all runs.
        tokens_per_step: committed by a pass, over all policies.
    """

    kind: str = "confidence"
    model: str
    policies: Sequence[str]
    passes: int
    tokens_per_step: float

    def shown(self) -> Iterator[str]:
        """The passes, and who replays them."""
        yield (
            f"{self.out}: {self.requests:,} requests, {self.passes:,} passes of"
            f" {fixed(self.tokens_per_step, 2)} tokens, read as {self.format}"
        )
        yield f"policies: {'; '.join(self.policies)}"
        yield self.notes
        yield (
            f"traces inspect {self.out} shows them; optimize --method METHOD --trace {self.out}"
            " compares others on them"
        )


def answer(question: TracesImportQuestion) -> ImportedFile:
    """Read files in their format, and write the trace.

    Raises:
        InputError: a file that no importer knows, or a place that cannot be written.
    """
    files = question.files
    source = detect(files[-1], question.form)
    out = Path(f"{files[-1].stem}.parquet") if question.out is None else question.out
    if question.out is None and is_place(out):
        raise InputError("stands here already: name the file to write", file=out, key="--out")
    require_file(out)
    make_folder(out.parent)
    inputs = inputs_of(question, format=source.name, files=[str(file) for file in files])
    if source.kind == "acceptance":
        return _acceptance(question, source.name, out, inputs)
    if source.kind == "confidence":
        return _confidence(question, source.name, out, inputs)
    return _requests(question, source.name, out, inputs)


def _acceptance(
    question: TracesImportQuestion, form: str, out: Path, inputs: dict[str, Any]
) -> ImportedAcceptance:
    trace = _read(question, form)
    provenance = replace(
        trace.provenance,
        model=question.model or trace.provenance.model,
        method=question.method or trace.provenance.method,
    )
    trace = replace(trace, provenance=provenance)
    write_acceptance(trace, out)
    facts: dict[str, Any] = {
        "inputs": inputs,
        "format": form,
        "level": trace.level,
        "requests": trace.requests,
        "positions": int(trace.positions),
        "out": str(out),
        "notes": provenance.notes,
        "model": provenance.model,
        "method": provenance.method,
    }
    counts = counts_of(trace)
    if counts is None:
        return ImportedAcceptance(**facts)
    return ImportedCounters(**facts, **asdict(counts))


def _read(question: TracesImportQuestion, form: str) -> AcceptanceTrace:
    """The trace; the model chooses among several that were served, and is no condition where there
    is one.
    """
    options: dict[str, Any] = {
        "match_rate": question.match_rate,
        "draft_tokens": question.draft_tokens,
    }
    if question.drafter is not None:
        options["drafter"] = question.drafter
    try:
        return import_trace(form, question.files, **options)
    except InputError as error:
        if error.key != "model" or not question.model:
            raise
        return import_trace(form, question.files, **options, model=question.model)


def _requests(
    question: TracesImportQuestion, form: str, out: Path, inputs: dict[str, Any]
) -> ImportedRequests:
    trace = import_requests(form, _one_file(question, form, "lists requests"))
    write_requests(trace, out)
    return ImportedRequests(
        inputs=inputs,
        format=form,
        requests=trace.requests,
        last_arrival_s=float(trace.arrival_s[-1]),
        prompt_tokens=int(trace.prompt_tokens.sum()),
        output_tokens=int(trace.output_tokens.sum()),
        out=str(out),
        notes=trace.provenance.notes,
    )


def _confidence(
    question: TracesImportQuestion, form: str, out: Path, inputs: dict[str, Any]
) -> ImportedConfidence:
    trace = import_confidence(form, _one_file(question, form, "holds passes of masked blocks"))
    write_confidence(trace, out)
    committed = int(trace.committed_tokens.sum())
    return ImportedConfidence(
        inputs=inputs,
        format=form,
        requests=len(set(trace.request_ids)),
        model=trace.provenance.model,
        policies=[policy.name for policy in trace.policies],
        passes=len(trace.forward),
        tokens_per_step=committed / len(trace.forward),
        out=str(out),
        notes=trace.provenance.notes,
    )


def _one_file(question: TracesImportQuestion, form: str, about: str) -> Path:
    """The file of a format that takes one, and no option of acceptance.

    Raises:
        InputError: several files, or such an option.
    """
    for name in _ACCEPTANCE_OPTIONS:
        if value := getattr(question, name):
            raise InputError(
                f"{form} {about} and takes no such option",
                key=f"--{name.replace('_', '-')}",
                value=value,
            )
    if len(question.files) != 1:
        raise InputError(f"{form} takes one file", key="files", value=len(question.files))
    return question.files[0]
