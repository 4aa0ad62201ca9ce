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
    from app.answers.trees import state_rows, trace_rows, vector_rows
    from app.cli.output import deliver
    from app.cli.question.accepted import as_given
    from app.cli.shown.trees import print_trees
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
        rows = state_rows(known, budgets, prompted)
    elif isinstance(known, AcceptanceTrace):
        rows = trace_rows(known, budgets, depth, seed if held_out else None)
    else:
        rows = vector_rows(known, budgets, depth)
    numbers = accepted.acceptance is not None and is_rates(accepted.acceptance)
    inputs = {
        "acceptance": as_given(accepted.acceptance) if numbers else accepted.acceptance,
        "tokens_per_step": accepted.tokens_per_step, "drafter": accepted.drafter or [], "method": method or None,
        "nodes": budgets, "depth": depth, "held_out": held_out, "seed": seed,
    }  # fmt: skip
    return deliver(
        {"inputs": inputs, "remark": assumed, "trees": rows}, name="trees", json=json, out=out, quiet=quiet,
        show=lambda: print_trees(rows, title, out, assumed), also=lambda folder: _write_shapes(rows, folder), csv=csv,
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


def _is_trace(path: Path) -> bool:
    """Whether a JSON file is a trace: an object, where vectors are lists."""
    from hardware_profiles.outside_file import open_regular

    with open_regular(path) as file:
        return file.read(64).lstrip()[:1] == b"{"
