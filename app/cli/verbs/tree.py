"""`tree`: the best static tree, or trees with prompt tokens, for an acceptance vector or a recorded
trace.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from app.cli.output import Answered
from app.questions.field import Field, Group, Stated
from app.questions.fields import Batch, Context, Csv, Json, Model, Out, Quiet, Seed
from app.questions.groups import AcceptanceOptions, DraftingOptions, PlacedOptions
from app.questions.resolve.accepted import is_rates
from app.questions.values import whole_numbers

if TYPE_CHECKING:
    from costmodel.method import Method
    from costmodel.optimizers.acceptance_vectors import AcceptanceVectors
    from costmodel.optimizers.drafters.sources import Source
    from traces.kinds.acceptance import AcceptanceTrace

MOST_NODES = 4096
MOST_SIBLINGS = 64  # of stated rates: the chance of a later one is below any node's further down
NODES_HELP = "Nodes, root included, comma-separated; prompt tokens are nodes, too."
METHOD_HELP = (
    "Method of stated acceptance; one whose trees carry prompt tokens (ppd) has a tree for every"
    " state."
)


def tree(
    stated: Stated,
    accepted: AcceptanceOptions,
    placed: PlacedOptions,
    drafting: DraftingOptions,
    model: Model = "",
    method: Annotated[str, Field(METHOD_HELP, Group.DRAFTING, names="methods")] = "",
    nodes: Annotated[str, Field(NODES_HELP, Group.DRAFTING)] = "64,256",
    depth: Annotated[int, Field("Most levels, root included.", Group.DRAFTING)] = 10,
    batch: Batch = "1,8,64",
    context: Context = "1024",
    captured_rows: Annotated[
        str,
        Field(
            "Rows of a batch that the engine has captured graphs for: 1,2,4,8,16.", Group.DRAFTING
        ),
    ] = "",
    held_out: Annotated[
        bool,
        Field(
            "Also choose on half of a recording's requests, and replay on the other half.",
            Group.SEARCH,
        ),
    ] = False,
    robust: Annotated[
        bool,
        Field(
            (
                "Also the tree that is safest under the sampling error, and how many tokens are"
                " enough."
            ),
            Group.SEARCH,
        ),
    ] = False,
    recorded_tokens: Annotated[
        int | None,
        Field("Positions that a vector was counted on, for --robust.", Group.DRAFTING, least=1),
    ] = None,
    split_over: Annotated[
        str | None,
        Field(
            (
                "Requests of one batch that share the nodes: so many of the recording, or a JSON"
                " file with a survival "
                "vector, P(first d draft tokens kept), for each."
            ),
            Group.DRAFTING,
        ),
    ] = None,
    out: Out = None,
    csv: Csv = None,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> Answered:
    """Find the tree that emits the most tokens per step within a budget of nodes and levels.

    With --model also the tree of most tokens per second there: a draft pass for every level, as
    wide as its parents, and one pass to verify all nodes; --device, --engine, --batch and --context
    as in `rooftree predict`.

    Where candidates carry prompt tokens (ppd), find the trees of all states together, whose depth
    the method says.

    --acceptance also takes a file: a recorded trace, or a sibling vector as a JSON list (one list
    per depth where they differ). From rates alone, siblings are taken to be tried in turn.

    With --split-over the nodes are those of a whole batch: how many each request should get, and
    what that gains.
    """
    from app.answers.trees.budgets import sampling_row
    from app.answers.trees.speeds import speed_rows
    from app.cli.output import deliver
    from app.cli.shown.trees import print_trees
    from app.questions.resolve.accepted import as_given
    from app.questions.resolve.asked import asked
    from hardware_profiles.errors import InputError

    budgets = whole_numbers(nodes, "--nodes", least=1, most=MOST_NODES)
    if not 1 <= depth <= MOST_NODES:
        raise InputError(f"must lie in 1..{MOST_NODES}", key="--depth", value=depth)
    if split_over is not None:
        refused = {"--model": model, "--method": method, "--held-out": held_out, "--robust": robust}
        return _split(
            split_over,
            accepted,
            budgets,
            depth,
            refused,
            seed=seed,
            delivery={"out": out, "csv": csv, "json": json, "quiet": quiet},
        )
    prompted, width = _prompted(method, accepted), min(max(budgets), MOST_SIBLINGS)
    if prompted is not None:
        from costmodel.optimizers.candidates.state_candidates import WIDTH

        depth, width = prompted.shape.depth + 1, WIDTH
    known, title, assumed, slug = _known(accepted, depth, width, method)
    _check_speeds(stated.given, model, prompted)
    _check_scores(known, prompted, held_out=held_out, robust=robust)
    rows = _rows(known, budgets, depth, prompted, seed if held_out else None)
    for row in rows if robust else ():
        asked_nodes = min((n for n in budgets if n >= row["nodes"]), default=row["nodes"])
        row["sampling"] = sampling_row(
            known, asked_nodes, depth, recorded_tokens=recorded_tokens, seed=seed
        )
    speeds = []
    if model:
        captured = whole_numbers(captured_rows, "--captured-rows", least=1) if captured_rows else []
        grid = (
            whole_numbers(batch, "--batch", least=1),
            whole_numbers(context, "--context", least=0),
        )
        question = asked(None, {**stated.given, "model": model, "method": slug or method})
        speeds = speed_rows(question, known, rows, grid, depth=depth, captured_rows=captured)
    numbers = accepted.acceptance is not None and is_rates(accepted.acceptance)
    inputs = {
        "acceptance": as_given(accepted.acceptance) if numbers else accepted.acceptance,
        "tokens_per_step": accepted.tokens_per_step,
        "drafter": accepted.drafter or [],
        "method": method or None,
        "nodes": budgets,
        "depth": depth,
        "held_out": held_out,
        "seed": seed,
    }
    if model:
        inputs |= {
            "model": model,
            "device": placed.device,
            "engine": placed.engine,
            "method": slug or method,
            "batch": batch,
            "context": context,
            "captured_rows": captured_rows or None,
        }
    answer = {
        "inputs": inputs,
        "remark": assumed,
        "trees": rows,
        **({"fastest": speeds} if model else {}),
    }
    return deliver(
        answer,
        name="trees",
        json=json,
        out=out,
        quiet=quiet,
        show=lambda: print_trees(answer, title, out),
        also=lambda folder: _write_shapes(rows, folder),
        csv=csv,
        rows=["trees"],
    )


def _rows(
    known: "AcceptanceTrace | AcceptanceVectors",
    budgets: list[int],
    depth: int,
    prompted: "Method | None",
    held_out_seed: int | None,
) -> list[dict[str, Any]]:
    """The best tree of every budget, or the trees of all states where candidates carry prompt
    tokens.
    """
    from app.answers.trees.budgets import state_rows, trace_rows, vector_rows
    from traces.kinds.acceptance import AcceptanceTrace

    if prompted is not None:
        return state_rows(known, budgets, prompted)
    if isinstance(known, AcceptanceTrace):
        return trace_rows(known, budgets, depth, held_out_seed)
    return vector_rows(known, budgets, depth)


def _split(
    text: str,
    accepted: AcceptanceOptions,
    budgets: list[int],
    depth: int,
    refused: dict[str, Any],
    *,
    seed: int,
    delivery: dict[str, Any],
) -> Answered:
    """Nodes of a batch, by request."""
    from app.answers.trees.batch_splits import read_survivals, recorded_batch, split_rows
    from app.cli.output import deliver
    from app.cli.shown.trees import print_splits
    from hardware_profiles.errors import InputError
    from traces.library import trace_file
    from traces.storage.acceptance_file import read_acceptance

    for option, value in refused.items():
        if value:
            raise InputError("goes without --split-over", key=option, value=value)
    named = accepted.acceptance
    if depth < 2:
        raise InputError("a draft needs at least 2 levels", key="--depth", value=depth)
    if not text.isdecimal():
        if named is not None:
            raise InputError(
                "goes without a file of --split-over, which says what is kept", key="--acceptance"
            )
        batch, title = read_survivals(Path(text), depth - 1), text
    elif named is None or is_rates(named):
        raise InputError(
            "draws requests of a recording: --acceptance TRACE", key="--split-over", value=text
        )
    else:
        path = trace_file(named)
        batch = recorded_batch(read_acceptance(path), int(text), depth - 1, MOST_SIBLINGS, seed)
        title = f"{text} requests of {named}"
    rows = split_rows(batch, budgets, seed)
    inputs = {
        "acceptance": named,
        "split_over": text,
        "nodes": budgets,
        "depth": depth,
        "seed": seed,
    }
    answer = {"inputs": inputs, "splits": rows}
    return deliver(
        answer, name="splits", show=lambda: print_splits(rows, title), rows=["splits"], **delivery
    )


def _prompted(method: str, accepted: AcceptanceOptions) -> "Method | None":
    """The entry that options name, where its trees carry prompt tokens; None for every other.

    Raises:
        InputError: there is no such method.
    """
    from app.questions.values import method_slug
    from costmodel.method_library import load_method

    named = [text.partition(":")[0] for text in accepted.drafter or ()] if not method else [method]
    found = [load_method(method_slug(name, "--method")) for name in named[:1]]
    return next((each for each in found if each.shape.kind == "state_trees"), None)


def _known(
    accepted: AcceptanceOptions, depth: int, width: int, method: str
) -> "tuple[AcceptanceTrace | AcceptanceVectors, str, str, str]":
    """A recording with ranks, or sibling vectors; what it is called, what is assumed of it, and who
    drafts.

    Raises:
        InputError: none of the options, several, or a trace that does not tell of trees.
    """
    from app.questions.resolve.accepted import OTHERWISE, one_source
    from costmodel.laws.acceptance import ASSUMED_SIBLINGS, sibling_rates
    from costmodel.optimizers.drafters.sources import trace_source
    from costmodel.optimizers.trees.static_tree import read_acceptance
    from hardware_profiles.errors import InputError
    from traces.library import trace_file

    text = accepted.acceptance
    path = None if text is None or is_rates(text) else trace_file(text)
    if path is not None and path.suffix.lower() == ".json" and not _is_trace(path):
        return read_acceptance(path), str(path), "", ""
    if path is not None and (accepted.tokens_per_step is not None or accepted.drafter):
        raise InputError(
            "says all; leave out --tokens-per-step and --drafter", key="--acceptance", value=text
        )
    if path is not None:  # whatever method it names: a tree is of the recording itself
        source: Source | None = trace_source(
            path, method or OTHERWISE, accepted.match_rate, override=True
        )
    else:
        source = one_source(accepted, None, method=method, lengths=[depth - 1] if depth > 1 else ())
    if source is None:
        raise InputError(
            "--acceptance, --tokens-per-step or --drafter is needed; see `rooftree tree --help`"
        )
    title = f"{source.method}, {source.reference}" if accepted.drafter else source.reference
    if source.positions is not None:
        return source.positions, title, "", source.method
    summary = source.trace.summary if source.trace is not None else None
    if summary is not None and summary.sibling_vectors:
        return [list(vector) for vector in summary.sibling_vectors], title, "", source.method
    if source.rates is None:
        raise InputError(
            "tokens per step of another tree tell nothing of this one; name a chain: length=2.4@K"
        )
    levels = max(depth - 1, 1)
    remark = "; ".join(part for part in (ASSUMED_SIBLINGS, source.rates.remark_at(levels)) if part)
    return sibling_rates(source.rates, levels, width), title, remark, source.method


_OF_SPEEDS = (
    "device",
    "engine",
    "tp",
    "batch",
    "context",
    "captured_rows",
    "draft",
    "draft_passes",
    "draft_bytes",
    "draft_name",
)


def _check_speeds(given: dict[str, Any], model: str, prompted: "Method | None") -> None:
    """Refuse options that only a device's seconds need, where none are asked for or none are known.

    Raises:
        InputError: such an option without --model, or trees with prompt tokens.
    """
    from hardware_profiles.errors import InputError

    beside = [name for name in _OF_SPEEDS if name in given]
    if beside and not model:
        raise InputError(
            "weighs seconds, and needs the target: --model", key=f"--{beside[0].replace('_', '-')}"
        )
    if model and prompted is not None:
        rule = (
            f"`rooftree optimize --drafter {prompted.slug}:...` weighs trees with prompt tokens by"
            " their seconds"
        )
        raise InputError(rule, key="--model", value=model)


def _check_scores(
    known: "AcceptanceTrace | AcceptanceVectors",
    prompted: "Method | None",
    *,
    held_out: bool,
    robust: bool,
) -> None:
    """Refuse ways to score a tree that what is known cannot answer."""
    from hardware_profiles.errors import InputError
    from traces.kinds.acceptance import AcceptanceTrace

    if held_out and (prompted is not None or not isinstance(known, AcceptanceTrace)):
        rule = (
            "needs a recorded trace, and trees without prompt tokens; a vector has no requests to"
            " hold out"
        )
        raise InputError(rule, key="--held-out")
    if robust and prompted is not None:
        raise InputError("weighs trees without prompt tokens", key="--robust")


def _write_shapes(rows: list[dict[str, Any]], folder: Path) -> None:
    """Every tree as a file of its own, in the form that --tree reads."""
    from app.render.json import write_json

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
