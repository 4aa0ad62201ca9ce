"""Which tree is fastest on a device, at each batch and context?"""

from collections.abc import Sequence

from app.answers.cells import MarkedCell, marked
from app.answers.feasible import require_cell
from app.answers.trees.rows import BudgetSpeed, BudgetTree, FastestTree, TreeCertificate
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration
from costmodel.laws.acceptance import Acceptance
from costmodel.optimizers.acceptance_vectors import AcceptanceVectors
from costmodel.optimizers.trees.priced_tree import TreePrice, fastest_tree
from costmodel.optimizers.trees.trace_tree import measured_vectors
from costmodel.optimizers.trees.tree_price import tree_price
from hardware_profiles.errors import InfeasibleError
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.tree import Tree
from traces.replay.walk import replay_tree


def fastest_trees(
    configuration: DecodingConfiguration,
    acceptance: AcceptanceTrace | AcceptanceVectors,
    trees: Sequence[BudgetTree],
    grid: tuple[Sequence[int], Sequence[int]],
    *,
    depth: int,
    captured_rows: Sequence[int] = (),
) -> list[FastestTree | MarkedCell]:
    """The tree of most tokens per second at every context and batch, beside those that emit most
    per step; a marked row where the largest of these does not fit.

    Args:
        configuration: target, device, engine and drafter.
        acceptance: sibling vectors, or a recording, on which trees are replayed.
        trees: that emit most within each budget; the largest budget limits the search.
        grid: batches, and cached tokens per request.
        depth: most levels, root included.
        captured_rows: rows of a batch for which the engine has captured graphs.

    Raises:
        InputError: names or numbers that make no sense, or a drafter that drafts no trees.
    """
    setting = build_setting(configuration)
    most = max(2, *(row.nodes for row in trees))
    trace = acceptance if isinstance(acceptance, AcceptanceTrace) else None
    vectors = acceptance
    if isinstance(acceptance, AcceptanceTrace):
        levels = depth - 1 if acceptance.depth is None else min(depth - 1, acceptance.depth)
        vectors = measured_vectors(acceptance, levels, most)
    assert not isinstance(vectors, AcceptanceTrace)
    largest = max(trees, key=lambda row: row.nodes).tree
    drafted = Acceptance(
        draft_tokens=largest.draft_tokens,
        tokens_per_step=1.0,
        proposed_tokens=float(largest.draft_tokens),
        tree=largest,
    )
    rows: list[FastestTree | MarkedCell] = []
    for context in grid[1]:
        for batch in grid[0]:
            try:
                require_cell(configuration, setting, drafted, batch=batch, context=context)
            except InfeasibleError as error:
                where = configuration.deployment
                rows.append(
                    MarkedCell(
                        model=where.model,
                        device=where.device,
                        engine=where.engine,
                        batch=batch,
                        context=context,
                        **marked(configuration, drafted, str(error), batch=batch, context=context),
                    )
                )
                continue
            price = tree_price(
                setting, batch=batch, context=context, nodes=most, captured_rows=captured_rows
            )
            best = fastest_tree(vectors, price, depth)
            tree = best.tree
            emitted = (
                best.tokens_per_step
                if trace is None
                else float(replay_tree(trace, tree).tokens_per_step)
            )
            tokens_per_s = _speed(price, tree, emitted, batch)
            rows.append(
                FastestTree(
                    nodes=tree.nodes,
                    parents=tree.parents,
                    ranks=tree.ranks,
                    batch=batch,
                    context=context,
                    levels=tree.depth,
                    tokens_per_step=emitted,
                    step_s=price.step_s(tree, emitted),
                    tokens_per_s=tokens_per_s,
                    speedup=tokens_per_s / (batch / price.plain_s),
                    certificate=TreeCertificate.of(best.certificate),
                    budget_trees=[
                        BudgetSpeed(
                            nodes=row.nodes,
                            tokens_per_s=_speed(price, row.tree, row.tokens_per_step, batch),
                        )
                        for row in trees
                    ],
                )
            )
    return rows


def _speed(price: TreePrice, tree: Tree, emitted: float, batch: int) -> float:
    """Tokens of all requests per second, where a step emits so many of each."""
    return float(batch * emitted / price.step_s(tree, emitted))
