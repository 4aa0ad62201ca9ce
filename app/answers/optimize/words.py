"""What does `optimize` say below its table: ties, what its numbers rest on, schedules and files?"""

import shlex
from collections.abc import Iterator, Sequence

from app.answers.breakeven.rows import twin_words
from app.answers.drafting import TOPOLOGY_WORDS, draft_words
from app.answers.numbers import plain
from app.answers.optimize.headline import schedule_words
from app.answers.optimize.rows import (
    CellRow,
    ContextScheduleRow,
    KindLengthsRow,
    PromptsRow,
    SharedSchedule,
    TopologyBestRow,
)
from costmodel.answers.estimate import estimate
from costmodel.answers.positions import context_remark
from costmodel.drafters.checkpoint import brings_its_head
from costmodel.optimizers.allowed import Contender
from costmodel.optimizers.drafters.sources import Source
from costmodel.optimizers.margins import TIE_RATIO
from costmodel.optimizers.recommend import Recommendation
from costmodel.optimizers.search import MethodSchedule
from hardware_profiles.units import MEGA
from traces.kinds.summary import Summary

_RANGES = 8  # of a schedule that are said; files hold all


def caption(searches: Sequence[Recommendation]) -> str:
    """What the columns of the table mean."""
    sources = [source for search in searches for source in search.sources]
    exact = any(s.positions is None and not s.recorded_tokens for s in sources)
    numbers = " of the cost model alone" if exact else ""
    return f"full batches; speedup against no speculation (off); brackets: 80 % intervals{numbers}"


def policy_caption(against: str) -> str:
    """What the columns of a table of policies mean.

    Args:
        against: another model that they are compared with, by name; empty: their own.
    """
    return (
        f"speedup against the twin, {twin_words(against)}; brackets: of a pace by states that hold"
        " less and more, of agreement over prompts, of speeds the cost model"
    )


def cell_lines(cells: Sequence[CellRow], searches: Sequence[Recommendation]) -> Iterator[str]:
    """One line about ties with the next best, and those about contexts beyond what a model was
    trained for.
    """
    close = sorted(
        {c.batch for c in cells if c.lost_ratio is not None and c.lost_ratio < TIE_RATIO}
    )
    if close:
        yield (
            f"a tie at batch {', '.join(f'{batch:,}' for batch in close)}: the next best loses less"
            f" than {100 * TIE_RATIO:.0f} %, which the prediction cannot tell apart"
        )
    remarks = (
        remark
        for search in searches
        for cell in search.optimum.cells
        for remark in (
            context_remark(cell.winner.contender.setting.target, cell.winner.context),
            cell.winner.contender.setting.deployment.unpriced_adapters,
        )
    )
    yield from filter(None, dict.fromkeys(remarks))


def drafter_lines(search: Recommendation, best: Sequence[TopologyBestRow]) -> Iterator[str]:
    """What the acceptance of every drafter rests on, and which of its topologies wins where."""
    for index in range(len(search.sources)):
        yield from _drafter(search, index)
        yield from _by_context([own for own in search.contenders if own.source == index])
    if any(row.topology not in ("off", "chain", "block") for row in best):
        yield from _who_wins(best)


def winner_lines(search: Recommendation) -> Iterator[str]:
    """What the acceptance of the drafters that win somewhere rests on; of all where none does."""
    wins = {best.contender.source for best in search.winners if best.topology != "off"}
    for index in sorted(wins) or range(len(search.sources)):
        yield from _drafter(search, index)
    texts = {index: _text(source) for index, source in enumerate(search.sources)}
    mine = {texts[index] for index in wins}
    others = [
        f"{search.names[index]} ({text})"
        for index, text in texts.items()
        if mine and "" not in mine and text not in {"", *mine}
    ]
    if others:
        yield f"measured on other texts, so that what they lose is rough: {', '.join(others)}"


def _text(source: Source) -> str:
    """The data set of a published figure; empty where acceptance is known otherwise."""
    return "" if source.figure is None else source.figure.entry.data_set


