"""What does `optimize` say below its table: ties, what its numbers rest on, schedules and files?"""

import shlex
from collections.abc import Iterator, Sequence

from app.answers.breakeven.rows import twin_words
from app.answers.drafting import TOPOLOGY_WORDS, draft_words
from app.answers.numbers import LOPSIDED, lopsided, plain
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
    numbers = (
        " of the cost model; published or stated acceptance is taken as it is" if exact else ""
    )
    return (
        "K: draft tokens per request and step; speedup against no speculation (off) at the same"
        " batch and context; loses: tokens/s of the next best against the first; brackets: 80 %"
        f" intervals{numbers}"
    )


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
    """One line about ties, one about intervals that reach further to one side, and those about
    contexts beyond what a model was trained for.
    """
    close = sorted(
        {c.batch for c in cells if c.lost_ratio is not None and c.lost_ratio < TIE_RATIO}
    )
    if close:
        yield (
            f"a tie at batch {', '.join(f'{batch:,}' for batch in close)}: the next best loses less"
            f" than {100 * TIE_RATIO:.0f} %, which the prediction cannot tell apart"
        )
    if any(lopsided(c.tokens_per_s, c.tokens_per_s_interval) for c in cells):
        yield LOPSIDED
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
    for index, (source, name) in enumerate(zip(search.sources, search.names, strict=True)):
        yield f"{name}: {_drafts_with(source, search)}{_rests_on(source)}"
        own = [contender for contender in search.contenders if contender.source == index]
        remarks = (candidate.remark for contender in own for candidate in contender.candidates)
        yield from (f"  {remark}" for remark in dict.fromkeys(remarks) if remark)
        yield from _by_context(own)
    if any(row.topology not in ("off", "chain", "block") for row in best):
        yield from _who_wins(best)


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
    """What ties with a winner and is simpler, and whether the recordings that chose are long
    enough.
    """
    several = len({cell.context for cell in cells}) > 1

    def at(cell: CellRow) -> str:
        return f"batch {plain(cell.batch)}" + (
            f", context {plain(cell.context)}" if several else ""
        )

    ties = [(cell, cell.tie) for cell in cells if cell.tie is not None]
    if ties:
        words = "; ".join(
            f"{at(cell)}: {tie.draft} loses {100 * tie.lost_ratio:.1f} %"
            for cell, tie in ties[:_RANGES]
        )
        more = f"; {len(ties) - _RANGES} more in the files" if len(ties) > _RANGES else ""
        yield f"a tie, and simpler to run: {words}{more}"
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
    search: Recommendation, schedules: Sequence[ContextScheduleRow]
) -> Iterator[str]:
    """The draft length by batch of the drafter that wins at the smallest batch that drafts, at every
    context.
    """
    for schedule, row in zip(search.optimum.schedules, schedules, strict=True):
        here = (c.winner for c in search.optimum.cells if c.winner.context == schedule.context)
        first = next((winner for winner in here if winner.topology != "off"), None)
        if first is None or first.contender.source != schedule.source:
            continue
        yield (
            f"schedule of {row.drafter} at context {row.context:,}: {_ranges_words(row)}"
            f" ({_loss_words(row.schedule_worst_loss_ratio)})"
        )
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
        return "the best K of every batch"
    return f"at most {percent} % slower than the best K of any batch"


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
            f"one schedule of {row.drafter} for all contexts, as engines choose K by batch alone:"
            f" {_ranges_words(row)} ({100 * lost:.1f} % slower on average than the best K, a"
            f" schedule of each context {100 * own:.1f} %; most at context {worst.context:,}:"
            f" {100 * worst.loss_ratio:.1f} and {100 * worst.own_schedule_loss_ratio:.1f} %)"
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
    named = shlex.quote(f"{slow.method}:{slow.data_set}")
    here = next(row for row in rows if row.data_set == source.figure.entry.data_set)
    return (
        f"your prompts matter: with the {len(rows)} data sets that {here.method} was published on,"
        f" the speedup at batch {plain(here.batch)} goes from {slow.speedup:.2f} ({slow.data_set},"
        f" {slow.draft}) to {fast.speedup:.2f} ({fast.data_set}, {fast.draft}); this answer takes"
        f" {here.data_set}; --drafter {named} takes another"
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
    """The first ranges of a schedule: `K=5 at batch 1-16, K=0 at batch 17-64`."""
    spans = [(f"{low}-{high}" if high > low else f"{low}", k) for low, high, k in row.schedule]
    words = ", ".join(f"K={k} at batch {span}" for span, k in spans[:_RANGES])
    more = len(spans) - _RANGES
    return words + (f", {more} more ranges in the files" if more > 0 else "")


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
