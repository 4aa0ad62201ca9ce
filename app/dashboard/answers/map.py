"""At which batches and contexts does drafting pay, and how many tokens?

Every draft length up to K over a grid of batch and context, and the memory wall. Leaves out trees
(`answers.tree`) and search over methods (`answers.run`).
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np

from app.answers.feasible import change_words
from app.dashboard.answer import (
    Card,
    DeferredAnswer,
    Figure,
    PageAnswer,
    options,
    scenario,
    setting_of,
)
from app.dashboard.answers.chains import chains_of
from app.dashboard.answers.unmet import MISSED, missed, nearest
from app.dashboard.changes import asked_by
from app.dashboard.question import acceptance_words, drafter_options, drafters, read_question
from app.dashboard.state import State, command
from app.render.charts.charts import NEUTRAL, PALETTE, digits, framed
from costmodel.answers.estimate import (
    Estimate,
    Setting,
    estimate,
    intervals,
    needed_bytes,
    step_cost,
)
from costmodel.answers.fit import fits
from costmodel.answers.steps.step import StepCost
from costmodel.answers.workload import Limits
from costmodel.configuration import DecodingConfiguration
from costmodel.laws.acceptance import Acceptance, geometric
from costmodel.optimizers.allowed import Contender, Unmet, allowed, unmet_at
from costmodel.optimizers.drafters.sources import Source
from costmodel.passes.ops import Array, Mask
from hardware_profiles.units import GIB, MILLI

BATCHES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
CONTEXTS = (128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)
DRAWS = 200
EMPTY = {True: "does not fit memory", False: "does not fit, or misses the limits"}


def answer_map(state: State) -> PageAnswer:
    """The map of the first drafter, and the cut through it at the state's batch and context.

    Raises:
        InputError: options that exclude each other.
    """
    configuration, source = scenario(state), drafters(state)[0]
    method, chains = chains_of(state)
    setting = setting_of(configuration)
    plain = _grid_step(configuration, 0, 0.0, 0.0)
    results = [
        _grid_step(configuration, a.draft_tokens, a.proposed_tokens, a.proposal_ratio)
        for a in chains
    ]
    speedups = np.stack(
        [
            a.tokens_per_step * plain.total_s / s.total_s
            for a, s in zip(chains, results, strict=True)
        ]
    )
    limits = read_question(state).limits
    free = limits == Limits()
    fit = np.stack([_grid_fits(configuration, a.draft_tokens) for a in chains])
    hold = np.stack(
        [
            _holds(setting, *chain_step_fit, limits)
            for chain_step_fit in zip(chains, results, fit, strict=True)
        ]
    )
    changed = {
        **drafter_options(state, alone=True),
        "context": state.context,
        "batch": state.batch,
        "draft-tokens": ",".join(str(a.draft_tokens) for a in chains),
        "seed": state.seed or None,
    }
    cut = _cut(setting, chains, limits, state)
    whole = [Contender(configuration=configuration, setting=setting, candidates=chains)]
    unmet = (
        None if cut else unmet_at(whole, limits=limits, batch=state.batch, context=state.context)
    )
    if not hold.any():
        return _nowhere(state, unmet, command(["predict"], options(configuration) | changed))
    rate = np.where(hold, speedups, -np.inf)
    best = np.where(hold.any(axis=0), rate.argmax(axis=0), -1)
    speedup = np.take_along_axis(speedups, best.clip(0)[None], axis=0)[0]
    speedup = np.where(best >= 0, speedup, np.nan)
    words = _words(results, best, speedup, fit[0])
    wall = _wall(configuration)
    pays = best > 0
    sentence = (
        f"drafting pays at {pays.sum()} of the {int((best >= 0).sum())} points that"
        f" {'fit' if free else 'hold'}, at most {digits(float(np.nanmax(speedup)))}×"
    )
    return PageAnswer(
        headline=f"{_point_words(method, cut, state, unmet)}; {sentence}",
        command=command(["predict"], options(configuration) | changed),
        numbers=_at(setting, cut or [_plain(setting, state)], state, unmet),
        cards=[
            Card(
                title="Best number of draft tokens K",
                note=f"Grey: leave drafting off. Empty: {EMPTY[free]}.",
                figure=_length_figure(
                    best, words, [*_wall_line(wall), _mine(state)], state.draft_tokens
                ),
            ),
            Card(
                title="Speedup of the best K",
                note="Blue is faster than no speculation; white is no gain.",
                figure=_speedup_figure(speedup, words, [*_wall_line(wall), _mine(state)]),
            ),
        ],
        notes=_notes(setting, source, state.draft_tokens),
        deferred=lambda: (
            DeferredAnswer(cards=[_cut_card(setting, cut, state)])
            if unmet is None
            else _instead(state, unmet)
        ),
    )


def _plain(setting: Setting, state: State) -> Estimate:
    """Plain decoding at the state's own point."""
    return estimate(setting, geometric(0.0, 0), batch=state.batch, context=state.context)


