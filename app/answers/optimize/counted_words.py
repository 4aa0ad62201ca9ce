"""How is it said what an engine's counters mean for its draft length? The same words on the screen
and in a report.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from app.answers.answer import Column, Row, Table, columns_of
from app.answers.estimates import Interval
from app.answers.numbers import plain
from app.answers.optimize.counted_rows import CountedVerdict, Counters, FlagsRow, NextRunRow
from hardware_profiles.units import MILLI

CAPTION = (
    "best: of the draft lengths that counters tell of; gain: of its tokens per second on what runs,"
    " 80 % intervals of counts and cost model, and of counts alone; unknown: the most that lengths"
    " which counters do not tell could gain on the best"
)
_NAMES = {"vllm": "vLLM", "sglang": "SGLang", "tensorrt-llm": "TensorRT-LLM"}
EXPORTED = (
    "written for this method, as nothing tells the options that run: keep your own drafter and"
    " whatever else you set"
)
_PURPOSES = {"change": "to run {}", "measure": "to measure {}"}
_DO = {"keep": "keep", "change": "change", "unsure": "cannot tell"}
_REASONS = {
    "never drafted": "was never drafted",
    "mean alone": "is not known: these counters tell the mean of the length in use alone",
    "mixed lengths": "is known too low, since drafts of several lengths were counted together",
    "few steps": "rests on too few steps",
    "cost model": "is known by counts, and the cost model cannot tell which is faster",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class VerdictWords(Row):
    """A verdict as a table shows it."""

    batch: Annotated[str, Column("Requests that decode together.")]
    context: Annotated[str, Column("Cached tokens per request.")]
    runs: Annotated[str, Column("What runs.")]
    tokens_per_s: Annotated[str, Column("Its tokens/s.", "tokens/s")]
    best: Annotated[str, Column("Best length of which counters tell.")]
    gain: Annotated[str, Column("What it gains.", "gain %")]
    gain_of_counts: Annotated[str, Column("Its interval of counts.", "by counts alone")]
    unknown: Annotated[str, Column("The most that unknown lengths could gain.")]
    do: Annotated[str, Column("What to do.")]


def counted_table(counters: Counters) -> Table:
    """A row a batch and context: what runs, what is best of what is counted, and what to do."""
    return Table(
        title="what runs, and what was counted",
        rows=[_row(verdict) for verdict in counters.verdicts],
        columns=list(columns_of(VerdictWords)),
        caption=CAPTION,
    )


def _row(verdict: CountedVerdict) -> VerdictWords:
    runs = verdict.in_use_tokens_per_s
    alone = runs is None or verdict.best_draft_tokens == verdict.in_use_draft_tokens
    return VerdictWords(
        batch=f"{verdict.batch:,}{' (now)' if verdict.runs_now else ''}",
        context=f"{verdict.context:,}",
        runs=length_words(verdict.in_use_draft_tokens),
        tokens_per_s=plain(runs) if runs else "does not fit",
        best=length_words(verdict.best_draft_tokens),
        gain="" if alone else _gain(verdict.gain_ratio, verdict.gain_ratio_interval),
        gain_of_counts="" if alone else _span(verdict.gain_ratio_interval_of_counts),
        unknown=_percent(verdict.unknown_gain_ratio),
        do=_DO[verdict.answer] + ("" if verdict.suffices else ", measure"),
    )


def adapter_tables(counters: Counters) -> list[Table]:
    """A row an adapter, batch and context; none where nothing tells of adapters."""
    if not counters.adapters:
        return []
    columns = ["adapter", "steps", "tokens_per_step", "in_use_draft_tokens"]
    return [
        Table(
            title="by adapter",
            rows=counters.adapters,
            columns=[*columns, "batch", "context", "best_draft_tokens", "gain", "answer"],
            caption=(
                "best K: of the lengths that counts tell of, were all requests of this adapter; what"
                " an adapter's own weights take is not priced"
            ),
            once=columns[1:1],
        )
    ]


def counted_lines(counters: Counters) -> list[str]:
    """What runs, whether to change it, what cannot be known, and what to measure next: a sentence
    each.
    """
    return [
        *_running(counters),
        *counters.remarks,
        *_verdict_lines(counters),
        *_adapter_lines(counters),
        *_next_lines(counters),
    ]


def length_words(draft_tokens: int) -> str:
    """`K=3`, or `off`."""
    return f"K={draft_tokens}" if draft_tokens else "off"


def _running(counters: Counters) -> list[str]:
    """What the counters say of what runs."""
    now, engine = counters.in_use, _NAMES.get(counters.engine, counters.engine)
    lengths = f"K={now.draft_tokens}"
    if now.mixed:
        lengths = (
            f"drafts of up to {now.draft_tokens} tokens, {plain(now.mean_draft_tokens)} on average"
        )
    low, high = now.tokens_per_step_interval
    sure = f" [{low:.3f}, {high:.3f}]" if now.steps else ", over steps that were not counted"
    steps = f"{now.steps:,} drafts" if now.steps else "drafts"
    when = " since it started" if len(counters.scrapes) == 1 else ""
    if counters.reported_by != "counters":
        when = f" in its {counters.reported_by}"
    words = f"{engine} ran {lengths}{when}: {steps}, "
    words += f"{now.tokens_per_step:.3f} tokens per step{sure}"
    if now.batch is not None:
        words += f", {plain(now.batch)} requests a step ({now.batch_from})"
    lines = [words]
    if now.tpot_s is not None and now.predicted_tpot_s is not None:
        error = now.predicted_tpot_s / now.tpot_s - 1.0
        teller = "its log tells" if counters.reported_by == "log" else "it states"
        lines.append(
            f"{teller} {plain(now.tpot_s / MILLI)} ms per output token; predicted there:"
            f" {plain(now.predicted_tpot_s / MILLI)} ms ({error:+.0%}), prompts that share"
            " steps apart"
        )
    if now.prompt_tokens is not None and now.output_tokens is not None:
        context = now.prompt_tokens + now.output_tokens / 2.0
        lines.append(
            f"its requests had {plain(now.prompt_tokens)} prompt and"
            f" {plain(now.output_tokens)} output tokens on average: --context {context:.0f}"
            " would be theirs"
        )
    return lines


def verdict_sentences(rows: Sequence[CountedVerdict]) -> list[str]:
    """Keep, change or cannot tell, with the gain: a sentence for the rows of every answer.

    Args:
        rows: at the batch that runs, or at all of them where none is known.
    """
    lines = []
    for answer in ("change", "unsure", "keep"):
        alike = [verdict for verdict in rows if verdict.answer == answer]
        if alike:
            first = max(alike, key=lambda verdict: verdict.gain_ratio or 0.0)
            batches = sorted({verdict.batch for verdict in alike})
            where = f"at batch {', '.join(f'{batch:,}' for batch in batches)}"
            lines.append(_sentence(answer, first, where))
    return lines


def _sentence(answer: str, first: CountedVerdict, where: str) -> str:
    use, best = length_words(first.in_use_draft_tokens), length_words(first.best_draft_tokens)
    gain = _gain(first.gain_ratio, first.gain_ratio_interval)
    if answer == "keep" and best != use and gain:
        return f"keep {use} {where}: {best} would gain {gain}, which is less than 1 %"
    if answer == "keep":
        return f"keep {use} {where}: of the lengths that were counted none is faster by 1 %"
    verb = "change: run" if answer == "change" else "cannot tell whether to run"
    if not gain:
        return f"{verb} {best} instead of {use} {where}: which does not fit"
    return (
        f"{verb} {best} instead of {use} {where}: it gains {gain}, and is faster with probability"
        f" {first.faster_probability:.2f}"
    )


def _verdict_lines(counters: Counters) -> list[str]:
    """What to do at the batch that runs, or at all of them where none is known."""
    rows = [verdict for verdict in counters.verdicts if verdict.runs_now] or counters.verdicts
    enough = counters.suffices_now
    words = "the counters suffice" if enough else "the counters do not suffice"
    why = "more counts could not move the speed by 1 %" if enough else _missing(rows)
    return [*verdict_sentences(rows), f"{words}: {why}"]


def compared_tables(counters: Counters) -> list[Table]:
    """What runs beside what should; none where they are the same."""
    if len(counters.compared) < 2:
        return []
    columns = ["which", "batch", "context", "draft_tokens", "tokens_per_step", "tokens_per_s"]
    return [
        Table(
            title="what runs beside what should",
            rows=counters.compared,
            columns=columns,
            once=["batch", "context"],
        )
    ]


def options_title(counters: Counters, row: FlagsRow) -> str:
    """Whose options they are, and what for."""
    engine = _NAMES.get(counters.engine, counters.engine)
    return f"options of {engine} {_PURPOSES[row.purpose].format(length_words(row.draft_tokens))}"


def gain_words(counters: Counters) -> str:
    """What the length that should run gains on the one that runs; empty where that is kept."""
    if len(counters.compared) < 2:
        return ""
    at = counters.compared[0]
    (row,) = (r for r in counters.verdicts if (r.batch, r.context) == (at.batch, at.context))
    return _gain(row.gain_ratio, row.gain_ratio_interval) or "the one that runs does not fit"


def flag_lines(counters: Counters) -> list[str]:
    """The options of the engine as they run and as they should, a line each, to be copied whole."""
    lines = []
    for row in counters.flags:
        lines.append(f"{options_title(counters, row)}:")
        lines += [f"  - {row.old}"] if row.old else []
        lines.append(f"  + {row.new or '(without them)'}")
    if any(row.stated_by == "export" for row in counters.flags):
        lines.append(f"  {EXPORTED}")
    return lines


def _adapter_lines(counters: Counters) -> list[str]:
    """That one length serves several adapters, and which length each would run."""
    lines = []
    for batch, context in dict.fromkeys((row.batch, row.context) for row in counters.adapters):
        rows = [row for row in counters.adapters if (row.batch, row.context) == (batch, context)]
        lengths = {
            length: [row.adapter for row in rows if row.best_draft_tokens == length]
            for length in sorted({row.best_draft_tokens for row in rows})
        }
        if len(lengths) > 1:
            own = "; ".join(
                f"{length_words(length)} of {', '.join(names)}" for length, names in lengths.items()
            )
            lines.append(
                f"adapters differ at batch {batch:,}, context {context:,}: {own}; a server that runs"
                " one length for all of them gives that up"
            )
    return lines


def _missing(rows: Sequence[CountedVerdict]) -> str:
    """What could still move the speed."""
    unknown = max(rows, key=lambda verdict: verdict.unknown_gain_ratio)
    few = max(rows, key=lambda verdict: verdict.counts_loss_ratio)
    parts = []
    if unknown.unknown_gain_ratio > 0.01:
        law = ""
        if unknown.law_gain_ratio > 0.0:
            law = (
                f", or {_percent(unknown.law_gain_ratio)} by K={unknown.law_best_draft_tokens} if"
                " deeper drafts are accepted as the counted ones are"
            )
        parts.append(
            f"K={unknown.unknown_draft_tokens} would gain {_percent(unknown.unknown_gain_ratio)} at"
            f" batch {unknown.batch:,} if all deeper drafts were accepted{law}"
        )
    if few.counts_loss_ratio > 0.01:
        parts.append(
            f"so few steps may hide a loss of {_percent(few.counts_loss_ratio)} at batch"
            f" {few.batch:,}, one time in ten"
        )
    return "; ".join(parts)


def _next_lines(counters: Counters) -> list[str]:
    """What to measure next."""
    batch = counters.in_use.batch
    return [_next_line(run, batch) for run in counters.next]


def _next_line(run: NextRunRow, batch: float | None) -> str:
    length, why = f"K={run.draft_tokens}", _REASONS[run.reason]
    if not run.steps:
        return (
            f"measure next: the time of steps at {length} and at what runs, at batch"
            f" {run.batch:,} (rooftree validate --server URL); {length} {why}"
        )
    steps = f", about {run.steps / batch:,.0f} steps of the engine" if batch and batch > 1 else ""
    return (
        f"measure next: run {length} for {run.steps:,} drafts{steps}: then its tokens per step"
        f" are known to {_percent(run.interval_ratio)} either way. That length {why}"
    )


def _gain(ratio: float | None, span: Interval | None) -> str:
    return "" if ratio is None else f"{_percent(ratio)} {_span(span)}"


def _span(span: Interval | None) -> str:
    return f"[{', '.join(f'{100 * end:.1f}' for end in span or ())}]"


def _percent(ratio: float) -> str:
    return f"{100 * ratio:.{1 if abs(ratio) < 0.1 else 0}f} %"
