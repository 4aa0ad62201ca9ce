"""Which of the configurations found can each engine load, and in what files?

For every engine the fastest method that it can express, as its batch schedule where it reads one, else as the
draft length of the smallest batch. Leaves out how a format looks (`exporters`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from app.answers import exit_layers
from app.exporters.choice import DecodingChoice
from app.exporters.registry import ENGINES, export, write_export
from app.exporters.result import ExportResult
from costmodel.acceptance import Acceptance
from costmodel.drafter import EXIT_RATIO
from costmodel.estimate import estimate
from costmodel.method_library import load_method
from costmodel.model_library import hub_id, load_model
from costmodel.optimizers.recommend import Recommendation
from costmodel.optimizers.search import Choice
from hardware_profiles.errors import InputError
from traces.tree import Tree

EXPORT_NAMES = {"none": "plain", "ngram": "ngram", "draft_model": "draft_model", "eagle3": "eagle3",
                "medusa": "medusa", "mtp": "mtp", "early_exit": "early_exit"}  # fmt: skip
DRAFT_PLACEHOLDER = "PATH_OF_THE_DRAFT_MODEL"


@dataclass(frozen=True, kw_only=True, slots=True)
class Deployable:
    """What an engine can load of a recommendation, and what it cannot (`reason`); `result` is None for nothing."""

    engine: str
    result: ExportResult | None
    content: str = ""
    reason: str = ""


def deployables(answer: Recommendation, *, draft: str | None, context: int) -> list[Deployable]:
    """One entry per engine, for the choices at `context`.

    Args:
        answer: what was found.
        draft: hub id or path of the draft model or head, where the method has one.
        context: the context whose schedule is exported.
    """
    return [_deployable(answer, engine, draft, context) for engine in ENGINES]


def write_all(entries: list[Deployable], folder: Path) -> dict[str, list[str]]:
    """Write every engine's files to a folder of its own; engine to paths."""
    written: dict[str, list[str]] = {}
    for entry in entries:
        if entry.result is not None:
            paths = write_export(entry.result, folder / entry.engine)
            written[entry.engine] = [str(path) for path in paths]
    return written


def _deployable(answer: Recommendation, engine: str, draft: str | None, context: int) -> Deployable:
    reasons = []
    for choice in _by_speed(answer, context):
        method = load_method(choice.contender.method)
        if choice.topology != "off" and engine not in method.engines:
            reasons.append(f"{method.slug}: not in {engine}")
            continue
        for candidate, approximate in product(_variants(answer, choice, draft), (False, True)):
            try:
                found = export(candidate, engine, approximate=approximate)
            except InputError as error:
                reasons.append(f"{method.slug}: {error.message}")
            else:
                because = "; ".join(dict.fromkeys(reasons))
                return Deployable(engine=engine, result=found, content=_content(candidate, approximate), reason=because)
    return Deployable(engine=engine, result=None, reason="; ".join(dict.fromkeys(reasons)))


def _content(exported: DecodingChoice, approximate: bool) -> str:
    """What the files hold, in words."""
    if not exported.speculates:
        return "plain decoding"
    nearly = " (approximation, see its notes)" if approximate else ""
    if exported.varies:
        return f"{exported.method}, draft length by batch{nearly}"
    return f"{exported.method}, {exported.topology} of {exported.draft_tokens} draft tokens{nearly}"


def _by_speed(answer: Recommendation, context: int) -> list[Choice]:
    """Choices at the smallest batch of a context, fastest first."""
    return list(next(ranked for ranked in answer.optimum.ranked if ranked[0].context == context))


