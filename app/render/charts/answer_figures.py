"""Which figures does the answer of a verb have?

Lines over batch, draft tokens or load with their intervals, bars of waiting times and prices, and
the chosen tree. Leaves out the page of `optimize` (`app.render.html`), which draws the same figures.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from app.answers.breakeven.curves import ACCEPTANCE, BANDWIDTH, TOKENS
from app.answers.breakeven.rows import BreakEvens, RefiningPoint
from app.answers.capacity.rows import CapacityPlans, PlanRow
from app.answers.optimize.designs import Designs
from app.answers.optimize.rankings import Rankings
from app.answers.optimize.recommended import Recommended, RecommendedCells
from app.answers.optimize.rows import PolicyRow
from app.answers.replay.rows import ReplayedDrafts
from app.answers.simulations.rows import Simulation
from app.answers.trees.rows import BudgetTree, Trees
from app.render.charts.charts import (
    PALETTE,
    Figure,
    acceptance_figure,
    band_of,
    batch_axis,
    best_tree,
    digits,
    framed,
    interval_words,
    line_of,
    path_acceptance,
    speedup_figure,
    step_time_figure,
    throughput_figure,
    time_per_token_figure,
    tree_figure,
)
from app.render.charts.gain_curve import gain_curve_figure
from app.render.charts.joint_figures import front_figure
from app.render.charts.refining_figures import refining_figure
from app.render.charts.reproduction_figures import reproduction_figure
from app.render.charts.score_figures import times_figure
from hardware_profiles.errors import InputError
from hardware_profiles.units import MILLI
from traces.kinds.tree import Tree

Draw = Callable[[Any, int | None], Figure | None]


def figure_of(
    verb: str, answer: Any, kind: str | None = None, *, context: int | None = None
) -> Figure:
    """A figure of an answer as a plain dictionary.

    Args:
        verb: whose answer it is.
        answer: with its rows.
        kind: which figure; None: the verb's first.
        context: of an answer to several: cached tokens per request; None: the first.

    Raises:
        InputError: the verb has no such figure, or the answer nothing to draw in it.
    """
    figures = FIGURES.get(verb, {})
    if isinstance(answer, Recommended) and isinstance(answer.ranking, Designs):
        figures = LOAD
    elif isinstance(answer, Recommended) and answer.quality is not None:
        figures = REFINING
    if kind is None and any(isinstance(row, RefiningPoint) for row in answer.own_rows):
        kind = "pace"  # of masked blocks, which have no acceptance of one token
    draw = figures.get(kind) if kind is not None else next(iter(figures.values()), None)
    if draw is None:
        rule = (
            f"must be one of {', '.join(figures)}"
            if figures
            else f"an answer of {verb} has no figure"
        )
        raise InputError(rule, key="kind", value=kind)
    drawn = draw(answer, context)
    if drawn is None:
        raise InputError(
            "this answer holds nothing to draw", key="kind", value=kind or next(iter(figures))
        )
    return drawn


def _at(draw: Callable[[Rankings, int], Figure], quantity: str = "", title: str = "") -> Draw:
    """A figure of one context of `optimize`; of several models, devices or engines the winners'
    quantity, if any.
    """

    def drawn(answer: Recommended | RecommendedCells, context: int | None) -> Figure | None:
        answered_contexts = list(dict.fromkeys(row.context for row in answer.choices))
        if context is not None and context not in answered_contexts:
            raise InputError(
                f"must be one of {', '.join(map(str, answered_contexts))}",
                key="context",
                value=context,
            )
        at = answered_contexts[0] if context is None else context
        rankings = _one_of(answer)
        if rankings is not None:
            return draw(rankings, at)
        return _over_batch("choices", quantity, title, by=())(answer, at) if quantity else None

    return drawn


def _one_of(answer: Recommended | RecommendedCells) -> Rankings | None:
    """The rankings of the only model, device and engine; None where there are several."""
    cells = [answer] if isinstance(answer, Recommended) else list(answer.by_folder.values())
    return cells[0].rankings if len(cells) == 1 else None


def _acceptance(answer: Recommended | RecommendedCells, context: int | None) -> Figure | None:
    rankings = _one_of(answer)
    return None if rankings is None else acceptance_figure(rankings)


def _best_tree(answer: Recommended | RecommendedCells, context: int | None) -> Figure | None:
    rankings = _one_of(answer)
    row = None if rankings is None else best_tree(rankings)
    if rankings is None or row is None or row.tree is None:
        return None
    return tree_figure(Tree.from_json(row.tree), path_acceptance(rankings, row))


def _policies(answer: Recommended, context: int | None) -> Figure | None:
    assert answer.quality is not None
    policies = [row for row in answer.rankings.ranked if isinstance(row, PolicyRow)]
    limit = None if isinstance(answer.ranking, Designs) else answer.rankings.tpot_limit_s
    return refining_figure(policies, answer.quality.floor, context, tpot_limit_s=limit)


def _largest_tree(answer: Trees, context: int | None) -> Figure:
    row = max(answer.trees, key=lambda tree: tree.nodes)
    assert isinstance(row, BudgetTree)
    return tree_figure(row.tree, None)


def _over_batch(
    part: str, quantity: str, title: str, by: Sequence[str] = ("draft_tokens",)
) -> Draw:
    """Lines over batch, one for every draft length (`by`) and whatever else an answer has several
    of.
    """

    def drawn(answer: Any, context: int | None) -> Figure | None:
        rows = [
            row for row in getattr(answer, part, ()) if context is None or row.context == context
        ]
        if not rows:
            return None
        keys = ("model", "device", "engine", "context")
        several = [key for key in keys if len({getattr(row, key) for row in rows}) > 1]

        def name(row: Any) -> str:
            cell = [
                f"context {row.context:,}" if key == "context" else str(getattr(row, key))
                for key in several
            ]
            return ", ".join([*(f"K = {getattr(row, key)}" for key in by), *cell]) or title

        batches = sorted({row.batch for row in rows})
        data = _lines(rows, "batch", quantity, f"{quantity}_interval", name)
        return framed(data, batch_axis(batches), {"title": {"text": title}})

    return drawn


def _replayed(answer: ReplayedDrafts, context: int | None) -> Figure | None:
    groups = {
        "chains": answer.chains,
        "static trees": answer.trees,
        "drafts that differ from step to step": answer.varying,
    }
    words = {id(row): group for group, rows in groups.items() for row in rows}
    data = _lines(
        answer.own_rows,
        "draft_tokens",
        "tokens_per_step",
        "interval",
        lambda row: words[id(row)],
    )
    bottom = {"title": {"text": "draft tokens per request and step"}}
    return framed(data, bottom, {"title": {"text": "tokens per step"}}) if words else None


def _waiting(quantity: str, title: str, scale: float) -> Draw:
    """Bars of the mean and of percentiles, one colour a case."""

    def drawn(answer: Simulation, context: int | None) -> Figure | None:
        cases = [(case.name, case.metrics) for case in answer.cases or ()]
        cases = cases or [("as asked", answer.metrics)]
        levels = [level for level, value in cases[0][1][quantity].items() if value is not None]
        data = [
            {
                "type": "bar",
                "name": str(name),
                "x": levels,
                "y": [(metrics[quantity][level] or 0.0) / scale for level in levels],
                "marker": {"color": PALETTE[place % len(PALETTE)]},
            }
            for place, (name, metrics) in enumerate(cases)
        ]
        return framed(data, {"type": "category"}, {"title": {"text": title}}) if levels else None

    return drawn


def _load(answer: Simulation, context: int | None) -> Figure | None:
    groups: dict[str, list[tuple[float, float]]] = {}
    for row in sorted(answer.load or (), key=lambda row: row.rate_per_s or 0.0):
        if (good := row.metrics["goodput_per_s"]) is not None:
            groups.setdefault(str(row.name), []).append((row.rate_per_s or 0.0, good))
    data = [
        line_of(
            name,
            place,
            [rate for rate, _ in points],
            [good for _, good in points],
            [f"{name}<br>{rate:,}: {digits(good)}" for rate, good in points],
        )
        for place, (name, points) in enumerate(groups.items())
    ]
    bottom = {"title": {"text": "requests/s that arrive"}}
    side = {"title": {"text": "requests/s within the limits"}}
    return framed(data, bottom, side) if answer.load else None


def _price(answer: CapacityPlans, context: int | None) -> Figure | None:
    plans = [
        row
        for row in answer.plans
        if isinstance(row, PlanRow) and row.usd_per_million_tokens is not None
    ]
    bar = {
        "type": "bar",
        "x": [f"{row.device}, tp {row.tp}, {row.method}, K = {row.draft_tokens}" for row in plans],
        "y": [row.usd_per_million_tokens for row in plans],
        "marker": {"color": PALETTE[0]},
    }
    return (
        framed([bar], {"type": "category"}, {"title": {"text": "$ per million tokens"}})
        if plans
        else None
    )


def _lines(
    rows: Sequence[Any], x: str, y: str, interval: str, name: Callable[[Any], str]
) -> list[Figure]:
    """A line and a band for every group of rows with one name.

    Args:
        rows: those without a `y`, such as marked ones, are left out.
        x: attribute of the rows.
        y: attribute of the rows.
        interval: attribute with the interval of `y`.
        name: of a row's group.
    """
    groups: dict[str, list[Any]] = {}
    for row in sorted(rows, key=lambda line_row: float(getattr(line_row, x))):
        if getattr(row, y, None) is not None:
            groups.setdefault(name(row), []).append(row)
    data: list[Figure] = []
    for place, (words, group) in enumerate(groups.items()):
        points = [(getattr(row, x), getattr(row, y)) for row in group]
        bounds = [getattr(row, interval) for row in group]
        hover = [
            f"{words}<br>{at:,}: {digits(value)}"
            + (f" (80 %: {interval_words(span)})" if span else "")
            for (at, value), span in zip(points, bounds, strict=True)
        ]
        line = line_of(words, place, [at for at, _ in points], [y for _, y in points], hover)
        data += [*band_of(line, bounds), line]
    return data


def _gain(over: Sequence[str]) -> Draw:
    """The first curve of the speedup over one number, of a context where one is named."""

    def drawn(answer: BreakEvens, context: int | None) -> Figure | None:
        curves = (
            curve
            for curve in answer.curves or ()
            if curve.over in over and context in (None, curve.context)
        )
        first = next(curves, None)
        return None if first is None else gain_curve_figure(first)

    return drawn


REFINING: Mapping[str, Draw] = {"agreement": _policies}
"""Of an answer of `optimize` about masked blocks."""
LOAD: Mapping[str, Draw] = {"front": lambda answer, context: front_figure(answer.designs)}
"""Of an answer of `optimize` to a load."""
FIGURES: Mapping[str, Mapping[str, Draw]] = {
    "optimize": {
        "speedup": _at(speedup_figure, "speedup", "speedup (×)"),
        "throughput": _at(throughput_figure, "tokens_per_s", "tokens/s, whole batch"),
        "time-per-token": _at(time_per_token_figure, "tpot_s", "time per token (s)"),
        "step-time": _at(step_time_figure),
        "acceptance": _acceptance,
        "tree": _best_tree,
    },
    "predict": {
        "speedup": _over_batch("predictions", "speedup", "speedup (×)"),
        "throughput": _over_batch("predictions", "tokens_per_s", "tokens/s, whole batch"),
    },
    "replay": {"acceptance": _replayed},
    "reproduce": {
        "full": lambda answer, context: reproduction_figure(answer.rows, "full"),
        "partial": lambda answer, context: reproduction_figure(answer.rows, "partial"),
    },
    "score": {
        "token": lambda answer, context: times_figure(answer.measurements, "tpot"),
        "first-token": lambda answer, context: times_figure(answer.measurements, "ttft"),
    },
    "simulate": {
        "first-token": _waiting("ttft_s", "time to first token (s)", 1.0),
        "token": _waiting("tpot_s", "time per output token (ms)", MILLI),
        "load": _load,
    },
    "breakeven": {
        "acceptance": _over_batch("points", "least_acceptance", "least acceptance of one token"),
        "pace": _over_batch("points", "least_tokens_per_step", "needed tokens per pass", ()),
        "over-acceptance": _gain((ACCEPTANCE, TOKENS)),
        "over-bandwidth": _gain((BANDWIDTH,)),
    },
    "capacity": {"price": _price},
    "tree": {"tree": _largest_tree},
}
"""Figures of every verb, its first one first."""
