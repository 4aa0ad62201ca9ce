"""What do a server's counters or its log mean for what it runs? What `optimize --metrics` answers,
on every page.

Leaves out how files are read without trusting them (`app.dashboard.uploads`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from app.answers.answer import Table
from app.answers.numbers import plain
from app.answers.optimize.counted_rows import ComparedLength, Counters, FlagsRow
from app.answers.optimize.counted_words import (
    CAPTION,
    EXPORTED,
    adapter_tables,
    compared_tables,
    counted_lines,
    counted_table,
    gain_words,
    length_words,
    options_title,
)
from app.answers.optimize.recommended import Recommended
from app.dashboard.answer import Change, Row
from app.dashboard.asking import Asked
from app.dashboard.held import OWN_FILE, model_name
from app.dashboard.question import PLAIN, where_asked
from app.dashboard.state import State, checked, with_values
from app.questions.optimize import OptimizeQuestion
from app.render.text import drawn
from costmodel.answers.settings import method_of
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.method_library import load_method
from costmodel.optimizers.drafters.default_drafters import default_drafters
from costmodel.optimizers.drafters.named_drafters import names_of
from costmodel.optimizers.drafters.sources import Source
from hardware_profiles.errors import InputError
from traces.importers.engines.ran import Running

BEFORE, AFTER = f"{OWN_FILE}-BEFORE", f"{OWN_FILE}-AFTER"
UNNAMED = (
    "Your server's counters do not say what drafted. Choose it, here or under Drafting, and they say"
    " whether to change the draft length."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangedOptions:
    """Options of the engine that change, to be copied.

    Args:
        title: what for.
        old: those that run; empty where they are not told.
        new: those in their place; empty where they are left out.
    """

    title: str
    old: str
    new: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerAnswer:
    """What is to be done with a server, and why.

    Args:
        headline: keep, change or cannot tell, in a sentence.
        command: the command line that gives the same answer of the person's own files.
        numbers: label and value with its unit.
        options: of the engine, the most important first.
        notes: what was counted, what is not known and what to measure next.
        tables: title and rows.
        changes: what drafts, where nothing tells.
    """

    headline: str
    command: str = ""
    numbers: Sequence[tuple[str, str]] = ()
    options: Sequence[ChangedOptions] = ()
    notes: Sequence[str] = ()
    tables: Sequence[tuple[str, Sequence[Row]]] = ()
    changes: Sequence[Change] = ()


def taken_from(state: State, running: Running) -> State:
    """A question with what a server says of itself: its engine, its model, what drafts, devices that
    share the model, and the requests of a step.

    Args:
        state: what was asked until now; it stays where the server says nothing, or what no control
            can say.
        running: what the server ran.
    """
    about = running.trace.provenance
    told = {
        "engine": running.engine,
        "model": _model(about.model),
        "method": _method(about.method),
        "tp": running.facts.tensor_parallel,
        "batch": None if running.batch is None else max(round(running.batch), 1),
    }
    for name, value in told.items():
        if value:
            try:
                state = with_values(state, {name: checked(name, str(value))})
            except InputError:
                continue  # no control can say it
    return state


def _model(label: str) -> str:
    try:
        return model_name(label) if label else ""
    except InputError:
        return ""


def _method(logged: str) -> str:
    try:
        return method_of(logged) if logged else ""
    except InputError:
        return ""


def asked_server(state: State, recording: Path) -> Asked:
    """What `optimize` is asked of a server.

    Args:
        state: the page's question.
        recording: of what the server counted.
    """
    needs_draft = bool(state.method) and load_method(state.method).needs_draft_model
    return Asked(
        verb=OptimizeQuestion,
        values={
            "metrics": (str(recording),),
            **where_asked(state),
            "tp": state.tp,  # stated, as the page says it
            "method": state.method,
            "draft": state.draft if needs_draft else None,
            "batch": str(state.batch),
            "context": str(state.context),
            "slo_tpot": state.slo_tpot,
            "slo_ttft": state.slo_ttft,
            "seed": state.seed,
        },
    )


def answer_server(state: State, running: Running, recording: Path) -> ServerAnswer:
    """Keep, change or cannot tell, the options to change, and what to measure next.

    Args:
        state: the page's question.
        running: what the server ran.
        recording: where that is kept.

    Raises:
        RooftreeError: it cannot be answered; the message says why.
    """
    if not state.method:
        return ServerAnswer(headline=UNNAMED, changes=_drafters(state))
    question = asked_server(state, recording)
    answer = question.answer()
    answer.require()
    assert isinstance(answer, Recommended)
    counters = answer.rankings.counters
    assert counters is not None
    files = (OWN_FILE,) if len(running.files) == 1 else (BEFORE, AFTER)
    return ServerAnswer(
        headline=f"{counters.headline[:1].upper()}{counters.headline[1:]}.",
        command=question.changed(metrics=files).line,
        numbers=_numbers(counters),
        options=[_options(counters, row) for row in counters.flags],
        notes=[
            *(line for line in counted_lines(counters) if line != counters.headline),
            *_exported(counters),
        ],
        tables=[
            _rows(table)
            for table in (
                *compared_tables(counters),
                counted_table(counters),
                *adapter_tables(counters),
            )
        ],
    )


def _drafters(state: State) -> list[Change]:
    """The drafters that are known for a model, a press each."""
    where = DeploymentNames(model=state.model)
    try:
        _, sources = default_drafters(DecodingConfiguration(method=PLAIN, deployment=where))
    except InputError:
        return []
    return [
        Change(label=name, values={"method": source.method, "draft": _draft_model(source)})
        for name, source in zip(names_of(sources), sources, strict=True)
    ]


def _draft_model(source: Source) -> str:
    """The draft model of a drafter, where the control of it takes one."""
    named = source.draft_model if load_method(source.method).needs_draft_model else None
    return named or ""


def _numbers(counters: Counters) -> list[tuple[str, str]]:
    """What runs, what should, and the gain."""
    labels = {"runs now": "Runs now", "should run": "Should run"}
    if any(row.answer == "unsure" for row in counters.verdicts):
        labels["should run"] = "Might be faster"
    numbers = [(labels[row.which], _speed(row)) for row in counters.compared]
    if gain := gain_words(counters):
        numbers.append(("Gain (80 % interval)", gain))
    return numbers


def _speed(row: ComparedLength) -> str:
    speed = "does not fit" if row.tokens_per_s is None else f"{plain(row.tokens_per_s)} tokens/s"
    return (
        f"{length_words(row.draft_tokens)}: {row.tokens_per_step:.2f} tokens per step, {speed} at"
        f" batch {row.batch:,}"
    )


def _options(counters: Counters, row: FlagsRow) -> ChangedOptions:
    title = options_title(counters, row)
    return ChangedOptions(title=f"{title[:1].upper()}{title[1:]}", old=row.old or "", new=row.new)


def _exported(counters: Counters) -> list[str]:
    return [f"Options: {EXPORTED}"] if any(r.stated_by == "export" for r in counters.flags) else []


def _rows(table: Table) -> tuple[str, list[Row]]:
    """A table of the command line, for the page."""
    words = drawn(table)
    rows: list[Row] = [dict(zip(words.heads, cells, strict=True)) for cells in words.cells]
    caption = f" ({CAPTION})" if table.caption == CAPTION else ""
    return f"{table.title}{caption}", rows
