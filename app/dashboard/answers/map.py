"""At which batches and contexts does drafting pay, and how many tokens?

Every draft length that `optimize` compares, over a grid of batch and context, and the memory wall.
The grid is costed at once, which no verb does in a second. Leaves out trees
(`answers.tree`) and search over methods (`answers.run`).
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np

from app.answers.cells import MarkedCell
from app.answers.optimize.recommended import Recommended, RecommendedCells
from app.answers.predict.rows import PredictionRow, Predictions
from app.dashboard.answer import Card, DeferredAnswer, Figure, PageAnswer, setting_of
from app.dashboard.answers.chains import asked_chains, chains_of
from app.dashboard.answers.limits import lift_notes, limits_first
from app.dashboard.answers.unmet import MISSED, missed, nearest_words
from app.dashboard.asking import Asked
from app.dashboard.changes import asked_by, asks
from app.dashboard.question import (
    acceptance_words,
    drafter_asked,
    drafters,
    limits_of,
    where_asked,
)
from app.dashboard.state import State
from app.questions.predict import PredictQuestion
from app.render.charts.charts import NEUTRAL, PALETTE, digits, framed, pace_words
from app.render.charts.limit_lines import COLOR, DASH, limit_name
from costmodel.answers.estimate import Setting, step_cost
from costmodel.answers.fit import fits
from costmodel.answers.steps.step import StepCost
from costmodel.answers.workload import Limits
from costmodel.configuration import DecodingConfiguration
from costmodel.laws.acceptance import Acceptance
from costmodel.optimizers.allowed import Contender
from costmodel.optimizers.pricing import evaluate, within
from costmodel.passes.ops import Array, Mask
from hardware_profiles.units import GIB, MILLI

BATCHES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
CONTEXTS = (128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)
PRESS_CELL = "Press a cell to ask about it."
LIMIT_CONTEXTS = 120  # of the line along which limits are kept
EMPTY = {True: "does not fit memory", False: "does not fit, or misses the limits"}


def answer_map(state: State) -> PageAnswer:
    """The map of the first drafter, around what `optimize` answers at the state's batch and
    context.

    Raises:
        InputError: options that exclude each other.
    """
    asked = asked_chains(state)
    here = asked.answer()
    assert isinstance(here, Recommended | RecommendedCells)
    contender = chains_of(state)
    configuration, setting, chains = (
        contender.configuration,
        contender.setting,
        contender.candidates,
    )
    results = [_step(contender, a) for a in chains]
    plain = results[0]
    speedups = np.stack(
        [
            a.tokens_per_step * plain.total_s / s.total_s
            for a, s in zip(chains, results, strict=True)
        ]
    )
    limits = limits_of(state)
    fit = np.stack([_grid_fits(configuration, a.draft_tokens) for a in chains])
    hold = np.stack(
        [
            _holds(setting, *chain_step_fit, limits)
            for chain_step_fit in zip(chains, results, fit, strict=True)
        ]
    )
    if not hold.any():
        return PageAnswer(
            headline=limits_first(
                here, f"{_point_words(here, state)}; no batch and context of the map does"
            ),
            command=asked.line,
            deferred=lambda: _rest(here, contender, state),
        )
    rate = np.where(hold, speedups, -np.inf)
    chosen = np.where(hold.any(axis=0), rate.argmax(axis=0), -1)
    speedup = np.take_along_axis(speedups, chosen.clip(0)[None], axis=0)[0]
    speedup = np.where(chosen >= 0, speedup, np.nan)
    lengths = np.array([a.draft_tokens for a in chains])
    best = np.where(chosen >= 0, lengths[chosen.clip(0)], -1)
    words = _words(_paces(setting, chains, results, chosen), results, chosen, best, speedup, fit[0])
    lines = [
        *_wall_line(_wall(configuration)),
        *_limit_line(contender, limits),
        _mine(state),
    ]
    sentence = (
        f"drafting pays at {(best > 0).sum()} of the {int((best >= 0).sum())} points that"
        f" {'hold' if limits.limited else 'fit'}, at most {digits(float(np.nanmax(speedup)))}×"
    )
    return PageAnswer(
        headline=limits_first(here, f"{_point_words(here, state)}; {sentence}"),
        command=asked.line,
        numbers=_numbers(here, setting, state),
        cards=[
            Card(
                title="Best number of draft tokens K",
                note=f"Grey: leave drafting off. Empty: {EMPTY[not limits.limited]}.",
                press=PRESS_CELL,
                figure=_length_figure(best, words, lines, int(lengths.max())),
            ),
            Card(
                title="Speedup of the best K",
                note="Blue is faster than no speculation; white is no gain.",
                press=PRESS_CELL,
                figure=_speedup_figure(speedup, words, lines),
            ),
        ],
        notes=[*lift_notes(here), *_notes(setting, state, int(best.max()))],
        sure=here.rankings.how_sure if isinstance(here, Recommended) else None,
        command_answer=lambda: here,
        deferred=lambda: _rest(here, contender, state),
    )


def _rest(
    here: Recommended | RecommendedCells, contender: Contender, state: State
) -> DeferredAnswer:
    """Every length at the state's own point, with intervals; where the point does not hold, the
    nearest that do.
    """
    if isinstance(here, RecommendedCells):
        return _instead(state, here.unmet)
    asked = Asked(
        verb=PredictQuestion,
        values={
            **where_asked(state),
            **drafter_asked(state),
            "batch": str(state.batch),
            "context": str(state.context),
            "draft_tokens": ",".join(str(a.draft_tokens) for a in contender.candidates),
            "seed": state.seed,
        },
    )
    answer = asked.answer()
    assert isinstance(answer, Predictions)
    rows = [row for row in answer.predictions if isinstance(row, PredictionRow)]
    return DeferredAnswer(cards=[_cut_card(rows, state)])


def _holds(setting: Setting, a: Acceptance, step: StepCost, fit: Mask, limits: Limits) -> Mask:
    """Where a chain fits and meets the limits, over the whole grid."""
    if not limits.limited:
        return fit
    b, c = _grid()
    return fit & within(setting, a, np.broadcast_to(step.total_s, fit.shape), b, c, limits)


def _instead(state: State, unmet: Sequence[MarkedCell]) -> DeferredAnswer:
    """The state's own point as a marked row, and the nearest questions that have an answer, each a
    press away.
    """
    (row,) = unmet
    words = nearest_words(row)
    return DeferredAnswer(
        notes=[
            f"Nearest that holds: {words}." if words else "Nothing near it that was tried holds."
        ],
        tables=missed(unmet),
        changes=asked_by(state, row.nearest or ()),
    )


def _point_words(here: Recommended | RecommendedCells, state: State) -> str:
    """What to do with this drafter at the state's own point."""
    if isinstance(here, RecommendedCells):
        return f"Batch {state.batch:,} {MISSED[here.unmet[0].misses]} at context {state.context:,}"
    (row,) = here.choices
    where = f"batch {row.batch:,} and context {row.context:,}"
    if not row.draft_tokens:
        return f"Leave {row.drafter or row.method} off at {where}"
    return f"At {where} draft {row.draft_tokens} with {row.drafter}: {digits(row.speedup)}×"


