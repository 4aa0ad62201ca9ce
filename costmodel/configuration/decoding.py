"""How is a model decoded, and where: one type for what is asked, chosen, exported, simulated and
validated.

`optimize` answers with configurations; every other verb takes one. K counts draft tokens per
request and step, the root never included. Leaves out what a configuration emits (`costmodel.laws`),
what it costs (`costmodel.answers`) and reading files (`costmodel.configuration.file`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import pairwise
from typing import Any

from costmodel.configuration.deployment import MOST_NAMES, DeploymentNames, require_name
from costmodel.method import Method, Shape, Stop
from costmodel.method_file import method_document, method_from
from costmodel.method_library import (
    entry_of,
    is_method_file,
    learn_method,
    load_method,
    method_names,
)
from costmodel.typed import known_fields, require_types
from hardware_profiles.errors import InputError
from traces.kinds.naming import naming
from traces.kinds.refine_policy import MOST_CANVAS_TOKENS, RefinePolicy, policy_of
from traces.kinds.tree import Tree

SCHEMA = 1
MOST_DRAFT_TOKENS = 4095
MOST_RANGES = 4096
OWN_DRAFTER = "own-drafter"
"""What a drafter is called that is described by its passes and has no other name."""
_MOST_REQUESTS = 1 << 30
_RANGES: Mapping[str, tuple[float, float]] = {
    "draft_tokens": (0, MOST_DRAFT_TOKENS),
    "exit_layers": (1, MOST_DRAFT_TOKENS),
    "draft_passes": (1, MOST_DRAFT_TOKENS),
    "draft_bytes": (0, 1e15),
    "ngram_min": (1, MOST_DRAFT_TOKENS),
    "ngram_max": (1, MOST_DRAFT_TOKENS),
    "match_rate": (0, 1),
    "tokens_per_step": (1, MOST_DRAFT_TOKENS + 1),
    "batch": (1, _MOST_REQUESTS),
    "context": (0, _MOST_REQUESTS),
    "known_tokens": (1, MOST_DRAFT_TOKENS),
    "canvas_tokens": (1, MOST_CANVAS_TOKENS),
    "max_batch": (1, _MOST_REQUESTS),
    "max_length": (1, _MOST_REQUESTS),
    "token_budget": (1, _MOST_REQUESTS),
    "stop.at": (0, MOST_DRAFT_TOKENS),
    "stop.least_tokens": (0, MOST_DRAFT_TOKENS),
    "stop.most_tokens": (0, MOST_DRAFT_TOKENS),
    "stop.unlikely_tokens": (0, 1),
    "shape.nodes": (1, MOST_DRAFT_TOKENS),
    "shape.depth": (0, MOST_DRAFT_TOKENS),
    "shape.width": (0, MOST_DRAFT_TOKENS),
    "shape.beam": (0, MOST_DRAFT_TOKENS),
    "shape.least_probability": (0, 1),
    "shape.cost_ratio": (0, 1),
    "shape.free_nodes": (0, MOST_DRAFT_TOKENS),
    "shape.guesses": (1, MOST_DRAFT_TOKENS),
    "shape.riding": (0, MOST_DRAFT_TOKENS),
}
_SHAPES_OF_NUMBERS = ("dynamic_tree", "state_trees", "window", "block")


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodingConfiguration:
    """One way to decode one model on one deployment.

    Example:
        >>> chosen = DecodingConfiguration(
        ...     deployment=DeploymentNames(model="llama-3.1-8b"), method="n-gram", draft_tokens=5,
        ...     schedule=((1, 16, 5), (17, 64, 0)),
        ... )
        >>> chosen.topology, chosen.draft_tokens_at(8), chosen.draft_tokens_at(40)
        ('chain', 5, 0)
        >>> DecodingConfiguration.from_json(chosen.to_json()) == chosen
        True

    Args:
        deployment: model, device, engine and formats, by name.
        method: slug of the published method that drafts and verifies.
        draft_tokens: K of a chain, 0 to 4,095; the draft tokens of a tree; with a schedule the
            largest K in it. 0: nothing is drafted.
        shape: None for a chain, a static tree, or the numbers of a tree that is built anew at every
            step.
        stop: when a draft ends before K.
        schedule: inclusive batch ranges and their K, `((1, 16, 5), (17, 64, 3))`: the first starts
            at 1, they ascend and do not overlap. A gap, and every batch past the end, keeps the K
            of the range before it.
        draft_model: drafter or draft head, as a shipped name, hub id or path.
        exit_layers: layers of the target that draft, where the method leaves the target early.
        draft_name: what a drafter is called that `draft_passes` and `draft_bytes` describe, which
            is neither a method nor a model that is shipped; None: `OWN_DRAFTER`.
        draft_passes: passes per step of such a drafter, with `draft_bytes`; `draft_model` then
            names its checkpoint.
        draft_bytes: bytes that one of its passes reads.
        ngram_min: shortest n-gram that is looked up, in tokens.
        ngram_max: longest n-gram that is looked up, in tokens.
        trace: recording whose acceptance the configuration was chosen on: shipped name or path.
        match_rate: share of steps with a proposal, 0 to 1, where the recording does not hold it.
        acceptance_by_depth: unconditional probability that the first 1..K draft tokens are all
            accepted, as stated, counted by an engine or published. One entry is the geometric law,
            unless `known_tokens` says otherwise.
        known_tokens: draft tokens up to which `acceptance_by_depth` is known; None: as many as it
            has entries, of one entry any.
        tokens_per_step: stated tokens per step of the whole shape, where nothing more is known.
        refine: how a method that refines masked blocks commits them, in place of its entry's own
            rule, block and cache; None: the entry's.
        canvas_tokens: tokens behind the prompt that such a method refines, a multiple of its
            blocks; None: the entry's.
        batch: requests that it was chosen for; None: no number of its own.
        context: cached tokens per request that it was chosen for; None: no number of its own.
        max_batch: most requests decoded at once; None leaves it to the engine.
        max_length: most tokens of a request, prompt and answer; None leaves it to the engine.
        token_budget: most query tokens of an iteration of one scheduler; None leaves it to the
            engine.
        provenance: where it comes from, as short texts and numbers.

    Attributes:
        entry: the method's fields, where it is none of the published ones; it goes with the
            configuration, so that whoever reads it needs nothing else.

    Raises:
        InputError: a value of another type or out of range, or parts that contradict each other.
        UnknownNameError: there is no such method.
    """

    deployment: DeploymentNames
    method: str = "plain-decoding"
    draft_tokens: int = 0
    shape: Tree | Shape | None = None
    stop: Stop = field(default_factory=Stop)
    schedule: tuple[tuple[int, int, int], ...] = ()
    draft_model: str | None = None
    exit_layers: int | None = None
    draft_name: str | None = None
    draft_passes: int | None = None
    draft_bytes: float | None = None
    ngram_min: int = 1
    ngram_max: int = 3
    trace: str | None = None
    match_rate: float | None = None
    acceptance_by_depth: tuple[float, ...] | None = None
    known_tokens: int | None = None
    tokens_per_step: float | None = None
    refine: RefinePolicy | None = None
    canvas_tokens: int | None = None
    batch: int | None = None
    context: int | None = None
    max_batch: int | None = None
    max_length: int | None = None
    token_budget: int | None = None
    provenance: Mapping[str, str | float | int | None] = field(default_factory=dict, hash=False)
    entry: Method | None = field(init=False, repr=False, hash=False)

    def __post_init__(self) -> None:
        _set_entry(self)
        _check_types(self)
        _check_numbers(self)
        _check_shape(self)
        _check_schedule(self)
        _check_rates(self)
        _check_refine(self)

    @property
    def speculates(self) -> bool:
        """Whether any draft token is ever proposed."""
        return self.draft_tokens > 0

    @property
    def topology(self) -> str:
        """`off`, `chain`, `tree` (static), the kind of a shape given by numbers (`dynamic_tree`,
        ..), or `block`.

        Of masked blocks only a stated policy tells: an entry's own rule is `off` here, as nothing
        is drafted.
        """
        if self.refine is not None:
            return "block"
        if not self.speculates:
            return "off"
        if self.shape is None:
            return "chain"
        return "tree" if isinstance(self.shape, Tree) else self.shape.kind

    @property
    def tree(self) -> Tree | None:
        """The static tree; None for every other shape."""
        return self.shape if isinstance(self.shape, Tree) else None

    @property
    def steps(self) -> tuple[tuple[int, int], ...]:
        """The schedule as (first batch size, K) pairs, gaps closed and equal neighbours joined."""
        steps: list[tuple[int, int]] = []
        for low, _, draft_tokens in self.schedule:
            # the end of a range says nothing: its K holds until the next range begins
            if not steps or steps[-1][1] != draft_tokens:
                steps.append((low, draft_tokens))
        return tuple(steps)

    @property
    def varies(self) -> bool:
        """Whether K depends on the batch size."""
        return len(self.steps) > 1

    @property
    def largest_batch(self) -> int | None:
        """Largest batch that it is for: `max_batch`, else the end of the schedule, else `batch`.

        It limits nothing: of these `max_batch` alone is a limit that a server is started with.
        """
        if self.max_batch is not None:
            return self.max_batch
        return self.schedule[-1][1] if self.schedule else self.batch

    @property
    def own_drafter(self) -> str | None:
        """Name of the drafter that is described by its passes; None where the method's own
        drafts.
        """
        return None if self.draft_bytes is None else self.draft_name or OWN_DRAFTER

    def without_drafter(self) -> DecodingConfiguration:
        """The configuration with nothing that belongs to one drafter alone: its checkpoint, exit or
        description.
        """
        return replace(
            self,
            draft_model=None,
            exit_layers=None,
            draft_name=None,
            draft_passes=None,
            draft_bytes=None,
        )

    def draft_tokens_at(self, batch: int) -> int:
        """K at a batch size of at least 1."""
        reached = [draft_tokens for low, draft_tokens in self.steps if low <= batch]
        return reached[-1] if reached else self.draft_tokens

    def to_json(self) -> dict[str, Any]:
        """The JSON form: `schema`, then every field; a static tree as parents and ranks, the root
        included; a method that is none of the published ones with its fields as `entry`.
        """
        values = {attribute.name: getattr(self, attribute.name) for attribute in fields(self)}
        shape = (
            self.shape.to_json()
            if isinstance(self.shape, Tree)
            else self.shape and asdict(self.shape)
        )
        values |= {"deployment": asdict(self.deployment), "shape": shape, "stop": asdict(self.stop)}
        values["refine"] = self.refine and self.refine.as_json()
        values["provenance"] = dict(self.provenance)
        if values.pop("entry") is not None:
            values["entry"] = method_document(load_method(self.method))
        return {"schema": SCHEMA, **{name: _as_lists(value) for name, value in values.items()}}

    @classmethod
    def from_json(cls, document: object, *, file: str | None = None) -> DecodingConfiguration:
        """Read the JSON form; keys that are absent keep their defaults.

        Args:
            document: an object as `to_json` returns it.
            file: name for messages.

        Raises:
            InputError: another schema, an unknown key, a value that the configuration refuses.
        """
        with naming(file):
            if not isinstance(document, Mapping) or document.get("schema") != SCHEMA:
                version = (
                    document.get("schema")
                    if isinstance(document, Mapping)
                    else type(document).__name__
                )
                raise InputError(
                    f"a configuration is an object with schema {SCHEMA}",
                    key="schema",
                    value=version,
                )
            keywords = known_fields(
                cls, {key: value for key, value in document.items() if key != "schema"}
            )
            if "entry" in keywords:
                del keywords["entry"]
                _learn_entry(document, file)
            if "deployment" not in keywords:
                raise InputError("must name the model, device and engine", key="deployment")
            where = known_fields(DeploymentNames, document["deployment"], under="deployment")
            if "model" not in where:
                raise InputError("must name the target", key="deployment.model")
            keywords["deployment"] = DeploymentNames(**where)
            if "stop" in keywords:
                keywords["stop"] = Stop(**known_fields(Stop, document["stop"], under="stop"))
            if keywords.get("shape") is not None:
                keywords["shape"] = _read_shape(document["shape"])
            if keywords.get("refine") is not None:
                keywords["refine"] = _read_policy(document["refine"])
            return cls(**keywords)


def _read_shape(document: object) -> Tree | Shape:
    if isinstance(document, Mapping) and "kind" in document:
        return Shape(**known_fields(Shape, document, under="shape"))
    return Tree.from_json(document)


def _read_policy(document: object) -> RefinePolicy:
    try:
        return policy_of(document)
    except InputError as error:
        under = "refine" if error.key in (None, "policy") else f"refine.{error.key}"
        raise InputError(error.message, key=under, value=error.value) from None


def _learn_entry(document: Mapping[str, Any], file: str | None) -> None:
    entry = method_from(document["entry"], file=file, under="entry")
    if entry.slug != document.get("method"):
        rule = f"must be the method of the configuration, {document.get('method')}"
        raise InputError(rule, key="entry.slug", value=entry.slug)
    learn_method(entry, named_in=file)


def _as_lists(value: object) -> object:
    if isinstance(value, tuple | list):
        return [_as_lists(item) for item in value]
    return (
        {key: _as_lists(item) for key, item in value.items()} if isinstance(value, dict) else value
    )


def _set_entry(configuration: DecodingConfiguration) -> None:
    """The fields of the method, and its name where a file was named in the place of it."""
    name: Any = configuration.method
    if isinstance(name, str) and is_method_file(name):
        name = load_method(name).slug
        object.__setattr__(configuration, "method", name)
    entry = entry_of(name) if isinstance(name, str) else None
    object.__setattr__(configuration, "entry", entry)


def _check_types(configuration: DecodingConfiguration) -> None:
    for name in ("schedule", "acceptance_by_depth"):
        rows = getattr(configuration, name)
        if isinstance(rows, list | tuple):
            object.__setattr__(
                configuration,
                name,
                tuple(tuple(row) if isinstance(row, list) else row for row in rows),
            )
    require_types(configuration)
    require_types(configuration.stop, under="stop")
    if isinstance(configuration.shape, Shape):
        require_types(configuration.shape, under="shape")
    for name in ("draft_model", "draft_name", "trace"):
        require_name(getattr(configuration, name), name)
    if len(configuration.provenance) > MOST_NAMES:
        raise InputError(
            f"must hold at most {MOST_NAMES} entries",
            key="provenance",
            value=len(configuration.provenance),
        )
    entries: Mapping[Any, Any] = configuration.provenance
    for key, value in entries.items():
        if not isinstance(key, str) or not (
            value is None or isinstance(value, str) or _is_finite(value)
        ):
            raise InputError(
                "must hold texts and finite numbers", key=f"provenance.{key}", value=value
            )


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _check_numbers(configuration: DecodingConfiguration) -> None:
    for key, (low, high) in _RANGES.items():
        record, _, name = key.rpartition(".")
        holder = getattr(configuration, record) if record else configuration
        value = getattr(holder, name, None)
        if value is not None and not low <= value <= high:
            raise InputError(f"must lie in {low:g}..{high:g}", key=key, value=value)
    if (
        configuration.stop.rule in ("probability", "product", "cost")
        and configuration.stop.at > 1.0
    ):
        raise InputError("must lie in 0..1", key="stop.at", value=configuration.stop.at)
    if configuration.ngram_min > configuration.ngram_max:
        raise InputError(
            f"must not exceed ngram_max = {configuration.ngram_max}",
            key="ngram_min",
            value=configuration.ngram_min,
        )
    if (configuration.draft_passes is None) != (configuration.draft_bytes is None):
        raise InputError(
            "--draft-passes and --draft-bytes go together",
            key="draft_passes",
            value=configuration.draft_passes,
        )
    if configuration.draft_name is not None and configuration.draft_bytes is None:
        rule = "names a drafter that --draft-passes and --draft-bytes describe"
        raise InputError(rule, key="draft_name", value=configuration.draft_name)
    if (
        configuration.draft_name is not None
        and configuration.draft_name.casefold() in method_names()
    ):
        rule = "is a published method: a drafter that is described by its bytes has another name"
        raise InputError(rule, key="draft_name", value=configuration.draft_name)


def _check_shape(configuration: DecodingConfiguration) -> None:
    if configuration.speculates and not load_method(configuration.method).drafts:
        raise InputError(
            f"{configuration.method} drafts nothing",
            key="draft_tokens",
            value=configuration.draft_tokens,
        )
    shape = configuration.shape
    if shape is None:
        return
    if isinstance(shape, Shape) and shape.kind not in _SHAPES_OF_NUMBERS:
        raise InputError(
            f"must be one of {', '.join(_SHAPES_OF_NUMBERS)}", key="shape.kind", value=shape.kind
        )
    drafted = shape.draft_tokens if isinstance(shape, Tree) else shape.nodes
    if drafted != configuration.draft_tokens:
        rule = f"must equal the draft tokens of the shape, {drafted}"
        raise InputError(rule, key="draft_tokens", value=configuration.draft_tokens)


def _check_schedule(configuration: DecodingConfiguration) -> None:
    if not configuration.schedule:
        return
    if len(configuration.schedule) > MOST_RANGES:
        raise InputError(
            f"must hold at most {MOST_RANGES} ranges",
            key="schedule",
            value=len(configuration.schedule),
        )
    for low, high, draft_tokens in configuration.schedule:
        if not 1 <= low <= high <= _MOST_REQUESTS or draft_tokens < 0:
            rule = "ranges ascend from at least 1, K is at least 0"
            raise InputError(rule, key="schedule", value=(low, high, draft_tokens))
    if configuration.schedule[0][0] != 1:
        raise InputError(
            "the first range must start at batch 1", key="schedule", value=configuration.schedule[0]
        )
    for before, after in pairwise(configuration.schedule):
        if after[0] <= before[1]:
            raise InputError(
                "ranges must ascend and not overlap", key="schedule", value=(before, after)
            )
    if configuration.shape is not None:
        raise InputError(
            "a schedule belongs to a chain", key="schedule", value=configuration.schedule
        )
    largest = max(draft_tokens for _, _, draft_tokens in configuration.schedule)
    if largest != configuration.draft_tokens:
        rule = f"must equal the largest K of the schedule, {largest}"
        raise InputError(rule, key="draft_tokens", value=configuration.draft_tokens)


def _check_rates(configuration: DecodingConfiguration) -> None:
    rates = configuration.acceptance_by_depth
    if rates is None:
        return
    if len(rates) > MOST_DRAFT_TOKENS:
        raise InputError(
            f"must hold at most {MOST_DRAFT_TOKENS} rates",
            key="acceptance_by_depth",
            value=len(rates),
        )
    if any(not 0.0 <= rate <= 1.0 for rate in rates) or any(
        after > before for before, after in pairwise(rates)
    ):
        rule = "unconditional rates lie in [0, 1] and never rise with depth"
        raise InputError(rule, key="acceptance_by_depth", value=rates)


def _check_refine(configuration: DecodingConfiguration) -> None:
    stated = [
        name for name in ("refine", "canvas_tokens") if getattr(configuration, name) is not None
    ]
    if stated and load_method(configuration.method).refine is None:
        raise InputError(f"{configuration.method} refines no masked blocks", key=stated[0])
    if configuration.refine is not None and configuration.canvas_tokens is not None:
        configuration.refine.check_canvas(configuration.canvas_tokens)
