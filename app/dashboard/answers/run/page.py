"""What should I run at my batch, how much faster is it, how sure is that, and with which command?

The recommendation of `optimize` at the state's batch and context, beside that at other batches.
Leaves out why a device is fast (`answers.hardware`).
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from app.answers.feasible import change_words
from app.answers.optimize import cell, ranked, schedule_rows, unmet_rows
from app.dashboard.answer import Card, DeferredAnswer, PageAnswer, Row, lower, options, scenario
from app.dashboard.answers.run.devices import cheapest
from app.dashboard.answers.run.engines import alone, archive, scheduled
from app.dashboard.answers.unmet import MISSED, missed
from app.dashboard.changes import asked_by
from app.dashboard.question import (
    DRAFTED,
    PLAIN,
    acceptance_words,
    drafter_options,
    has_recordings,
    read_question,
)
from app.dashboard.state import State, command, with_values
from app.dashboard.wording import as_words
from app.render.charts import charts
from app.render.html.report import across_batches, headline
from costmodel.answers.estimate import estimate
from costmodel.answers.explain import explain
from costmodel.optimizers.allowed import NothingAllowedError, Unmet
from costmodel.optimizers.recommend import (
    DEFAULT_BATCHES,
    ComparedDrafters,
    Recommendation,
    compare,
    recommend_among,
)
from costmodel.optimizers.search import Choice
from hardware_profiles.units import MILLI
from traces.kinds.tree import Tree

NOTHING = "No smaller batch or context, more devices or narrower format that was tried holds"
COMPARED = (
    "model",
    "device",
    "engine",
    "dtype",
    "kv_dtype",
    "draft_dtype",
    "tp",
    *DRAFTED,
    "tree_nodes",
    "seed",
)


def answer_run(state: State) -> PageAnswer:
    """The page's answer at the state's batch; where that does not fit or misses a limit, why, and
    what would hold.

    Other batches come with the rest: nobody waits for nine where one was asked about.

    Raises:
        InputError: options that exclude each other, or a drafter that cannot be.
    """
    try:
        recommendation = _among(state, [state.batch])
    except NothingAllowedError as error:
        return _impossible(state, error.unmet)
    body = ranked(recommendation)
    choice = recommendation.winners[0]
    one, written = alone(recommendation, state)
    return PageAnswer(
        headline=headline(body),
        command=_command(state),
        engines=one,
        numbers=_numbers(cell(recommendation.optimum.cells[0], recommendation), body["choices"][0]),
        cards=_cards(body),
        tables=[
            ("Every method's best configuration here", [_table_row(c) for c in charts.rows(body)])
        ],
        files={"rooftree-engine-files.zip": lambda: archive(recommendation, _usual(state), state)},
        notes=[text for text in (*_rests_on(recommendation, choice), *written) if text],
        deferred=lambda: _rest(recommendation, state),
    )


def _impossible(state: State, unmet: Sequence[Unmet]) -> PageAnswer:
    """The answer where nothing is allowed at the state's batch: what would hold, and later the
    batches that do.
    """
    (row,) = unmet_rows(unmet, read_question(state).limits)
    nearest = ", ".join(map(change_words, row["nearest"]))
    return PageAnswer(
        headline=(
            f"Batch {state.batch:,} {MISSED[unmet[0].misses]}: {as_words(row['reason'])}. "
            f"{f'Nearest that holds: {nearest}' if nearest else NOTHING}."
        ),
        command=_command(state),
        changes=asked_by(state, row["nearest"]),
        deferred=lambda: _other_batches(state, unmet),
    )


def _other_batches(state: State, own_unmet: Sequence[Unmet]) -> DeferredAnswer:
    """Charts of the usual batches that hold, and those that do not, marked."""
    try:
        everywhere = _usual(state)
    except NothingAllowedError as error:
        body, unmet = None, error.unmet
    else:
        body, unmet = ranked(everywhere), everywhere.optimum.unmet
    others = [cell for cell in unmet if cell.batch != state.batch]
    return DeferredAnswer(
        notes=(
            [] if body is None else [f"The charts show the batches that hold: {_batches(body)}."]
        ),
        cards=[] if body is None else _lines(body, state.context),
        tables=missed(state, sorted([*own_unmet, *others], key=lambda cell: cell.batch)),
    )


def _rest(recommendation: Recommendation, state: State) -> DeferredAnswer:
    """What takes longer: other batches and the schedule over them, why, and the cheapest
    devices.
    """
    everywhere = _usual(state)
    body = ranked(everywhere)
    engines, written = scheduled(recommendation, everywhere, state)
    rows, note, changes = cheapest(recommendation, state)
    tables: list[tuple[str, Sequence[Row]]] = [
        ("Every device with a price, on the fewest that hold it", rows)
    ]
    return DeferredAnswer(
        engines=engines,
        notes=[
            *_by_batch(recommendation, everywhere, body),
            *written,
            note,
            _why(recommendation, state),
        ],
        cards=_lines(body, state.context),
        tables=[*tables, *missed(state, everywhere.optimum.unmet)],
        changes=changes,
    )


def _batches(body: dict[str, Any]) -> str:
    return ", ".join(
        f"{batch:,}" for batch in sorted({int(row["batch"]) for row in body["choices"]})
    )


def _usual(state: State) -> Recommendation:
    """The recommendation at the usual batches."""
    return _among(state, DEFAULT_BATCHES)


def _among(state: State, batches: Sequence[int]) -> Recommendation:
    """The recommendation at some batches, of drafters that are replayed once."""
    question = with_values(State(), {name: getattr(state, name) for name in COMPARED})
    return recommend_among(
        _compared(question) if state.upload else _cached(question),
        batches=batches,
        contexts=[state.context],
        limits=read_question(state).limits,
        seed=state.seed,
    )


def _compared(state: State) -> ComparedDrafters:
    question = read_question(state)
    return compare(
        question.configuration, question.drafters, tree_sizes=[state.tree_nodes], seed=state.seed
    )


_cached = lru_cache(maxsize=64)(_compared)


def _why(recommendation: Recommendation, state: State) -> str:
    """What bounds the winner's step at a batch, and what would move it."""
    choice = recommendation.winners[0]
    return explain(
        choice.contender.setting,
        choice.acceptance,
        batch=choice.batch,
        context=choice.context,
        generator=np.random.default_rng(state.seed),
    ).sentence