def _step(contender: Contender, a: Acceptance) -> StepCost:
    """Cost of steps over the whole grid."""
    if a.topology in ("off", "chain") and a.lengths is None:
        return _grid_step(
            contender.configuration, a.draft_tokens, a.proposed_tokens, a.proposal_ratio
        )
    b, c = _grid()
    return step_cost(contender.setting, a, batch=b, context=c)


def _grid() -> tuple[Array, Array]:
    """Batches along the columns, contexts along the rows."""
    batches, contexts = (np.array(marks, dtype=np.float64) for marks in (BATCHES, CONTEXTS))
    return batches[None, :], contexts[:, None]


@lru_cache(maxsize=256)
def _grid_step(
    configuration: DecodingConfiguration, draft_tokens: int, proposed: float, proposal_ratio: float
) -> StepCost:
    """Cost of a chain's steps over the whole grid, which no acceptance changes."""
    a = Acceptance(
        draft_tokens=draft_tokens,
        tokens_per_step=1.0,
        proposed_tokens=proposed,
        proposal_ratio=proposal_ratio,
    )
    b, c = _grid()
    return step_cost(setting_of(configuration), a, batch=b, context=c)


@lru_cache(maxsize=256)
def _grid_fits(configuration: DecodingConfiguration, draft_tokens: int) -> Mask:
    """Where a chain fits memory, over the whole grid."""
    return _fits(configuration, draft_tokens, np.array(CONTEXTS, dtype=np.float64))


