"""Which tree should be drafted, how large, and what does its shape gain over a chain?

Trees chosen on a recording with candidates by rank, costed on a device at one batch and context.
Leaves out trees that change with every step.
"""

import json
from functools import lru_cache

from app.answers.cells import MarkedCell
from app.answers.optimize.choices import path_acceptance
from app.answers.scoring.certainty import how_sure
from app.answers.trees.rows import BudgetTree, FastestTree, Trees
from app.dashboard.answer import Card, DeferredAnswer, Figure, PageAnswer, scenario, setting_of
from app.dashboard.answers.tree.published_trees import published_trees, tokens_per_step
from app.dashboard.answers.unmet import MISSED, missed, nearest_words
from app.dashboard.asking import Asked
from app.dashboard.changes import asked_by, asking_along
from app.dashboard.question import own_drafter_asked, where_asked
from app.dashboard.recorded import recorded, tree_traces
from app.dashboard.state import State
from app.questions.tree import TreeQuestion
from app.render.charts.charts import DASHES, PALETTE, SYMBOLS, digits, framed, tree_figure
from costmodel.answers.estimate import step_cost
from costmodel.answers.settings import method_of
from costmodel.configuration import DecodingConfiguration
from costmodel.laws.acceptance import Acceptance
from costmodel.optimizers.drafters.origin import is_borrowed
from costmodel.optimizers.drafters.sources import Source, trace_source
from costmodel.optimizers.trees.static_tree import optimal_trees
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.tree import Tree, chain_tree
from traces.library import recordings
from traces.replay.statistics import sibling_vector

SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
WIDTH = 8
PUBLISHED = "published shapes"
CHAIN, VECTOR, PATHS = "chain", "tree of the sibling vector (Sequoia)", "tree of the recorded paths"


def answer_tree(state: State) -> PageAnswer:
    """The best tree of the state's size, and curves over sizes; where it does not fit, what would.

    Raises:
        InputError: a recording without ranks, or fewer draft tokens than there are levels to fill.
    """
    name = state.trace or tree_traces()[0]
    trace = recorded(name)
    trace.require(2, "building a tree")
    configuration = scenario(state, method=method_of(trace.provenance.method))
    asked = asked_tree(state, configuration, name)
    answer = asked.answer()
    assert isinstance(answer, Trees) and answer.fastest is not None
    (row,), (fastest,) = answer.trees, answer.fastest
    assert isinstance(row, BudgetTree)
    if isinstance(fastest, MarkedCell):
        return _impossible(state, asked, fastest)
    tree, n = row.tree, state.tree_nodes
    sizes = sorted({*SIZES, n})
    vector = sibling_vector(trace, WIDTH)
    shapes = {
        CHAIN: [chain_tree(k) for k in sizes if k <= state.depth],
        VECTOR: [
            choice.tree for choice in optimal_trees(vector, [k + 1 for k in sizes], state.depth + 1)
        ],
    }
    lines = {label: [_replayed(name, tree) for tree in trees] for label, trees in shapes.items()}
    published = [_replayed(name, shape.tree) for shape in published_trees()]
    return PageAnswer(
        headline=_headline(state, row, fastest),
        command=asked.line,
        numbers=_numbers(row, fastest),
        cards=[
            Card(
                title="The tree",
                note="From the last known token down; colour and size: how often a step keeps it.",
                figure=tree_figure(tree, path_acceptance(trace, tree)),
            ),
            asking_along(
                Card(
                    title="Tokens per step against size",
                    note="Replayed on the recording that chose the trees.",
                    figure=_curves(
                        lines,
                        {label: [p.tokens_per_step for p in ps] for label, ps in lines.items()},
                        (tree.draft_tokens, row.tokens_per_step),
                        [a.tokens_per_step for a in published],
                        "tokens per step",
                    ),
                ),
                "tree_nodes",
            ),
        ],
        files={"tree.json": lambda: _written(tree)},
        notes=_notes(trace, configuration.deployment.model),
        sure=how_sure(
            configuration.deployment, _source(name, configuration), context_tokens=state.context
        ),
        command_answer=lambda: answer,
        deferred=lambda: _deferred(configuration, name, state, tree, lines, published),
    )


def asked_tree(state: State, configuration: DecodingConfiguration, name: str) -> Asked:
    """What `tree` is asked of a state.

    Args:
        state: the page's question.
        configuration: of the recording's method where the state asks.
        name: of the recording.
    """
    return Asked(
        verb=TreeQuestion,
        values={
            **where_asked(state),
            "method": configuration.method,
            "draft": configuration.draft_model,
            **own_drafter_asked(state),
            "acceptance": name,
            "nodes": str(state.tree_nodes + 1),
            "depth": state.depth + 1,
            "batch": str(state.batch),
            "context": str(state.context),
        },
    )


