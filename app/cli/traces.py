"""`traces import` and `traces inspect`: bring engine logs and published files into the trace format; look inside."""

from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.options import MOST_DRAFT_TOKENS, Json, MatchRate, Out, Quiet, Seed, ratio, whole_numbers

cli = typer.Typer(help="Import and inspect recorded traces.", no_args_is_help=True, rich_markup_mode=None)


@cli.command("import")
def import_(
    files: Annotated[
        list[Path], typer.Argument(help="File to import; two scrapes for vllm-metrics, before and after.")
    ],
    form: Annotated[str, typer.Option("--format", help="position-json, specdecode-bench, vllm-metrics, vllm-log.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Parquet file to write.")],
    drafter: Annotated[
        str | None, typer.Option("--drafter", help="Which drafter of the file, where it holds several.")
    ] = None,
    model: Annotated[str, typer.Option("--model", help="Target model, where the file does not name it.")] = "",
    method: Annotated[str, typer.Option("--method", help="Method slug, where the file does not name it.")] = "",
    match_rate: MatchRate = None,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Convert a file to an acceptance trace, and say which level it yields and what it cannot know."""
    from dataclasses import replace

    from app.cli.output import emit_json, require_file, say
    from traces.importers.formats import import_trace
    from traces.store import write_acceptance

    require_file(out)
    options: dict[str, Any] = {"match_rate": ratio(match_rate, "--match-rate")}
    if drafter is not None:
        options["drafter"] = drafter
    trace = import_trace(form, files, **options)
    known = trace.provenance
    stated = replace(known, model=model or known.model, method=method or known.method)
    trace = replace(trace, provenance=stated)
    write_acceptance(trace, out)
    answer = {
        "level": trace.level, "requests": trace.requests, "positions": int(trace.positions), "out": str(out),
        "notes": stated.notes, "model": stated.model, "method": stated.method,
    }  # fmt: skip
    inputs = {
        "format": form, "files": [str(f) for f in files], "drafter": drafter, "match_rate": match_rate, "seed": seed,
    }  # fmt: skip
    if json:
        emit_json({"inputs": inputs, **answer})
    elif not quiet:
        say(f"{out}: level {trace.level}, {trace.requests} requests, {trace.positions} positions")
        say(stated.notes)


@cli.command("inspect")
def inspect(
    file: Annotated[Path, typer.Argument(help="Trace to look into.")],
    draft_tokens: Annotated[str, typer.Option("--draft-tokens", help="Draft tokens K, comma-separated.")] = "1,3,5,8",
    out: Out = None,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show what a trace holds: level, provenance, and tokens per step by prompt kind."""
    from app.cli.output import deliver, require_folder
    from traces.library import read_trace
    from traces.provenance import POLICY_KEY
    from traces.store import describe

    if out is not None:
        require_folder(out)
    lengths = whole_numbers(draft_tokens, "--draft-tokens", least=1, most=MOST_DRAFT_TOKENS)
    facts: dict[str, Any] = describe(file) if file.suffix.lower() == ".parquet" else {"file": str(file)}
    if facts.get("kind", "acceptance") == "acceptance":
        trace = read_trace(file)
        if (policy := trace.provenance.extra.get(POLICY_KEY)) is not None:
            lengths = [policy]  # nothing else can be replayed
        held = {"kind": "acceptance", "level": trace.level, "requests": trace.requests, "positions": trace.positions}
        held |= {"probabilities": None if trace.draft_ids is None else int(trace.draft_ids.shape[1])}
        held |= {"expansions": _expansions(trace)}
        facts |= held | {"kinds": _by_kind(trace, lengths) if trace.level >= 1 else []}
    inputs = {"file": str(file), "draft_tokens": lengths, "seed": seed}
    deliver({"inputs": inputs, **facts}, name="trace", json=json, out=out)
    if not json and not quiet:
        _print(facts, lengths)


def _print(facts: dict[str, Any], lengths: list[int]) -> None:
    from app.cli.output import print_table, say

    for key, value in facts.items():
        if key not in ("metadata", "kinds"):
            say(f"{key}: {value}")
    for key, value in (facts.get("metadata") or {}).get("provenance", {}).items():
        say(f"  {key}: {value}")
    rows = [
        [
            k["kind"],
            str(k["requests"]),
            str(k["tokens"]),
            *("-" if v is None else f"{v:.3f}" for v in k["tokens_per_step"]),
        ]
        for k in facts.get("kinds", [])
    ]
    if rows:
        print_table("tokens per step", ["prompt kind", "requests", "tokens", *(f"K={k}" for k in lengths)], rows)


def _expansions(trace: Any) -> dict[str, Any] | None:
    """Sizes of the draft trees that are kept per position."""
    if trace.expansions is None:
        return None
    trees = trace.expansions
    return {
        "nodes": trees.nodes, "depth": trees.depth, "width": trees.width, "total_nodes": trees.size,
        "nodes_per_position": trees.size / max(trees.positions, 1),
    }  # fmt: skip


def _by_kind(trace: Any, lengths: list[int]) -> list[dict[str, Any]]:

    from traces.replay import replay_chains

    groups = [
        (kind, [i for i, k in enumerate(trace.prompt_kinds) if k == kind]) for kind in sorted(set(trace.prompt_kinds))
    ]
    found = []
    for kind, members in [*groups, ("all", list(range(trace.requests)))]:
        part = trace.select(members)
        played = replay_chains(part, lengths)
        found.append(
            {
                "kind": kind or "unknown",
                "requests": part.requests,
                "tokens": int(part.positions),
                "tokens_per_step": [r.tokens_per_step if r.steps.any() else None for r in played],
                "proposal_ratio": [r.proposal_ratio if r.steps.any() else None for r in played],
            }
        )
    return found if len(groups) > 1 else found[-1:]
