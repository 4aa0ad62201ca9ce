"""Which tree is fastest on a device, at each batch and context: rows of `rooftree tree --model`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from costmodel.configuration import DecodingConfiguration
    from costmodel.optimizers.acceptance_vectors import AcceptanceVectors
    from traces.kinds.acceptance import AcceptanceTrace
    from traces.kinds.tree import Tree

Row = dict[str, Any]


def speed_rows(
    question: DecodingConfiguration,
    known: AcceptanceTrace | AcceptanceVectors,
    trees: Sequence[Row],
    grid: tuple[Sequence[int], Sequence[int]],
    *,
    depth: int,
    captured_rows: Sequence[int] = (),
) -> list[Row]:
    """The tree of most tokens per second at every context and batch, beside those that emit most
    per step.

    Args:
        question: target, device, engine and drafter.
        known: sibling vectors, or a recording, on which trees are replayed.
        trees: rows of the trees that emit most within each budget; the largest budget limits the
            search.
        grid: batches, and cached tokens per request.
        depth: most levels, root included.
        captured_rows: rows of a batch for which the engine has captured graphs.

    Raises:
        InputError: names or numbers that make no sense, or a drafter that drafts no trees.
    """
    from costmodel.answers.settings import build_setting
    from costmodel.optimizers.trees.priced_tree import fastest_tree
    from costmodel.optimizers.trees.trace_tree import measured_vectors
    from costmodel.optimizers.trees.tree_price import tree_price
    from traces.kinds.acceptance import AcceptanceTrace
    from traces.kinds.tree import Tree

    setting = build_setting(question)
    most = max(2, *(row["nodes"] for row in trees))
    trace = known if isinstance(known, AcceptanceTrace) else None
    vectors = known
    if isinstance(known, AcceptanceTrace):
        levels = depth - 1 if known.depth is None else min(depth - 1, known.depth)
        vectors = measured_vectors(known, levels, most)
    assert not isinstance(vectors, AcceptanceTrace)
    rows = []
    for context in grid[1]:
        for batch in grid[0]:
            price = tree_price(
                setting, batch=batch, context=context, nodes=most, captured_rows=captured_rows
            )
            best = fastest_tree(vectors, price, depth)

            def rate(tree: Tree, emitted: float, price: Any = price, batch: int = batch) -> float:
                return float(batch * emitted / price.step_s(tree, emitted))

            emitted = best.tokens_per_step if trace is None else _replayed(trace, best.tree)
            budgets = [(row["nodes"], Tree.from_json(row), row["tokens_per_step"]) for row in trees]
            plain = batch / price.plain_s
            rows.append(
                {
                    "batch": batch,
                    "context": context,
                    "nodes": best.tree.nodes,
                    "levels": best.tree.depth,
                    "tokens_per_step": emitted,
                    "step_s": price.step_s(best.tree, emitted),
                    "tokens_per_s": rate(best.tree, emitted),
                    "speedup": rate(best.tree, emitted) / plain,
                    "certificate": best.certificate.to_json(),
                    "budget_trees": [
                        {"nodes": nodes, "tokens_per_s": rate(tree, each)}
                        for nodes, tree, each in budgets
                    ],
                    **best.tree.to_json(),
                }
            )
    return rows


def _replayed(trace: AcceptanceTrace, tree: Tree) -> float:
    from traces.replay.walk import replay_tree

    return float(replay_tree(trace, tree).tokens_per_step)
