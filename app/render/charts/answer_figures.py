"""Which figures does the answer of a verb have?

Lines over batch, draft tokens or load with their intervals, bars of waiting times and prices, and
the chosen tree. Leaves out the page of `optimize` (`app.render.html`), which draws the same figures.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from app.render.charts.charts import (
    PALETTE,
    Figure,
    Json,
    acceptance_figure,
    band_of,
    batch_axis,
    best_tree,
    contexts,
    digits,
    framed,
    interval_words,
    line_of,
    path_acceptance,
    speedup_figure,
    step_time_figure,
    throughput_figure,
    tree_figure,
)
from app.render.charts.refining_figures import refining_figure
from app.render.charts.reproduction_figures import reproduction_figure
from app.render.charts.score_figures import times_figure
from hardware_profiles.errors import InputError
from hardware_profiles.units import MILLI
from traces.kinds.tree import Tree

Draw = Callable[[Any, int | None], Figure | None]
DRAWN_FROM_ROWS = ("reproduce", "score")
"""Verbs whose figures are drawn from the rows of an answer, not from its JSON object."""


def figure_of(
    verb: str, answer: Any, kind: str | None = None, *, context: int | None = None
) -> Figure:
    """A figure of an answer as a plain dictionary.

    Args:
        verb: whose answer it is.
        answer: the object that its `--json` prints; of the verbs in `DRAWN_FROM_ROWS` the answer itself.
        kind: which figure; None: the verb's first.
        context: of an answer to several: cached tokens per request; None: the first.

    Raises:
        InputError: the verb has no such figure, or the answer nothing to draw in it.
    """
    figures = REFINING if verb == "optimize" and "quality" in answer else FIGURES.get(verb, {})
    if kind is None and verb == "breakeven" and any("block_tokens" in p for p in answer["points"]):
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


def _at(draw: Callable[[Json, int], Figure], quantity: str = "", title: str = "") -> Draw:
    """A figure of one context of `optimize`; of several models, devices or engines the winners'
    quantity, if any.
    """

    def drawn(answer: Json, context: int | None) -> Figure | None:
        answered_contexts = contexts(answer)
        if context is not None and context not in answered_contexts:
            raise InputError(
                f"must be one of {', '.join(map(str, answered_contexts))}",
                key="context",
                value=context,
            )
        at = answered_contexts[0] if context is None else context
        if len(answer.get("answers") or ()) < 2:
            return draw(answer, at)
        return _over_batch("choices", quantity, title, by=())(answer, at) if quantity else None

    return drawn


def _best_tree(answer: Json, context: int | None) -> Figure | None:
    row = best_tree(answer)
    return (
        None
        if row is None
        else tree_figure(Tree.from_json(row["tree"]), path_acceptance(answer, row))
    )


def _largest_tree(answer: Json, context: int | None) -> Figure:
    row = max(answer["trees"], key=lambda tree: int(tree["nodes"]))
    return tree_figure(Tree(parents=tuple(row["parents"]), ranks=tuple(row["ranks"])), None)


def _over_batch(
    part: str, quantity: str, title: str, by: Sequence[str] = ("draft_tokens",)
) -> Draw:
    """Lines over batch, one for every draft length (`by`) and whatever else an answer has several
    of.
    """

    def drawn(answer: Json, context: int | None) -> Figure | None:
        rows = [
            row for row in answer.get(part) or () if context is None or row["context"] == context
        ]
        if not rows:
            return None
        keys = ("model", "device", "engine", "context")
        several = [key for key in keys if len({row.get(key) for row in rows}) > 1]

        def name(row: Json) -> str:
            cell = [
                f"context {row[key]:,}" if key == "context" else str(row[key]) for key in several
            ]
            return ", ".join([*(f"K = {row[key]}" for key in by), *cell]) or title

        batches = sorted({int(row["batch"]) for row in rows})
        data = _lines(rows, "batch", quantity, f"{quantity}_interval", name)
        return framed(data, batch_axis(batches), {"title": {"text": title}})

    return drawn


def _replayed(answer: Json, context: int | None) -> Figure | None:
    groups = [
        ("chains", "chains"),
        ("trees", "static trees"),
        ("varying", "drafts that differ from step to step"),
    ]
    rows = [{**row, "group": words} for part, words in groups for row in answer.get(part) or ()]
    data = _lines(
        rows, "draft_tokens", "tokens_per_step", "interval", lambda row: str(row["group"])
    )
    bottom = {"title": {"text": "draft tokens per request and step"}}
    return framed(data, bottom, {"title": {"text": "tokens per step"}}) if rows else None


def _waiting(quantity: str, title: str, scale: float) -> Draw:
    """Bars of the mean and of percentiles, one colour a case."""

    def drawn(answer: Json, context: int | None) -> Figure | None:
        cases = answer.get("cases") or [{"name": "as asked", "metrics": answer["metrics"]}]
        levels = [
            level for level, value in cases[0]["metrics"][quantity].items() if value is not None
        ]
        data = [
            {
                "type": "bar",
                "name": str(case["name"]),
                "x": levels,
                "y": [(case["metrics"][quantity][level] or 0.0) / scale for level in levels],
                "marker": {"color": PALETTE[place % len(PALETTE)]},
            }
            for place, case in enumerate(cases)
        ]
        return framed(data, {"type": "category"}, {"title": {"text": title}}) if levels else None

    return drawn


def _load(answer: Json, context: int | None) -> Figure | None:
    rows = [
        {**row, "goodput_per_s": row["metrics"]["goodput_per_s"]}
        for row in answer.get("load") or ()
    ]
    data = _lines(rows, "rate_per_s", "goodput_per_s", "", lambda row: str(row["name"]))
    bottom = {"title": {"text": "requests/s that arrive"}}
    return (
        framed(data, bottom, {"title": {"text": "requests/s within the limits"}}) if rows else None
    )


def _price(answer: Json, context: int | None) -> Figure | None:
    plans = [row for row in answer["plans"] if row.get("usd_per_million_tokens") is not None]
    names = [
        f"{row['device']}, tp {row['tp']}, {row['method']}, K = {row['draft_tokens']}"
        for row in plans
    ]
    bar = {
        "type": "bar",
        "x": names,
        "y": [row["usd_per_million_tokens"] for row in plans],
        "marker": {"color": PALETTE[0]},
    }
    return (
        framed([bar], {"type": "category"}, {"title": {"text": "$ per million tokens"}})
        if plans
        else None
    )


def _lines(
    rows: Sequence[Json], x: str, y: str, interval: str, name: Callable[[Json], str]
) -> list[Figure]:
    """A line and a band for every group of rows with one name."""
    groups: dict[str, list[Json]] = {}
    for row in sorted(rows, key=lambda line_row: float(line_row[x])):
        if row.get(y) is not None:
            groups.setdefault(name(row), []).append(row)
    data: list[Figure] = []
    for place, (words, group) in enumerate(groups.items()):
        bounds = [row.get(interval) for row in group]
        hover = [
            f"{words}<br>{row[x]:,}: {digits(row[y])}"
            + (f" (80 %: {interval_words(span)})" if span else "")
            for row, span in zip(group, bounds, strict=True)
        ]
        line = line_of(words, place, [row[x] for row in group], [row[y] for row in group], hover)
        data += [*band_of(line, bounds), line]
    return data


REFINING: Mapping[str, Draw] = {"agreement": refining_figure}
"""Of an answer of `optimize` about masked blocks."""
FIGURES: Mapping[str, Mapping[str, Draw]] = {
    "optimize": {
        "speedup": _at(speedup_figure, "speedup", "speedup (×)"),
        "throughput": _at(throughput_figure, "tokens_per_s", "tokens/s, whole batch"),
        "step-time": _at(step_time_figure),
        "acceptance": lambda answer, context: acceptance_figure(answer),
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
    },
    "capacity": {"price": _price},
    "tree": {"tree": _largest_tree},
}
"""Figures of every verb, its first one first."""
