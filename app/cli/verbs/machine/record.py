"""`record`: run a real model and record what drafters would have proposed."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from app.questions.field import Field, Group, Stated
from app.questions.fields import Json, Quiet, Seed

if TYPE_CHECKING:
    from real_runs.recording.files import RecordedFile
    from real_runs.recording.options import RecordOptions

_OF_MASKED = frozenset({"masked", "out", "seed", "resume", "json", "quiet"})


def record(
    stated: Stated,
    out: Annotated[
        Path,
        Field("Folder for the traces; unfinished work is kept there too.", Group.OUTPUT),
    ],
    model: Annotated[
        Path | None,
        Field(
            "A .gguf file or Hugging Face folder; default: SmolLM2-135M-Instruct.", Group.WORKLOAD
        ),
    ] = None,
    prompts: Annotated[
        Path | None,
        Field(
            (
                "TOML of a title and [[prompts]], each with id, kind and text; default: the shipped"
                " set."
            ),
            Group.WORKLOAD,
        ),
    ] = None,
    prompts_per_kind: Annotated[
        int | None, Field("Only the first so many.", Group.WORKLOAD)
    ] = None,
    drafter: Annotated[
        list[str] | None,
        Field(
            (
                "prompt-lookup, early-exit, suffix-automaton, layer-skip, feature-head,"
                " medusa-heads, draft-model, "
                "token-recycling, lookahead, jacobi, rest, cascade, hydra, ppd, or all; repeat;"
                " default: the first two."
            ),
            Group.DRAFTING,
        ),
    ] = None,
    temperature: Annotated[
        list[float] | None,
        Field("0 is greedy; repeat (default: 0 and 0.8).", Group.WORKLOAD),
    ] = None,
    level: Annotated[
        int, Field("2: ranks; 3: probabilities of both models too.", Group.DRAFTING)
    ] = 2,
    candidates: Annotated[
        int, Field("Candidates with probabilities at level 3.", Group.DRAFTING)
    ] = 8,
    expansion_nodes: Annotated[
        int,
        Field("Draft tokens of the tree kept at every position; 0: none.", Group.DRAFTING),
    ] = 0,
    max_new_tokens: Annotated[int, Field("Longest answer.", Group.WORKLOAD)] = 160,
    least_match: Annotated[
        int,
        Field("Shortest suffix that the suffix automaton drafts from.", Group.DRAFTING),
    ] = 2,
    skipped_layers: Annotated[
        str | None,
        Field("A,B: skip layers A to B-1; default: the middle.", Group.DRAFTING),
    ] = None,
    no_skip_bridge: Annotated[
        bool,
        Field("Nothing crosses the skipped layers but the states themselves.", Group.DRAFTING),
    ] = False,
    draft_model: Annotated[
        Path | None,
        Field("A .gguf file or folder; default: one made out of the target.", Group.DRAFTING),
    ] = None,
    recycling_nodes: Annotated[
        int,
        Field("Nodes of token recycling's tree, root included.", Group.DRAFTING),
    ] = 80,
    head_steps: Annotated[
        int | None,
        Field("Training steps of heads and draft model; default: by kind.", Group.DRAFTING),
    ] = None,
    exit_layer: Annotated[
        int | None,
        Field("Layers before the exit; default: a third.", Group.DRAFTING, least=1),
    ] = None,
    dtype: Annotated[str, Field("float32 or bfloat16.", Group.FORMATS)] = "float32",
    device: Annotated[str, Field("Torch device.", Group.HARDWARE)] = "cpu",
    threads: Annotated[int | None, Field("CPU threads; default: all.", Group.HARDWARE)] = None,
    server: Annotated[
        str | None,
        Field("Address of a llama.cpp server to record through, greedily.", Group.HARDWARE),
    ] = None,
    engine: Annotated[
        str | None,
        Field("llama.cpp: start its server and record through it, greedily.", Group.HARDWARE),
    ] = None,
    lookup: Annotated[
        list[str] | None,
        Field(
            "N:M of the server's ngram-simple: looked up, longest draft; repeat.", Group.WORKLOAD
        ),
    ] = None,
    masked: Annotated[
        bool,
        Field(
            "Train a small masked-diffusion model and record how sure it is, by policy.",
            Group.MASKED,
        ),
    ] = False,
    resume: Annotated[bool, Field("Go on with an unfinished recording.", Group.RUN)] = False,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Record acceptance traces of drafters that watch a real model write."""
    from app.questions.places import require_folder
    from app.render.json import print_json
    from app.render.text import print_table, say
    from real_runs.recording.options import RecordOptions
    from real_runs.recording.record import record as run

    require_folder(out)
    if masked:
        _check_masked(stated.given)
        _record_masked(out, seed=seed, resume=resume, json=json, quiet=quiet)
        return
    options = RecordOptions(
        out=out,
        model=model,
        prompts=prompts,
        prompts_per_kind=prompts_per_kind,
        max_new_tokens=max_new_tokens,
        drafters=_drafters(drafter),
        temperatures=tuple(temperature or (0.0, 0.8)),
        level=level,
        candidates=candidates,
        expansion_nodes=expansion_nodes,
        least_match=least_match,
        skipped_layers=_span(skipped_layers),
        skip_bridge=not no_skip_bridge,
        draft_model=draft_model,
        recycling_nodes=recycling_nodes,
        head_steps=head_steps,
        exit_layer=exit_layer,
        dtype=dtype,
        device=device,
        threads=threads,
        resume=resume,
        seed=seed,
    )
    if server is not None or engine is not None:
        _record_served(options, server, engine, lookup or [], json=json, quiet=quiet)
        return
    with _bar(quiet) as advance:
        report = run(options, progress=advance)
    found = [_summary(file) for file in report.files]
    if json:
        inputs = {
            "model": str(model) if model else None,
            "seed": seed,
            "dtype": dtype,
            "device": device,
            "level": level,
            "drafters": list(options.drafters),
            "temperatures": list(options.temperatures),
        }
        print_json({"inputs": inputs, "traces": found})
    elif not quiet:
        rows = [
            [
                t["file"],
                str(t["requests"]),
                str(t["tokens"]),
                f"{t['looped_ratio']:.1%}",
                *("-" if v is None else f"{v:.3f}" for v in t["tokens_per_step"]),
            ]
            for t in found
        ]
        columns = ["trace", "requests", "tokens", "looped", "K=1", "K=3", "K=5", "K=8"]
        print_table("recorded; tokens per step by draft length", columns, rows)
        say("inspect one with: rooftree traces inspect FILE")


