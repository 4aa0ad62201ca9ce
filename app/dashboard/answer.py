"""What does a page of the dashboard show, whatever draws it?

An `Answer` holds words, numbers, figures in Plotly's JSON form, tables and files. Leaves out Streamlit.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from app.dashboard.state import State, overrides
from costmodel.answers.estimate import Setting
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from hardware_profiles.errors import InputError
from traces.library import shipped_traces

Figure = dict[str, Any]
Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Card:
    """A figure with a title and what to read in it."""

    title: str
    note: str
    figure: Figure


@dataclass(frozen=True, kw_only=True, slots=True)
class DeferredAnswer:
    """The part of an answer that is computed after the rest has been drawn, because it takes too long for a slider.

    Args:
        notes: sentences.
        cards: figures.
        tables: title and rows, as those of an answer.
    """

    notes: Sequence[str] = ()
    cards: Sequence[Card] = ()
    tables: Sequence[tuple[str, Sequence[Row]]] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """One page's answer.

    Args:
        headline: in one sentence.
        command: the command line that gives the same answer.
        numbers: label and value with its unit, the most important first.
        cards: figures.
        tables: title and rows; every row has the same columns, units in their names.
        files: name of what can be downloaded beside the configuration, and what makes its content when it is asked for.
        notes: what the answer rests on or leaves out.
        deferred: computes the rest of the answer; None where there is no rest.
        own_file: it is made of an uploaded file, which no cache for all sessions may hold.
    """

    headline: str
    command: str
    numbers: Sequence[tuple[str, str]] = ()
    cards: Sequence[Card] = ()
    tables: Sequence[tuple[str, Sequence[Row]]] = ()
    files: Mapping[str, Callable[[], bytes]] = field(default_factory=dict)
    notes: Sequence[str] = ()
    deferred: Callable[[], DeferredAnswer] | None = None
    own_file: bool = False


def scenario(state: State, *, method: str | None = None, changed: bool = False) -> DecodingConfiguration:
    """The cost model's question of a state.

    Args:
        state: the page's question.
        method: instead of the state's.
        changed: with the state's factors on the device.
    """
    from costmodel.method_library import load_method

    slug = state.method if method is None else method
    drafts = load_method(slug).needs_draft_model
    return DecodingConfiguration(
        method=slug, draft_model=(state.draft or None) if drafts else None,
        deployment=DeploymentNames(
            model=state.model, device=state.device, engine=state.engine, dtype=state.dtype or None,
            tensor_parallel=state.tp, overrides=overrides(state) if changed else (),
        ),
    )  # fmt: skip


@lru_cache(maxsize=128)
def setting_of(asked: DecodingConfiguration) -> Setting:
    """The setting of a scenario, read from the catalogues once.

    Raises:
        InputError: options that exclude each other.
        InfeasibleError: a device that cannot run the model.
    """
    return build_setting(asked)


def options(asked: DecodingConfiguration) -> dict[str, object]:
    """Options of the command line that name a scenario, without what is the default anyway."""
    where = asked.deployment
    return {
        "model": where.model, "device": where.device, "engine": where.engine, "dtype": where.dtype,
        "tp": where.tensor_parallel if where.tensor_parallel > 1 else None, "draft": asked.draft_model,
        "set": where.overrides,
    }  # fmt: skip


def trace_path(name: str) -> Path:
    """The file of a shipped recording.

    Raises:
        InputError: there is none of this name.
    """
    for path in shipped_traces():
        if path.stem == name:
            return path
    raise InputError("is no shipped recording", key="trace", value=name)


def shown_path(path: Path) -> str:
    """A path for a command line: relative to the current folder where it lies inside."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
