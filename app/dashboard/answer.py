"""What does a page of the dashboard show, whatever draws it?

An `PageAnswer` holds words, numbers, figures in Plotly's JSON form, tables and files. Leaves out
Streamlit.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from app.answers.answer import Answer
from app.answers.scoring.certainty import Certainty
from app.dashboard.question import scenario
from costmodel.answers.estimate import Setting
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration
from traces.library import trace_name

__all__ = [
    "Card",
    "Change",
    "DeferredAnswer",
    "EngineStart",
    "Figure",
    "HowSure",
    "PageAnswer",
    "Row",
    "lower",
    "scenario",
    "setting_of",
    "shown_path",
]

LOW_PIXELS = 250
Figure = dict[str, Any]
Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Card:
    """A figure with a title and what to read in it.

    Where a point of the figure has `customdata`, a press on it does something: a text that begins
    as the query of an address (`?batch=64`, `changes.asks`) asks another question, another one is
    shown to be copied. A map whose axes count places has the axes' values in `meta`.

    Args:
        title: what it shows.
        note: what to read in it.
        figure: in Plotly's JSON form.
        press: what a press on a point does, in a sentence; empty: nothing.
    """

    title: str
    note: str
    figure: Figure
    press: str = ""


def lower(card: Card, height: int = LOW_PIXELS) -> Card:
    """A card whose figure is so many pixels high: pages of several are to be seen without much
    scrolling.
    """
    layout = {**card.figure["layout"], "height": height}
    return replace(card, figure={**card.figure, "layout": layout})


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """Another question that one press asks.

    Args:
        label: what it changes, as `tp 4`.
        values: of fields of the state, checked.
    """

    label: str
    values: Mapping[str, str | int | float]


@dataclass(frozen=True, kw_only=True, slots=True)
class HowSure:
    """How sure an answer is, as a page says it.

    Args:
        verdict: in a word or two.
        colour: of its chip: green, orange or red.
        brief: how far off predictions were of the nearest runs, without a full stop.
        sentence: why, with these runs and their sources, without a full stop; behind a fold.
        more: what the page that says more is called.
        address: of that page, relative to the page.
    """

    verdict: str
    colour: str
    brief: str
    sentence: str
    more: str
    address: str


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineStart:
    """What starts an engine with a configuration.

    Args:
        title: what it runs.
        command: shell line, to be run beside the files.
        files: relative name to text.
    """

    title: str
    command: str
    files: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class DeferredAnswer:
    """The part of an answer that is computed after the rest has been drawn, because it takes too
    long for a slider.

    Args:
        notes: sentences.
        cards: figures.
        tables: title and rows, as those of an answer.
        changes: other questions worth asking.
        engines: what starts the engine otherwise, beside what the answer names.
    """

    notes: Sequence[str] = ()
    cards: Sequence[Card] = ()
    tables: Sequence[tuple[str, Sequence[Row]]] = ()
    changes: Sequence[Change] = ()
    engines: Sequence[EngineStart] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class PageAnswer:
    """One page's answer.

    Args:
        headline: in one sentence.
        command: the command line that gives the same answer.
        engines: what starts the engine so, to be copied; none where there is none.
        changes: other questions worth asking, where this one cannot be answered as it stands.
        numbers: label and value with its unit, the most important first.
        cards: figures.
        tables: title and rows; every row has the same columns, units in their names.
        files: name of what can be downloaded beside the configuration, and what makes its content
            when it is asked for.
        notes: what the answer rests on or leaves out.
        deferred: computes the rest of the answer; None where there is no rest.
        behind: computes what stands behind the page's fold alone, which nobody waits for while it
            is closed; None where that is computed anyway.
        own_file: it is made of an uploaded file, which no cache for all sessions may hold.
        sure: how sure the verb says that it is; None: it says nothing of it.
        command_answer: what the command line answers, for its rows; None: a command that
            measures, or that compares recordings of which one is the session's.
    """

    headline: str
    command: str
    engines: Sequence[EngineStart] = ()
    changes: Sequence[Change] = ()
    numbers: Sequence[tuple[str, str]] = ()
    cards: Sequence[Card] = ()
    tables: Sequence[tuple[str, Sequence[Row]]] = ()
    files: Mapping[str, Callable[[], bytes]] = field(default_factory=dict)
    notes: Sequence[str] = ()
    deferred: Callable[[], DeferredAnswer] | None = None
    behind: Callable[[], DeferredAnswer] | None = None
    own_file: bool = False
    sure: Certainty | None = None
    command_answer: Callable[[], Answer] | None = None


@lru_cache(maxsize=512)
def setting_of(configuration: DecodingConfiguration) -> Setting:
    """The setting of a scenario, read from the catalogues once.

    Raises:
        InputError: options that exclude each other.
        InfeasibleError: a device that cannot run the model.
    """
    return build_setting(configuration)


def shown_path(path: Path) -> str:
    """A path for a command line: the name of a shipped recording, else relative to the current
    folder where inside.
    """
    if (name := trace_name(path)) != str(path):
        return name
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
