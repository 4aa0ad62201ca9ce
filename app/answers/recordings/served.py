"""`record --lookup` of a server and `record --engine llama.cpp`: record through a serving engine."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, ClassVar

from app.answers.answer import Answer, Column, Row, Table
from app.answers.recordings.stages import recording_bars
from app.questions.field import inputs_of
from app.questions.record import RecordQuestion
from hardware_profiles.errors import InputError
from real_runs.models.loading.weights import find_model
from real_runs.models.processor import cpu_title
from real_runs.prompt_set import read_prompts
from real_runs.recording.options import Progress, RecordOptions
from real_runs.servers.address import Address
from real_runs.servers.llama_cpp.launch import launched
from real_runs.servers.llama_cpp.recording import record_server
from traces.library import read_trace
from traces.replay.walk import replay_chain

_ENGINE = "llama.cpp"
_CONTEXT = 4096
_LOOKUPS = ((3, 16), (2, 16), (1, 16))
_SHOWN = (1, 3, 5, 8, 16)
# of the options of a recording, those that one through a server has, too
_SHARED = frozenset(
    {
        "out",
        "model",
        "prompts",
        "prompts_per_kind",
        "max_new_tokens",
        "draft_model",
        "threads",
        "resume",
        "seed",
    }
)
# what such a recording does without being asked may be asked for
_SERVED: Mapping[str, tuple[object, ...]] = {
    "temperatures": ((0.0,),),
    "drafters": (("draft-model",),),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ServedRecording(Row):
    """A trace of a drafter of a server."""

    file: Annotated[str, Column("The trace.", "trace")]
    drafter: Annotated[str, Column("Who proposed.")]
    level: Annotated[int, Column("What the trace holds of every position.")]
    requests: Annotated[int, Column("Prompts.")]
    tokens: Annotated[int, Column("Tokens that the server wrote.")]
    tokens_per_step: Annotated[
        Mapping[str, float | None],
        Column("Emitted per step, by K; None where the engine never drafts so many."),
    ]

    @property
    def by_length(
        self,
    ) -> Annotated[Sequence[float | None], Column("By K.", decimals=3, of=("tokens_per_step",))]:
        """Tokens per step in the order of K."""
        return list(self.tokens_per_step.values())


@dataclass(frozen=True, kw_only=True)
class ServedRecordings(Answer):
    """The answer of `record` through a server: the traces, which lie in the folder."""

    name: ClassVar[str] = ""
    is_written: ClassVar[bool] = True
    traces: Sequence[ServedRecording]

    @property
    def own_rows(self) -> Sequence[ServedRecording]:
        """The traces."""
        return self.traces

    def shown(self) -> Iterator[Table | str]:
        """The traces, a line each."""
        yield Table(
            title="recorded through llama.cpp's server; tokens per step by draft length",
            rows=self.traces,
            columns=["file", "requests", "tokens", "by_length"],
            spread={"by_length": [f"K={length}" for length in _SHOWN]},
        )


def record_served(question: RecordQuestion, options: RecordOptions) -> ServedRecordings:
    """Record through the server at an address, whose drafter must not change the text, or through
    one that is started with the target and, where there is one, another with the draft model.

    Args:
        question: what was asked.
        options: of recordings; those that steer our own forward must be left out.

    Raises:
        InputError: options that do not go together, no server, or answers that are none.
    """
    _check(options, question.server, question.engine)
    lookups = question.lookup or []
    sizes = [_sizes(text) for text in lookups] or list(_LOOKUPS)
    prompts = read_prompts(options.prompts)
    if options.prompts_per_kind is not None:
        prompts = prompts.first_of_each_kind(options.prompts_per_kind)
    with (
        recording_bars(question.quiet) as advance,
        _addresses(options, question.server) as (target, draft, device),
    ):
        files = record_server(
            target,
            prompts,
            out=options.out,
            lookups=sizes,
            draft=draft,
            max_new_tokens=options.max_new_tokens,
            device=device,
            tell=lambda done, total: advance(
                Progress(stage="record", done=done, total=total, detail=str(target))
            ),
        )
    spans = [range(size_n, size_m + 1) for size_n, size_m in sizes] + [range(1, _SHOWN[-1] + 1)]
    return ServedRecordings(
        inputs=inputs_of(question, lookup=lookups),
        traces=[_recording(file, span) for file, span in zip(files, spans, strict=False)],
    )


def _check(options: RecordOptions, server: str | None, engine: str | None) -> None:
    if server is not None and engine is not None:
        raise InputError("either a running server or one to start", key="--server", value=server)
    if engine not in (None, _ENGINE):
        raise InputError(f"recordings go through {_ENGINE} alone", key="--engine", value=engine)
    usual = RecordOptions(out=options.out)
    for name in (field.name for field in fields(options) if field.name not in _SHARED):
        value = getattr(options, name)
        if value not in (getattr(usual, name), *_SERVED.get(name, ())):
            rule = (
                "belongs to recordings of our own forward: a server is recorded greedily, with its"
                " own drafters"
            )
            raise InputError(rule, key=f"--{name.replace('_', '-')}", value=value)
    if server is not None and (options.model is not None or options.draft_model is not None):
        raise InputError(
            "a running server has its own models; --engine llama.cpp starts one", key="--model"
        )


def _sizes(text: str) -> tuple[int, int]:
    size_n, _, size_m = text.partition(":")
    if not (size_n.isdigit() and size_m.isdigit()) or not 1 <= int(size_n) <= int(size_m) <= 1024:
        raise InputError(
            "must be N:M with 1 <= N <= M <= 1024: nothing shorter is drafted",
            key="--lookup",
            value=text,
        )
    return int(size_n), int(size_m)


@contextmanager
def _addresses(
    options: RecordOptions, server: str | None
) -> Iterator[tuple[Address, Address | None, str]]:
    """Where the target answers, where the draft model does, and on what they run."""
    if server is not None:
        yield Address.parse(server), None, ""
        return
    threads = options.threads or 1
    with ExitStack() as running:

        def started(model: Path | None, name: str) -> Address:
            words = [
                "--model",
                str(find_model(model).path),
                "--ctx-size",
                str(_CONTEXT),
                "--parallel",
                "1",
            ]
            folder = options.out / "servers" / name
            return Address.parse(
                running.enter_context(launched(words, folder=folder, threads=threads)).url
            )

        target = started(options.model, "target")
        draft = None if options.draft_model is None else started(options.draft_model, "draft")
        yield target, draft, f"{cpu_title()}, {threads} thread(s)"


def _recording(file: Path, lengths: range) -> ServedRecording:
    """A trace, replayed at the draft lengths that the engine drafts."""
    trace = read_trace(file)
    return ServedRecording(
        file=str(file),
        drafter=trace.provenance.drafter,
        level=trace.level,
        requests=trace.requests,
        tokens=trace.positions,
        tokens_per_step={
            str(length): replay_chain(trace, length).tokens_per_step if length in lengths else None
            for length in _SHOWN
        },
    )