def _command(state: State) -> str:
    configuration = scenario(state, method=PLAIN)
    return command(
        ["optimize"],
        options(configuration)
        | {"draft": state.draft or None}
        | drafter_options(state)
        | {
            "batch": state.batch,
            "context": state.context,
            "tree-nodes": state.tree_nodes if has_recordings(state) else None,
            "slo-tpot": state.slo_tpot or None,
            "slo-ttft": state.slo_ttft or None,
            "seed": state.seed or None,
        },
    )


def _numbers(cell: dict[str, Any], row: dict[str, Any]) -> list[tuple[str, str]]:
    """The decision in six numbers."""
    winner = cell["winner"]
    speculates = row["topology"] != "off"
    gain = (
        f"{charts.digits(row['speedup'])}× ({charts.interval_words(row['speedup_interval'], '×')})"
    )
    numbers = [
        ("Speculation", f"on: {winner['drafter']}, {winner['draft']}" if speculates else "off"),
        ("Gain (80 % interval)", gain if speculates else "none"),
        ("Whole batch", f"{charts.digits(row['tokens_per_s'])} tokens/s"),
        ("Time per token", f"{charts.digits(row['step_s'] / row['tokens_per_step'] / MILLI)} ms"),
        (
            "Step",
            (
                f"{charts.digits(row['step_s'] / MILLI)} ms for"
                f" {charts.digits(row['tokens_per_step'])} tokens"
            ),
        ),
    ]
    if (after := cell["runner_up"]) is not None:
        name = (
            "plain decoding"
            if after["drafter"] is None
            else f"{after['drafter']}, {after['draft']}"
        )
        numbers.append(("Runner-up", f"{name}: loses {100 * cell['lost_ratio']:.0f} %"))
    return numbers


