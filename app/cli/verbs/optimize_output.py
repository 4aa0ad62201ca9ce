"""How `optimize` says on the screen what to run: one row a batch, then where its numbers come from and what to load."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from app.answers.deployables import Deployable
    from costmodel.optimizers.recommend import Recommendation
    from costmodel.optimizers.search import Cell, Choice
    from costmodel.optimizers.sources import Source

_WIDEST = 100


def print_answer(answer: "Recommendation", device: str, engine: str) -> None:
    """The winner at every batch and context, what its acceptance rests on, and its schedule.

    Args:
        answer: what was recommended.
        device: its name.
        engine: its name.
    """
    from app.cli.output import print_table, say

    cells = answer.optimum.cells
    columns = ["batch", "context", "run", "tokens/step", "tokens/s", "speedup", "next best", "loses"]
    print_table(
        f"{answer.question.deployment.model} on {device}, {engine}: what to run at each batch",
        columns, [_row(each, answer.names) for each in cells], caption=_caption(answer), once=("context",),
    )  # fmt: skip
    for source, name, contender in zip(answer.sources, answer.names, answer.contenders, strict=True):
        _say(f"{name}: {_rests_on(source)}")
        for remark in dict.fromkeys(candidate.remark for candidate in contender.candidates if candidate.remark):
            _say(f"  {remark}")
    if any(best.acceptance.topology not in ("off", "chain") for best in answer.optimum.by_topology):
        from app.answers.drafting import who_wins

        for line in who_wins(answer.optimum.by_topology, answer.names):
            _say(line)
    for line in _schedules(answer):
        _say(line)
    if answer.optimum.dropped_batches:
        say(f"left out, too large for memory: batch {', '.join(map(str, answer.optimum.dropped_batches))}")


def _row(here: "Cell", names: Sequence[str]) -> list[str]:
    from app.cli.formatting import fixed, plain, ranged

    best, bounds = here.winner, here.winner.intervals
    lost = here.lost_ratio
    return [
        plain(best.batch), plain(best.context), _words(best, names), fixed(best.acceptance.tokens_per_step, 2),
        ranged(best.tokens_per_s, _bounds(bounds.tokens_per_s)),
        ranged(float(best.result.speedup), _bounds(bounds.speedup), 2),
        "" if here.runner_up is None else _words(here.runner_up, names),
        "" if lost is None else f"{fixed(100 * lost, 0)} %",
    ]  # fmt: skip


def _words(picked: "Choice", names: Sequence[str]) -> str:
    """A configuration in a cell: `eagle-3 K=6`, or `off` for no speculation."""
    from app.answers.drafting import draft_words

    drafted = draft_words(picked.acceptance)
    return drafted if picked.topology == "off" else f"{names[picked.contender.source]} {drafted}"


def _bounds(pair: Sequence[Any]) -> tuple[float, float]:
    return float(pair[0]), float(pair[1])


def _caption(answer: "Recommendation") -> str:
    """What the columns mean, once."""
    exact = any(s.positions is None for s in answer.sources)
    known = ", of the step's time alone where acceptance is no recording" if exact else ""
    return (
        "K: draft tokens per request and step; speedup against no speculation (off) at the same batch and context; "
        f"loses: tokens/s of the next best against the first; brackets: 80 % intervals{known}"
    )


def _rests_on(source: "Source") -> str:
    """Where a drafter's acceptance comes from, in words."""
    if source.trace is None:
        if source.kind == "stated":
            return f"acceptance stated as {source.about}"
        known = source.draft_model if source.draft_model != source.called else "a draft model"
        return f"{f'{known}, ' if known else ''}acceptance {source.label}"
    recorded = source.trace.provenance
    label = f"acceptance borrowed from {recorded.model}" if source.borrowed else f"recorded on {recorded.model}"
    size = f"{source.trace.positions:,} tokens" if source.kind == "recorded" else "counters without positions"
    where = f" ({recorded.device or 'device unknown'})" if source.kind == "recorded" else ""
    return f"{label}: {source.path.name if source.path else source.method}, {size}{where}"


def _schedules(answer: "Recommendation") -> list[str]:
    """The draft length by batch of the drafter that wins at the smallest batch, at every context."""
    lines = []
    for found in answer.optimum.schedules:
        first = next(c.winner for c in answer.optimum.cells if c.winner.context == found.context)
        if first.topology == "off" or first.contender.source != found.source:
            continue
        spans = [(f"{low}-{high}" if high > low else f"{low}", k) for low, high, k in found.schedule.ranges]
        ranges = ", ".join(f"K={k} at batch {span}" for span, k in spans)
        loss = f"{100 * found.schedule.loss_ratio:.1f} % slower on average than the best K of every batch"
        name = answer.names[found.source]
        lines.append(f"schedule of {name} at context {found.context:,}: {ranges} ({loss})")
    return lines


def _say(text: str) -> None:
    from app.cli.output import say

    say(fill(text, _WIDEST, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False))


def print_files(
    entries: "Sequence[Deployable]", written: Mapping[str, Sequence[str]], out: Path, page: Path | None
) -> None:
    """What every engine loads, and where the answer and its page lie.

    Args:
        entries: one per engine.
        written: paths by engine.
        out: folder of the answer.
        page: the report; None where it could not be drawn.
    """
    from app.cli.output import say

    for entry in entries:
        if entry.result is None:
            say(f"{entry.engine}: nothing to load ({entry.reason})")
        else:
            say(f"{entry.engine} {entry.result.version}, {entry.content}: {', '.join(written[entry.engine])}")
            if entry.reason:
                _say(f"  not the fastest found: {entry.reason}")
            for note in entry.result.notes:
                if note.startswith(("replace ", "no draft model")):
                    _say(f"  {note}")
    say(f"answer: {out / 'recommendation.json'}")
    say(f"report: {page or 'not written, because plotly is missing (pip install rooftree[app])'}")