@lru_cache(maxsize=256)
def _source(name: str, configuration: DecodingConfiguration) -> Source:
    """The recording as what drafts, which the question's own drafters are not."""
    source = trace_source(recordings()[name], configuration.method, override=True)
    return source.asked_on(configuration.deployment.model)


def _impossible(state: State, asked: Asked, marked: MarkedCell) -> PageAnswer:
    """The answer where the tree does not fit: why, and what would hold."""
    nearest = nearest_words(marked)
    return PageAnswer(
        headline=(
            f"Batch {state.batch:,} {MISSED[marked.misses]} at context {state.context:,}; nearest"
            f" that holds: {nearest or 'nothing that was tried'}"
        ),
        command=asked.line,
        tables=missed([marked]),
        changes=asked_by(state, marked.nearest or ()),
    )


def _headline(state: State, row: BudgetTree, fastest: FastestTree) -> str:
    tree = row.tree
    return (
        f"{tree.draft_tokens} draft tokens as a tree of {tree.depth - 1} levels emit"
        f" {digits(row.tokens_per_step)} tokens per step and"
        f" {digits(fastest.budget_trees[0].tokens_per_s)} tokens/s at batch {state.batch:,},"
        f" context {state.context:,}: {digits(_speedup(fastest))}× the speed of no speculation"
    )


def _speedup(fastest: FastestTree) -> float:
    """Of the tree that is shown, which is not the fastest shape where that drafts nothing."""
    return fastest.budget_trees[0].tokens_per_s * fastest.speedup / fastest.tokens_per_s


def _numbers(row: BudgetTree, fastest: FastestTree) -> list[tuple[str, str]]:
    return [
        ("Tokens per step", digits(row.tokens_per_step)),
        ("Whole batch", f"{digits(fastest.budget_trees[0].tokens_per_s)} tokens/s"),
        ("Without drafting", f"{digits(fastest.tokens_per_s / fastest.speedup)} tokens/s"),
        ("Levels", str(row.tree.depth - 1)),
    ]


def _deferred(
    configuration: DecodingConfiguration,
    name: str,
    state: State,
    chosen: Tree,
    lines: dict[str, list[Acceptance]],
    published: list[Acceptance],
) -> DeferredAnswer:
    """What every size costs, and the shapes side by side."""
    rates = {
        label: [_rate(configuration, p.tokens_per_step, p.tree, state) for p in points]
        for label, points in lines.items()
    }
    known_rates = [_rate(configuration, a.tokens_per_step, a.tree, state) for a in published]
    best = _rate(configuration, _replayed(name, chosen).tokens_per_step, chosen, state)
    figure = _curves(lines, rates, (state.tree_nodes, best), known_rates, "tokens/s, whole batch")
    return DeferredAnswer(
        cards=[
            asking_along(
                Card(
                    title="Tokens per second against size",
                    note="A larger tree costs a longer step.",
                    figure=figure,
                ),
                "tree_nodes",
            )
        ],
        tables=[
            (
                "Shapes compared",
                _compared(
                    configuration, name, state, chosen, [p.tree for p in lines[VECTOR] if p.tree]
                ),
            ),
            (
                "Published shapes",
                [{"shape": shape.name, "source": shape.source} for shape in published_trees()],
            ),
        ],
    )


def _written(tree: Tree) -> bytes:
    return (json.dumps(tree.to_json(), indent=1) + "\n").encode()


def balanced_tree(draft_tokens: int, width: int, depth: int) -> Tree:
    """A tree whose nodes have `width` children each, filled level by level up to a number of draft
    tokens.

    Reference: the Cartesian trees of Cai et al. 2024, "Medusa" (arXiv:2401.10774), section 2.1.2,
    cut to size.
    """
    paths: list[tuple[int, ...]] = []
    level: list[tuple[int, ...]] = [()]
    for _ in range(depth):
        level = [(*path, rank) for path in level for rank in range(width)][:draft_tokens]
        paths += level
    return Tree.from_paths(paths[:draft_tokens])


@lru_cache(maxsize=2048)
def _replayed(name: str, tree: Tree) -> Acceptance:
    """What a tree emits on a recording, whatever device it runs on."""
    return Acceptance(
        draft_tokens=tree.draft_tokens,
        tokens_per_step=tokens_per_step(recorded(name), tree),
        proposed_tokens=float(tree.draft_tokens),
        tree=tree,
    )