def _fits(configuration: DecodingConfiguration, draft_tokens: int, contexts: Array) -> Mask:
    setting = setting_of(configuration)
    a = Acceptance(
        draft_tokens=draft_tokens, tokens_per_step=1.0, proposed_tokens=float(draft_tokens)
    )
    b = np.array(BATCHES, dtype=np.float64)[None, :]
    return fits(setting, a, batch=b, context=contexts[:, None])


@lru_cache(maxsize=64)
def _wall(configuration: DecodingConfiguration) -> list[float | None]:
    """Place on the context axis where memory is full without drafting, per batch; None beyond the
    axis.
    """
    fine = np.geomspace(CONTEXTS[0], CONTEXTS[-1], 400)
    fit = _fits(configuration, 0, fine)
    places: list[float | None] = []
    for column in fit.T:
        inside = int(column.sum())
        place = np.interp(
            np.log(fine[max(inside - 1, 0)]), np.log(CONTEXTS), np.arange(len(CONTEXTS))
        )
        places.append(None if inside == fine.size else float(place))
    return places


def _paces(
    setting: Setting, chains: Sequence[Acceptance], results: Sequence[StepCost], chosen: Array
) -> list[list[str]]:
    """What a token takes and costs in every cell with the chain that is chosen there."""
    price = setting.device.price_usd_per_hour
    usd_per_hour = None if price is None else price * setting.deployment.tensor_parallel
    seconds = np.stack(
        [
            np.broadcast_to(step.total_s, chosen.shape) / a.tokens_per_step
            for a, step in zip(chains, results, strict=True)
        ]
    )
    tpot_s = np.take_along_axis(seconds, chosen.clip(0)[None], axis=0)[0]
    return [
        [
            pace_words(float(time), batch / float(time), usd_per_hour)
            for time, batch in zip(row, BATCHES, strict=True)
        ]
        for row in tpot_s
    ]


def _limit_line(contender: Contender, limits: Limits) -> list[Figure]:
    """The largest context at every batch at which some length keeps the limits, whatever memory
    holds; nothing without limits, or where they bind nowhere on the map.
    """
    if not limits.limited:
        return []
    fine = np.geomspace(CONTEXTS[0], CONTEXTS[-1], LIMIT_CONTEXTS)
    batches = np.array(BATCHES, dtype=np.float64)[None, :]
    priced = evaluate(contender, batch=batches, context=fine[:, None])
    kept = np.any(
        [
            within(contender.setting, a, step_s, batches, fine[:, None], limits)
            for a, step_s in zip(contender.candidates, priced.step_s, strict=True)
        ],
        axis=0,
    )
    highest = [int(np.append(column, False).argmin()) for column in kept.T]
    along = np.interp(np.log(fine), np.log(CONTEXTS), np.arange(len(CONTEXTS)))
    places = [None if rows in (0, fine.size) else float(along[rows - 1]) for rows in highest]
    if all(place is None for place in places):
        return []
    return [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": " and ".join(
                limit_name(limit_s, what)
                for limit_s, what in (
                    (limits.tpot_s, "a token"),
                    (limits.ttft_s, "to the first token"),
                )
                if limit_s is not None
            ),
            "x": list(range(len(places))),
            "y": places,
            "line": {"color": COLOR, "width": 3, "dash": DASH},
            "marker": {"size": 4},
            "hoverinfo": "name",
            "showlegend": True,
        }
    ]


