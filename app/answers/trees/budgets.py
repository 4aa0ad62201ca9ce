"""Which tree emits most within a budget, what engines can run of it, and how sure is that?"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from app.answers.trees.rows import (
    BudgetTree,
    EngineTree,
    HeldOutTree,
    LikeliestNodes,
    OracleTrees,
    PromptedTrees,
    SafeTree,
    StateTree,
    TreeCertificate,
    TreeSampling,
    TreeSearch,
)
from costmodel.method import Method
from costmodel.optimizers.acceptance_vectors import AcceptanceVectors, acceptance_levels
from costmodel.optimizers.candidates.state_candidates import recorded_vectors
from costmodel.optimizers.held_out.trees import held_out_comparison
from costmodel.optimizers.trees.runtime_trees import runtime_trees
from costmodel.optimizers.trees.sampling import counted_draws, recorded_draws, sampled_choice
from costmodel.optimizers.trees.state_trees import best_state_trees
from costmodel.optimizers.trees.static_tree import optimal_trees
from costmodel.optimizers.trees.trace_tree import measured_vectors, trace_tree
from costmodel.optimizers.trees.tree_oracles import TreeBounds, tree_bounds
from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace
from traces.replay.dynamic import best_first, walk_policy
from traces.replay.states import replay_states
from traces.replay.walk import replay_tree


def state_trees(
    acceptance: AcceptanceTrace | AcceptanceVectors, budgets: Sequence[int], method: Method
) -> list[PromptedTrees]:
    """The trees of all states for every budget; of a recording, what they emit is replayed too.

    Raises:
        InputError: a budget that holds no candidate.
    """
    levels = method.shape.depth
    if min(budgets) < levels + 3:
        rule = (
            f"the root, {levels} prompt tokens behind it, a candidate and its own are {levels + 3}"
            " nodes"
        )
        raise InputError(rule, key="--nodes", value=min(budgets))
    trace = acceptance if isinstance(acceptance, AcceptanceTrace) else None
    vectors: AcceptanceVectors = (
        recorded_vectors(acceptance, levels)
        if isinstance(acceptance, AcceptanceTrace)
        else acceptance
    )
    rows = []
    for nodes in budgets:
        best = best_state_trees(vectors, nodes - 1 - levels, levels)
        states, law = best.states, best.law
        emitted = law.tokens_per_step
        if trace is not None:
            emitted = replay_states(trace, states)[0].tokens_per_step
        trees = [
            StateTree(
                nodes=query_tokens,
                parents=tree.parents,
                ranks=tree.ranks,
                share=share,
                tokens_per_step=emitted_there,
                prompt_tokens=behind,
            )
            for tree, behind, query_tokens, share, emitted_there in zip(
                states.trees,
                states.prompt_tokens,
                states.rows,
                law.shares.tolist(),
                law.emitted.tolist(),
                strict=True,
            )
        ]
        rows.append(
            PromptedTrees(
                nodes=nodes,
                depth=levels + 1,
                tokens_per_step=emitted,
                law_tokens_per_step=law.tokens_per_step,
                certificate=TreeCertificate.of(best.certificate),
                states=trees,
            )
        )
    return rows


def vector_trees(
    vectors: AcceptanceVectors, budgets: Sequence[int], depth: int
) -> list[BudgetTree]:
    """The best tree of every budget for sibling vectors, with the trees that engines can run.

    Args:
        vectors: sibling vector, or one per draft depth.
        budgets: nodes, root included.
        depth: most levels, root included.

    Raises:
        InputError: a value out of range.
        InfeasibleError: no tree of that many nodes fits the depth and the vectors.
    """
    return [
        BudgetTree(
            nodes=best.nodes,
            parents=best.tree.parents,
            ranks=best.tree.ranks,
            depth=depth,
            tokens_per_step=best.tokens_per_step,
            certificate=TreeCertificate.of(best.certificate),
            runtime_trees=_engine_trees(
                vectors, best.nodes, depth, best.tokens_per_step, budget=best.nodes
            ),
        )
        for best in optimal_trees(vectors, budgets, depth)
    ]


def recorded_trees(
    trace: AcceptanceTrace, budgets: Sequence[int], depth: int, held_out_seed: int | None
) -> list[BudgetTree]:
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
    if depth < 2 or budgets[0] < 2:
        raise InputError(
            "a tree from a trace needs at least 2 nodes and 2 levels", key="--nodes, --depth"
        )
    trace.require(2, "building a tree")
    sizes = tuple(n - 1 for n in budgets)
    results = trace_tree(trace, draft_tokens=sizes, depth=depth - 1)
    bounds = tree_bounds(trace, sizes, depth - 1)
    held_out = _held_out(trace, sizes, depth - 1, held_out_seed)
    levels = depth - 1 if trace.depth is None else min(depth - 1, trace.depth)
    vectors = measured_vectors(trace, levels, max(sizes))
    return [
        BudgetTree(
            nodes=best.tree.nodes,
            parents=best.tree.parents,
            ranks=best.tree.ranks,
            depth=depth,
            tokens_per_step=best.tokens_per_step,
            certificate=TreeCertificate.of(best.certificate),
            search=TreeSearch(
                iterations=best.iterations, cycle_length=best.cycle_length, swaps=best.swaps
            ),
            oracle=_oracle(bound),
            vector_tree_tokens_per_step=best.dp_tokens_per_step,
            dynamic_tree=_dynamic(trace, best.draft_tokens),
            held_out=other_half,
            runtime_trees=_engine_trees(
                vectors,
                nodes,
                levels + 1,
                best.tokens_per_step,
                budget=best.tree.nodes,
                trace=trace,
            ),
        )
        for nodes, best, bound, other_half in zip(budgets, results, bounds, held_out, strict=True)
    ]


def _oracle(bound: TreeBounds) -> OracleTrees:
    return OracleTrees(
        one_tree_at_most=bound.one_tree,
        tree_per_request_at_most=bound.tree_per_request,
        tree_per_step=bound.tree_per_step,
    )


def _engine_trees(
    vectors: AcceptanceVectors,
    nodes: int,
    depth: int,
    free: float,
    *,
    budget: int,
    trace: AcceptanceTrace | None = None,
) -> list[EngineTree]:
    """The best tree of every form that engines run, chosen by vectors; on a recording, replayed
    there.

    Args:
        vectors: sibling vectors.
        nodes: at most, root included.
        depth: levels at most, root included.
        free: tokens per step of the free tree.
        budget: nodes of the free tree.
        trace: the recording.
    """
    rows = []
    for best in runtime_trees(vectors, nodes, depth):
        emitted = (
            best.tokens_per_step if trace is None else replay_tree(trace, best.tree).tokens_per_step
        )
        settings: dict[str, Any] = dict(best.settings)
        rows.append(
            EngineTree(
                nodes=best.tree.nodes,
                parents=best.tree.parents,
                ranks=best.tree.ranks,
                budget=budget,
                form=best.form,
                **settings,
                tokens_per_step=emitted,
                loss_ratio=round(1.0 - emitted / free, 12),
            )
        )
    return rows


def _dynamic(trace: AcceptanceTrace, draft_tokens: int) -> LikeliestNodes | None:
    """What a tree of the likeliest nodes, chosen anew at every step, emits; None where no trees
    were recorded.
    """
    trees = trace.expansions
    if trees is None or not trees.size or draft_tokens > trees.nodes:
        return None
    replay, steps = walk_policy(trace, best_first(draft_tokens))
    return LikeliestNodes(
        tokens_per_step=replay.tokens_per_step,
        mean_passes=float(steps.passes.mean()),
        lower_bound_steps_ratio=float((~steps.exact).mean()),
    )


def _held_out(
    trace: AcceptanceTrace, sizes: tuple[int, ...], depth: int, seed: int | None
) -> Sequence[HeldOutTree | None]:
    """What trees chosen on one half of the requests emit on the other; None without a seed."""
    if seed is None:
        return [None] * len(sizes)
    return [
        HeldOutTree(
            tokens_per_step=half.tokens_per_step,
            vector_tree_tokens_per_step=half.dp_tokens_per_step,
            gain_ratio=half.gain_ratio,
        )
        for half in held_out_comparison(trace, sizes, depth, generator=np.random.default_rng(seed))
    ]


def sampling_of(
    acceptance: AcceptanceTrace | AcceptanceVectors,
    row: BudgetTree,
    budgets: Sequence[int],
    *,
    recorded_tokens: int | None,
    seed: int,
) -> TreeSampling:
    """What the sampling error of the vectors means for the tree of a budget, and how many tokens
    would be enough.

    Args:
        acceptance: a recording, or sibling vectors.
        row: the tree, which may have fewer nodes than its budget.
        budgets: all of them.
        recorded_tokens: positions that vectors were counted on; of a recording its own.
        seed: of the draws.

    Raises:
        InputError: vectors without a number of tokens.
        InfeasibleError: no tree of that many nodes fits.
    """
    generator = np.random.default_rng(seed)
    nodes = min((budget for budget in budgets if budget >= row.nodes), default=row.nodes)
    depth = row.depth
    if isinstance(acceptance, AcceptanceTrace):
        levels = min(
            depth - 1,
            int(acceptance.output_tokens.max()) - acceptance.first_step_position,
            acceptance.depth or depth - 1,
        )
        width = min(nodes - 1, acceptance.rank_width)
        vectors = acceptance_levels(measured_vectors(acceptance, levels, width), levels + 1)[0]
        tokens = int(acceptance.positions)
        draw = recorded_draws(acceptance, levels, width, generator)
    else:
        if recorded_tokens is None:
            rule = "of a vector needs the positions that it was counted on: --recorded-tokens"
            raise InputError(rule, key="--robust")
        vectors, tokens = acceptance_levels(acceptance, depth)[0], recorded_tokens
        draw = counted_draws(vectors, tokens, generator)
    choice = sampled_choice(vectors, draw, tokens=tokens, nodes=nodes, depth=depth)
    safe = choice.safe_tree
    return TreeSampling(
        nodes=row.nodes,
        recorded_tokens=tokens,
        low_tokens_per_step=choice.low,
        mean_regret_ratio=choice.mean_regret_ratio,
        changes=safe != choice.tree,
        safe_tree=SafeTree(
            nodes=safe.nodes,
            parents=safe.parents,
            ranks=safe.ranks,
            low_tokens_per_step=choice.safe_low,
        ),
        regret_by_tokens=choice.regret_by_tokens,
        enough_tokens=choice.enough_tokens,
    )