@lru_cache(maxsize=2048)
def _step_s(
    configuration: DecodingConfiguration, tree: Tree | None, batch: int, context: int
) -> float:
    """Seconds of a step with a tree, or without drafting."""
    n = 0 if tree is None else tree.draft_tokens
    a = Acceptance(draft_tokens=n, tokens_per_step=1.0, proposed_tokens=float(n), tree=tree)
    return float(step_cost(setting_of(configuration), a, batch=batch, context=context).total_s)


def _rate(
    configuration: DecodingConfiguration, tokens_per_step: float, tree: Tree | None, state: State
) -> float:
    """Tokens per second of the whole batch."""
    return state.batch * tokens_per_step / _step_s(configuration, tree, state.batch, state.context)


def _compared(
    configuration: DecodingConfiguration, name: str, state: State, chosen: Tree, vectors: list[Tree]
) -> list[dict[str, object]]:
    n, depth = state.tree_nodes, state.depth
    at = {tree.draft_tokens: tree for tree in vectors}
    rows: list[tuple[str, Tree]] = [(PATHS, chosen)]
    rows += [(VECTOR, at[n])] if n in at else []
    rows += [
        (f"{width} children everywhere (Medusa's Cartesian)", balanced_tree(n, width, depth))
        for width in (2, 3)
    ]
    rows += [(shape.name, shape.tree) for shape in published_trees()]
    rows.append((f"{CHAIN} of {min(n, depth)}", chain_tree(min(n, depth))))
    table: list[dict[str, object]] = []
    for label, tree in rows:
        a = _replayed(name, tree)
        rate = _rate(configuration, a.tokens_per_step, tree, state)
        table.append(
            {
                "shape": label,
                "draft tokens": tree.draft_tokens,
                "levels": tree.depth - 1,
                "tokens per step": round(a.tokens_per_step, 4),
                "tokens/s": round(rate, 1),
                "speedup (×)": round(rate / _rate(configuration, 1.0, None, state), 3),
            }
        )
    return table


def _curves(
    lines: dict[str, list[Acceptance]],
    values: dict[str, list[float]],
    chosen_point: tuple[int, float],
    published: list[float],
    title: str,
) -> Figure:
    data: list[Figure] = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": label,
            "x": [p.draft_tokens for p in lines[label]],
            "y": y,
            "line": {"color": PALETTE[place], "dash": DASHES[place], "width": 2.5},
            "marker": {"size": 7, "symbol": SYMBOLS["chain" if label == CHAIN else "tree"]},
            "hovertemplate": "%{x} draft tokens: %{y:.4g} " + title + "<extra></extra>",
        }
        for place, (label, y) in enumerate(values.items())
    ]
    trees = published_trees()
    data.append(
        {
            "type": "scatter",
            "mode": "markers+text",
            "name": PUBLISHED,
            "x": [shape.tree.draft_tokens for shape in trees],
            "y": published,
            "text": [shape.name.split(",")[0] for shape in trees],
            "textposition": [
                "middle left" if shape.tree.draft_tokens > 32 else "bottom center"
                for shape in trees
            ],
            "marker": {"size": 10, "symbol": "x", "color": PALETTE[3]},
            "hovertemplate": "%{text}, %{x} draft tokens: %{y:.4g} " + title + "<extra></extra>",
        }
    )
    data.append(
        {
            "type": "scatter",
            "mode": "markers",
            "name": PATHS,
            "x": [chosen_point[0]],
            "y": [chosen_point[1]],
            "marker": {"size": 13, "symbol": "star", "color": PALETTE[2]},
            "hovertemplate": "%{x} draft tokens: %{y:.4g} " + title + "<extra></extra>",
        }
    )
    bottom = {
        "type": "log",
        "tickvals": list(SIZES),
        "title": {"text": "draft tokens per request and step"},
    }
    return framed(data, bottom, {"title": {"text": title}})


def _notes(trace: AcceptanceTrace, model: str) -> list[str]:
    notes = [
        "Trees are scored on the texts that chose them, which flatters; rooftree optimize splits"
        " the texts."
    ]
    widest = trace.rank_width
    if any(max(shape.tree.ranks) >= widest for shape in published_trees()):
        notes.append(
            f"{widest} candidates per place were recorded; others, in published trees, count as"
            " never right."
        )
    if is_borrowed(trace, model):
        notes.append(
            f"Acceptance was recorded on {trace.provenance.model} and is borrowed for {model}."
        )
    return notes