def _words(
    paces: Sequence[Sequence[str]],
    results: Sequence[StepCost],
    chosen: Array,
    best: Array,
    speedup: Array,
    fit: Mask,
) -> list[list[str]]:
    """What a cell says: of which chain is chosen there, by place and by length."""
    limits = [np.broadcast_to(r.limit, best.shape) for r in results]
    seconds = [np.broadcast_to(r.total_s, best.shape) for r in results]
    words = []
    for row, context in enumerate(CONTEXTS):
        line = []
        for column, batch in enumerate(BATCHES):
            where = f"batch {batch:,}, context {context:,} tokens"
            k, place = int(best[row, column]), int(chosen[row, column])
            if k < 0:
                missing = "misses the limits" if fit[row, column] else "does not fit memory"
                line.append(f"{where}<br><b>{missing}</b>")
                continue
            drafts = f"K = {k}" if k else "drafting off"
            step = digits(float(seconds[place][row, column]) / MILLI)
            line.append(
                f"{where}<br><b>{drafts}</b>, {digits(float(speedup[row, column]))}×<br>"
                f"step {step} ms, limited by {limits[place][row, column]}<br>"
                f"{paces[row][column]}"
            )
        words.append(line)
    return words


def _length_figure(best: Array, words: list[list[str]], lines: list[Figure], most: int) -> Figure:
    z = [[None if k < 0 else int(k) for k in row] for row in best]
    steps = most + 1
    scale: list[list[float | str]] = []
    for k in range(steps):
        color = "#C9CCD1" if k == 0 else _blend("#CFE3F1", "#00436B", (k - 1) / max(most - 1, 1))
        scale += [[k / steps, color], [(k + 1) / steps, color]]
    bar = {
        "title": {"text": "K"},
        "thickness": 12,
        "tickvals": list(range(steps)),
        "ticktext": ["off", *map(str, range(1, steps))],
    }
    # where K changes along a row: a label in every cell takes the browser as long as all else
    shown = [
        [
            "" if k is None or k == before else "off" if k == 0 else str(k)
            for before, k in pairwise([None, *row])
        ]
        for row in z
    ]
    heat = {
        "type": "heatmap",
        "z": z,
        "zmin": -0.5,
        "zmax": most + 0.5,
        "colorscale": scale,
        "colorbar": bar,
        "text": shown,
        "texttemplate": "%{text}",
        **_cells(words),
    }
    return _heat_map([heat, *lines])


def _speedup_figure(speedup: Array, words: list[list[str]], lines: list[Figure]) -> Figure:
    most = max(float(np.nanmax(speedup)), 1.05)  # none is below one: off is among the choices
    heat = {
        "type": "heatmap",
        "z": [[None if np.isnan(v) else float(v) for v in row] for row in speedup],
        "colorscale": [[0.0, "#F7F7F7"], [1.0, "#0072B2"]],
        "zmin": 1,
        "zmax": most,
        "colorbar": {"title": {"text": "×"}, "thickness": 12},
        **_cells(words),
    }
    return _heat_map([heat, *lines])


def _cells(words: list[list[str]]) -> Figure:
    """What the cells of a map say, ask and stand for."""
    return {
        "hoverinfo": "text",
        "hovertext": words,
        "customdata": _questions(),
        "meta": {"x": list(BATCHES), "y": list(CONTEXTS)},
        "xgap": 1,
        "ygap": 1,
    }


@lru_cache(maxsize=1)
def _questions() -> list[list[str]]:
    """What every cell asks; the grid is the same for all questions."""
    return [[asks({"batch": b, "context": c}) for b in BATCHES] for c in CONTEXTS]


def _wall_line(wall: list[float | None]) -> list[Figure]:
    if all(place is None for place in wall):
        return []
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "memory wall",
            "x": list(range(len(wall))),
            "y": wall,
            "line": {"color": PALETTE[1], "width": 3, "dash": "dash"},
            "hoverinfo": "name",
            "showlegend": True,
        }
    ]


