"""Which policy of the chosen rule should run, of all that the recordings can answer for?

The search's answer as the page shows it: the front of speed and agreement, the fastest at the asked
agreement, and up to which batch it is ahead. Leaves out the policy that is chosen on the page
(`answers.diffusion`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from app.answers.masked.rows import MaskedPolicy
from app.answers.masked.search import SearchedPolicies, searched_policies
from app.dashboard.answer import Card, DeferredAnswer, Figure, Row, lower
from app.dashboard.answers.diffusion.recordings import Recording, shipped_recording
from app.render.charts.charts import NEUTRAL, PALETTE, digits
from app.render.charts.refining_figures import refining_figure
from costmodel.configuration import DecodingConfiguration
from costmodel.optimizers.refining.grid import policy_grid
from costmodel.optimizers.refining.search import (
    Played,
    RefiningSearch,
    played_policies,
    search_policies,
)
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
        floor: least agreement.
        seed: of the bootstrap.
    """

    question: DecodingConfiguration
    policy: RefinePolicy
    batches: tuple[int, ...]
    context: int
    floor: float
    seed: int


def searched(search: Search, recordings: Mapping[str, Recording]) -> RefiningSearch:
    """Every usual policy of the rule, and the chosen one, on recordings by cache; what was replayed
    is not again.
    """
    recorded = {cache: recording.anchors for cache, recording in recordings.items()}
    policies = list(dict.fromkeys([*policy_grid(search.policy, recorded), search.policy]))
    played: dict[RefinePolicy, Played] = {}
    for cache, recording in recordings.items():
        cached_policies = [policy for policy in policies if policy.cache == cache]
        played |= dict(
            zip(cached_policies, recording.played(cached_policies, search.seed), strict=True)
        )
    rest = [
        policy for policy in policies if policy not in played
    ]  # which no recording can answer for
    played |= dict(zip(rest, played_policies(recorded, rest, seed=search.seed), strict=True))
    return search_policies(
        search.question,
        recorded,
        policies,
        batches=search.batches,
        contexts=[search.context],
        floor=search.floor,
        seed=search.seed,
        played=[played[policy] for policy in policies],
    )


@lru_cache(maxsize=32)
def searched_shipped(search: Search, names: tuple[str, ...]) -> RefiningSearch:
    """The same on shipped recordings, of which each has a cache of its own."""
    return searched(
        search, {recording.cache: recording for recording in map(shipped_recording, names)}
    )


def front_answer(
    result: RefiningSearch, policy: RefinePolicy, *, batch: int, context: int, seed: int
) -> DeferredAnswer:
    """What a search says at a batch and context.

    Args:
        result: over several batches.
        policy: chosen on the page.
        batch: one of the search's.
        context: one of the search's.
        seed: of intervals.
    """
    at_batch = replace(result, points=result.at(batch, context))
    answer = searched_policies(at_batch, {}, seed)
    rows = [*answer.choices, *answer.alternatives]
    figure = refining_figure(rows, result.floor, context, batch)
    if figure is None:
        return DeferredAnswer(
            notes=["Speed cannot be set against agreement: nothing was recorded one token a pass."]
        )
    figure["data"] += [_star(row) for row in rows if row.policy == policy.name and row.tokens_per_s]
    prompts = ", ".join(f"{count} beside {cache} cache" for cache, count in result.prompts.items())
    note = (
        f"Policies of the rule at batch {batch:,}; prompts: {prompts}. Nothing beats those on the"
        " front in both."
    )
    best = _shown([row for row in rows if row.meets_floor])
    return DeferredAnswer(
        notes=[_best(result, answer, batch, context)],
        cards=[lower(Card(title="Speed against agreement", note=note, figure=figure))],
        tables=[("Fastest policies at that agreement", best)] if best else [],
    )


def _star(row: MaskedPolicy) -> Figure:
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


def policy_words(policy: RefinePolicy) -> str:
    """A policy in the words of a headline."""
    rule = ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in policy.at.items())
    cache = "no cache" if policy.cache == "none" else f"{policy.cache} cache"
    return f"{policy.commit.replace('_', ' ')} ({rule}), block {policy.block_tokens}, {cache}"


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


def _best(result: RefiningSearch, answer: SearchedPolicies, batch: int, context: int) -> str:
    """The fastest at the asked agreement, and the pace that would be enough, in a sentence."""
    best = result.winner(batch, context)
    if best is None:
        return f"{answer.unmet[0].reason.capitalize()}."
    same = {
        point.batch: point.speedup >= 1.0
        for point in result.points
        if point.played.policy == best.played.policy and point.context == context and point.answered
    }
    (row,) = answer.choices
    needed = row.needed_tokens_per_step
    enough = (
        "no pace equals the twin"
        if needed is None
        else f"{digits(needed)} tokens a pass would equal the twin"
    )
    return (
        f"Fastest at agreement {result.floor:.2f} or more: {policy_words(best.played.policy)}:"
        f" {digits(row.tokens_per_step)} tokens a pass, {digits(best.tokens_per_s)} tokens/s,"
        f" {digits(best.speedup)}× the autoregressive twin at batch {batch:,}; {reach_words(same)}."
        f" There {enough}."
    )


def _shown(rows: Sequence[MaskedPolicy]) -> Sequence[Row]:
    return [
        {
            "policy": row.policy,
            "tokens per pass": _rounded(row.tokens_per_step, 3),
            "agreement (%)": _rounded(row.agreement, 1, 100.0),
            "tokens/s": _rounded(row.tokens_per_s, 1),
            "× the twin": _rounded(row.speedup, 3),
            "on the front": "yes" if row.on_front else "",
        }
        for row in rows[:MOST_ROWS]
    ]


def _rounded(value: float | None, decimals: int, scale: float = 1.0) -> float | None:
    return None if value is None else round(scale * value, decimals)
