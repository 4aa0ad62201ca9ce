"""How `optimize` says on the screen what to run: one row a batch, then where its numbers come from
and what to load.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from app.cli.cell_answers import CellAnswer
    from costmodel.optimizers.drafters.sources import Source
    from costmodel.optimizers.recommend import Recommendation
    from costmodel.optimizers.schedule import Schedule
    from costmodel.optimizers.search import Cell, Choice, MethodSchedule

_RANGES = 8  # of a schedule that are said; files hold all


def print_answers(
    answers: "Sequence[CellAnswer]",
    unmet: Sequence[Mapping[str, Any]],
    inputs: Mapping[str, Any],
    out: Path | None,
    *,
    explain: bool = False,
) -> None:
    """Everything that `optimize` says on the screen.

    Args:
        answers: of the cells that have any.
        unmet: marked rows, of all cells.
        inputs: what was asked.
        out: folder of the files, or None.
        explain: say why each choice is the best and not its neighbours.
    """
    from app.answers.cells import several
    from app.answers.deployables import file_lines
    from app.questions.values import milliseconds
    from app.render.text import say
    from costmodel.answers.workload import Limits

    title = " on ".join(several(str(inputs[name]), name) for name in ("model", "device"))
    print_cells(
        [each.answer for each in answers],
        unmet,
        f"{title}, {several(inputs['engine'], 'engine')}: what to run at each batch",
        inputs,
    )
    limits = Limits(
        **{f"{name}_s": milliseconds(inputs[f"slo_{name}_ms"], name) for name in ("ttft", "tpot")}
    )
    if limits.limited:
        say(
            f"limits: {limits.words}, the first token being that of a prompt of the context's"
            " length"
        )
    if explain:
        for each in answers:
            print_neighbours(each.body["cells"], each.name)
    if len(answers) != 1 or answers[0].name:
        if out is not None and answers:
            say(
                f"files of every cell in a folder of its own below {out}, all rows in"
                f" {out / 'recommendations.json'}"
            )
        return
    print_counters(answers[0].body.get("counters"))
    print_answer(answers[0].answer)
    if out is not None:
        for line in file_lines(answers[0].entries, out):
            say(line)


def print_neighbours(cells: Sequence[Mapping[str, Any]], name: str) -> None:
    """Why each choice is the best, and not its neighbours.

    Args:
        cells: of the answer's object.
        name: of the answer among several; empty for the only one.
    """
    from app.render.html.neighbour_words import CAPTION, HEADS, neighbour_lines, neighbour_rows
    from app.render.text import print_table

    title = "why not its neighbours" + (
        f", {name.replace('--', ' on ', 1).replace('--', ', ')}" if name else ""
    )
    print_table(
        title, list(HEADS), neighbour_rows(cells), caption=CAPTION, once=("batch", "context", "run")
    )
    for line in neighbour_lines(cells):
        _say(line)


def print_counters(counters: Mapping[str, Any] | None) -> None:
    """What an engine's counters say of the draft length that runs.

    Args:
        counters: of the answer's object; None where none were given.
    """
    from app.render.html.counted_words import CAPTION, HEADS, counted_lines, counted_rows
    from app.render.text import print_table

    if counters is None:
        return
    print_table(
        "what runs, and what was counted", list(HEADS), counted_rows(counters), caption=CAPTION
    )
    for line in counted_lines(counters):
        _say(line)


def print_cells(
    answers: "Sequence[Recommendation]",
    rows: Sequence[Mapping[str, Any]],
    title: str,
    asked: Mapping[str, Any],
) -> None:
    """One table of the winner at every batch and context of every cell, and why others cannot be.

    Args:
        answers: one for each cell that has any.
        rows: marked batches and contexts, of all cells.
        title: of the table.
        asked: names as they were asked, which say the order.
    """
    from app.answers.cells import LISTED
    from app.answers.numbers import plain
    from app.cli.shown.marked import mark_words, say_marked
    from app.render.text import print_table
    from costmodel.answers.positions import context_remark

    lines: list[tuple[Mapping[str, Any], list[str]]] = []
    for answer in answers:
        where = answer.question.deployment
        named = {name: getattr(where, name) for name in LISTED}
        lines += [(named, _row(each, answer.names)) for each in answer.optimum.cells]
    lines += [
        (row, [plain(row["batch"]), plain(row["context"]), mark_words(row), *[""] * 5])
        for row in rows
    ]
    names = [name for name in LISTED if len({str(named[name]) for named, _ in lines}) > 1]
    order = {
        name: [*dict.fromkeys([*str(asked[name]).split(","), *(str(n[name]) for n, _ in lines)])]
        for name in names
    }

    def place(line: tuple[Mapping[str, Any], list[str]]) -> tuple[int, ...]:
        cell = [order[name].index(str(line[0][name])) for name in names]
        return (
            *cell,
            *(int(line[1][at].replace(",", "")) for at in (1, 0)),
        )  # by context, then batch

    lines.sort(key=place)
    columns = [
        *names,
        "batch",
        "context",
        "run",
        "tokens/step",
        "tokens/s",
        "speedup",
        "next best",
        "loses",
    ]
    shown = len(columns) - (2 if names else 0)  # of several cells the winners alone fit a page
    cells = [[*(str(named[name]) for name in names), *line][:shown] for named, line in lines]
    print_table(title, columns[:shown], cells, caption=_caption(answers), once=("context",))
    every = [each for answer in answers for each in answer.optimum.cells]
    beyond = dict.fromkeys(
        context_remark(each.winner.contender.setting.target, each.winner.context) for each in every
    )
    for line in (*_remarks(every), *filter(None, beyond)):
        _say(line)
    say_marked(rows, names)


def _remarks(cells: "Sequence[Cell]") -> list[str]:
    """One line about ties, and one about intervals that reach further to one side."""
    from app.answers.numbers import LOPSIDED, lopsided
    from costmodel.optimizers.margins import TIE_RATIO

    lines = []
    close = sorted(
        {c.winner.batch for c in cells if c.lost_ratio is not None and c.lost_ratio < TIE_RATIO}
    )
    if close:
        lines.append(
            f"a tie at batch {', '.join(f'{batch:,}' for batch in close)}: the next best loses less"
            f" than {100 * TIE_RATIO:.0f} %, which the prediction cannot tell apart"
        )
    if any(
        lopsided(c.winner.tokens_per_s, _bounds(c.winner.intervals.tokens_per_s)) for c in cells
    ):
        lines.append(LOPSIDED)
    return lines


def print_answer(answer: "Recommendation") -> None:
    """What the acceptance of an answer rests on, and its schedules.

    Args:
        answer: what was recommended.
    """
    from app.render.text import say

    for source, name, contender in zip(
        answer.sources, answer.names, answer.contenders, strict=True
    ):
        _say(f"{name}: {_drafts_with(source, answer)}{_rests_on(source)}")
        for remark in dict.fromkeys(
            candidate.remark for candidate in contender.candidates if candidate.remark
        ):
            _say(f"  {remark}")
    if any(best.acceptance.topology not in ("off", "chain") for best in answer.optimum.by_topology):
        from app.answers.drafting import who_wins

        for line in who_wins(answer.optimum.by_topology, answer.names):
            _say(line)
    for line in (*_margins(answer), *_schedules(answer), *_context_schedules(answer)):
        _say(line)
    if answer.optimum.dropped_batches:
        say(
            "left out, too large for memory: batch"
            f" {', '.join(map(str, answer.optimum.dropped_batches))}"
        )


def _margins(answer: "Recommendation") -> list[str]:
    """What ties with a winner and is simpler, and whether the recordings that chose are long
    enough.
    """
    from app.answers.numbers import plain
    from app.answers.optimize import margin

    cells = [(each.winner, margin(each, answer)) for each in answer.optimum.cells]
    contexts = len({winner.context for winner, _ in cells})
    lines = []

    def at(winner: "Choice") -> str:
        return f"batch {plain(winner.batch)}" + (
            f", context {plain(winner.context)}" if contexts > 1 else ""
        )

    ties = [(winner, each["tie"]) for winner, each in cells if each["tie"]]
    if ties:
        said = "; ".join(
            f"{at(w)}: {tie['draft']} loses {100 * tie['lost_ratio']:.1f} %"
            for w, tie in ties[:_RANGES]
        )
        more = f"; {len(ties) - _RANGES} more in the files" if len(ties) > _RANGES else ""
        lines.append(f"a tie, and simpler to run: {said}{more}")
    known = [(winner, each["recorded"]) for winner, each in cells if each["recorded"]]
    if known:
        worst, wanted = max(((w, r) for w, r in known), key=lambda pair: pair[1]["enough_tokens"])
        if wanted["enough"]:
            lines.append("recorded tokens are enough: more would hardly change tokens/s by 1 %")
        else:
            short = sum(not each["enough"] for _, each in known)
            lines.append(
                f"recorded tokens are few for {short} of {len(known)} choices: at {at(worst)}"
                f" another may be {100 * wanted['loss_ratio']:.1f} % faster, which some"
                f" {plain(wanted['enough_tokens'])} tokens would tell ({plain(wanted['tokens'])}"
                " are recorded)"
            )
    return lines


def _row(here: "Cell", names: Sequence[str]) -> list[str]:
    from app.answers.numbers import fixed, plain, ranged

    best, bounds = here.winner, here.winner.intervals
    lost = here.lost_ratio
    return [
        plain(best.batch),
        plain(best.context),
        _words(best, names),
        fixed(best.acceptance.tokens_per_step, 2),
        ranged(best.tokens_per_s, _bounds(bounds.tokens_per_s)),
        ranged(float(best.result.speedup), _bounds(bounds.speedup), 2),
        "" if here.runner_up is None else _words(here.runner_up, names),
        "" if lost is None else f"{fixed(100 * lost, 0)} %",
    ]


def _words(picked: "Choice", names: Sequence[str]) -> str:
    """A configuration in a cell: `eagle-3 K=6`, or `off` for no speculation."""
    from costmodel.draft_shape import shape_of

    drafted = str(shape_of(picked.acceptance))
    return drafted if picked.topology == "off" else f"{names[picked.contender.source]} {drafted}"


def _bounds(pair: Sequence[Any]) -> tuple[float, float]:
    return float(pair[0]), float(pair[1])


def _caption(answers: "Sequence[Recommendation]") -> str:
    """What the columns mean, once."""
    exact = any(s.positions is None for answer in answers for s in answer.sources)
    known = ", of the step's time alone where acceptance is known as numbers" if exact else ""
    return (
        "K: draft tokens per request and step; speedup against no speculation (off) at the same"
        " batch and context; loses: tokens/s of the next best against the first; brackets: 80 %"
        f" intervals{known}"
    )


def _drafts_with(source: "Source", answer: "Recommendation") -> str:
    """What a drafter is that nobody published, or whose weights the target's checkpoint lacks;
    empty for the others.
    """
    from app.answers.numbers import plain
    from costmodel.drafters.checkpoint import brings_its_head
    from hardware_profiles.units import MEGA

    if (own := source.own) is not None:
        passes = (
            f"{own.passes} pass{'es' if own.passes > 1 else ''} a step of"
            f" {plain(own.pass_bytes / MEGA)} MB"
        )
        return f"{passes}{f', {source.draft_model}' if source.draft_model else ''}, "
    model = answer.question.deployment.model
    if not brings_its_head(source.method, model):
        return ""
    return f"{source.draft_model or 'a head of yours'}, as the checkpoint of {model} holds none, "


def _rests_on(source: "Source") -> str:
    """Where a drafter's acceptance comes from, in words."""
    if source.trace is None:
        if source.kind == "stated":
            return f"acceptance stated as {source.about}"
        known = source.draft_model if source.draft_model != source.called else "a draft model"
        return f"{f'{known}, ' if known else ''}acceptance {source.label}"
    recorded = source.trace.provenance
    how = "recorded" if source.kind == "recorded" else "counted"
    label = (
        f"acceptance borrowed from {recorded.model}"
        if source.borrowed
        else f"{how} on {recorded.model}"
    )
    size = (
        f"{source.trace.positions:,} tokens"
        if source.kind == "recorded"
        else "counters without positions"
    )
    where = f" ({recorded.device or 'device unknown'})" if source.kind == "recorded" else ""
    return f"{label}: {source.path.name if source.path else source.about}, {size}{where}"


