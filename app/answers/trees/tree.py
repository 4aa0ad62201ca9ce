"""`tree`: the best static tree, or trees with prompt tokens, for an acceptance vector or a recorded
trace.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from app.answers.answer import Answer
from app.answers.cells import MarkedCell
from app.answers.trees.batch_splits import node_splits, read_survivals, recorded_batch
from app.answers.trees.budgets import recorded_trees, sampling_of, state_trees, vector_trees
from app.answers.trees.rows import BudgetTree, FastestTree, NodeSplits, PromptedTrees, Trees
from app.answers.trees.speeds import fastest_trees
from app.questions.field import inputs_of
from app.questions.groups import AcceptanceOptions, StatedDrafters, values_in
from app.questions.resolve.accepted import OTHERWISE, one_source
from app.questions.resolve.chosen_configuration import configuration_of
from app.questions.tree import TreeQuestion
from costmodel.laws.acceptance import ASSUMED_SIBLINGS, sibling_rates
from costmodel.method import Method
from costmodel.method_library import load_method
from costmodel.optimizers.acceptance_vectors import AcceptanceVectors
from costmodel.optimizers.candidates.state_candidates import WIDTH
from costmodel.optimizers.drafters.named_drafters import named_drafter
from costmodel.optimizers.drafters.sources import trace_source
from costmodel.optimizers.trees.static_tree import read_acceptance as read_vectors
from hardware_profiles.errors import InputError
from hardware_profiles.outside_file import open_regular
from traces.kinds.acceptance import AcceptanceTrace
from traces.library import trace_file
from traces.storage.acceptance_file import read_acceptance

MOST_SIBLINGS = 64  # of stated rates: the chance of a later one is below any node's further down
_SPEED_OPTIONS = (
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


class _Acceptance(NamedTuple):
    """A recording with ranks, or sibling vectors; what it is called, what is assumed of it, and who
    drafts.
    """

    values: AcceptanceTrace | AcceptanceVectors
    title: str
    remark: str = ""
    method: str = ""


def answer(question: TreeQuestion) -> Answer:
    """The best trees within every budget of nodes, or a batch's split of its nodes.

    Raises:
        InputError: options that contradict each other, or nothing that tells of acceptance.
    """
    depth, width = question.depth, min(max(question.nodes), MOST_SIBLINGS)
    if question.split_over is not None:
        return _splits(question, question.split_over)
    prompted = _prompted(question)
    if prompted is not None:
        depth, width = prompted.shape.depth + 1, WIDTH
    acceptance = _acceptance(question, depth, width)
    _check_speeds(question, prompted)
    _check_scores(question, acceptance.values, prompted)
    trees: Sequence[BudgetTree] | Sequence[PromptedTrees]
    fastest = None
    if prompted is not None:
        trees = state_trees(acceptance.values, question.nodes, prompted)
    else:
        trees = _trees(question, acceptance.values)
        fastest = _fastest(question, acceptance, trees) if question.model else None
    return Trees(
        inputs=inputs_of(
            question,
            drafter=question.drafter or [],
            method=(acceptance.method if question.model else "") or question.method or None,
            nodes=question.nodes,
            depth=depth,
        ),
        remark=acceptance.remark,
        trees=trees,
        fastest=fastest,
        title=acceptance.title,
        folder=question.out,
    )


def _trees(
    question: TreeQuestion, acceptance: AcceptanceTrace | AcceptanceVectors
) -> list[BudgetTree]:
    """The best tree of every budget, and with --robust how sure it is."""
    budgets = question.nodes
    if isinstance(acceptance, AcceptanceTrace):
        held_out_seed = question.seed if question.held_out else None
        trees = recorded_trees(acceptance, budgets, question.depth, held_out_seed)
    else:
        trees = vector_trees(acceptance, budgets, question.depth)
    if not question.robust:
        return trees
    return [
        replace(
            tree,
            sampling=sampling_of(
                acceptance,
                tree,
                budgets,
                recorded_tokens=question.recorded_tokens,
                seed=question.seed,
            ),
        )
        for tree in trees
    ]


def _fastest(
    question: TreeQuestion, acceptance: _Acceptance, trees: Sequence[BudgetTree]
) -> list[FastestTree | MarkedCell]:
    """The fastest trees on the device that is asked about."""
    method = acceptance.method or question.method
    return fastest_trees(
        configuration_of(
            None, {**question.stated_values, "model": question.model, "method": method}
        ),
        acceptance.values,
        trees,
        (question.batch, question.context),
        depth=question.depth,
        captured_rows=question.captured_rows,
    )


def _splits(question: TreeQuestion, split_over: str) -> NodeSplits:
    """Nodes of a batch, by request."""
    for name in ("model", "method", "held_out", "robust"):
        if value := getattr(question, name):
            raise InputError(
                "goes without --split-over", key=f"--{name.replace('_', '-')}", value=value
            )
    named, depth = question.acceptance, question.depth
    if depth < 2:
        raise InputError("a draft needs at least 2 levels", key="--depth", value=depth)
    if not split_over.isdecimal():
        if named is not None:
            raise InputError(
                "goes without a file of --split-over, which says what is kept", key="--acceptance"
            )
        batch, title = read_survivals(Path(split_over), depth - 1), split_over
    elif not isinstance(named, Path):
        raise InputError(
            "draws requests of a recording: --acceptance TRACE",
            key="--split-over",
            value=split_over,
        )
    else:
        trace = read_acceptance(trace_file(named))
        batch = recorded_batch(trace, int(split_over), depth - 1, MOST_SIBLINGS, question.seed)
        title = f"{split_over} requests of {named}"
    return NodeSplits(
        inputs=inputs_of(question, drafter=question.drafter or [], nodes=question.nodes),
        splits=node_splits(batch, question.nodes, question.seed),
        title=title,
    )


def _prompted(question: TreeQuestion) -> Method | None:
    """The method that options name, where its trees carry prompt tokens; None for every other.

    Raises:
        InputError: there is no such method.
    """
    drafters = [named_drafter(text.partition(":")[0].strip())[0] for text in question.drafter or ()]
    slug = question.method or next(iter(drafters), "")
    if not slug:
        return None
    method = load_method(slug)
    return method if method.shape.kind == "state_trees" else None


def _acceptance(question: TreeQuestion, depth: int, width: int) -> _Acceptance:
    """What options say of acceptance.

    Raises:
        InputError: none of the options, several, or a trace that does not tell of trees.
    """
    named = question.acceptance
    path, rates = (trace_file(named), None) if isinstance(named, Path) else (None, named)
    if path is not None and path.suffix.lower() == ".json" and not _is_trace(path):
        return _Acceptance(read_vectors(path), str(path))
    if path is not None and (question.tokens_per_step is not None or question.drafter):
        raise InputError(
            "says all; leave out --tokens-per-step and --drafter",
            key="--acceptance",
            value=str(named),
        )
    if path is not None:  # whatever method it names: a tree is of the recording itself
        method = question.method or OTHERWISE
        source = trace_source(path, method, question.match_rate, override=True)
    else:
        lengths = [depth - 1] if depth > 1 else ()
        accepted = AcceptanceOptions(acceptance=rates, **values_in(StatedDrafters, question))
        stated = one_source(accepted, None, method=question.method, lengths=lengths)
        if stated is None:
            raise InputError(
                "--acceptance, --tokens-per-step or --drafter is needed; see `rooftree tree --help`"
            )
        source = stated
    title = f"{source.method}, {source.reference}" if question.drafter else source.reference
    if source.positions is not None:
        return _Acceptance(source.positions, title, method=source.method)
    summary = source.trace.summary if source.trace is not None else None
    if summary is not None and summary.sibling_vectors:
        vectors = [list(vector) for vector in summary.sibling_vectors]
        return _Acceptance(vectors, title, method=source.method)
    if source.rates is None:
        raise InputError(
            "tokens per step of another tree tell nothing of this one; name a chain: length=2.4@K"
        )
    levels = max(depth - 1, 1)
    remark = "; ".join(filter(None, (ASSUMED_SIBLINGS, source.rates.remark_at(levels))))
    return _Acceptance(
        sibling_rates(source.rates, levels, width), title, remark, method=source.method
    )


def _check_speeds(question: TreeQuestion, prompted: Method | None) -> None:
    """Refuse options that only a device's seconds need, where none are asked for or none are known.

    Raises:
        InputError: such an option without --model, or trees with prompt tokens.
    """
    beside = [name for name in _SPEED_OPTIONS if name in question.stated]
    if beside and not question.model:
        raise InputError(
            "weighs seconds, and needs the target: --model", key=f"--{beside[0].replace('_', '-')}"
        )
    if question.model and prompted is not None:
        rule = (
            f"`rooftree optimize --drafter {prompted.slug}:...` weighs trees with prompt tokens by"
            " their seconds"
        )
        raise InputError(rule, key="--model", value=question.model)


def _check_scores(
    question: TreeQuestion,
    acceptance: AcceptanceTrace | AcceptanceVectors,
    prompted: Method | None,
) -> None:
    """Refuse ways to score a tree that the acceptance cannot answer."""
    if question.held_out and (prompted is not None or not isinstance(acceptance, AcceptanceTrace)):
        rule = (
            "needs a recorded trace, and trees without prompt tokens; a vector has no requests to"
            " hold out"
        )
        raise InputError(rule, key="--held-out")
    if question.robust and prompted is not None:
        raise InputError("weighs trees without prompt tokens", key="--robust")


def _is_trace(path: Path) -> bool:
    """Whether a JSON file is a trace: an object, where vectors are lists."""
    with open_regular(path) as file:
        return file.read(64).lstrip()[:1] == b"{"