def _drafter(search: Recommendation, index: int) -> Iterator[str]:
    """What the acceptance of one drafter rests on."""
    source = search.sources[index]
    yield f"{search.names[index]}: {_drafts_with(source, search)}{_rests_on(source)}"
    own = (contender for contender in search.contenders if contender.source == index)
    remarks = (candidate.remark for contender in own for candidate in contender.candidates)
    yield from (f"  {remark}" for remark in dict.fromkeys(remarks) if remark)


def _by_context(contenders: Sequence[Contender]) -> Iterator[str]:
    """What a drafter's longest chain emits at every context, where that was replayed by context."""
    if not contenders or contenders[0].contexts is None:
        return
    longest = [
        max(
            (a for a in contender.candidates if a.topology in ("off", "chain")),
            key=lambda a: a.draft_tokens,
        )
        for contender in contenders
    ]
    parts = "; ".join(
        f"{a.tokens_per_step:.2f} at {', '.join(map(plain, contender.contexts or ()))}"
        for contender, a in zip(contenders, longest, strict=True)
    )
    yield f"  replayed by context: {draft_words(longest[0])} emits {parts}"


def _who_wins(best: Sequence[TopologyBestRow]) -> Iterator[str]:
    """One line per drafter and context: the fastest of every topology, batch by batch where the
    winner changes.
    """
    for drafter, context in dict.fromkeys((row.drafter, row.context) for row in best):
        own = [row for row in best if (row.drafter, row.context) == (drafter, context)]
        parts, last = [], ""
        for batch in dict.fromkeys(row.batch for row in own):
            first, *others = [row for row in own if row.batch == batch]
            winner = TOPOLOGY_WORDS[first.topology]
            if winner != last:
                rest = ", ".join(f"{row.draft} {row.speedup:.2f}" for row in others)
                speeds = f"{first.draft} {first.speedup:.2f}; {rest}"
                parts.append(f"{winner} from batch {batch} ({speeds})" if others else winner)
            last = winner
        yield f"{drafter} at context {context}: {'; '.join(parts)}"


def margin_lines(cells: Sequence[CellRow]) -> Iterator[str]:
    """What is simpler than a winner and as fast, and whether the recordings that chose are long
    enough.
    """
    several = len({cell.context for cell in cells}) > 1

    def at(cell: CellRow, *batches: str) -> str:
        where = f", context {plain(cell.context)}" if several else ""
        return f"batch {', '.join(batches or [plain(cell.batch)])}{where}"

    simpler: dict[tuple[str, int], list[CellRow]] = {}
    for cell in cells:
        if cell.tie is not None:
            simpler.setdefault((cell.tie.draft, cell.context), []).append(cell)
    if simpler:
        words = "; ".join(
            f"{draft} at {at(alike[0], *(plain(cell.batch) for cell in alike))}"
            for (draft, _), alike in simpler.items()
        )
        yield f"simpler, and slower by at most {100 * TIE_RATIO:.0f} %: {words}"
    lengths = [(cell, cell.recorded) for cell in cells if cell.recorded is not None]
    if not lengths:
        return
    worst, recorded = max(lengths, key=lambda pair: pair[1].enough_tokens)
    if recorded.enough:
        yield "recorded tokens are enough: more would hardly change tokens/s by 1 %"
        return
    short = sum(not length.enough for _, length in lengths)
    yield (
        f"recorded tokens are few for {short} of {len(lengths)} choices: at {at(worst)}"
        f" another may be {100 * recorded.loss_ratio:.1f} % faster, which some"
        f" {plain(recorded.enough_tokens)} tokens would tell ({plain(recorded.tokens)}"
        " are recorded)"
    )


def schedule_lines(
    search: Recommendation, schedules: Sequence[ContextScheduleRow], *, explain: bool
) -> Iterator[str]:
    """The draft length by batch of the drafter that wins at the smallest batch that drafts, at every
    context.

    Args:
        search: what was found.
        schedules: of all drafters and contexts.
        explain: say where it drafts another length than the table, and what that costs.
    """
    for schedule, row in zip(search.optimum.schedules, schedules, strict=True):
        here = (c.winner for c in search.optimum.cells if c.winner.context == schedule.context)
        first = next((winner for winner in here if winner.topology != "off"), None)
        if first is None or first.contender.source != schedule.source:
            continue
        where = f" at context {row.context:,}" if len(search.optimum.contexts) > 1 else ""
        yield (
            f"schedule of {row.drafter}{where}: {_ranges_words(row)}"
            f" ({_loss_words(row.schedule_worst_loss_ratio)})"
        )
        if explain:
            yield from _against_table(search, schedule)
        yield from _off_lines(search, schedule)


