"""Which configuration should be run? The question goes to the search that it asks for."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from app.answers.answer import Answer
from app.answers.optimize.drafts import draft_shapes, search_drafts
from app.cli.output import Answered
from app.questions.groups import (
    AcceptanceOptions,
    DraftingOptions,
    JointOptions,
    RefiningOptions,
    StoredOptions,
    values_in,
)
from app.questions.optimize import OptimizeQuestion
from app.questions.resolve.accepted import draft_lengths
from app.questions.resolve.refining import refines
from hardware_profiles.errors import InputError


def answer(question: OptimizeQuestion) -> Answer | Answered:
    """Search policies of masked blocks, whole deployments, or drafters and their drafts.

    Raises:
        InputError: options that go with another search, or a value that makes no sense.
    """
    refining = values_in(RefiningOptions, question)
    if refines(question.method, refining | {"quality-floor": question.quality_floor}):
        return _masked(question)
    if _is_full(question):
        return _full(question)
    return search_drafts(question)


def _is_full(question: OptimizeQuestion) -> bool:
    """Whether whole deployments are searched.

    Raises:
        InputError: options that go with the other search, or `--search` is neither.
    """
    if question.search not in ("drafts", "full"):
        raise InputError("must be drafts or full", key="--search", value=question.search)
    full = question.search == "full"
    for part in () if full else fields(JointOptions):
        if (value := getattr(question, part.name)) != part.default:
            raise InputError(
                "goes with --search full",
                key=f"--{part.name.replace('_', '-')}",
                value=str(value),
            )
    of_drafts = {
        "--stop": question.stop,
        "--metrics": question.metrics or question.after,
        "--explain": question.explain,
    }
    for option, value in of_drafts.items():
        if full and value:
            raise InputError("goes with --search drafts", key=option, value=str(value))
    return full


def _where(question: OptimizeQuestion) -> Mapping[str, Any]:
    """What both other searches are told of where it runs."""
    names = ("method", "pp", "ep", "dp", "fidelity", "model", "seed")
    return {
        **values_in(StoredOptions, question),
        **values_in(DraftingOptions, question),
        **{name: getattr(question, name) for name in names},
    }


def _masked(question: OptimizeQuestion) -> Answered:
    from app.cli.verbs.optimize_refining import optimize_refining, refuse_drafting

    drafts = ("shape", "draft_tokens", "stop", "slo_ttft", "slo_tpot")
    accepted = AcceptanceOptions(**values_in(AcceptanceOptions, question))
    options = {**_where(question), "batch": question.batch, "context": question.context}
    refuse_drafting(options | {name: getattr(question, name) for name in drafts}, accepted)
    refining = RefiningOptions(**values_in(RefiningOptions, question))
    floor, files = question.quality_floor, _files(question)
    return optimize_refining(options, refining, question.trace or (), floor, files)


def _full(question: OptimizeQuestion) -> Answered:
    from app.cli.verbs.optimize_joint import DraftSources, full_search

    sources = DraftSources(
        method=question.method,
        trace=question.trace or (),
        lengths=draft_lengths(question.draft_tokens, least=1),
        trees=question.tree_nodes,
        shapes=draft_shapes(question, "draft_tokens"),
    )
    return full_search(
        JointOptions(**values_in(JointOptions, question)),
        {**_where(question), "slo_ttft": question.slo_ttft, "slo_tpot": question.slo_tpot},
        AcceptanceOptions(**values_in(AcceptanceOptions, question)),
        sources,
        _files(question),
    )


def _files(question: OptimizeQuestion) -> dict[str, Any]:
    return {name: getattr(question, name) for name in ("json", "out", "csv", "quiet")}