def _variants(answer: Recommendation, choice: Choice, draft: str | None) -> Iterator[DecodingChoice]:
    """The choice as a schedule over batches, then as one tree or draft length for its batch."""
    method = load_method(choice.contender.method)
    recorded = answer.source(choice)
    setting = choice.contender.setting
    plain = DecodingChoice(
        model=hub_id(answer.scenario.model),
        context=max(choice.context, 1),
        tensor_parallel=setting.deployment.tensor_parallel,
        provenance={
            "device": setting.device.name,
            "trace": recorded.path.name,
            "acceptance": "borrowed" if recorded.borrowed else "recorded on this model",
            "tokens_per_step": f"{choice.acceptance.tokens_per_step:.3f}",
            "speedup": f"{float(choice.result.speedup):.2f} at batch {choice.batch}",
        },
    )
    needs_draft = method.drafter in ("draft_model", "eagle3", "medusa")
    named = replace(
        plain,
        method=EXPORT_NAMES[method.drafter],
        draft_model=(draft or DRAFT_PLACEHOLDER) if needs_draft else None,
        exit_layers=exit_layers(setting),
    )
    for found in answer.optimum.schedules:
        if found.method == choice.contender.method and found.context == choice.context:
            most = max(k for _, _, k in found.schedule.ranges)
            if most > 0:
                yield replace(named, draft_tokens=most, topology="chain", schedule=found.schedule.ranges)
    if choice.topology == "off":
        yield plain
    elif choice.acceptance.tree is not None:
        shape = choice.acceptance.tree.to_json()
        yield replace(named, draft_tokens=choice.acceptance.draft_tokens, topology="tree", tree=shape)
    else:
        yield replace(named, draft_tokens=choice.acceptance.draft_tokens, topology="chain")
    if choice.topology == "tree":
        yield replace(named, draft_tokens=_best_chain(choice), topology="chain")


def _best_chain(choice: Choice) -> int:
    """The draft length of the fastest chain at a choice's batch and context, for engines without trees."""
    chains = [a for a in choice.contender.candidates if a.tree is None and a.draft_tokens]

    def rate(candidate: Acceptance) -> float:
        point = estimate(choice.contender.setting, candidate, batch=choice.batch, context=choice.context)
        return float(point.tokens_per_s)

    return max(chains, key=rate).draft_tokens


def stated_choice(fields: Mapping[str, Any], *, draft: str | None) -> DecodingChoice:
    """A choice from the fields of an answer of `optimize`, or from options that state one.

    Args:
        fields: model, method, and draft_tokens, a tree, or a schedule; context, tensor_parallel, batch and
            exit_layers and provenance where known.
        draft: draft model or head, for methods that have one.

    Raises:
        InputError: a field that is missing or contradicts another.
    """
    slug = fields.get("method") or "plain-decoding"
    method = load_method(str(slug))
    schedule = tuple((int(low), int(high), int(k)) for low, high, k in fields.get("schedule") or ())
    shape = Tree.from_json(fields["tree"]) if fields.get("tree") and not schedule else None
    most = max((k for _, _, k in schedule), default=int(fields.get("draft_tokens") or 0))
    drafted = shape.draft_tokens if shape is not None else most
    base = DecodingChoice(
        model=hub_id(str(fields.get("model") or "")),
        context=max(int(fields.get("context") or 1), 1),
        tensor_parallel=int(fields.get("tensor_parallel") or 1),
        max_batch=None if schedule else fields.get("batch"),
        provenance=_told(fields),
    )
    if not drafted:
        return base
    needs_draft = method.drafter in ("draft_model", "eagle3", "medusa")
    layers = None
    if method.drafter == "early_exit":
        layers = int(
            fields.get("exit_layers") or max(1, round(load_model(str(fields.get("model"))).layers * EXIT_RATIO))
        )
    return replace(
        base,
        method=EXPORT_NAMES[method.drafter],
        draft_model=(draft or DRAFT_PLACEHOLDER) if needs_draft else draft,
        draft_tokens=drafted,
        topology="tree" if shape is not None else "chain",
        tree=shape.to_json() if shape is not None else None,
        schedule=schedule,
        exit_layers=layers,
    )


def _told(fields: Mapping[str, Any]) -> dict[str, object]:
    """What an answer says about where its numbers come from, as short lines."""
    origin = fields.get("provenance") or {}
    told: dict[str, object] = {}
    if isinstance(origin, Mapping) and origin:
        told["device"] = origin.get("device", {}).get("name", "")
        told["acceptance"] = origin.get("acceptance", {}).get("label", "recorded on this model")
    for key in ("tokens_per_step", "speedup"):
        if isinstance(fields.get(key), float):
            told[key] = f"{fields[key]:.3f}"
    return told
