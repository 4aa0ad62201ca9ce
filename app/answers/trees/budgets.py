"""Which tree emits most within a budget, what engines can run of it, and how sure is that: rows of
`rooftree tree`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hardware_profiles.errors import InputError

if TYPE_CHECKING:
    from costmodel.method import Method
    from costmodel.optimizers.acceptance_vectors import AcceptanceVectors
    from traces.kinds.acceptance import AcceptanceTrace

Row = dict[str, Any]


def state_rows(
    known: AcceptanceTrace | AcceptanceVectors, budgets: list[int], method: Method
) -> list[Row]:
    """The trees of all states for every budget; of a recording, what they emit is replayed too."""
    from costmodel.optimizers.candidates.state_candidates import recorded_vectors
    from costmodel.optimizers.trees.state_trees import best_state_trees
    from traces.kinds.acceptance import AcceptanceTrace
    from traces.replay.states import replay_states

    levels = method.shape.depth
    if min(budgets) < levels + 3:
        rule = (
            f"the root, {levels} prompt tokens behind it, a candidate and its own are {levels + 3}"
            " nodes"
        )
        raise InputError(rule, key="--nodes", value=min(budgets))
    trace = known if isinstance(known, AcceptanceTrace) else None
    vectors = known if not isinstance(known, AcceptanceTrace) else recorded_vectors(known, levels)
    rows = []
    for nodes in budgets:
        found = best_state_trees(vectors, nodes - 1 - levels, levels)
        emitted = (
            found.law.tokens_per_step
            if trace is None
            else replay_states(trace, found.states)[0].tokens_per_step
        )
        shares = zip(
            found.law.shares.tolist(), found.law.emitted.tolist(), found.states.rows, strict=True
        )
        about = [
            {"share": share, "tokens_per_step": each, "nodes": row} for share, each, row in shares
        ]
        trees = [{**said, **tree} for said, tree in zip(about, found.states.to_json(), strict=True)]
        rows.append(
            {
                "nodes": nodes,
                "depth": levels + 1,
                "tokens_per_step": emitted,
                "law_tokens_per_step": found.law.tokens_per_step,
                "certificate": found.certificate.to_json(),
                "states": trees,
            }
        )
    return rows


def vector_rows(vectors: AcceptanceVectors, budgets: list[int], depth: int) -> list[Row]:
    """The best tree of every budget for sibling vectors, with the trees that engines can run.

    Args:
        vectors: sibling vector, or one per draft depth.
        budgets: nodes, root included.
        depth: most levels, root included.

    Raises:
        InputError: a value out of range.
        InfeasibleError: no tree of that many nodes fits the depth and the vectors.
    """
    from costmodel.optimizers.trees.static_tree import optimal_trees

    return [
        {
            "nodes": best.nodes,
            "depth": depth,
            "tokens_per_step": best.tokens_per_step,
            "parents": list(best.tree.parents),
            "ranks": list(best.tree.ranks),
            "certificate": best.certificate.to_json(),
            "runtime_trees": _runtime(vectors, best.nodes, depth, best.tokens_per_step),
        }
        for best in optimal_trees(vectors, budgets, depth)
    ]


def trace_rows(
    trace: AcceptanceTrace, budgets: list[int], depth: int, held_out_seed: int | None
) -> list[Row]:
    """The best tree of every budget on a recording, replayed, with bounds and with the trees that
    engines can run.

    Args:
        trace: level 2 or more.
        budgets: nodes, root included, at least 2.
        depth: most levels, root included, at least 2.
        held_out_seed: of the split into halves; None: trees are not held against requests that did
            not choose them.

    Raises:
        InputError: no ranks, no steps, or sizes out of range.
        InfeasibleError: no tree of that many nodes fits the depth and the recorded candidates.
    """
    from costmodel.optimizers.trees.trace_tree import measured_vectors, trace_tree
    from costmodel.optimizers.trees.tree_oracles import tree_bounds

    if depth < 2 or budgets[0] < 2:
        raise InputError(
            "a tree from a trace needs at least 2 nodes and 2 levels", key="--nodes, --depth"
        )
    trace.require(2, "building a tree")
    sizes = tuple(n - 1 for n in budgets)
    results = trace_tree(trace, draft_tokens=sizes, depth=depth - 1)
    bounds, held_out = (
        tree_bounds(trace, sizes, depth - 1),
        _held_out(trace, sizes, depth - 1, held_out_seed),
    )
    levels = depth - 1 if trace.depth is None else min(depth - 1, trace.depth)
    vectors = measured_vectors(trace, levels, max(sizes))
    return [
        {
            "nodes": best.tree.nodes,
            "depth": depth,
            "tokens_per_step": best.tokens_per_step,
            "parents": list(best.tree.parents),
            "ranks": list(best.tree.ranks),
            "certificate": best.certificate.to_json(),
            "search": {
                "iterations": best.iterations,
                "cycle_length": best.cycle_length,
                "swaps": best.swaps,
            },
            "oracle": {
                "one_tree_at_most": bound.one_tree,
                "tree_per_request_at_most": bound.tree_per_request,
                "tree_per_step": bound.tree_per_step,
            },
            "vector_tree_tokens_per_step": best.dp_tokens_per_step,
            **_dynamic(trace, best.draft_tokens),
            **other,
            "runtime_trees": _runtime(vectors, n, levels + 1, best.tokens_per_step, trace),
        }
        for n, best, bound, other in zip(budgets, results, bounds, held_out, strict=True)
    ]


def _runtime(
    vectors: AcceptanceVectors,
    nodes: int,
    depth: int,
    free: float,
    trace: AcceptanceTrace | None = None,
) -> list[Row]:
    """The best tree of every form that engines run, chosen by vectors; on a recording, replayed
    there.
    """
    from costmodel.optimizers.trees.runtime_trees import runtime_trees
    from traces.replay.walk import replay_tree

    rows = []
    for best in runtime_trees(vectors, nodes, depth):
        emitted = (
            best.tokens_per_step if trace is None else replay_tree(trace, best.tree).tokens_per_step
        )
        rows.append(
            {
                "form": best.form,
                **best.settings,
                "nodes": best.tree.nodes,
                "tokens_per_step": emitted,
                "loss_ratio": round(1.0 - emitted / free, 12),
                **best.tree.to_json(),
            }
        )
    return rows


def _dynamic(trace: AcceptanceTrace, draft_tokens: int) -> dict[str, Any]:
    """What a tree of the likeliest nodes, chosen anew at every step, emits; nothing where no trees
    were recorded.
    """
    from traces.replay.dynamic import best_first, walk_policy

    trees = trace.expansions
    if trees is None or not trees.size or draft_tokens > trees.nodes:
        return {}
    replay, steps = walk_policy(trace, best_first(draft_tokens))
    return {
        "dynamic_tree": {
            "tokens_per_step": replay.tokens_per_step,
            "mean_passes": float(steps.passes.mean()),
            "lower_bound_steps_ratio": float((~steps.exact).mean()),
        }
    }


def _held_out(
    trace: AcceptanceTrace, sizes: tuple[int, ...], depth: int, seed: int | None
) -> list[Row]:
    """What trees chosen on one half of the requests emit on the other; nothing without a seed."""
    import numpy as np

    from costmodel.optimizers.held_out.trees import held_out_comparison

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


def sampling_row(
    known: AcceptanceTrace | AcceptanceVectors,
    nodes: int,
    depth: int,
    *,
    recorded_tokens: int | None,
    seed: int,
) -> Row:
    """What the sampling error of the vectors means for the tree of a budget, and how many tokens
    would be enough.

    Args:
        known: a recording, or sibling vectors.
        nodes: of the tree, root included.
        depth: most levels, root included.
        recorded_tokens: positions that vectors were counted on; of a recording its own.
        seed: of the draws.

    Raises:
        InputError: vectors without a number of tokens.
        InfeasibleError: no tree of that many nodes fits.
    """
    import numpy as np

    from costmodel.optimizers.acceptance_vectors import acceptance_levels
    from costmodel.optimizers.trees.sampling import counted_draws, recorded_draws, sampled_choice
    from costmodel.optimizers.trees.trace_tree import measured_vectors
    from traces.kinds.acceptance import AcceptanceTrace

    generator = np.random.default_rng(seed)
    if isinstance(known, AcceptanceTrace):
        levels = min(
            depth - 1,
            int(known.output_tokens.max()) - known.first_step_position,
            known.depth or depth - 1,
        )
        width = min(nodes - 1, known.rank_width)
        vectors = acceptance_levels(measured_vectors(known, levels, width), levels + 1)[0]
        tokens, draw = int(known.positions), recorded_draws(known, levels, width, generator)
    else:
        if recorded_tokens is None:
            rule = "of a vector needs the positions that it was counted on: --recorded-tokens"
            raise InputError(rule, key="--robust")
        vectors, tokens = acceptance_levels(known, depth)[0], recorded_tokens
        draw = counted_draws(vectors, tokens, generator)
    found = sampled_choice(vectors, draw, tokens=tokens, nodes=nodes, depth=depth)
    return {
        "recorded_tokens": tokens,
        "low_tokens_per_step": found.low,
        "mean_regret_ratio": found.mean_regret_ratio,
        "changes": found.safe_tree != found.tree,
        "safe_tree": {**found.safe_tree.to_json(), "low_tokens_per_step": found.safe_low},
        "regret_by_tokens": [list(each) for each in found.regret_by_tokens],
        "enough_tokens": found.enough_tokens,
    }
