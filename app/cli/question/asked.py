"""Which configuration do a file and the options beside it ask about?

Options that stand on the command line go over what the file says; without a file the options say
all of it. Leaves out which shapes and lengths are compared (`app.cli.question.configurations`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from costmodel.configuration import DecodingConfiguration
    from costmodel.method import Shape, Stop
    from traces.kinds.tree import Tree

Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help=(
            "A configuration, or recommendation.json of `optimize`; options beside it go over what"
            " it says."
        ),
    ),
]
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
    "overrides": "overrides",
}
"""Field of a deployment, and key of a scenario's section, by parameter of the verbs."""


def given_options(running: typer.Context) -> dict[str, Any]:
    """Options of a running verb that stand on the command line, by parameter."""

    def stands(name: str) -> bool:
        source = running.get_parameter_source(name)
        return source is not None and source.name == "COMMANDLINE"

    return {name: value for name, value in running.params.items() if stands(name)}


def asked(
    file: Path | None, options: Mapping[str, Any], *, batch: int | None = None
) -> "DecodingConfiguration":
    """The configuration of a file with options over it.

    Args:
        file: a configuration or an answer of `optimize`; None: the options alone.
        options: by parameter; those of a verb that name no part of a configuration are passed over.
        batch: of an answer: take the choice at this batch.

    Raises:
        InputError: a file that is none, or options that contradict the rest of it.
    """
    from costmodel.configuration import DecodingConfiguration, DeploymentNames
    from costmodel.configuration.file import read_configuration

    if file is None:
        base = DecodingConfiguration(deployment=DeploymentNames(model=""))
    else:
        base = read_configuration(file, batch=batch)
    return with_options(base, options)


def with_options(
    base: "DecodingConfiguration", options: Mapping[str, Any]
) -> "DecodingConfiguration":
    """A configuration with options over it; another method keeps nothing that belonged to the old
    one's drafter.

    Args:
        base: what to change.
        options: values by parameter, as the command line gives them.

    Raises:
        InputError: a value out of range, or one that contradicts the rest.
    """
    from dataclasses import replace

    from app.cli.options import byte_count, method_slug, ratio
    from app.cli.question.refining import refined_by

    names = {
        field: _name_value(name, options[name])
        for name, field in DEPLOYMENT_FIELDS.items()
        if name in options
    }
    changes = {field: options[name] for name, field in FIELDS.items() if name in options}
    if options.get("method"):
        slug = method_slug(options["method"], "--method")
        if slug != base.method:
            base = replace(base.without_drafter(), refine=None, canvas_tokens=None)
        changes["method"] = slug
    changes |= refined_by(options, base, changes.get("method", base.method))
    if "draft_bytes" in changes:
        changes["draft_bytes"] = byte_count(changes["draft_bytes"], "--draft-bytes")
    if "match_rate" in changes:
        changes["match_rate"] = ratio(changes["match_rate"], "--match-rate")
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
    from costmodel.engine_library import load_engine
    from hardware_profiles.errors import InputError
    from traces.importers.engines.started import read_engine_facts

    tokens = read_engine_facts(log).tokens(load_engine(engine).memory.block_tokens)
    if tokens is None:
        raise InputError(
            "tells limits of the scheduler, and no cache", file=log, key="--engine-log"
        )
    return tokens


def _name_value(option: str, value: Any) -> Any:
    from app.cli.question.configurations import fidelity_of
    from costmodel.method_library import listed_names

    if option == "fidelity":
        return fidelity_of(value)
    if option == "transform":
        return listed_names(value)
    return tuple(value or ()) if option == "overrides" else value


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparedShapes:
    """What is compared: chains of several lengths, one static tree, or one tree built anew at every
    step.

    Attributes:
        lengths: draft tokens of the chains.
        tree: static tree instead.
        dynamic: numbers of a tree that is built at every step instead.
        stop: when a draft ends before its length; None: it does not.
        chosen: the configuration whose schedule says which length belongs to a batch; None: all go
            with all.
    """

    lengths: list[int]
    tree: "Tree | None" = None
    dynamic: "Shape | None" = None
    stop: "Stop | None" = None
    chosen: "DecodingConfiguration | None" = None

    @property
    def weighs_seconds(self) -> bool:
        """Whether the rule that ends drafts weighs what steps cost, so that acceptance differs by
        setting.
        """
        return self.stop is not None and self.stop.rule == "goodput"

    def belongs(self, draft_tokens: int, batch: int) -> bool:
        """Whether a chain of this length is run at a batch."""
        return (
            self.chosen is None
            or not self.chosen.schedule
            or self.chosen.draft_tokens_at(batch) == draft_tokens
        )


def drafts_of(
    chosen: "DecodingConfiguration | None", options: Mapping[str, Any], batches: Sequence[int]
) -> ComparedShapes:
    """What a configuration and the options beside it compare.

    Args:
        chosen: of a file; None: the options say all.
        options: `draft_tokens`, `tree`, `dynamic_tree` and `stop`, as the command line gives them;
            what is absent stays as the configuration says.
        batches: batch sizes that are asked about.

    Raises:
        InputError: two shapes at once, or one that cannot be read.
    """
    from app.cli.options import MOST_DRAFT_TOKENS, whole_numbers
    from app.cli.question.drafts import dynamic_shape, stop_rule
    from costmodel.method import Shape
    from hardware_profiles.errors import InputError
    from traces.kinds.tree import read_tree

    shapes = [name for name in ("draft_tokens", "tree", "dynamic_tree") if options.get(name)]
    if chosen is not None and len(shapes) > 1:
        raise InputError(f"{' and '.join(shapes)} exclude each other", key="--config")
    stop = stop_rule(options.get("stop") or "")
    if chosen is not None and stop is None and chosen.stop.rule != "length":
        stop = chosen.stop
    if chosen is None or shapes:
        lengths = options.get("draft_tokens", "0")
        tree = options.get("tree")
        return ComparedShapes(
            lengths=whole_numbers(lengths, "--draft-tokens", least=0, most=MOST_DRAFT_TOKENS),
            tree=None if tree is None else read_tree(tree),
            dynamic=dynamic_shape(options.get("dynamic_tree") or ""),
            stop=stop,
        )
    lengths_here = sorted({chosen.draft_tokens_at(batch) for batch in batches})
    if chosen.refine is not None:
        lengths_here = []  # masked blocks have no draft length
    numbers = chosen.shape if isinstance(chosen.shape, Shape) else None
    dynamic = (
        None if numbers is not None and numbers.kind == "state_trees" else numbers
    )  # those follow from their size
    return ComparedShapes(
        lengths=lengths_here, tree=chosen.tree, dynamic=dynamic, stop=stop, chosen=chosen
    )
