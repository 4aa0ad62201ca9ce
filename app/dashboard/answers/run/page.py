"""What should I run at my batch, how much faster is it, how sure is that, and with which command?

The recommendation of `optimize` at the state's batch and context, beside that at other batches.
Leaves out why a device is fast (`answers.hardware`).
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from app.answers.cells import MarkedCell
from app.answers.optimize.headline import across_batches, headline
from app.answers.optimize.rankings import Rankings
from app.answers.optimize.recommended import Recommended, RecommendedCells
from app.answers.optimize.rows import CellRow, ChoiceRow, Range
from app.dashboard.answer import Card, DeferredAnswer, PageAnswer, Row, lower
from app.dashboard.answers.limits import lift_changes, lift_notes, limits_first
from app.dashboard.answers.run.devices import cheapest
from app.dashboard.answers.run.engines import alone, archive, scheduled
from app.dashboard.answers.unmet import MISSED, missed, nearest_words
from app.dashboard.asking import Asked
from app.dashboard.changes import asked_by, asking_along
from app.dashboard.question import acceptance_words, drafters_asked, has_recordings, where_asked
from app.dashboard.state import State
from app.dashboard.wording import as_words
from app.questions.optimize import DEFAULT_BATCHES, OptimizeQuestion
from app.render.charts import charts
from costmodel.answers.estimate import estimate
from costmodel.answers.explain import explain
from costmodel.optimizers.recommend import Recommendation
from costmodel.optimizers.search import Choice
from hardware_profiles.units import MILLI
from traces.kinds.tree import Tree

NOTHING = "No smaller batch or context, more devices or narrower format that was tried holds"


def answer_run(state: State) -> PageAnswer:
    """The page's answer at the state's batch; where that does not fit or misses a limit, why, and
    what would hold.

    Other batches come with the rest: nobody waits for nine where one was asked about.

    Raises:
        InputError: options that exclude each other, or a drafter that cannot be.
    """
    asked = asked_run(state)
    here = recommended(asked)
    if isinstance(here, RecommendedCells):
        return _impossible(state, asked, here)
    usual = cache(lambda: recommended(asked.changed(batch=DEFAULT_BATCHES)))
    starts, written = alone(here, state)
    return PageAnswer(
        headline=limits_first(here, headline(here.rankings)),
        command=asked.line,
        engines=starts,
        changes=lift_changes(here, state),
        numbers=_numbers(here.rankings.cells[0], here.rankings.choices[0]),
        cards=_cards(here.rankings),
        tables=[
            (
                "Every drafter's best configuration here",
                [_table_row(row) for row in here.rankings.ranked],
            )
        ],
        files={"rooftree-engine-files.zip": lambda: _archive(here, usual(), state)},
        notes=[*lift_notes(here), *_rests_on(here), *written],
        sure=here.rankings.how_sure,
        command_answer=lambda: here,
        deferred=lambda: _rest(here, usual(), state),
        behind=lambda: DeferredAnswer(notes=[_why(here.recommendation, state)]),
    )


def asked_run(state: State) -> Asked:
    """What `optimize` is asked of a state."""
    return Asked(
        verb=OptimizeQuestion,
        values={
            **where_asked(state),
            **drafters_asked(state),
            "batch": str(state.batch),
            "context": str(state.context),
            "tree_nodes": str(state.tree_nodes) if has_recordings(state) else None,
            "slo_tpot": state.slo_tpot,
            "slo_ttft": state.slo_ttft,
            "seed": state.seed,
        },
    )


def recommended(asked: Asked) -> Recommended | RecommendedCells:
    """What `optimize` answers of one model, device and engine; several cells only where nothing is
    allowed at any batch.
    """
    answer = asked.answer()
    assert isinstance(answer, Recommended | RecommendedCells)
    return answer


def _impossible(state: State, asked: Asked, here: RecommendedCells) -> PageAnswer:
    """The answer where nothing is allowed at the state's batch: what the limits allow and what
    would hold, and later the batches that do.
    """
    (row,) = here.unmet
    nearest = nearest_words(row)
    return PageAnswer(
        headline=limits_first(
            here,
            f"Batch {state.batch:,} {MISSED[row.misses]}: {as_words(row.reason)}. "
            f"{f'Nearest that holds: {nearest}' if nearest else NOTHING}.",
        ),
        command=asked.line,
        changes=asked_by(state, row.nearest or ()),
        notes=lift_notes(here),
        deferred=lambda: _other_batches(state, asked, here.unmet),
    )


def _other_batches(state: State, asked: Asked, here: Sequence[MarkedCell]) -> DeferredAnswer:
    """Charts of the usual batches that hold, and those that do not, marked."""
    everywhere = recommended(asked.changed(batch=DEFAULT_BATCHES))
    others = [row for row in everywhere.unmet if row.batch != state.batch]
    batches = ", ".join(f"{row.batch:,}" for row in everywhere.choices)
    return DeferredAnswer(
        notes=[f"The charts show the batches that hold: {batches}."] if batches else [],
        cards=[] if isinstance(everywhere, RecommendedCells) else _lines(everywhere, state.context),
        tables=missed(sorted([*here, *others], key=lambda row: row.batch or 0)),
    )


def _rest(
    here: Recommended, everywhere: Recommended | RecommendedCells, state: State
) -> DeferredAnswer:
    """What takes longer: other batches and the schedule over them, and the cheapest devices."""
    rows, note, changes = cheapest(here.recommendation, state)
    tables: list[tuple[str, Sequence[Row]]] = [
        ("Every device with a price, on the fewest that hold it", rows),
        *missed(everywhere.unmet),
    ]
    if isinstance(everywhere, RecommendedCells):  # a batch between the usual ones may hold alone
        return DeferredAnswer(notes=[note], tables=tables, changes=changes)
    engines, written = scheduled(here.recommendation, everywhere.recommendation, state)
    return DeferredAnswer(
        engines=engines,
        notes=[*_by_batch(here, everywhere), *written, note],
        cards=_lines(everywhere, state.context),
        tables=tables,
        changes=changes,
    )


def _archive(here: Recommended, everywhere: Recommended | RecommendedCells, state: State) -> bytes:
    return archive(
        here,
        here.recommendation
        if isinstance(everywhere, RecommendedCells)
        else everywhere.recommendation,
        state,
    )


def _why(here: Recommendation, state: State) -> str:
    """What bounds the winner's step at a batch, and what would move it."""
    choice = here.winners[0]
    return explain(
        choice.contender.setting,
        choice.acceptance,
        batch=choice.batch,
        context=choice.context,
        generator=np.random.default_rng(state.seed),
    ).sentence


