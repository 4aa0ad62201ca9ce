"""`replay`: tokens per step of chains and trees on a recorded trace, exactly."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from app.cli.output import Answered
from app.questions.field import Field, Group, Stated
from app.questions.fields import (
    Batch,
    Csv,
    DraftShapes,
    Json,
    MatchRate,
    Model,
    Out,
    Quiet,
    Seed,
    StopRule,
)
from app.questions.groups import PlacedOptions
from app.questions.values import MOST_DRAFT_TOKENS, method_slug, ratio, whole_numbers

if TYPE_CHECKING:
    from costmodel.laws.acceptance import Acceptance, Law
    from traces.kinds.acceptance import AcceptanceTrace
    from traces.kinds.tree import Tree
    from traces.replay.bootstrap import RequestDraws

ROWS = ("chains", "trees", "varying")
_OF_SPEEDS = ("model", "device", "engine", "tp", "batch", "context", "splits")


def replay(
    stated: Stated,
    placed: PlacedOptions,
    trace: Annotated[
        Path,
        Field(
            "Acceptance trace: Parquet, position JSON, or a shipped one by name.",
            Group.WORKLOAD,
            argument=True,
        ),
    ],
    draft_tokens: Annotated[
        str, Field("Draft tokens K, comma-separated.", Group.DRAFTING)
    ] = "1,3,5",
    tree: Annotated[
        list[Path] | None, Field("Tree JSON; repeat for several.", Group.DRAFTING)
    ] = None,
    method: Annotated[
        str,
        Field("Method whose verifier decides what stays; default: the trace's.", Group.DRAFTING),
    ] = "",
    verifier: Annotated[
        str,
        Field(
            (
                "Rule that decides what stays instead: match, token_rejection, with_replacement,"
                " without_replacement, "
                "fixed_candidates, block, multi_path_block, typical or near_match."
            ),
            Group.DRAFTING,
        ),
    ] = "",
    shape: DraftShapes = None,
    stop: StopRule = "",
    match_rate: MatchRate = None,
    held_out: Annotated[
        bool,
        Field(
            (
                "Our choice beside published policies, each chosen on half of the requests and run"
                " on the other."
            ),
            Group.SEARCH,
        ),
    ] = False,
    model: Model = "",
    batch: Batch = "1,8,64",
    context: Annotated[
        int, Field("Cached tokens per request, of --held-out.", Group.WORKLOAD, least=0)
    ] = 1024,
    splits: Annotated[
        int, Field("Times that requests are halved, of --held-out.", Group.SEARCH, least=1)
    ] = 10,
    out: Out = None,
    csv: Csv = None,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> Answered:
    """Walk recorded requests with chains of K draft tokens and with trees; counters (level 0) tell
    chains alone.

    --held-out asks what would be run: chains, trees and stop rules chosen by their predicted
    tokens/s on the device, and policies of papers and engines with their own numbers, at every
    --batch. Default target: the recorded one.
    """
    given = stated.given
    if held_out:
        return _held_out(
            trace, given, placed, batch, context, match_rate, splits, seed, (out, csv, json, quiet)
        )
    _refuse_speeds(given)
    from dataclasses import replace

    import numpy as np

    from app.cli.output import deliver
    from app.questions.resolve.accepted import OTHERWISE
    from app.questions.resolve.configurations import named_method
    from costmodel.draft_shape import chain, read_shapes, read_stop
    from costmodel.optimizers.candidates.asked_shapes import shape_acceptances
    from costmodel.optimizers.drafters.sources import trace_source
    from traces.kinds.naming import naming
    from traces.kinds.tree import read_tree
    from traces.library import read_trace, trace_file
    from traces.replay.statistics import request_draws

    lengths = whole_numbers(draft_tokens, "--draft-tokens", least=0, most=MOST_DRAFT_TOKENS)
    trace = trace_file(trace)
    recorded = read_trace(trace)
    rate = ratio(match_rate, "--match-rate")
    inputs = {
        "shape": shape,
        "stop": stop or None,
        "trace": str(trace),
        "draft_tokens": lengths,
        "tree": [str(path) for path in tree or []],
        "match_rate": match_rate,
        "seed": seed,
        "method": method,
        "verifier": verifier,
    }
    if recorded.level == 0:
        if tree or shape or stop or verifier:
            recorded.require(1, "replaying trees, stop rules and verifiers")
        chains = _counted(trace, method_slug(method, "--method"), rate, lengths)
        body = {"inputs": inputs, "chains": chains, "trees": [], "varying": [], "oracles": []}
        return deliver(
            body,
            name="replay",
            json=json,
            out=out,
            quiet=quiet,
            csv=csv,
            rows=ROWS,
            show=lambda: _print(str(trace), body),
        )
    if rate is not None and recorded.drafted is None:
        recorded = replace(recorded, match_rate=rate)
    static_trees = [(path, read_tree(path)) for path in tree or []]
    draws = request_draws(recorded.prompt_kinds, generator=np.random.default_rng(seed))

    law = _law(recorded, method, verifier, lengths)
    chains = [_row(recorded, law, k, draws) for k in lengths]
    trees = []
    for path, nodes in static_trees:
        with naming(str(path)):
            own = _law(recorded, method, verifier, [nodes])
            trees.append(
                {"tree": str(path), "depth": nodes.depth, **_row(recorded, own, nodes, draws)}
            )
    named = [] if shape is None else read_shapes(shape, key="--shape")
    if stop:
        rule = read_stop(stop, key="--stop")
        named += [chain(k, rule) for k in lengths]
    varied = []
    if named:
        slug = method_slug(method, "--method") or named_method(recorded) or OTHERWISE
        source = trace_source(trace, slug, rate)
        generator = np.random.default_rng(seed)
        given_law = law if verifier else None
        emitted = shape_acceptances(source, named, generator=generator, law=given_law)
        varied = [_varied(a, recorded) for a in emitted]
    oracles = _oracles(recorded, lengths) if law.by_matching else []
    body = {
        "inputs": inputs,
        "chains": chains,
        "trees": trees,
        "varying": varied,
        "oracles": oracles,
    }
    return deliver(
        body,
        name="replay",
        json=json,
        out=out,
        quiet=quiet,
        csv=csv,
        rows=ROWS,
        show=lambda: _print(str(trace), body),
    )


def _oracles(recorded: "AcceptanceTrace", lengths: list[int]) -> list[dict[str, Any]]:
    """What no rule can exceed that chooses drafts of at most the longest length at every step."""
    import numpy as np

    from traces.kinds.provenance import POLICY_KEY
    from traces.replay.oracle import step_oracle

    most = max(lengths)
    if not most or POLICY_KEY in recorded.provenance.extra:
        return []
    kinds = [("chain", False)] + ([("tree", True)] if recorded.level >= 2 else [])
    rows = []
    for kind, trees in kinds:
        found = step_oracle(recorded, np.ones(most + 1), trees=trees)
        rows.append(
            {
                "draft": f"oracle: any {kind} of at most {most} levels at every step",
                "levels": most,
                "tokens_per_step": found.tokens_per_cost,
                "tokens": int(found.tokens.sum()),
                "steps": round(float(found.cost.sum())),
            }
        )
    return rows


def _refuse_speeds(given: dict[str, Any]) -> None:
    """Refuse options that only predicted speeds need.

    Raises:
        InputError: one of them, without --held-out.
    """
    from hardware_profiles.errors import InputError

    if beside := [name for name in _OF_SPEEDS if name in given]:
        rule = "belongs to --held-out, which predicts speeds; tokens per step depend on no device"
        raise InputError(rule, key=f"--{beside[0]}", value=given[beside[0]])


def _held_out(
    trace: Path,
    given: dict[str, Any],
    placed: PlacedOptions,
    batch: str,
    context: int,
    match_rate: float | None,
    splits: int,
    seed: int,
    deliver_to: tuple[Path | None, Path | None, bool, bool],
) -> Answered:
    """Policies on held-out halves of a recording."""
    from app.answers.policies import held_out_rows
    from app.cli.output import deliver
    from app.cli.shown.policies import print_policies
    from app.questions.resolve.asked import asked
    from hardware_profiles.errors import InputError
    from traces.library import trace_file

    others = [
        name for name in ("draft_tokens", "tree", "shape", "stop", "verifier") if name in given
    ]
    if others:
        rule = (
            "compares policies that choose what to draft; leave out"
            f" --{others[0].replace('_', '-')}"
        )
        raise InputError(rule, key="--held-out")
    file, batches = trace_file(trace), whole_numbers(batch, "--batch", least=1)
    question = asked(None, {name: value for name, value in given.items() if name != "trace"})
    rows = held_out_rows(
        file,
        question,
        batches,
        context,
        match_rate=ratio(match_rate, "--match-rate"),
        splits=splits,
        seed=seed,
    )
    inputs = {
        "trace": str(file),
        "model": rows[0]["model"],
        "device": placed.device,
        "engine": placed.engine,
        "batch": batch,
        "context": context,
        "match_rate": match_rate,
        "splits": splits,
        "seed": seed,
    }
    out, csv, json, quiet = deliver_to
    return deliver(
        {"inputs": inputs, "held_out": rows},
        name="replay",
        json=json,
        out=out,
        quiet=quiet,
        csv=csv,
        rows=["held_out"],
        show=lambda: print_policies(rows, inputs),
    )


def _row(
    recorded: "AcceptanceTrace", law: "Law", shape: "int | Tree", draws: "RequestDraws"
) -> dict[str, Any]:
    """A row of a chain or a static tree."""
    from costmodel.answers.uncertainty import interval
    from costmodel.laws.acceptance import accepted_by, replay_by

    played, accepted = replay_by(recorded, law, shape), accepted_by(recorded, law, shape, draws)
    low, high = interval(accepted.samples)
    return {
        "draft_tokens": accepted.draft_tokens,
        "tokens_per_step": accepted.tokens_per_step,
        "interval": [float(low), float(high)],
        "tokens": int(played.tokens.sum()),
        "steps": played.steps.sum().item(),
        "proposal_ratio": accepted.proposal_ratio,
        "rule": law.rule,
        "remark": accepted.remark,
    }


def _counted(
    path: Path, method: str, match_rate: float | None, lengths: list[int]
) -> list[dict[str, Any]]:
    """Rows of chains by the rates that an engine counted; single steps, and with them an interval,
    are unknown.
    """
    from costmodel.optimizers.drafters.sources import trace_source

    source = trace_source(path, method, match_rate, otherwise="speculative-decoding")
    assert source.rates is not None
    return [
        {
            "draft_tokens": k,
            "tokens_per_step": a.tokens_per_step,
            "interval": None,
            "tokens": None,
            "steps": None,
            "proposal_ratio": a.proposal_ratio,
            "rule": "counted",
            "remark": a.remark,
        }
        for k, a in ((k, source.rates.chain(k)) for k in lengths)
    ]


def _print(title: str, body: dict[str, Any]) -> None:
    from app.answers.numbers import plain
    from app.render.text import print_table, say_remarks
    from costmodel.draft_shape import chain

    chains, trees, varied = body["chains"], body["trees"], body["varying"]
    rows = [[str(chain(c["draft_tokens"])), *_cells(c)] for c in chains]
    rows += [[f"{t['tree']} ({t['draft_tokens']})", *_cells(t)] for t in trees]
    rows += [[v["draft"], *_cells(v)] for v in varied]
    rows += [
        [o["draft"], f"{o['tokens_per_step']:.3f}", plain(o["tokens"]), plain(o["steps"]), "", ""]
        for o in body["oracles"]
    ]
    columns = [
        "configuration",
        "tokens/step",
        "tokens",
        "steps",
        "steps with a proposal",
        "verifier",
    ]
    print_table(title, columns, rows, caption="brackets: 80 % intervals")
    say_remarks([*chains, *trees, *varied])


def _law(
    recorded: "AcceptanceTrace", method: str, verifier: str, shapes: "Sequence[int | Tree]"
) -> "Law":
    """The law of the rule that was named, else of the method named, else of the trace's; else
    matching.
    """
    from app.questions.resolve.configurations import named_method
    from costmodel.laws.acceptance import MATCHING, law_for
    from costmodel.method_library import load_method

    if verifier:
        return law_for(recorded, verifier, shapes, strict=True)
    slug = method_slug(method, "--method") or named_method(recorded)
    if not slug:
        return MATCHING
    verify = load_method(slug).verify
    return law_for(recorded, verify.rule, shapes, at=verify.at)


def _varied(a: "Acceptance", recorded: "AcceptanceTrace") -> dict[str, Any]:
    """A row of drafts that differ from step to step."""
    import numpy as np

    from app.answers.drafting import drafting
    from costmodel.answers.uncertainty import interval
    from costmodel.draft_shape import shape_of

    low, high = interval(a.samples)
    tokens = int(np.maximum(recorded.output_tokens - recorded.first_step_position, 0).sum())
    return {
        "draft": str(shape_of(a)),
        "draft_tokens": a.draft_tokens,
        "tokens_per_step": a.tokens_per_step,
        "interval": [float(low), float(high)],
        "tokens": tokens,
        "steps": round(tokens / a.tokens_per_step),
        "proposal_ratio": a.proposal_ratio,
        "rule": a.rule,
        "remark": a.remark,
        **drafting(a),
    }


def _cells(row: dict[str, Any]) -> list[str]:
    from app.answers.numbers import plain, ranged

    shown = ranged(row["tokens_per_step"], row["interval"], 3)
    return [
        shown,
        plain(row["tokens"]),
        plain(row["steps"]),
        f"{row['proposal_ratio']:.1%}",
        row["rule"],
    ]
