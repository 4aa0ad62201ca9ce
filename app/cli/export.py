"""`export`: an answer of `optimize`, or a stated configuration, as one engine's files."""

from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.options import MOST_DRAFT_TOKENS, Json, Quiet, Seed

MAX_ANSWER_BYTES = 16 * 2**20


def export(
    engine: Annotated[str, typer.Argument(help="vllm, sglang, tensorrt-llm, llama.cpp or transformers.")],
    answer: Annotated[
        Path | None,
        typer.Option("--from", help="recommendation.json of `optimize`; else state a configuration."),
    ] = None,
    batch: Annotated[
        int | None, typer.Option("--batch", min=1, help="Batch of the choice to export; default: the first.")
    ] = None,
    context: Annotated[
        int | None, typer.Option("--context", min=0, help="Context of the choice; default: the first.")
    ] = None,
    scheduled: Annotated[
        bool,
        typer.Option("--schedule/--no-schedule", help="Export the batch schedule rather than one draft length."),
    ] = True,
    model: Annotated[
        str | None, typer.Option("--model", help="Target: hub id or path, as the engine knows it.")
    ] = None,
    draft: Annotated[str | None, typer.Option("--draft", help="Draft model or head: hub id or path.")] = None,
    method: Annotated[str | None, typer.Option("--method", help="Method slug.")] = None,
    draft_tokens: Annotated[
        int | None, typer.Option("--draft-tokens", min=0, max=MOST_DRAFT_TOKENS, help="Draft tokens K.")
    ] = None,
    tree: Annotated[Path | None, typer.Option("--tree", help="Tree JSON.")] = None,
    acceptance: Annotated[
        str | None,
        typer.Option("--acceptance-by-depth", help="P(first d draft tokens kept), d = 1..K, comma-separated."),
    ] = None,
    trace: Annotated[
        Path | None, typer.Option("--trace", help="Recorded trace to take the acceptance by depth from.")
    ] = None,
    engine_version: Annotated[str | None, typer.Option("--engine-version", help="Version to write for.")] = None,
    synthetic: Annotated[
        bool,
        typer.Option("--synthetic", help="Write acceptance rates that the engine imitates, to try a what-if."),
    ] = False,
    out: Annotated[Path, typer.Option("--out", help="Folder for the files.")] = Path("rooftree-out"),
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a configuration in the form an engine loads; refuse what its version cannot express."""
    from app.cli.output import emit_json, say
    from app.exporters.registry import export as export_choice
    from app.exporters.registry import write_export

    choice = _choice(answer, batch, context, scheduled, model, draft, method, draft_tokens, tree)
    choice = _with_acceptance(choice, acceptance, trace)
    result = export_choice(choice, engine, engine_version, synthetic=synthetic)
    paths = [str(path) for path in write_export(result, out)]
    if json:
        inputs = {
            "engine": engine, "engine_version": engine_version, "from": str(answer) if answer else None, "batch": batch,
            "context": context, "schedule": scheduled, "model": model, "draft": draft, "method": method,
            "draft_tokens": draft_tokens, "tree": str(tree) if tree else None, "acceptance_by_depth": acceptance,
            "trace": str(trace) if trace else None, "synthetic": synthetic, "seed": seed,
        }  # fmt: skip
        written = {"engine": result.engine, "version": result.version, "files": paths}
        emit_json({"inputs": inputs, **written, "command": result.command, "notes": list(result.notes)})
    elif not quiet:
        say(f"{result.engine} {result.version}: {', '.join(paths)}")
        say(result.command)
        for note in result.notes:
            say(f"note: {note}")


def _choice(
    answer: Path | None,
    batch: int | None,
    context: int | None,
    scheduled: bool,
    model: str | None,
    draft: str | None,
    method: str | None,
    draft_tokens: int | None,
    tree: Path | None,
) -> Any:
    from app.deployables import stated_choice
    from hardware_profiles.errors import InputError
    from traces.naming import naming
    from traces.tree import read_tree

    found: dict[str, Any] = {}
    overridden = any(value is not None for value in (model, method, draft_tokens, tree))
    if answer is not None:
        found = _picked(_read(answer), answer, batch, context, scheduled and tree is None and draft_tokens is None)
    elif model is None or (draft_tokens is None and tree is None and method not in ("plain-decoding", None)):
        raise InputError("--from FILE, or --model with --method and --draft-tokens or --tree, is needed")
    given = {"model": model, "method": method, "draft_tokens": draft_tokens, "batch": batch, "context": context}
    if draft_tokens is not None:
        found["tree"] = None
    found |= {key: value for key, value in given.items() if value is not None}
    if tree is not None:
        found |= {"tree": read_tree(tree).to_json(), "schedule": []}
        found.pop("draft_tokens", None)
    try:
        with naming(None if answer is None or overridden else str(answer)):
            return stated_choice(found, draft=draft)
    except (AttributeError, OverflowError, TypeError, ValueError) as error:
        if answer is None:
            raise
        raise InputError("is not a whole answer of `rooftree optimize`", file=answer, value=repr(error)) from None


def _read(path: Path) -> dict[str, Any]:
    import json

    from hardware_profiles.errors import InputError

    try:
        if path.stat().st_size > MAX_ANSWER_BYTES:
            raise InputError(f"must be at most {MAX_ANSWER_BYTES} bytes", file=path)
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError("must be a readable JSON file", file=path, value=str(error)) from None
    if not isinstance(content, dict) or content.get("schema") != 1 or not content.get("choices"):
        raise InputError("must be an answer of `rooftree optimize` with schema 1", file=path)
    return content


def _picked(
    content: dict[str, Any], path: Path, batch: int | None, context: int | None, scheduled: bool
) -> dict[str, Any]:
    """The fields of one choice of an answer, with its method's schedule."""
    from hardware_profiles.errors import InputError

    try:
        fits = [
            c for c in content["choices"]
            if (batch is None or c["batch"] == batch) and (context is None or c["context"] == context)
        ]  # fmt: skip
        if not fits:
            there = sorted({(c["batch"], c["context"]) for c in content["choices"]})
            raise InputError(f"holds no such choice; (batch, context) are {there}", file=path, key="choices",
                             value=(batch, context))  # fmt: skip
        picked = dict(fits[0])
        picked["model"] = content["inputs"]["model"]
        picked["tensor_parallel"] = content["inputs"]["tp"]
        if scheduled:
            same = [s for s in content["schedules"]
                    if s["method"] == picked["method"] and s["context"] == picked["context"]]  # fmt: skip
            picked["schedule"] = same[0]["schedule"] if same else []
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError("is not a whole answer of `rooftree optimize`", file=path, value=repr(error)) from None
    return picked


def _with_acceptance(choice: Any, text: str | None, trace: Path | None) -> Any:
    from dataclasses import replace

    from hardware_profiles.errors import InputError
    from traces.library import read_trace
    from traces.statistics import acceptance_by_depth

    if trace is not None and choice.draft_tokens:
        rates = acceptance_by_depth(read_trace(trace), choice.draft_tokens).tolist()
        return replace(choice, acceptance_by_depth=tuple(rates))
    if text is None:
        return choice
    try:
        return replace(choice, acceptance_by_depth=tuple(float(part) for part in text.split(",")))
    except ValueError:
        raise InputError("must be numbers separated by commas", key="--acceptance-by-depth", value=text) from None