def _off_lines(search: Recommendation, scheduled: MethodSchedule) -> Iterator[str]:
    """What ranges without drafts cost, as their drafter stays loaded, and whether it is better left
    out altogether.
    """
    against = scheduled.against_off
    if against is None or (against.worst_loss_ratio < TIE_RATIO and not against.off_altogether):
        return
    if against.off_altogether:
        yield (
            "  off altogether: the best ranges that draft are"
            f" {100 * -against.gain_ratio:.1f} % slower on average than a server without the drafter"
        )
    else:
        yield (
            f"  {100 * against.gain_ratio:.1f} % faster on average than a server without the drafter,"
            f" {100 * against.worst_loss_ratio:.1f} % slower at the batch that loses most"
        )
    if against.idle_loss_ratio is not None:
        setting = search.contenders[scheduled.source].setting
        runs = setting.engine.idle_drafter.follows and setting.drafter.kv_values_per_token
        why = f", and {setting.engine.name} runs it to keep its cache in step" if runs else ""
        yield (
            f"  K=0 leaves the drafter loaded{why}: up to"
            f" {100 * max(against.idle_loss_ratio, 0.0):.1f} % slower than without it"
        )


def _loss_words(loss_ratio: float) -> str:
    """What a schedule loses against the best K of each batch, in words."""
    percent = f"{100 * loss_ratio:.1f}"
    if percent == "0.0":
        return "the best of every batch"
    return f"at most {percent} % slower than the best of any batch"


def shared_schedule_lines(
    search: Recommendation, schedules: Sequence[SharedSchedule]
) -> Iterator[str]:
    """One schedule for all contexts, of the drafter that wins first, and what that costs: engines
    take no other key.
    """
    first = search.optimum.cells[0].winner
    winner = None if first.topology == "off" else search.names[first.contender.source]
    for row in schedules:
        if row.drafter != winner:
            continue
        count = len(row.contexts)
        lost = sum(at.loss_ratio for at in row.contexts) / count
        own = sum(at.own_schedule_loss_ratio for at in row.contexts) / count
        worst = max(row.contexts, key=lambda at: at.loss_ratio - at.own_schedule_loss_ratio)
        yield (
            f"one schedule of {row.drafter} for all contexts, as engines choose by batch alone:"
            f" {_ranges_words(row)} ({100 * lost:.1f} % slower on average than the best,"
            f" {100 * worst.loss_ratio:.1f} % at context {worst.context:,}; a schedule of each context"
            f" {100 * own:.1f} and {100 * worst.own_schedule_loss_ratio:.1f} %)"
        )


def prompts_line(rows: Sequence[PromptsRow], source: Source) -> str:
    """How much the choice at the first batch depends on the prompts; empty where nobody published
    acceptance on others.

    Args:
        rows: by data set, slowest first.
        source: of the choice.
    """
    if source.figure is None or len(rows) < 2:
        return ""
    slow, fast = rows[0], rows[-1]
    here = next(row for row in rows if row.data_set == source.figure.entry.data_set)
    another = fast if slow is here else slow
    named = shlex.quote(f"{another.method}:{another.data_set}")
    return (
        f"your prompts matter: at batch {plain(here.batch)} the speedup is {slow.speedup:.2f} on"
        f" {slow.data_set}, {fast.speedup:.2f} on {fast.data_set}, of {len(rows)} published data sets;"
        f" this is {here.data_set}, --drafter {named} takes another"
    )


