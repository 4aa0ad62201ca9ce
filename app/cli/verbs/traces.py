"""`traces inspect` and `compare`: look inside recorded traces, and set them side by side; `import`
joins them.
"""

from pathlib import Path
from typing import Annotated, Any

from app.cli.output import Answered
from app.cli.verbs.traces_confidence import compared_policies, confidence_facts, print_policies
from app.cli.verbs.traces_import import counts_of
from app.questions.field import Field, Group
from app.questions.fields import Csv, Json, Out, Quiet, Seed
from app.questions.values import MOST_DRAFT_TOKENS, whole_numbers


def inspect(
    file: Annotated[Path, Field("Trace to look into.", Group.WORKLOAD, argument=True)],
    draft_tokens: Annotated[
        str, Field("Draft tokens K, comma-separated.", Group.DRAFTING)
    ] = "1,3,5,8",
    out: Out = None,
    csv: Csv = None,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> Answered:
    """Show what a trace holds: level, provenance, and tokens per step by prompt kind."""
    from app.cli.output import deliver
    from traces.kinds.provenance import POLICY_KEY
    from traces.library import read_trace, trace_file
    from traces.storage.acceptance_file import describe

    file = trace_file(file)
    lengths = whole_numbers(draft_tokens, "--draft-tokens", least=1, most=MOST_DRAFT_TOKENS)
    facts: dict[str, Any] = (
        describe(file) if file.suffix.lower() == ".parquet" else {"file": str(file)}
    )
    if facts.get("kind", "acceptance") == "acceptance":
        trace = read_trace(file)
        if (policy := trace.provenance.extra.get(POLICY_KEY)) is not None:
            lengths = [policy]  # nothing else can be replayed
        held = {
            "kind": "acceptance",
            "level": trace.level,
            "requests": trace.requests,
            "positions": trace.positions,
        }
        held |= {
            "probabilities": None if trace.draft_ids is None else int(trace.draft_ids.shape[1])
        }
        held |= {"expansions": _expansions(trace), **(counts_of(trace) if trace.level == 0 else {})}
        facts |= held | {"kinds": _by_kind(trace, lengths) if trace.level >= 1 else []}
    elif facts["kind"] == "confidence":
        facts |= confidence_facts(file, seed)
    inputs = {"file": str(file), "draft_tokens": lengths, "seed": seed}
    return deliver(
        {"inputs": inputs, **facts},
        name="trace",
        json=json,
        out=out,
        quiet=quiet,
        show=lambda: _print(facts, lengths),
        csv=csv,
        rows=["policies" if facts.get("kind") == "confidence" else "kinds"],
    )


def compare(
    files: Annotated[
        list[Path],
        Field(
            "Traces to set side by side, by path or shipped name.", Group.WORKLOAD, argument=True
        ),
    ],
    draft_tokens: Annotated[
        int, Field("Draft tokens K at which they are compared.", Group.DRAFTING, least=1, most=64)
    ] = 5,
    kind: Annotated[
        str | None, Field("Only this kind of prompt; `all` is their sum.", Group.WORKLOAD)
    ] = None,
    plot: Annotated[
        Path | None, Field("Draw acceptance over depth as an HTML page.", Group.OUTPUT)
    ] = None,
    out: Out = None,
    csv: Csv = None,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> Answered:
    """Acceptance by drafter, prompt kind and depth, and tokens per step with 80 % intervals; or
    policies.
    """
    from app.cli.output import deliver
    from app.questions.places import require_file
    from app.render.text import print_table, say
    from hardware_profiles.errors import UnknownNameError
    from traces.library import is_confidence, read_trace, trace_file
    from traces.replay.comparison import compare as compared

    files = [trace_file(file) for file in files]
    if any(confidence := [is_confidence(file) for file in files]):
        return _compared_confidence(files, all(confidence), kind, plot, out, csv, seed, json, quiet)
    if plot is not None:
        require_file(plot, "--plot")
    rows = compared([read_trace(file) for file in files], draft_tokens=draft_tokens, seed=seed)
    if kind is not None:
        known = list(dict.fromkeys(row.kind for row in rows))
        if kind not in known:
            raise UnknownNameError("kind of prompt", kind, known)
        rows = [row for row in rows if row.kind == kind]
    if plot is not None:
        from app.render.html.acceptance_page import write_acceptance_page

        write_acceptance_page(rows, plot)
    inputs = {
        "files": [str(f) for f in files],
        "draft_tokens": draft_tokens,
        "kind": kind,
        "seed": seed,
    }
    found = [
        {
            "drafter": r.drafter,
            "temperature": r.temperature,
            "kind": r.kind,
            "requests": r.requests,
            "tokens": r.tokens,
            "draft_tokens": r.draft_tokens,
            "tokens_per_step": r.tokens_per_step,
            "acceptance_by_depth": None if r.acceptance is None else r.acceptance.tolist(),
            "tokens_per_step_interval": r.interval,
        }
        for r in rows
    ]

    def show() -> None:
        columns = [
            "drafter",
            "T",
            "prompts",
            *(f"d={d}" for d in range(1, draft_tokens + 1)),
            "tokens/step",
            "80 %",
        ]
        print_table(
            "share of steps that keep the first d draft tokens",
            columns,
            [_compared(r, draft_tokens) for r in found],
            once=["T"],
        )
        if plot is not None:
            say(f"drawn in {plot}")

    answer = {"inputs": inputs, "rows": found}
    return deliver(
        answer,
        name="comparison",
        json=json,
        out=out,
        quiet=quiet,
        show=show,
        csv=csv,
        rows=["rows"],
    )


def _compared_confidence(
    files: list[Path],
    alike: bool,
    kind: str | None,
    plot: Path | None,
    out: Path | None,
    csv: Path | None,
    seed: int,
    json: bool,
    quiet: bool,
) -> Answered:
    """Policies of confidence traces; the options that ask for acceptance are refused."""
    from app.cli.output import deliver
    from hardware_profiles.errors import InputError

    if not alike:
        raise InputError(
            "must all be confidence traces, or none", key="files", value=", ".join(map(str, files))
        )
    for option, value in (("--kind", kind), ("--plot", plot)):
        if value is not None:
            raise InputError(
                "asks for acceptance, which confidence traces do not hold",
                key=option,
                value=str(value),
            )
    rows = compared_policies(files, seed)
    answer = {"inputs": {"files": [str(file) for file in files], "seed": seed}, "policies": rows}
    return deliver(
        answer,
        name="comparison",
        json=json,
        out=out,
        quiet=quiet,
        show=lambda: print_policies(rows),
        csv=csv,
        rows=["policies"],
    )


def _compared(row: dict[str, Any], depth: int) -> list[str]:
    shares = row["acceptance_by_depth"] or []
    blank = ["–"] * (depth - len(shares))
    heat = "–" if row["temperature"] is None else f"{row['temperature']:g}"
    measured = ["–", "–"]
    if row["tokens_per_step"] is not None:
        low, high = row["tokens_per_step_interval"]
        measured = [f"{row['tokens_per_step']:.3f}", f"{low:.2f}–{high:.2f}"]
    return [
        row["drafter"],
        heat,
        row["kind"],
        *(f"{share:.3f}" for share in shares),
        *blank,
        *measured,
    ]


def _print(facts: dict[str, Any], lengths: list[int]) -> None:
    from app.answers.numbers import plain
    from app.render.text import print_table, say

    for key, value in facts.items():
        if key not in ("metadata", "kinds", "policies"):
            say(f"{key}: {value}")
    for key, value in (facts.get("metadata") or {}).get("provenance", {}).items():
        say(f"  {key}: {value}")
    if facts.get("policies"):
        print_policies(facts["policies"])
    rows = [
        [
            k["kind"],
            plain(k["requests"]),
            plain(k["tokens"]),
            *("-" if v is None else f"{v:.3f}" for v in k["tokens_per_step"]),
        ]
        for k in facts.get("kinds", [])
    ]
    if rows:
        print_table(
            "tokens per step",
            ["prompt kind", "requests", "tokens", *(f"K={k}" for k in lengths)],
            rows,
        )


def _expansions(trace: Any) -> dict[str, Any] | None:
    """Sizes of the draft trees that are kept per position."""
    if trace.expansions is None:
        return None
    trees = trace.expansions
    return {
        "nodes": trees.nodes,
        "depth": trees.depth,
        "width": trees.width,
        "total_nodes": trees.size,
        "nodes_per_position": trees.size / max(trees.positions, 1),
    }


def _by_kind(trace: Any, lengths: list[int]) -> list[dict[str, Any]]:

    from traces.replay.walk import replay_chains

    groups = [
        (kind, [i for i, k in enumerate(trace.prompt_kinds) if k == kind])
        for kind in sorted(set(trace.prompt_kinds))
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