def _record_served(
    options: "RecordOptions",
    server: str | None,
    engine: str | None,
    lookups: list[str],
    *,
    json: bool,
    quiet: bool,
) -> None:
    from app.cli.verbs.machine.record_served import record_served, show_served
    from app.render.json import print_json

    with _bar(quiet) as advance:
        found = record_served(
            options, server=server, engine=engine, lookups=lookups, advance=advance
        )
    if json:
        inputs = {
            "server": server,
            "engine": engine,
            "lookups": lookups,
            "max_new_tokens": options.max_new_tokens,
        }
        print_json({"inputs": inputs, "traces": found})
    elif not quiet:
        show_served(found)


def _check_masked(given: Mapping[str, object]) -> None:
    """Refuse options that say nothing to a recording of a masked model."""
    from hardware_profiles.errors import InputError

    for name, value in given.items():
        if name not in _OF_MASKED:
            rule = (
                "must be left out: --masked trains a model and has prompts and policies of its own"
            )
            raise InputError(rule, key=f"--{name.replace('_', '-')}", value=value)


def _record_masked(out: Path, *, seed: int, resume: bool, json: bool, quiet: bool) -> None:
    from app.answers.recordings.policies import compared_policies, policy_table
    from app.render.json import print_json
    from app.render.text import say, show
    from real_runs.masked.training import MaskedRecipe
    from real_runs.recording.masked import MaskedRecording, record_masked

    with _bar(quiet) as advance:
        recording = MaskedRecording(out=out, recipe=MaskedRecipe(seed=seed), resume=resume)
        files = record_masked(recording, progress=advance)
    rows = compared_policies(files, seed=0)
    if json:
        print_json(
            {
                "inputs": {"masked": True, "seed": seed},
                "traces": [str(file) for file in files],
                "policies": rows,
            }
        )
    elif not quiet:
        show([policy_table(rows)])
        say("inspect one with: rooftree traces inspect FILE")


def _summary(file: "RecordedFile") -> dict[str, Any]:
    from traces.kinds.provenance import POLICY_KEY
    from traces.library import read_trace
    from traces.replay.walk import replay_chain

    trace = read_trace(file.path)
    policy = trace.provenance.extra.get(POLICY_KEY)
    return {
        "file": str(file.path),
        "drafter": file.drafter,
        "temperature": file.temperature,
        "level": trace.level,
        "requests": trace.requests,
        "tokens": file.tokens,
        "looped_ratio": file.looped_ratio,
        "tokens_per_step": [
            replay_chain(trace, k).tokens_per_step if policy in (None, k) else None
            for k in (1, 3, 5, 8)
        ],
        "policy_draft_tokens": policy,
        "kinds": dict(file.kinds),
    }


def _drafters(named: list[str] | None) -> tuple[str, ...]:
    if named != ["all"]:
        return tuple(named or ("prompt-lookup", "early-exit"))
    from real_runs.drafters.recorded import DRAFTERS

    return DRAFTERS


def _span(text: str | None) -> tuple[int, int] | None:
    from hardware_profiles.errors import InputError

    if text is None:
        return None
    try:
        start, stop = (int(part) for part in text.split(","))
    except ValueError:
        raise InputError(
            "must be two layers, e.g. 12,20", key="--skipped-layers", value=text
        ) from None
    return start, stop


class _bar:  # noqa: N801
    """A progress bar on standard error, one task per stage; silent where it is no terminal or is
    not wanted.
    """

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet

    def __enter__(self) -> Any:
        import sys

        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        shown = not self.quiet and sys.stderr.isatty()
        self.bar = Bar(*columns, console=Console(stderr=True), disable=not shown)
        self.bar.start()
        self.tasks: dict[str, Any] = {}

        def advance(progress: Any) -> None:
            if progress.stage not in self.tasks:
                self.tasks[progress.stage] = self.bar.add_task(progress.stage, total=progress.total)
            self.bar.update(
                self.tasks[progress.stage], completed=progress.done, total=progress.total
            )

        return advance

    def __exit__(self, *_: object) -> None:
        self.bar.stop()