def kind_lines(rows: Sequence[KindLengthsRow]) -> Iterator[str]:
    """What a draft length for every kind of requests gains over one for all."""
    for row in rows:
        own = ", ".join(
            f"{length.kind} K={length.draft_tokens}"
            if length.draft_tokens
            else f"{length.kind} off"
            for length in row.lengths
        )
        yield (
            f"by kind at batch {plain(row.batch)}, context {plain(row.context)}, {row.drafter}: {own}:"
            f" {100 * row.gain_ratio:.1f} % faster than K={row.draft_tokens} for all"
        )
    if rows:
        yield (
            "  as many requests of a kind run together as were recorded, and every request verifies"
            " its own draft; an engine that pads all to the longest gains nothing"
        )


def _ranges_words(row: ContextScheduleRow | SharedSchedule) -> str:
    """The first ranges of a schedule: `draft 5 tokens at batch 1-16, nothing at 17-64`."""
    more = len(row.schedule) - _RANGES
    return schedule_words(row.schedule[:_RANGES]) + (
        f", {more} more ranges in the files" if more > 0 else ""
    )


def _drafts_with(source: Source, search: Recommendation) -> str:
    """What a drafter is that nobody published, or whose weights the target's checkpoint lacks;
    empty for the others.
    """
    if (own := source.own) is not None:
        passes = (
            f"{own.passes} pass{'es' if own.passes > 1 else ''} a step of"
            f" {plain(own.pass_bytes / MEGA)} MB"
        )
        return f"{passes}{f', {source.draft_model}' if source.draft_model else ''}, "
    model = search.question.deployment.model
    if not brings_its_head(source.method, model):
        return ""
    return f"{source.draft_model or 'a head of yours'}, as the checkpoint of {model} holds none, "


def _rests_on(source: Source) -> str:
    """Where a drafter's acceptance comes from, in words."""
    if source.prompts is not None:
        return f"policies replayed on {source.about}" + (
            "" if source.path is None else f": {source.path.name}"
        )
    if source.trace is None:
        if source.kind == "stated":
            return f"acceptance stated as {source.about}"
        draft_model = source.draft_model if source.draft_model != source.called else "a draft model"
        return f"{f'{draft_model}, ' if draft_model else ''}acceptance {source.label}"
    recorded, has_tokens = source.trace.provenance, source.kind == "recorded"
    has_tokens = has_tokens or source.recorded_tokens > 0
    how = "recorded" if has_tokens else "counted"
    label = f"{how} on {recorded.model or 'a model that is not named'}"
    if source.borrowed and recorded.model:
        label = f"acceptance borrowed from {recorded.model}"
    size = _counted_words(source.trace.summary)
    if has_tokens:
        size = f"{source.recorded_tokens:,} tokens ({recorded.device or 'device unknown'})"
    return f"{label} in {source.path.name if source.path else source.about}, {size}"


def _counted_words(summary: Summary | None) -> str:
    """What an engine counted of its drafts, in words."""
    if summary is None or not summary.drafts:
        return "means alone"
    by_position = ", by position" if summary.acceptance_by_depth else ""
    return f"{summary.drafts:,} drafts{by_position}"


def _against_table(search: Recommendation, scheduled: MethodSchedule) -> list[str]:
    """Why a schedule has another K than the table, where it has: what that costs, and what it is
    for.
    """
    changes = []
    for cell in search.optimum.cells:
        best = cell.winner
        if (
            best.context != scheduled.context
            or best.contender.source != scheduled.source
            or best.topology != "chain"
        ):
            continue
        k = scheduled.schedule.draft_tokens_at(best.batch)
        other = next(
            a
            for a in best.contender.candidates
            if a.topology in ("off", "chain") and a.draft_tokens == k
        )
        if k == best.acceptance.draft_tokens:
            continue
        rate = float(
            estimate(
                best.contender.setting, other, batch=best.batch, context=best.context
            ).tokens_per_s
        )
        changes.append(
            f"K={k} instead of {best.acceptance.draft_tokens} at batch {best.batch:,} "
            f"({100 * (1 - rate / best.tokens_per_s):.1f} % slower)"
        )
    return (
        [
            f"  fewer ranges than the table, since an engine pays for every change: {', '.join(changes)}"
        ]
        if changes
        else []
    )