def _mine(state: State) -> Figure:
    """The state's own batch and context, between the marks of the axes where they lie there."""
    at = [
        float(np.interp(np.log(max(value, 1)), np.log(marks), np.arange(len(marks))))
        for value, marks in ((state.batch, BATCHES), (state.context, CONTEXTS))
    ]
    words = f"your question: batch {state.batch:,}, context {state.context:,}"
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "your question",
        "x": at[:1],
        "y": at[1:],
        "showlegend": True,
        "marker": {"symbol": "circle-open", "size": 20, "color": PALETTE[4], "line": {"width": 4}},
        "hovertext": [words],
        "hoverinfo": "text",
    }


def _heat_map(data: list[Figure]) -> Figure:
    def axis(values: Sequence[int], title: str) -> Figure:
        return {
            "tickvals": list(range(len(values))),
            "ticktext": [f"{v:,}" for v in values],
            "showgrid": False,
            "title": {"text": title},
            "zeroline": False,
            "range": [-0.5, len(values) - 0.5],
        }

    return framed(
        data,
        axis(BATCHES, "batch (requests)"),
        axis(CONTEXTS, "context (tokens per request)"),
        height=420,
    )


def _cut_card(rows: Sequence[PredictionRow], state: State) -> Card:
    lengths, values = [row.draft_tokens for row in rows], [row.speedup for row in rows]
    line = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": "speedup",
        "x": lengths,
        "y": values,
        "line": {"color": PALETTE[0]},
        "marker": {"size": 8},
        "hovertemplate": "K = %{x}: %{y:.3f}×<extra></extra>",
        "error_y": {
            "type": "data",
            "symmetric": False,
            "width": 4,
            "array": [row.speedup_interval[1] - row.speedup for row in rows],
            "arrayminus": [row.speedup - row.speedup_interval[0] for row in rows],
        },
    }
    one = {
        "type": "scatter",
        "mode": "lines",
        "x": [lengths[0], lengths[-1]],
        "y": [1, 1],
        "name": "no speculation",
        "line": {"color": NEUTRAL, "dash": "dash"},
        "hoverinfo": "skip",
    }
    bottom = {"title": {"text": "draft tokens K"}, "dtick": 1}
    figure = framed(
        [one, line], bottom, {"title": {"text": "speedup (×)"}}, height=320, showlegend=False
    )
    title = f"Speedup against K at batch {state.batch:,}, context {state.context:,}"
    return Card(title=title, note="Bars are 80 % intervals.", figure=figure)


def _numbers(
    here: Recommended | RecommendedCells, setting: Setting, state: State
) -> list[tuple[str, str]]:
    if isinstance(here, RecommendedCells):
        where = f"batch {state.batch:,}, context {state.context:,}"
        return [(f"At {where}", MISSED[here.unmet[0].misses])]
    (row,) = here.rankings.choices
    return [
        ("Best K", str(row.draft_tokens) if row.draft_tokens else "off"),
        ("Speedup", f"{digits(row.speedup)}×"),
        ("Limited by", row.limit or ""),
        ("Memory per device", _memory_words(row.memory_bytes or 0.0, setting)),
    ]


def _memory_words(needed: float, setting: Setting) -> str:
    return f"{needed / GIB:.1f} of {setting.device.memory_bytes / GIB:.1f} GiB"


def _notes(setting: Setting, state: State, draft_tokens: int) -> list[str]:
    notes = [
        f"Memory counts as {setting.engine.name} divides it; the wall is that of plain decoding.",
        acceptance_words(drafters(state)[0], draft_tokens),
    ]
    if not setting.device.calibrated:
        notes.append(
            f"Constants of {setting.device.name} are those of {setting.device.constants_from}."
        )
    return notes


def _blend(first: str, last: str, share: float) -> str:
    ends = [[int(color[i : i + 2], 16) for i in (1, 3, 5)] for color in (first, last)]
    return "#" + "".join(f"{round(a + (b - a) * share):02X}" for a, b in zip(*ends, strict=True))
