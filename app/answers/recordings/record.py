"""`record`: run a real model and record what drafters would have proposed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from app.answers.answer import Answer, Column, Row, Table
from app.answers.recordings.own_drafts import record_own_drafts, refuse_load_options
from app.answers.recordings.served import record_served
from app.answers.recordings.stages import recording_bars
from app.questions.field import inputs_of
from app.questions.places import require_folder
from app.questions.record import RecordQuestion
from hardware_profiles.errors import InputError
from real_runs.drafters.registry import drafter_names
from real_runs.recording.files import RecordedFile
from real_runs.recording.options import USUAL_DRAFTERS, Progress, RecordOptions, StepTiming
from real_runs.recording.record import record
from traces.kinds.provenance import POLICY_KEY
from traces.library import read_trace
from traces.replay.walk import replay_chain

_LENGTHS = (1, 3, 5, 8)
_MASKED_OPTIONS = frozenset({"masked", "out", "seed", "resume", "json", "quiet"})


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedTrace(Row):
    """A trace of a drafter that watched the model write."""

    file: Annotated[str, Column("The trace.", "trace")]
    drafter: Annotated[str, Column("Who proposed.")]
    temperature: Annotated[float, Column("Of the model; 0 is greedy.")]
    level: Annotated[int, Column("What the trace holds of every position.")]
    requests: Annotated[int, Column("Prompts.")]
    tokens: Annotated[int, Column("Tokens that the model wrote.")]
    looped_ratio: Annotated[
        float,
        Column("Tokens that only repeat what stands before.", "looped", unit="ratio", decimals=1),
    ]
    tokens_per_step: Annotated[
        Sequence[float | None],
        Column(
            "Emitted per step with K of 1, 3, 5, 8; None where it was not recorded.", decimals=3
        ),
    ]
    policy_draft_tokens: Annotated[
        int | None, Column("Draft tokens K of a drafter that drafts no other length.")
    ]
    kinds: Annotated[
        Mapping[str, Mapping[str, Any]], Column("What was counted, by kind of prompt.")
    ]


@dataclass(frozen=True, kw_only=True)
class RecordedTraces(Answer):
    """The answer of `record`: the traces, which lie in the folder."""

    name: ClassVar[str] = ""
    is_written: ClassVar[bool] = True
    traces: Sequence[RecordedTrace]

    @property
    def own_rows(self) -> Sequence[RecordedTrace]:
        """The traces."""
        return self.traces

    def shown(self) -> Iterator[Table | str]:
        """The traces, and how one is looked at."""
        yield Table(
            title="recorded; tokens per step by draft length",
            rows=self.traces,
            columns=["file", "requests", "tokens", "looped_ratio", "tokens_per_step"],
            spread={"tokens_per_step": [f"K={length}" for length in _LENGTHS]},
        )
        yield "inspect one with: rooftree traces inspect FILE"


def answer(question: RecordQuestion) -> Answer:
    """Record through our own forward, through a server, what a server drafts itself, or a small
    masked model.

    Raises:
        InputError: options that do not go together, or what the recording refuses.
    """
    require_folder(question.out)
    if question.masked:
        _refuse_beside_masked(question)
        # needs torch, which a recording through a server does not
        from app.answers.recordings.masked import record_masked_model

        return record_masked_model(question)
    if question.server is not None and question.engine is None and question.lookup is None:
        return record_own_drafts(question)
    refuse_load_options(question)
    options = _options(question)
    if question.server is not None or question.engine is not None:
        return record_served(question, options)
    with recording_bars(question.quiet) as advance:
        advance(Progress(stage="loading the model", done=0, total=1, detail=""))
        report = record(options, progress=advance)
    return RecordedTraces(
        inputs=inputs_of(question, drafter=options.drafters, temperature=options.temperatures),
        traces=[_recorded(file) for file in report.files],
    )


def _options(question: RecordQuestion) -> RecordOptions:
    return RecordOptions(
        out=question.out,
        model=question.model,
        prompts=question.prompts,
        prompts_per_kind=question.prompts_per_kind,
        max_new_tokens=question.max_new_tokens,
        drafters=_drafters(question.drafter),
        temperatures=tuple(question.temperature or (0.0, 0.8)),
        level=question.level,
        candidates=question.candidates,
        expansion_nodes=question.expansion_nodes,
        least_match=question.least_match,
        skipped_layers=question.skipped_layers,
        skip_bridge=not question.no_skip_bridge,
        draft_model=question.draft_model,
        recycling_nodes=question.recycling_nodes,
        head_steps=question.head_steps,
        exit_layer=question.exit_layer,
        dtype=question.dtype,
        device=question.device,
        threads=question.threads,
        resume=question.resume,
        seed=question.seed,
        timing=StepTiming() if question.timed else None,
    )


def _refuse_beside_masked(question: RecordQuestion) -> None:
    """Refuse options that say nothing to a recording of a masked model."""
    for name, value in question.stated_values.items():
        if name not in _MASKED_OPTIONS:
            rule = (
                "must be left out: --masked trains a model and has prompts and policies of its own"
            )
            raise InputError(rule, key=f"--{name.replace('_', '-')}", value=value)


def _recorded(file: RecordedFile) -> RecordedTrace:
    trace = read_trace(file.path)
    policy = trace.provenance.extra.get(POLICY_KEY)
    return RecordedTrace(
        file=str(file.path),
        drafter=file.drafter,
        temperature=file.temperature,
        level=trace.level,
        requests=trace.requests,
        tokens=file.tokens,
        looped_ratio=file.looped_ratio,
        tokens_per_step=[
            replay_chain(trace, length).tokens_per_step if policy in (None, length) else None
            for length in _LENGTHS
        ],
        policy_draft_tokens=policy,
        kinds=file.kinds,
    )


def _drafters(names: list[str] | None) -> tuple[str, ...]:
    if names != ["all"]:
        return tuple(names or USUAL_DRAFTERS)
    return drafter_names()