def _numbers(cell: CellRow, row: ChoiceRow) -> list[tuple[str, str]]:
    """The decision in six numbers."""
    speculates = row.topology != "off"
    gain = f"{charts.digits(row.speedup)}× ({charts.interval_words(row.speedup_interval, '×')})"
    numbers = [
        (
            "Speculation",
            f"on: {cell.winner.drafter}, {cell.winner.draft}" if speculates else "off",
        ),
        ("Gain (80 % interval)", gain if speculates else "none"),
        ("Whole batch", f"{charts.digits(row.tokens_per_s)} tokens/s"),
        ("Time per token", f"{charts.digits(row.step_s / row.tokens_per_step / MILLI)} ms"),
        (
            "Step",
            f"{charts.digits(row.step_s / MILLI)} ms for"
            f" {charts.digits(row.tokens_per_step)} tokens",
        ),
    ]
    if (after := cell.runner_up) is not None and cell.lost_ratio is not None:
        name = "plain decoding" if after.drafter is None else f"{after.drafter}, {after.draft}"
        numbers.append(("Runner-up", f"{name}: loses {100 * cell.lost_ratio:.0f} %"))
    return numbers


def _table_row(row: ChoiceRow) -> Row:
    return {
        "drafter": row.drafter,
        "drafts": row.draft,
        "tokens per step": round(row.tokens_per_step, 3),
        "step (ms)": round(row.step_s / MILLI, 3),
        "tokens/s": round(row.tokens_per_s, 1),
        "speedup (×)": round(row.speedup, 3),
        "80 % interval (×)": charts.interval_words(row.speedup_interval),
        "limit": row.limit,
    }