def _cut(
    setting: Setting, chains: Sequence[Acceptance], limits: Limits, state: State
) -> list[Estimate]:
    """Every chain at the state's own point that fits there and meets the limits."""
    b, c = np.asarray(state.batch, dtype=np.float64), np.asarray(state.context, dtype=np.float64)
    plain = _plain(setting, state).step
    estimates = [
        estimate(setting, a, batch=state.batch, context=state.context, plain=plain) for a in chains
    ]
    return [one for one in estimates if allowed(setting, one.acceptance, one.step_s, b, c, limits)]


def _holds(setting: Setting, a: Acceptance, step: StepCost, fit: Mask, limits: Limits) -> Mask:
    """Where a chain fits and meets the limits, over the whole grid."""
    if limits == Limits():
        return fit
    b, c = (
        np.array(BATCHES, dtype=np.float64)[None, :],
        np.array(CONTEXTS, dtype=np.float64)[:, None],
    )
    return fit & allowed(
        setting, a, np.broadcast_to(step.total_s, fit.shape), b, c, limits, fitting=True
    )


def _nowhere(state: State, unmet: Unmet | None, line: str) -> PageAnswer:
    """The answer where no point of the map holds."""
    sentence = f"Batch {state.batch:,} holds" if unmet is None else _missed_words(state, unmet)
    return PageAnswer(
        headline=f"{sentence}; no batch and context of the map does",
        command=line,
        deferred=None if unmet is None else lambda: _instead(state, unmet),
    )


def _instead(state: State, unmet: Unmet) -> DeferredAnswer:
    """The state's own point as a marked row, and the nearest questions that have an answer, each a
    press away.
    """
    changes = nearest(state, unmet)
    words = ", ".join(map(change_words, changes))
    return DeferredAnswer(
        notes=[
            f"Nearest that holds: {words}." if changes else "Nothing near it that was tried holds."
        ],
        tables=missed(state, [unmet]),
        changes=asked_by(state, changes),
    )


def _missed_words(state: State, unmet: Unmet) -> str:
    return f"Batch {state.batch:,} {MISSED[unmet.misses]} at context {state.context:,}"


def _point_words(method: str, cut: Sequence[Estimate], state: State, unmet: Unmet | None) -> str:
    """What to do with this drafter at the state's own point."""
    where = f"batch {state.batch:,} and context {state.context:,}"
    if unmet is not None:
        return _missed_words(state, unmet)
    best = _best_of(cut)
    if not best.acceptance.draft_tokens:
        return f"Leave {method} off at {where}"
    return (
        f"At {where} draft {best.acceptance.draft_tokens} with {method}:"
        f" {digits(float(best.speedup))}×"
    )


def _best_of(cut: Sequence[Estimate]) -> Estimate:
    return max(cut, key=lambda one: float(one.tokens_per_s))


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
    b, c = (
        np.array(BATCHES, dtype=np.float64)[None, :],
        np.array(CONTEXTS, dtype=np.float64)[:, None],
    )
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