def _table_row(row: Any) -> dict[str, Any]:
    return {
        "method": row["method"],
        "drafts": str(row["draft"]),
        "tokens per step": round(row["tokens_per_step"], 3),
        "step (ms)": round(row["step_s"] / MILLI, 3),
        "tokens/s": round(row["tokens_per_s"], 1),
        "speedup (×)": round(row["speedup"], 3),
        "80 % interval (×)": charts.interval_words(row["speedup_interval"]),
        "limit": row["limit"],
    }


def _cards(body: dict[str, Any]) -> list[Card]:
    """Charts that no batch changes."""
    cards = []
    if (figure := charts.acceptance_figure(body)) is not None:
        cards.append(
            lower(
                Card(
                    title="Tokens per step",
                    note="Replayed, or as published or stated.",
                    figure=figure,
                )
            )
        )
    if (row := charts.best_tree(body)) is not None:
        shape = Tree.from_json(row["tree"])
        cards.append(
            Card(
                title=f"Best tree: {shape.draft_tokens} draft tokens",
                note="Coloured by how often it helps.",
                figure=charts.tree_figure(shape, charts.path_acceptance(body, row)),
            )
        )
    return cards


def _lines(body: dict[str, Any], context: int) -> list[Card]:
    """Charts over batch."""
    return [
        lower(card)
        for card in (
            Card(
                title="Speedup",
                note="Against no speculation at the same batch; bands are 80 % intervals.",
                figure=charts.speedup_figure(body, context),
            ),
            Card(
                title="Throughput",
                note="Tokens per second of the whole batch.",
                figure=charts.throughput_figure(body, context),
            ),
            Card(
                title="Step time",
                note="Of the winner at every batch, by phase.",
                figure=charts.step_time_figure(body, context),
            ),
        )
    ]


def _by_batch(
    recommendation: Recommendation, everywhere: Recommendation, body: dict[str, Any]
) -> list[str]:
    """The schedule over batches of the drafter that wins here, who leads at other batches, and what
    differs here.
    """
    source = recommendation.winners[0].contender.source
    schedule: Sequence[Sequence[int]] = next(
        (row["schedule"] for row in schedule_rows(everywhere, source=source)), []
    )
    text = across_batches({**body, "schedule": schedule})
    return (
        [
            "Over batches:"
            f" {text.removeprefix('as a schedule, ')}.{_differs(schedule, recommendation.winners[0])}"
        ]
        if text
        else []
    )


def _differs(schedule: Sequence[Sequence[int]], choice: Choice) -> str:
    """That the schedule drafts another length here than the choice, and what that loses; empty
    where it does not.
    """
    chosen_tokens = choice.acceptance.draft_tokens
    scheduled = next((k for low, high, k in schedule if low <= choice.batch <= high), chosen_tokens)
    chains = (
        a
        for a in choice.contender.candidates
        if a.topology in ("off", "chain") and a.lengths is None
    )
    other = next((a for a in chains if a.draft_tokens == scheduled), None)
    if choice.topology != "chain" or other is None or scheduled == chosen_tokens:
        return ""
    scheduled_estimate = estimate(
        choice.contender.setting, other, batch=choice.batch, context=choice.context
    )
    lost = 1.0 - float(scheduled_estimate.tokens_per_s) / choice.tokens_per_s
    return (
        f" At batch {choice.batch:,} it drafts {scheduled}, not {chosen_tokens}: {100 * lost:.1f} % slower,"
        " for fewer ranges."
    )


def _rests_on(recommendation: Recommendation, choice: Choice) -> Sequence[str]:
    """Whose acceptance, and whose constants."""
    notes, device = [], choice.contender.setting.device
    if choice.topology != "off":
        notes.append(acceptance_words(recommendation.source(choice), choice.acceptance.levels))
    if not device.calibrated:
        notes.append(
            f"Constants of {device.name} are those of {device.constants_from}; it was not measured"
            " itself."
        )
    return notes
