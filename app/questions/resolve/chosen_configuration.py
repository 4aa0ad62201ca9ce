"""Which configuration do a file and the options beside it ask about?

Options that stand on the command line go over what the file says; without a file the options say
all of it. Leaves out which shapes and lengths are compared (`app.questions.resolve.configurations`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from app.questions.resolve.configurations import fidelity_of, named_shapes, shapes_for
from app.questions.resolve.refining import refined_by
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.configuration.file import read_configuration
from costmodel.draft_shape import DraftShape, dynamic, read_stop
from costmodel.engine_library import load_engine
from costmodel.method import WEIGHING, Shape
from costmodel.method_library import listed_names
from costmodel.optimizers.drafters.sources import Source
from hardware_profiles.errors import InputError
from traces.importers.engines.started import read_engine_facts

FIELDS: Mapping[str, str] = {
    "draft": "draft_model",
    "exit_layer": "exit_layers",
    "draft_passes": "draft_passes",
    "draft_bytes": "draft_bytes",
    "draft_name": "draft_name",
    "match_rate": "match_rate",
    "trace": "trace",
}
DEPLOYMENT_FIELDS: Mapping[str, str] = {
    "model": "model",
    "device": "device",
    "engine": "engine",
    "dtype": "dtype",
    "kv_dtype": "kv_dtype",
    "draft_dtype": "draft_dtype",
    "tp": "tensor_parallel",
    "pp": "pipeline_parallel",
    "ep": "expert_parallel",
    "dp": "data_parallel",
    "cp": "context_parallel",
    "fidelity": "fidelity",
    "split_verify": "split_verify",
    "transform": "transforms",
    "shared_prefix": "shared_prefix_tokens",
    "host_weights": "host_weights_ratio",
    "max_loras": "max_loras",
    "max_lora_rank": "max_lora_rank",
    "overrides": "overrides",
}
"""Field of a deployment, and key of a scenario's section, by parameter of the verbs."""


def configuration_of(
    file: Path | None, options: Mapping[str, Any], *, batch: int | None = None
) -> DecodingConfiguration:
    """The configuration of a file with options over it.

    Args:
        file: a configuration or an answer of `optimize`; None: the options alone.
        options: by parameter; those of a verb that name no part of a configuration are passed over.
        batch: of an answer: take the choice at this batch.

    Raises:
        InputError: a file that is none, or options that contradict the rest of it.
    """
    if file is None:
        base = DecodingConfiguration(deployment=DeploymentNames(model=""))
    else:
        base = read_configuration(file, batch=batch)
    return with_options(base, options)


def with_options(base: DecodingConfiguration, options: Mapping[str, Any]) -> DecodingConfiguration:
    """A configuration with options over it; another method keeps nothing that belonged to the old
    one's drafter.

    Args:
        base: what to change.
        options: values by parameter, as the fields of questions read them.

    Raises:
        InputError: a value that contradicts the rest.
    """
    names = {
        field: _name_value(name, options[name])
        for name, field in DEPLOYMENT_FIELDS.items()
        if name in options
    }
    changes = {field: options[name] for name, field in FIELDS.items() if name in options}
    if options.get("method"):
        slug = options["method"]
        if slug != base.method:
            base = replace(base.without_drafter(), refine=None, canvas_tokens=None)
        changes["method"] = slug
    changes |= refined_by(options, base, changes.get("method", base.method))
    if changes.get("trace") is not None:
        changes["trace"] = str(changes["trace"])
    if options.get("engine_log") is not None:
        names["cache_tokens"] = _cache_tokens(
            options["engine_log"], names.get("engine", base.deployment.engine)
        )
    if names:
        changes["deployment"] = replace(base.deployment, **names)
    return replace(base, **changes)


def _cache_tokens(log: Path, engine: str) -> int:
    """Tokens that the cache of a running engine holds.

    Raises:
        InputError: a file that does not tell.
    """
    tokens = read_engine_facts(log).tokens(load_engine(engine).memory.block_tokens)
    if tokens is None:
        raise InputError(
            "tells limits of the scheduler, and no cache", file=log, key="--engine-log"
        )
    return tokens


def _name_value(option: str, value: Any) -> Any:

    if option == "fidelity":
        return fidelity_of(value)
    if option == "transform":
        return listed_names(value)
    return tuple(value or ()) if option == "overrides" else value


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparedShapes:
    """The shapes that are compared.

    Attributes:
        shapes: of a draft.
        chosen: the configuration whose schedule says which length belongs to a batch; None: all go
            with all.
    """

    shapes: list[DraftShape]
    chosen: DecodingConfiguration | None = None

    @property
    def weighs_seconds(self) -> bool:
        """Whether a rule that ends drafts weighs what steps cost, so that acceptance differs by
        setting.
        """
        return any(shape.stop is not None and shape.stop.rule in WEIGHING for shape in self.shapes)

    def belongs(self, draft_tokens: int, batch: int) -> bool:
        """Whether a chain of this length is run at a batch."""
        return (
            self.chosen is None
            or not self.chosen.schedule
            or self.chosen.draft_tokens_at(batch) == draft_tokens
        )


def drafts_of(
    chosen: DecodingConfiguration | None,
    options: Mapping[str, Any],
    batches: Sequence[int],
    source: Source | None,
    usual: Sequence[int],
) -> ComparedShapes:
    """What a configuration and the options beside it compare.

    Args:
        chosen: of a file; None: the options say all.
        options: `shape`, `draft_tokens`, `tree` and `stop`, as a question holds them; what is
            absent stays as the configuration says.
        batches: batch sizes that are asked about.
        source: what is known of the drafter; None: nothing.
        usual: draft lengths where neither a configuration nor an option names any.

    Raises:
        InputError: two shapes at once, or one that cannot be read.
    """
    named = [name for name in ("draft_tokens", "tree") if options.get(name)]
    rule = options.get("stop") or ""
    others = {"--draft-tokens": options.get("draft_tokens"), "--tree": options.get("tree")}
    shapes = named_shapes(options.get("shape"), {**others, "--stop": rule})
    if shapes is not None:
        return ComparedShapes(shapes=shapes)
    if chosen is not None and len(named) > 1:
        raise InputError(f"{' and '.join(named)} exclude each other", key="--config")
    stop = read_stop(rule, key="--stop") if rule else None
    if chosen is not None and stop is None and chosen.stop.rule != "length":
        stop = chosen.stop
    if chosen is None or named:
        stated = options.get("draft_tokens", (0,) if chosen is not None else None)
        lengths = usual if stated is None else stated
        return ComparedShapes(shapes=shapes_for(source, lengths, options.get("tree"), stop))
    lengths_here = sorted({chosen.draft_tokens_at(batch) for batch in batches})
    if chosen.refine is not None:
        lengths_here = []  # masked blocks have no draft length
    if isinstance(chosen.shape, Shape) and chosen.shape.kind != "state_trees":
        return ComparedShapes(shapes=[dynamic(chosen.shape, stop)], chosen=chosen)
    return ComparedShapes(shapes=shapes_for(source, lengths_here, chosen.tree, stop), chosen=chosen)
