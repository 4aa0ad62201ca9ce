"""What can one engine express at one release, and how is a refusal worded?

A refusal names the engine, its release, the key, the rule and the value. What an engine has stands
in its record (`costmodel.engines`); how it is spelled in the engine's module here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from app.exporters.checkpoints import draft_checkpoint, stored_placeholder, target_checkpoint
from app.exporters.tree_paths import draft_paths
from costmodel.architectures.library import load_model
from costmodel.architectures.name_parts import name_parts
from costmodel.configuration import DecodingConfiguration
from costmodel.drafters.checkpoint import brings_its_head, loads
from costmodel.engine_library import engine_names, load_engine
from costmodel.engines.record.options import Capability, Drafting, Options
from costmodel.engines.record.releases import releases_for
from costmodel.method import Shape
from costmodel.method_library import load_method
from costmodel.passes.formats import PLAIN, main_format, recipe_parts
from hardware_profiles.errors import InputError, UnknownNameError

NODE_DEVICES = 8  # of the servers that the profiled devices come in
Spelt = TypeVar("Spelt")
_UNREAD = "was not looked up for this engine"


def options_of(engine: str) -> Options:
    """What a configuration of an engine can express.

    Raises:
        UnknownNameError: no such engine, or none that configurations can be written for.
    """
    options = load_engine(engine).options
    if options is None:
        able = [name for name in engine_names() if load_engine(name).options is not None]
        raise UnknownNameError("engine", engine, able, key="engine")
    return options


@dataclass(frozen=True, kw_only=True, slots=True)
class Dialect:
    """One engine at one release: what refusals and headers name.

    Args:
        engine: name of the engine.
        version: release that was asked for.
        releases: releases whose rules apply.
        variant: the engine's name of another implementation of the same drafting; empty: its usual
            one.
        node_devices: devices of one server.
    """

    engine: str
    version: str
    releases: tuple[str, ...]
    variant: str = ""
    node_devices: int = NODE_DEVICES

    def refusal(self, key: str, rule: str, value: object) -> InputError:
        """An error that names the engine, its version, the key, the rule and the value."""
        return InputError(f"{self.engine} {self.version}: {rule}", key=key, value=value)

    @classmethod
    def of(
        cls, engine: str, version: str, *, variant: str = "", node_devices: int = NODE_DEVICES
    ) -> Dialect:
        """The dialect of an engine at a release, whose rules are those of the releases around it.

        Args:
            engine: name of an engine whose configurations can be written.
            version: release that was asked for.
            variant: the engine's name of another implementation of the same drafting.
            node_devices: devices of one server.

        Raises:
            InputError: the release lies outside those that were read.
        """
        options = options_of(engine)
        if not options.numbered and version not in options.releases:
            raise UnknownNameError(f"{engine} version", version, options.releases, key="version")
        releases = (
            releases_for(engine, version, options.releases) if options.numbered else (version,)
        )
        return cls(
            engine=engine,
            version=version,
            releases=releases,
            variant=variant,
            node_devices=node_devices,
        )

    def has(self, capability: Capability) -> bool:
        """Whether every release of the dialect has something."""
        options = options_of(self.engine)
        return all(options.admits(capability, release) for release in self.releases)

    def require(self, key: str, capability: Capability, value: object) -> None:
        """Refuse what the engine's record says that a release does not have.

        Raises:
            InputError: one of the releases does not; with the reason of the record.
        """
        if not self.has(capability):
            raise self.refusal(
                key, capability if isinstance(capability, str) else capability.span, value
            )

    def drafting(self, chosen: DecodingConfiguration) -> Drafting:
        """The engine's way of drafting what was chosen.

        Raises:
            InputError: a release does not have it.
        """
        options = options_of(self.engine)
        way = options.drafting[self.name(chosen, options.drafting)]
        self.require("method", way.releases, chosen.method)
        if self.variant in ("", way.name):
            return way
        if self.variant not in way.variants:
            names = ", ".join((way.name, *way.variants))
            raise self.refusal("variant", f"has {chosen.method} as {names}", self.variant)
        self.require("variant", way.variants[self.variant], self.variant)
        return replace(way, name=self.variant)

    def check(self, chosen: DecodingConfiguration, *, synthetic: bool, approximate: bool) -> None:
        """Refuse a configuration that the engine's record says it cannot express.

        Args:
            chosen: what to run.
            synthetic: acceptance is drawn at stated rates.
            approximate: a dynamic tree may stand in for a static one.

        Raises:
            InputError: names what cannot be expressed, and why.
        """
        options = options_of(self.engine)
        if _has_encoder(chosen.deployment.model):
            rule = "no release was read as to which encoder-decoders it serves, and how"
            raise self.refusal("deployment.model", rule, chosen.deployment.model)
        self._check_plan(chosen, options)
        if not chosen.speculates:
            if synthetic:
                self.synthetic_rates(chosen)
            return
        own = self.drafting(chosen)
        self._check_drafter(chosen)
        if (chosen.largest_batch or 1) > 1:
            key = (
                "max_batch"
                if chosen.max_batch is not None
                else "schedule"
                if chosen.schedule
                else "batch"
            )
            self.require(key, options.several_requests, chosen.largest_batch)
        if self.threshold(chosen):
            self.require("stop", own.stop, chosen.stop.at)
        for rule, capability in (("cost", own.verifies), ("ema", own.adapts)):
            if chosen.stop.rule == rule:
                self.require("stop", capability, rule)
        if chosen.topology not in ("off", "chain", "tree"):
            self.require("shape", own.dynamic_tree, chosen.topology)
        if (paths := draft_paths(chosen)) is not None and not (
            approximate and self.has(own.dynamic_tree)
        ):
            self.require("tree", own.static_tree, f"{chosen.method} with {len(paths)} draft nodes")
        if chosen.varies:
            self.require("schedule", own.schedule, f"{chosen.method} {chosen.schedule}")
        if synthetic:
            self.require("synthetic", own.synthetic, synthetic)

    def _check_drafter(self, chosen: DecodingConfiguration) -> None:
        """Refuse a drafter that the engine would put another one in the place of."""
        named, method = chosen.draft_model, load_method(chosen.method)
        if (named is not None or chosen.own_drafter is not None) and not method.drafts_with_weights:
            rule = f"{method.slug} drafts without weights of its own"
            raise self.refusal("draft_model", rule, named or chosen.own_drafter)
        if named is not None and not loads(method.slug, named):
            rule = (
                f"{method.slug} drafts with a head that was trained for its target, and this is a"
                " whole model"
            )
            raise self.refusal("draft_model", rule, named)
        if (
            named is None
            and chosen.own_drafter is None
            and brings_its_head(method.slug, chosen.deployment.model)
        ):
            rule = (
                f"the checkpoint of {chosen.deployment.model} holds no layers that {method.slug}"
                " drafts with; name "
            )
            raise self.refusal("method", f"{rule}a head with --draft", method.slug)

    def _check_plan(self, chosen: DecodingConfiguration, options: Options) -> None:
        where = chosen.deployment
        if where.transforms:
            rule = "starts the checkpoint as it is, and these change what it computes"
            raise self.refusal("deployment.transforms", rule, ", ".join(where.transforms))
        if where.max_loras and self.engine != "vllm":
            rule = "how it is told of adapters was not looked up; vLLM is"
            raise self.refusal("deployment.max_loras", rule, where.max_loras)
        if where.host_weights_ratio:
            rule = (
                "keeps all weights on the devices: how it keeps a share in host memory was not"
                " looked up"
            )
            raise self.refusal("deployment.host_weights_ratio", rule, where.host_weights_ratio)
        for kind in ("tensor", "pipeline", "expert", "data", "context"):
            devices = getattr(where, f"{kind}_parallel")
            if devices > 1:
                self.require(f"{kind}_parallel", options.parallel.get(kind, _UNREAD), devices)
        spread = where.tensor_parallel * where.data_parallel
        if spread % where.expert_parallel:
            rule = f"must divide the {spread} devices of a stage"
            raise self.refusal("expert_parallel", rule, where.expert_parallel)
        if self.nodes(chosen) > 1:
            self.require("nodes", options.parallel.get("nodes", _UNREAD), self.nodes(chosen))

    def nodes(self, chosen: DecodingConfiguration) -> int:
        """Servers that the deployment fills.

        Raises:
            InputError: it does not fill them evenly.
        """
        where = chosen.deployment
        devices = where.tensor_parallel * where.pipeline_parallel * where.data_parallel
        nodes = math.ceil(devices / self.node_devices)
        if devices % nodes:
            raise self.refusal(
                "nodes",
                f"{devices} devices must spread evenly over {nodes} nodes",
                self.node_devices,
            )
        return nodes

    @staticmethod
    def per_copy(chosen: DecodingConfiguration, requests: int) -> int:
        """Requests of each data-parallel copy, where every copy has a scheduler and a limit of its
        own.
        """
        return -(-requests // chosen.deployment.data_parallel)

    def weight_format(
        self, chosen: DecodingConfiguration, spellings: Mapping[str, Spelt]
    ) -> Spelt | None:
        """How the engine spells the format of the weights; None where it reads it from the
        checkpoint.

        Args:
            chosen: what to run.
            spellings: formats that can be asked for of a checkpoint in 16 or 32 bits.
        """
        dtype, published = chosen.deployment.dtype, _published(chosen.deployment.model)
        if dtype is None or (published is not None and published not in PLAIN):
            return None
        return spellings.get(dtype)

    def cache_format(
        self, chosen: DecodingConfiguration, spellings: Mapping[str, Spelt]
    ) -> Spelt | None:
        """How the engine spells the format of the cache; None where none is asked for.

        Raises:
            InputError: it caches in no such format.
        """
        kv_dtype = chosen.deployment.kv_dtype
        if kv_dtype is not None and kv_dtype not in spellings:
            raise self.refusal("kv_dtype", f"caches in {', '.join(spellings)}", kv_dtype)
        return None if kv_dtype is None else spellings[kv_dtype]

    def dynamic_numbers(self, chosen: DecodingConfiguration) -> tuple[int, int] | None:
        """Depth and candidates of each node of a tree that is built at run time; None for every
        other shape.

        Raises:
            InputError: a tree whose levels do not all keep as many nodes as each node has
                candidates, or that has no depth of its own: engines have one number for both.
        """
        shape = chosen.shape
        if not isinstance(shape, Shape):
            return None
        if (
            shape.kind != "dynamic_tree"
            or not shape.depth
            or not shape.width
            or shape.beam not in (0, shape.width)
        ):
            rule = (
                "builds trees of a stated depth whose levels keep as many nodes as each node has"
                " candidates"
            )
            raise self.refusal("shape", rule, shape)
        for field in ("least_probability", "cost_ratio"):
            if value := getattr(shape, field):
                raise self.refusal(f"shape.{field}", "keeps the best-scored nodes", value)
        return shape.depth, shape.width

    def name(self, chosen: DecodingConfiguration, names: Iterable[str] | None = None) -> str:
        """The engine's own name of the method.

        Args:
            chosen: what to run.
            names: names that can be written; None: all that methods have.

        Raises:
            InputError: the engine does not run it.
        """
        method_name = load_method(chosen.method).engines.get(self.engine)
        if method_name is None or (names is not None and method_name not in names):
            why = options_of(self.engine).without.get(chosen.method, "")
            does = f"runs {', '.join(names)} alone" if names is not None else "does not run it"
            does += f"; {why}" if why else ""
            raise self.refusal("method", does, chosen.method)
        return method_name

    def target(
        self, chosen: DecodingConfiguration, spellings: Iterable[str], notes: list[str]
    ) -> str:
        """The target as the engine loads it; what a reader must know of it is added to the notes.

        A mark stands for it where the published checkpoint would be started in another format of
        the weights than was priced.

        Args:
            chosen: what to run.
            spellings: formats that the engine makes of a checkpoint in 16 or 32 bits.
            notes: what a reader must know is added here.

        Raises:
            InputError: no target is named.
        """
        if not chosen.deployment.model:
            raise InputError("must name the target", key="deployment.model")
        checkpoint = target_checkpoint(chosen.deployment.model, notes)
        return self.stored(checkpoint, chosen, spellings, notes)

    @staticmethod
    def stored(
        checkpoint: str,
        chosen: DecodingConfiguration,
        spellings: Iterable[str],
        notes: list[str],
    ) -> str:
        """A checkpoint of the target, or the mark for one in the format that was asked for.

        Args:
            checkpoint: hub id, path or mark of the target.
            chosen: as for `target`.
            spellings: as for `target`.
            notes: as for `target`.
        """
        model, dtype = chosen.deployment.model, chosen.deployment.dtype
        published = _published(model)
        if dtype is None or (dtype in spellings and published in (None, *PLAIN)):
            return checkpoint
        if published is None:
            notes.append(
                f"weights in {dtype}: {checkpoint} must be stored so; the format is read from it"
            )
            return checkpoint
        if _alike(dtype, published, model):
            return checkpoint
        mark = stored_placeholder(dtype)
        notes.append(
            f"replace {mark} by a checkpoint that is stored so: the format is read from it, and"
            f" {checkpoint} itself would start with weights in {published}, not in {dtype}"
        )
        return mark

    def draft(self, chosen: DecodingConfiguration, notes: list[str]) -> str | None:
        """The draft model or head as the engine loads it; None for methods that draft without.

        A published one is named where the configuration names none and describes none. Engines read
        the format of its weights from the checkpoint, so that one which was asked for is a note.
        """
        checkpoint, dtype = draft_checkpoint(chosen, notes), chosen.deployment.draft_dtype
        if checkpoint is not None and dtype is not None:
            notes.append(
                f"draft weights in {dtype}: name a drafter that is stored so; the format is read"
                " from it"
            )
        return checkpoint

    def limits(self, chosen: DecodingConfiguration) -> list[str]:
        """What a reader must know of limits that the configuration leaves to the engine."""
        if chosen.max_batch is not None or not chosen.schedule:
            return []
        *_, last, tokens = chosen.schedule[-1]
        return [
            "no limit of requests at once was stated, so the engine's own holds; batches above"
            f" {last} were not compared and keep K={tokens}"
        ]

    def threshold(self, chosen: DecodingConfiguration) -> float:
        """The draft probability below which a draft ends; 0 where it always has K tokens.

        Raises:
            InputError: drafts end by another rule.
        """
        stop = chosen.stop
        if stop.rule not in ("length", "probability", "cost", "ema"):
            raise self.refusal("stop", "ends a draft at K tokens or on low confidence", stop.rule)
        for name, usual in (("least_tokens", (0, 1)), ("most_tokens", (0, chosen.draft_tokens))):
            if stop.rule == "probability" and (bound := getattr(stop, name)) not in usual:
                raise self.refusal(
                    f"stop.{name}", "ends a draft on low confidence after any token", bound
                )
        return stop.at if stop.rule == "probability" else 0.0

    def unlikely_notes(self, chosen: DecodingConfiguration) -> list[str]:
        """That the engine does otherwise with the token that ends a draft than was priced, if so."""
        own = self.drafting(chosen).unlikely_tokens
        if chosen.stop.rule != "probability" or own in (None, chosen.stop.unlikely_tokens):
            return []
        does = "verifies" if own else "drops"
        return [
            f"{self.engine} {does} the unlikely token that ends a draft; its price is that of a"
            f" stop rule with unlikely={own}"
        ]

    def synthetic_rates(self, chosen: DecodingConfiguration) -> tuple[float, ...]:
        """The acceptance rates of a synthetic export, one per draft token.

        Raises:
            InputError: nothing is drafted, a tree is, or the rates were not measured at this draft
                length.
        """
        if not chosen.speculates or draft_paths(chosen) is not None:
            raise self.refusal(
                "topology", "synthetic acceptance needs a chain of draft tokens", chosen.topology
            )
        rates = chosen.acceptance_by_depth
        if rates is None or len(rates) != chosen.draft_tokens:
            raise self.refusal(
                "acceptance_by_depth",
                f"needs one rate per draft token ({chosen.draft_tokens}), measured at that draft"
                " length",
                "nothing" if rates is None else rates,
            )
        return rates

    def header(self, chosen: DecodingConfiguration, notes: Sequence[str]) -> tuple[str, ...]:
        """Lines that say what was exported, for whom, and where it comes from."""
        if not chosen.speculates:
            what = "plain decoding, nothing is drafted"
        else:
            drafter = (
                chosen.method
                if chosen.own_drafter is None
                else f"{chosen.own_drafter} by {chosen.method}"
            )
            what = (
                f"{drafter}, {chosen.topology} of {chosen.draft_tokens} draft"
                f" token{'s' * (chosen.draft_tokens != 1)} (root not counted)"
            )
        made_for = (
            "" if chosen.context is None else f"; made for a context of {chosen.context} tokens"
        )
        lines = [
            f"rooftree export for {self.engine} {self.version}",
            f"checked against the rules of {self.engine} {' and '.join(self.releases)}",
            f"configuration: {what}{made_for}",
        ]
        if chosen.schedule:
            ranges = ", ".join(f"{low}-{high}: {tokens}" for low, high, tokens in chosen.schedule)
            lines.append(f"schedule, batch: draft tokens: {ranges}")
        lines += [f"{key}: {value}" for key, value in chosen.provenance.items()]
        return (*lines, *(f"note: {note}" for note in notes))


def above_one(sizes: Mapping[str, int]) -> list[str]:
    """Flags whose sizes are not 1, what engines take where a flag is absent."""
    return [word for flag, size in sizes.items() if size > 1 for word in (flag, str(size))]


def _published(model: str) -> str | None:
    """The format that a model's checkpoint is published in; None of one that is not known here, or
    whose name says that it is one of several files.
    """
    if "/" in model and name_parts(model).unpriced:
        return None
    try:
        return load_model(model).dtype
    except InputError:
        return None


def _alike(dtype: str, published: str, model: str) -> bool:
    """Whether two names of formats stand for the same weights; scales of 8 bits are the
    checkpoint's own.
    """
    target = load_model(model)
    eight_bits = main_format(dtype).startswith("fp8") and main_format(published).startswith("fp8")
    return eight_bits or recipe_parts(dtype, target) == recipe_parts(published, target)


def _has_encoder(model: str) -> bool:
    """Whether a name is that of an encoder-decoder; one that is not known here is passed on as it
    is.
    """
    try:
        return load_model(model).encoder is not None
    except InputError:
        return False
