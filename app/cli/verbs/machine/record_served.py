"""`record --server` and `record --engine llama.cpp`: record through a serving engine."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardware_profiles.errors import InputError

if TYPE_CHECKING:
    from real_runs.recording.options import OnProgress, RecordOptions
    from real_runs.servers.address import Address

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


def record_served(
    options: "RecordOptions",
    *,
    server: str | None,
    engine: str | None,
    lookups: Sequence[str],
    advance: "OnProgress",
) -> list[dict[str, Any]]:
    """Record through the server at an address, or through one that is started for it.

    Args:
        options: of recordings; those that steer our own forward must be left out.
        server: address of a running llama.cpp server; its drafter must not change the text.
        engine: `llama.cpp`, to start one with `options.model` and, where there is one, another with
            the draft model.
        lookups: `N:M`, tokens looked up and longest draft of every `ngram-simple`; none: M 16 for N
            of 1 to 3.
        advance: called with the progress.

    Returns:
        What was written: file, drafter, level, requests, tokens and tokens per step by draft
            length, None where the
        engine never drafts so many.

    Raises:
        InputError: options that do not go together, no server, or answers that are none.
    """
    from real_runs.prompt_set import read_prompts
    from real_runs.recording.options import Progress
    from real_runs.servers.llama_cpp.recording import record_server

    _check(options, server, engine)
    sizes = [_sizes(text) for text in lookups] or list(_LOOKUPS)
    prompts = read_prompts(options.prompts)
    if options.prompts_per_kind is not None:
        prompts = prompts.first_of_each_kind(options.prompts_per_kind)
    with _addresses(options, server) as (target, draft, device):
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
    return [_summary(file, span) for file, span in zip(files, spans, strict=False)]


def show_served(traces: Sequence[dict[str, Any]]) -> None:
    """Print what was recorded, one line per trace."""
    from app.render.text import print_table

    rows = [
        [
            trace["file"],
            str(trace["requests"]),
            str(trace["tokens"]),
            *(
                "-" if value is None else f"{value:.3f}"
                for value in trace["tokens_per_step"].values()
            ),
        ]
        for trace in traces
    ]
    columns = ["trace", "requests", "tokens", *(f"K={count}" for count in _SHOWN)]
    print_table(
        "recorded through llama.cpp's server; tokens per step by draft length", columns, rows
    )


def _check(options: "RecordOptions", server: str | None, engine: str | None) -> None:
    from real_runs.recording.options import RecordOptions

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
    options: "RecordOptions", server: str | None
) -> "Iterator[tuple[Address, Address | None, str]]":
    """Where the target answers, where the draft model does, and on what they run."""
    from real_runs.servers.address import Address

    if server is not None:
        yield Address.parse(server), None, ""
        return
    from real_runs.models.loading.weights import find_model
    from real_runs.models.processor import cpu_title
    from real_runs.servers.llama_cpp.launch import launched

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


def _summary(file: Path, drafts: range) -> dict[str, Any]:
    from traces.library import read_trace
    from traces.replay.walk import replay_chain

    trace = read_trace(file)
    return {
        "file": str(file),
        "drafter": trace.provenance.drafter,
        "level": trace.level,
        "requests": trace.requests,
        "tokens": trace.positions,
        "tokens_per_step": {
            str(count): replay_chain(trace, count).tokens_per_step if count in drafts else None
            for count in _SHOWN
        },
    }