def _schedules(answer: "Recommendation") -> list[str]:
    """The draft length by batch of the drafter that wins at the smallest batch, at every
    context.
    """
    lines = []
    for found in answer.optimum.schedules:
        first = next(c.winner for c in answer.optimum.cells if c.winner.context == found.context)
        if first.topology == "off" or first.contender.source != found.source:
            continue
        ranges = _ranges_words(found.schedule)
        loss = (
            f"at most {100 * found.schedule.worst_loss_ratio:.1f} % slower than the best K of any"
            " batch"
        )
        name = answer.names[found.source]
        lines.append(f"schedule of {name} at context {found.context:,}: {ranges} ({loss})")
        lines += _against_table(answer, found)
    return lines


def _context_schedules(answer: "Recommendation") -> list[str]:
    """One schedule for all contexts, of the drafter that wins first, and what that costs: engines
    take no other key.
    """
    from costmodel.optimizers.context_schedules import context_schedules

    first = answer.optimum.cells[0].winner
    lines = []
    for found in context_schedules(answer.contenders, answer.optimum):
        if first.topology == "off" or first.contender.source != found.source:
            continue
        lost, own = (
            sum(each) / len(found.losses) for each in zip(*found.losses.values(), strict=True)
        )
        worst = found.worst_context
        most, most_own = found.losses[worst]
        name, ranges = answer.names[found.source], _ranges_words(found.schedule)
        lines.append(
            f"one schedule of {name} for all contexts, as engines choose K by batch alone: {ranges}"
            f" ({100 * lost:.1f} % slower on average than the best K, a schedule of each context"
            f" {100 * own:.1f} %; most at context {worst:,}: {100 * most:.1f} and"
            f" {100 * most_own:.1f} %)"
        )
    return lines


def _ranges_words(schedule: "Schedule") -> str:
    """The first ranges of a schedule: `K=5 at batch 1-16, K=0 at batch 17-64`."""
    spans = [(f"{low}-{high}" if high > low else f"{low}", k) for low, high, k in schedule.ranges]
    words = ", ".join(f"K={k} at batch {span}" for span, k in spans[:_RANGES])
    return words + (
        f", {len(spans) - _RANGES} more ranges in the files" if len(spans) > _RANGES else ""
    )


def _against_table(answer: "Recommendation", scheduled: "MethodSchedule") -> list[str]:
    """Why a schedule has another K than the table, where it has: what that costs, and what it is
    for.
    """
    from costmodel.answers.estimate import estimate

    told = []
    for cell in answer.optimum.cells:
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
        told.append(
            f"K={k} instead of {best.acceptance.draft_tokens} at batch {best.batch:,} "
            f"({100 * (1 - rate / best.tokens_per_s):.1f} % slower)"
        )
    return (
        [f"  fewer ranges than the table, since an engine pays for every change: {', '.join(told)}"]
        if told
        else []
    )


def _say(text: str) -> None:
    from app.answers.sentences import folded
    from app.render.text import say

    say(folded(text))