def _cards(answer: Rankings) -> list[Card]:
    """Charts that no batch changes."""
    cards = []
    if (figure := charts.acceptance_figure(answer)) is not None:
        cards.append(
            lower(
                Card(
                    title="Tokens per step",
                    note="Replayed, or as published or stated.",
                    figure=figure,
                )
            )
        )
    if (row := charts.best_tree(answer)) is not None and row.tree is not None:
        shape = Tree.from_json(row.tree)
        cards.append(
            Card(
                title=f"Best tree: {shape.draft_tokens} draft tokens",
                note="Coloured by how often it helps.",
                figure=charts.tree_figure(shape, charts.path_acceptance(answer, row)),
            )
        )
    return cards


def _lines(everywhere: Recommended, context: int) -> list[Card]:
    """Charts over batch."""
    answer, setting = everywhere.rankings, everywhere.recommendation.winners[0].contender.setting
    price = setting.device.price_usd_per_hour
    usd_per_hour = None if price is None else price * setting.deployment.tensor_parallel
    return [
        asking_along(lower(card), "batch")
        for card in (
            Card(
                title="Speedup",
                note="Against no speculation at the same batch; bands are 80 % intervals.",
                figure=charts.speedup_figure(answer, context, usd_per_hour=usd_per_hour),
            ),
            Card(
                title="Throughput",
                note="Tokens per second of the whole batch.",
                figure=charts.throughput_figure(answer, context, usd_per_hour=usd_per_hour),
            ),
            Card(
                title="Time per token",
                note="Of every user; bands are 80 % intervals.",
                figure=charts.time_per_token_figure(answer, context),
            ),
            Card(
                title="Step time",
                note="Of the winner at every batch, by phase.",
                figure=charts.step_time_figure(answer, context),
            ),
        )
    ]


def _by_batch(here: Recommended, everywhere: Recommended) -> list[str]:
    """The schedule over batches of the drafter that wins here, who leads at other batches, and what
    differs here.
    """
    schedule = _schedule(everywhere, here.choices[0].drafter)
    text = across_batches(replace(everywhere.rankings, schedule=schedule))
    if not text:
        return []
    choice = here.recommendation.winners[0]
    other = _differs(schedule, choice)
    at_batch = f" At batch {choice.batch:,} it {other}." if other else ""
    return [f"Over batches: {text.removeprefix('as a schedule, ')}.{at_batch}"]


def _schedule(answer: Recommended, drafter: str | None = None) -> Sequence[Range]:
    """The draft length by batch of a drafter, or of what wins first; empty where it has none."""
    own = drafter or answer.choices[0].drafter
    return next((row.schedule for row in answer.rankings.schedules if row.drafter == own), [])


def _differs(schedule: Sequence[Range], choice: Choice) -> str:
    """`drafts 6, not 5: 0.1 % slower, for fewer ranges`, where the schedule drafts another length
    than the choice; empty where it does not.
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
    scheduled_speed = estimate(
        choice.contender.setting, other, batch=choice.batch, context=choice.context
    )
    lost = 1.0 - float(scheduled_speed.tokens_per_s) / choice.tokens_per_s
    return f"drafts {scheduled}, not {chosen_tokens}: {100 * lost:.1f} % slower, for fewer ranges"


def _rests_on(here: Recommended) -> Sequence[str]:
    """Whose acceptance, how much it depends on the prompts, and whose constants."""
    choice = here.recommendation.winners[0]
    notes, device = [], choice.contender.setting.device
    if choice.topology != "off":
        source = here.recommendation.source(choice)
        notes.append(acceptance_words(source, choice.acceptance.levels))
        if line := here.prompts_line:
            notes.append(f"{line[:1].upper()}{line[1:]}.")
    if not device.calibrated:
        notes.append(
            f"Constants of {device.name} are those of {device.constants_from}; it was not measured"
            " itself."
        )
    return notes
