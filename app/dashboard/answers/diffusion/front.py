"""Which policy of the chosen rule should run, of all that the recordings can answer for?

The search's answer as the page shows it: the front of speed and agreement, the fastest at the asked
agreement, and up to which batch it is ahead. Leaves out the policy that is chosen on the page
(`answers.diffusion`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from app.answers.drafting import policy_words
from app.answers.optimize.masked import rows_at
from app.answers.optimize.rows import PolicyRow
from app.answers.optimize.within_limits import users_within
from app.dashboard.answer import Card, DeferredAnswer, Figure, Row, lower
from app.dashboard.answers.diffusion.recordings import Recording, shipped_recording
from app.render.charts.charts import NEUTRAL, PALETTE, digits
from app.render.charts.refining_figures import refining_figure
from costmodel.answers.workload import Limits
from costmodel.configuration import DecodingConfiguration
from costmodel.optimizers.candidates.policy_grid import policy_grid
from costmodel.optimizers.drafters.sources import prompts_sources
from costmodel.optimizers.policy_front import policy_points
from costmodel.optimizers.recommend import Recommendation, recommend
from costmodel.optimizers.unmet import NothingAllowedError
from hardware_profiles.units import MILLI
from traces.kinds.refine_policy import RefinePolicy

MOST_ROWS = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class Search:
    """What a search depends on; the page's batch is one of its batches.

    Args:
        question: deployment and method.
        policy: chosen on the page, one of those that are compared; its rule is that of all.
        batches: to compare.
        context: cached tokens per request before the canvas.
        seed: of the bootstrap.
    """

    question: DecodingConfiguration
    policy: RefinePolicy
    batches: tuple[int, ...]
    context: int
    seed: int


def searched(search: Search, recordings: Sequence[Recording]) -> Recommendation | None:
    """Every usual policy of the rule, and the chosen one, on recordings of a cache each; what was
    replayed is not again. None where nothing was recorded one token a pass.
    """
    prompts = [recording.prompts for recording in recordings]
    grid = policy_grid(search.policy, {part.cache: part.anchors for part in prompts})
    try:
        return recommend(
            search.question,
            prompts_sources(prompts, search.question.method),
            batches=search.batches,
            contexts=[search.context],
            policies=list(dict.fromkeys([*grid, search.policy])),
            floor=0.0,  # the page's floor may lie beyond what any policy reaches
            seed=search.seed,
        )
    except NothingAllowedError:
        return None


@lru_cache(maxsize=32)
def searched_shipped(search: Search, names: tuple[str, ...]) -> Recommendation | None:
    """The same on shipped recordings, of which each has a cache of its own."""
    return searched(search, [shipped_recording(name) for name in names])


def front_answer(
    result: Recommendation | None,
    policy: RefinePolicy,
    *,
    batch: int,
    context: int,
    floor: float,
    tpot_limit_s: float | None,
    seed: int,
) -> DeferredAnswer:
    """What a search says at a batch and context.

    Args:
        result: over several batches.
        policy: chosen on the page.
        batch: one of the search's.
        context: one of the search's.
        floor: least agreement.
        tpot_limit_s: limit of the time per output token; None: there is none.
        seed: of intervals.
    """
    rows = (
        []
        if result is None
        else rows_at(result, batch=batch, context=context, floor=floor, seed=seed)
    )
    figure = refining_figure(rows, floor, context, batch, tpot_limit_s)
    if figure is None or result is None:
        return DeferredAnswer(
            notes=["Speed cannot be set against agreement: nothing was recorded one token a pass."]
        )
    figure["data"] += [_star(row) for row in rows if row.policy == policy.name and row.tokens_per_s]
    recorded = [source.prompts for source in result.sources if source.prompts is not None]
    prompts = ", ".join(
        f"{len(part.anchors.prompts)} beside {part.cache} cache" for part in recorded
    )
    note = (
        f"Policies of the rule at batch {batch:,}; prompts: {prompts}. Nothing beats those on the"
        " front in both."
    )
    tables = {
        "On the front, fastest first": [row for row in rows if row.on_front],
        "Fastest policies at that agreement": [row for row in rows if row.meets_floor][:MOST_ROWS],
    }
    limits = Limits(tpot_s=tpot_limit_s)
    served = users_within(result, [context], limits, floor=floor)
    return DeferredAnswer(
        notes=[
            _best(result, rows, floor, limits),
            *(f"{part[:1].upper()}{part[1:]}." for row in served for part in row.sentences),
        ],
        cards=[lower(Card(title="Speed against agreement", note=note, figure=figure))],
        tables=[(title, _shown(own)) for title, own in tables.items() if own],
    )


def _star(row: PolicyRow) -> Figure:
    """The chosen policy among the others."""
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "chosen",
        "x": [row.agreement],
        "y": [row.tokens_per_s],
        "marker": {
            "color": PALETTE[4],
            "symbol": "star",
            "size": 16,
            "line": {"color": NEUTRAL, "width": 1},
        },
        "hovertemplate": f"chosen: {digits(row.tokens_per_s)} tokens/s<extra></extra>",
    }


def plain_words(policy: RefinePolicy) -> str:
    """A policy in a sentence for readers, who do not type its rule: `running mean least 0.6, ..`."""
    return policy_words(policy).replace("_", " ")


def reach_words(wins: Mapping[int, bool]) -> str:
    """Up to which batch a policy is ahead of its twin, of those that fit, in order."""
    batches = list(wins)
    winning = [batch for batch in batches if wins[batch]]
    if not winning:
        return "behind it at every batch that fits"
    if winning == batches:
        return f"ahead of it up to batch {batches[-1]:,}, the largest compared that fits"
    if winning == batches[: len(winning)]:
        return f"ahead of it up to batch {winning[-1]:,}"
    return f"ahead of it at batch {', '.join(f'{batch:,}' for batch in winning)}"


def _best(result: Recommendation, rows: Sequence[PolicyRow], floor: float, limits: Limits) -> str:
    """The fastest at the asked agreement, whether it is within the limits, and the pace that would
    be enough, in a sentence.
    """
    first = rows[0]
    if not first.meets_floor:
        most = max(row.agreement or 0.0 for row in rows)
        return f"No policy agrees on {floor:.1%} of the tokens; at most {most:.1%}."
    optimum = result.optimum
    points = [
        at
        for batch in optimum.batches
        for at in policy_points(optimum, batch=batch, context=first.context, floor=floor)
        if at.allowed
    ]
    same = {at.batch: at for at in points if at.policy.name == first.policy}
    wins = {batch: at.tokens_per_s >= at.plain_tokens_per_s for batch, at in same.items()}
    missed = limits.tpot_s is not None and first.tpot_s > limits.tpot_s
    slow = (
        f", {digits(first.tpot_s / MILLI)} ms a token: none is within the limit" if missed else ""
    )
    needed = first.needed_tokens_per_step
    enough = (
        "no pace equals the twin"
        if needed is None
        else f"{digits(needed)} tokens a pass would equal the twin"
    )
    return (
        f"Fastest at agreement {floor:.2f} or more: {plain_words(same[first.batch].policy)}:"
        f" {digits(first.tokens_per_step)} tokens a pass, {digits(first.tokens_per_s)} tokens/s,"
        f" {digits(first.speedup)}× the autoregressive twin at batch {first.batch:,}{slow};"
        f" {reach_words(wins)}. There {enough}."
    )


def _shown(rows: Sequence[PolicyRow]) -> Sequence[Row]:
    return [
        {
            "policy": row.policy,
            "tokens per pass": _rounded(row.tokens_per_step, 3),
            "agreement (%)": _rounded(row.agreement, 1, 100.0),
            "tokens/s": _rounded(row.tokens_per_s, 1),
            "× the twin": _rounded(row.speedup, 3),
            "on the front": "yes" if row.on_front else "",
        }
        for row in rows
    ]


def _rounded(value: float | None, decimals: int, scale: float = 1.0) -> float | None:
    return None if value is None else round(scale * value, decimals)