def _words(results: Sequence[StepCost], best: Array, speedup: Array, fit: Mask) -> list[list[str]]:
    limits = [np.broadcast_to(r.limit, best.shape) for r in results]
    seconds = [np.broadcast_to(r.total_s, best.shape) for r in results]
    words = []
    for row, context in enumerate(CONTEXTS):
        line = []
        for column, batch in enumerate(BATCHES):
            where = f"batch {batch:,}, context {context:,} tokens"
            k = int(best[row, column])
            if k < 0:
                missing = "misses the limits" if fit[row, column] else "does not fit memory"
                line.append(f"{where}<br><b>{missing}</b>")
                continue
            drafts = f"K = {k}" if k else "drafting off"
            step = digits(float(seconds[k][row, column]) / MILLI)
            line.append(
                f"{where}<br><b>{drafts}</b>, {digits(float(speedup[row, column]))}×<br>"
                f"step {step} ms, limited by {limits[k][row, column]}"
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
        "hoverinfo": "text",
        "hovertext": words,
        "xgap": 1,
        "ygap": 1,
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
        "hoverinfo": "text",
        "hovertext": words,
        "xgap": 1,
        "ygap": 1,
    }
    return _heat_map([heat, *lines])


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
        "marker": {"symbol": "circle-open", "size": 20, "color": "#000000", "line": {"width": 4}},
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


def _cut_card(setting: Setting, estimates: Sequence[Estimate], state: State) -> Card:
    values, low, high = [], [], []
    for result in estimates:
        spread = intervals(
            setting,
            result,
            batch=state.batch,
            generator=np.random.default_rng(state.seed),
            draws=DRAWS,
        ).speedup
        values.append(float(result.speedup))
        low.append(float(spread[0]))
        high.append(float(spread[1]))
    line = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": "speedup",
        "x": list(range(len(values))),
        "y": values,
        "line": {"color": PALETTE[0]},
        "marker": {"size": 8},
        "hovertemplate": "K = %{x}: %{y:.3f}×<extra></extra>",
        "error_y": {
            "type": "data",
            "symmetric": False,
            "width": 4,
            "array": [h - v for h, v in zip(high, values, strict=True)],
            "arrayminus": [v - at for at, v in zip(low, values, strict=True)],
        },
    }
    one = {
        "type": "scatter",
        "mode": "lines",
        "x": [0, len(values) - 1],
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


def _at(
    setting: Setting, estimates: Sequence[Estimate], state: State, unmet: Unmet | None
) -> list[tuple[str, str]]:
    best = _best_of(estimates)
    needed = float(needed_bytes(setting, best.acceptance, batch=state.batch, context=state.context))
    memory = (
        "Memory per device",
        f"{needed / GIB:.1f} of {setting.device.memory_bytes / GIB:.1f} GiB",
    )
    where, k = f"batch {state.batch:,}, context {state.context:,}", best.acceptance.draft_tokens
    if unmet is not None:
        return [(f"At {where}", MISSED[unmet.misses]), memory]
    return [
        (f"Best K at {where}", str(k) if k else "off"),
        ("Speedup", f"{digits(float(best.speedup))}×"),
        ("Limited by", str(best.step.limit)),
        memory,
    ]


def _notes(setting: Setting, source: Source, draft_tokens: int) -> list[str]:
    notes = [
        f"Memory counts as {setting.engine.name} divides it; the wall is that of plain decoding.",
        acceptance_words(source, draft_tokens),
    ]
    if not setting.device.calibrated:
        notes.append(
            f"Constants of {setting.device.name} are those of {setting.device.constants_from}."
        )
    return notes


def _blend(first: str, last: str, share: float) -> str:
    ends = [[int(color[i : i + 2], 16) for i in (1, 3, 5)] for color in (first, last)]
    return "#" + "".join(f"{round(a + (b - a) * share):02X}" for a, b in zip(*ends, strict=True))
