"""`tree`: the best static tree for an acceptance vector, or for a recorded trace."""

from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.options import Json, Out, Quiet, Seed, whole_numbers

MOST_NODES = 4096
NODES_HELP = "Nodes, root included, comma-separated."


def tree(
    acceptance: Annotated[
        Path,
        typer.Option("--acceptance", help="Sibling vector (JSON list, or one list per depth) or a recorded trace."),
    ],
    nodes: Annotated[str, typer.Option("--nodes", help=NODES_HELP)] = "64,256",
    depth: Annotated[int, typer.Option("--depth", help="Most levels, root included.")] = 10,
    out: Out = None,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find the tree that emits the most tokens per step within a budget of nodes and levels."""
    from app.cli.output import deliver, print_table, require_folder, say, write_json
    from hardware_profiles.errors import InputError

    if out is not None:
        require_folder(out)
    budgets = whole_numbers(nodes, "--nodes", least=1, most=MOST_NODES)
    if not 1 <= depth <= MOST_NODES:
        raise InputError(f"must lie in 1..{MOST_NODES}", key="--depth", value=depth)
    vector = acceptance.suffix.lower() == ".json" and not _is_trace(acceptance)
    rows = _from_vector(acceptance, budgets, depth) if vector else _from_trace(acceptance, budgets, depth)
    if out is not None:
        for row in rows:
            shape = {"parents": row["parents"], "ranks": row["ranks"], "root_included": True}
            write_json(shape, out / f"tree-{row['nodes']}.json")
    inputs = {"acceptance": str(acceptance), "nodes": budgets, "depth": depth, "seed": seed}
    deliver({"inputs": inputs, "trees": rows}, name="trees", json=json, out=out)
    if not json and not quiet:
        cells = [
            [str(r["nodes"]), str(r["depth"]), f"{r['tokens_per_step']:.6f}", str(r["certificate"]["kind"]),
             ", ".join(map(str, _widths(r["parents"])))]
            for r in rows
        ]  # fmt: skip
        print_table(str(acceptance), ["nodes", "levels", "tokens/step", "certificate", "nodes by level"], cells)
        if out:
            say(f"written to {out}")


def _from_vector(path: Path, budgets: list[int], depth: int) -> list[dict[str, Any]]:
    from costmodel.optimizers.static_tree import optimal_trees, read_acceptance

    return [
        {
            "nodes": found.nodes, "depth": depth, "tokens_per_step": found.tokens_per_step,
            "parents": list(found.tree.parents), "ranks": list(found.tree.ranks),
            "certificate": found.certificate.to_json(),
        }
        for found in optimal_trees(read_acceptance(path), budgets, depth)
    ]  # fmt: skip


def _from_trace(path: Path, budgets: list[int], depth: int) -> list[dict[str, Any]]:
    from costmodel.optimizers.trace_tree import trace_tree
    from hardware_profiles.errors import InputError
    from traces.library import read_trace

    if depth < 2 or budgets[0] < 2:
        raise InputError("a tree from a trace needs at least 2 nodes and 2 levels", key="--nodes, --depth")
    trace = read_trace(path)
    trace.require(2, "building a tree")
    results = trace_tree(trace, draft_tokens=tuple(n - 1 for n in budgets), depth=depth - 1)
    return [
        {
            "nodes": found.tree.nodes, "depth": depth, "tokens_per_step": found.tokens_per_step,
            "parents": list(found.tree.parents), "ranks": list(found.tree.ranks),
            "certificate": found.certificate.to_json(),
            "search": {"iterations": found.iterations, "cycle_length": found.cycle_length, "swaps": found.swaps},
            "vector_tree_tokens_per_step": found.dp_tokens_per_step,
        }
        for found in results
    ]  # fmt: skip


def _is_trace(path: Path) -> bool:
    """Whether a JSON file is a trace: an object, where vectors are lists."""
    from hardware_profiles.errors import InputError

    try:
        with path.open("rb") as file:
            return file.read(64).lstrip()[:1] == b"{"
    except OSError as error:
        raise InputError("cannot be read", file=path, value=error.strerror) from None


def _widths(parents: list[int]) -> list[int]:
    depth = [0] * len(parents)
    for node, parent in enumerate(parents):
        if parent >= 0:
            depth[node] = depth[parent] + 1
    return [depth.count(level) for level in range(max(depth) + 1)]
