"""`tree`: the best static tree, or trees with prompt tokens, for an acceptance vector or a recorded trace."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli import completion
from app.cli.option_groups import Accepted, grouped
from app.cli.options import Csv, Json, Out, Quiet, Seed, whole_numbers
from app.cli.output import Answered
from app.cli.question.accepted import is_rates

if TYPE_CHECKING:
    from costmodel.method import Method
    from costmodel.optimizers.acceptance_vectors import AcceptanceVectors
    from costmodel.optimizers.sources import Source
    from traces.kinds.acceptance import AcceptanceTrace

MOST_NODES = 4096
MOST_SIBLINGS = 64  # of stated rates: the chance of a later one is below any node's further down
NODES_HELP = "Nodes, root included, comma-separated; prompt tokens are nodes, too."
METHOD_HELP = "Method of stated acceptance; one whose trees carry prompt tokens (ppd) has a tree for every state."


@grouped
def tree(
    accepted: Accepted,
    method: Annotated[str, typer.Option("--method", help=METHOD_HELP, autocompletion=completion.methods)] = "",
    nodes: Annotated[str, typer.Option("--nodes", help=NODES_HELP)] = "64,256",
    depth: Annotated[int, typer.Option("--depth", help="Most levels, root included.")] = 10,
    held_out: Annotated[
        bool,
        typer.Option("--held-out", help="Also choose on half of a recording's requests, and replay on the other half."),
    ] = False,
    out: Out = None,
    csv: Csv = None,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> Answered:
    """Find the tree that emits the most tokens per step within a budget of nodes and levels.

    Where candidates carry prompt tokens (ppd), find the trees of all states together, whose depth the method says.

    --acceptance also takes a file: a recorded trace, or a sibling vector as a JSON list (one list per depth where they
    differ). From rates alone, siblings are taken to be tried in turn.
    """
    from app.cli.output import deliver
    from app.cli.question.accepted import as_given
    from hardware_profiles.errors import InputError
    from traces.kinds.acceptance import AcceptanceTrace

    budgets = whole_numbers(nodes, "--nodes", least=1, most=MOST_NODES)
    if not 1 <= depth <= MOST_NODES:
        raise InputError(f"must lie in 1..{MOST_NODES}", key="--depth", value=depth)
    prompted, width = _prompted(method, accepted), min(max(budgets), MOST_SIBLINGS)
    if prompted is not None:
        from costmodel.optimizers.state_candidates import WIDTH

        depth, width = prompted.shape.depth + 1, WIDTH
    known, title, assumed = _known(accepted, depth, width, method)
    if held_out and (prompted is not None or not isinstance(known, AcceptanceTrace)):
        rule = "needs a recorded trace, and trees without prompt tokens; a vector has no requests to hold out"
        raise InputError(rule, key="--held-out")
    if prompted is not None:
        rows = _of_states(known, budgets, prompted)
    elif isinstance(known, AcceptanceTrace):
        rows = _from_trace(known, budgets, depth, seed if held_out else None)
    else:
        rows = _from_vector(known, budgets, depth)
    numbers = accepted.acceptance is not None and is_rates(accepted.acceptance)
    inputs = {
        "acceptance": as_given(accepted.acceptance) if numbers else accepted.acceptance,
        "tokens_per_step": accepted.tokens_per_step, "drafter": accepted.drafter or [], "method": method or None,
        "nodes": budgets, "depth": depth, "held_out": held_out, "seed": seed,
    }  # fmt: skip
    return deliver(
        {"inputs": inputs, "remark": assumed, "trees": rows}, name="trees", json=json, out=out, quiet=quiet,
        show=lambda: _print(rows, title, out, assumed), also=lambda folder: _write_shapes(rows, folder), csv=csv,
        rows=["trees"],
    )  # fmt: skip


def _prompted(method: str, accepted: Accepted) -> "Method | None":
    """The entry that options name, where its trees carry prompt tokens; None for every other.

    Raises:
        InputError: there is no such method.
    """
    from app.cli.options import method_slug
    from costmodel.method_library import load_method

    named = [text.partition(":")[0] for text in accepted.drafter or ()] if not method else [method]
    found = [load_method(method_slug(name, "--method")) for name in named[:1]]
    return next((each for each in found if each.shape.kind == "state_trees"), None)


def _of_states(
    known: "AcceptanceTrace | AcceptanceVectors", budgets: list[int], method: "Method"
) -> list[dict[str, Any]]:
    """The trees of all states for every budget; of a recording, what they emit is replayed too."""
    from costmodel.optimizers.state_candidates import recorded_vectors
    from costmodel.optimizers.trees.state_trees import best_state_trees
    from hardware_profiles.errors import InputError
    from traces.kinds.acceptance import AcceptanceTrace
    from traces.replay.states import replay_states

    levels = method.shape.depth
    if min(budgets) < levels + 3:
        rule = f"the root, {levels} prompt tokens behind it, a candidate and its own are {levels + 3} nodes"
        raise InputError(rule, key="--nodes", value=min(budgets))
    trace = known if isinstance(known, AcceptanceTrace) else None
    vectors = known if not isinstance(known, AcceptanceTrace) else recorded_vectors(known, levels)
    rows = []
    for nodes in budgets:
        found = best_state_trees(vectors, nodes - 1 - levels, levels)
        emitted = found.law.tokens_per_step if trace is None else replay_states(trace, found.states)[0].tokens_per_step
        shares = zip(found.law.shares.tolist(), found.law.emitted.tolist(), found.states.rows, strict=True)
        about = [{"share": share, "tokens_per_step": each, "nodes": row} for share, each, row in shares]
        trees = [{**said, **tree} for said, tree in zip(about, found.states.to_json(), strict=True)]
        rows.append({"nodes": nodes, "depth": levels + 1, "tokens_per_step": emitted,
                     "law_tokens_per_step": found.law.tokens_per_step,
                     "certificate": found.certificate.to_json(), "states": trees})  # fmt: skip
    return rows


def _known(
    accepted: Accepted, depth: int, width: int, method: str
) -> "tuple[AcceptanceTrace | AcceptanceVectors, str, str]":
    """A recording with ranks, or sibling vectors; what it is called, and what is assumed of it.

    Raises:
        InputError: none of the options, several, or a trace that does not tell of trees.
    """
    from app.cli.question.accepted import OTHERWISE, one_source
    from costmodel.laws.acceptance import ASSUMED_SIBLINGS, sibling_rates
    from costmodel.optimizers.sources import trace_source
    from costmodel.optimizers.trees.static_tree import read_acceptance
    from hardware_profiles.errors import InputError
    from traces.library import trace_file

    text = accepted.acceptance
    path = None if text is None or is_rates(text) else trace_file(text)
    if path is not None and path.suffix.lower() == ".json" and not _is_trace(path):
        return read_acceptance(path), str(path), ""
    if path is not None and (accepted.tokens_per_step is not None or accepted.drafter):
        raise InputError("says all; leave out --tokens-per-step and --drafter", key="--acceptance", value=text)
    if path is not None:  # whatever method it names: a tree is of the recording itself
        source: Source | None = trace_source(path, method or OTHERWISE, accepted.match_rate, override=True)
    else:
        source = one_source(accepted, None, method=method, lengths=[depth - 1] if depth > 1 else ())
    if source is None:
        raise InputError("--acceptance, --tokens-per-step or --drafter is needed; see `rooftree tree --help`")
    title = f"{source.method}, {source.reference}" if accepted.drafter else source.reference
    if source.positions is not None:
        return source.positions, title, ""
    summary = source.trace.summary if source.trace is not None else None
    if summary is not None and summary.sibling_vectors:
        return [list(vector) for vector in summary.sibling_vectors], title, ""
    if source.rates is None:
        raise InputError("tokens per step of another tree tell nothing of this one; name a chain: length=2.4@K")
    levels = max(depth - 1, 1)
    remark = "; ".join(part for part in (ASSUMED_SIBLINGS, source.rates.remark_at(levels)) if part)
    return sibling_rates(source.rates, levels, width), title, remark


def _write_shapes(rows: list[dict[str, Any]], folder: Path) -> None:
    """Every tree as a file of its own, in the form that --tree reads."""
    from app.cli.output import write_json

    for row in rows:
        if "states" in row:
            write_json({"states": row["states"]}, folder / f"state-trees-{row['nodes']}.json")
            continue
        shape = {"parents": row["parents"], "ranks": row["ranks"], "root_included": True}
        write_json(shape, folder / f"tree-{row['nodes']}.json")


def _print(rows: list[dict[str, Any]], title: str, out: Path | None, assumed: str) -> None:
    from app.cli.formatting import plain
    from app.cli.output import print_table, say

    if any("states" in row for row in rows):
        _print_states(rows, title)
        rows = []
    dynamic, held_out = any("dynamic_tree" in row for row in rows), any("held_out" in row for row in rows)
    cells = [
        [plain(r["nodes"]), plain(r["depth"]), f"{r['tokens_per_step']:.4f}", str(r["certificate"]["kind"]),
         ", ".join(map(str, _widths(r["parents"]))),
         *([f"{r['dynamic_tree']['tokens_per_step']:.4f}" if "dynamic_tree" in r else ""] if dynamic else []),
         *([f"{r['held_out']['tokens_per_step']:.4f} ({r['held_out']['gain_ratio']:+.1%})"] if held_out else [])]
        for r in rows
    ]  # fmt: skip
    columns = ["nodes", "levels", "tokens/step", "certificate", "nodes by level"]
    shown = [*columns, *(["dynamic, same nodes"] if dynamic else [])]
    shown += ["held out (against the vector's tree)"] if held_out else []
    if cells:
        print_table(title, shown, cells)
    if assumed:
        say(assumed)
    if out:
        say(f"written to {out}")


def _print_states(rows: list[dict[str, Any]], title: str) -> None:
    from app.cli.formatting import plain
    from app.cli.output import print_table

    cells = [
        [plain(row["nodes"]), f"{row['tokens_per_step']:.4f}", str(state), f"{each['share']:.1%}",
         plain(len(each["parents"]) - 1), plain(sum(each["prompt_tokens"])), f"{each['tokens_per_step']:.4f}",
         ", ".join(map(str, _widths(each["parents"])))]
        for row in rows for state, each in enumerate(row["states"], 1)
    ]  # fmt: skip
    columns = ["nodes", "tokens/step", "state", "of the steps", "candidates", "prompt tokens", "tokens/step there",
               "candidates by level"]  # fmt: skip
    print_table(title, columns, cells)


def _from_vector(vectors: "AcceptanceVectors", budgets: list[int], depth: int) -> list[dict[str, Any]]:
    from costmodel.optimizers.trees.static_tree import optimal_trees

    return [
        {
            "nodes": found.nodes, "depth": depth, "tokens_per_step": found.tokens_per_step,
            "parents": list(found.tree.parents), "ranks": list(found.tree.ranks),
            "certificate": found.certificate.to_json(),
        }
        for found in optimal_trees(vectors, budgets, depth)
    ]  # fmt: skip


def _from_trace(
    trace: "AcceptanceTrace", budgets: list[int], depth: int, held_out_seed: int | None
) -> list[dict[str, Any]]:
    from costmodel.optimizers.trees.trace_tree import trace_tree
    from hardware_profiles.errors import InputError

    if depth < 2 or budgets[0] < 2:
        raise InputError("a tree from a trace needs at least 2 nodes and 2 levels", key="--nodes, --depth")
    trace.require(2, "building a tree")
    sizes = tuple(n - 1 for n in budgets)
    results = trace_tree(trace, draft_tokens=sizes, depth=depth - 1)
    return [
        {
            "nodes": found.tree.nodes, "depth": depth, "tokens_per_step": found.tokens_per_step,
            "parents": list(found.tree.parents), "ranks": list(found.tree.ranks),
            "certificate": found.certificate.to_json(),
            "search": {"iterations": found.iterations, "cycle_length": found.cycle_length, "swaps": found.swaps},
            "vector_tree_tokens_per_step": found.dp_tokens_per_step, **_dynamic(trace, found.draft_tokens), **other,
        }
        for found, other in zip(results, _held_out(trace, sizes, depth - 1, held_out_seed), strict=True)
    ]  # fmt: skip


def _dynamic(trace: "AcceptanceTrace", draft_tokens: int) -> dict[str, Any]:
    """What a tree of the likeliest nodes, chosen anew at every step, emits; nothing where no trees were recorded."""
    from traces.replay.dynamic import best_first, walk_policy

    trees = trace.expansions
    if trees is None or not trees.size or draft_tokens > trees.nodes:
        return {}
    replay, steps = walk_policy(trace, best_first(draft_tokens))
    return {
        "dynamic_tree": {
            "tokens_per_step": replay.tokens_per_step, "mean_passes": float(steps.passes.mean()),
            "lower_bound_steps_ratio": float((~steps.exact).mean()),
        }
    }  # fmt: skip


def _held_out(trace: "AcceptanceTrace", sizes: tuple[int, ...], depth: int, seed: int | None) -> list[dict[str, Any]]:
    """What trees chosen on one half of the requests emit on the other; nothing without a seed."""
    import numpy as np

    from costmodel.optimizers.held_out import held_out_comparison

    if seed is None:
        return [{} for _ in sizes]
    compared = held_out_comparison(trace, sizes, depth, generator=np.random.default_rng(seed))
    return [
        {
            "held_out": {
                "tokens_per_step": each.tokens_per_step,
                "vector_tree_tokens_per_step": each.dp_tokens_per_step,
                "gain_ratio": each.gain_ratio,
            }
        }
        for each in compared
    ]


def _is_trace(path: Path) -> bool:
    """Whether a JSON file is a trace: an object, where vectors are lists."""
    from hardware_profiles.outside_file import open_regular

    with open_regular(path) as file:
        return file.read(64).lstrip()[:1] == b"{"


def _widths(parents: list[int]) -> list[int]:
    depth = [0] * len(parents)
    for node, parent in enumerate(parents):
        if parent >= 0:
            depth[node] = depth[parent] + 1
    return [depth.count(level) for level in range(max(depth) + 1)]
