"""Which configuration do the options of `export` name: that of a file with changes, or a stated
one?
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from app.questions.field import Field, Group
from app.questions.fields import DraftDtype, Dtype, KvDtype, Trace
from app.questions.groups import AcceptanceOptions
from app.questions.values import MOST_DRAFT_TOKENS

if TYPE_CHECKING:
    from costmodel.configuration import DecodingConfiguration
    from costmodel.optimizers.drafters.sources import Source

_Devices = Annotated[int | None, Field("Devices that share every layer.", Group.HARDWARE, least=1)]
_Length = Annotated[
    int | None,
    Field("Most tokens of a request, prompt and answer.", Group.WORKLOAD, least=1),
]


@dataclass(frozen=True, kw_only=True)
class Started:
    """What is started: the configuration to begin with, and what stands in the place of its
    parts.
    """

    config: Annotated[
        Path | None,
        Field(
            "A configuration, or recommendation.json; else state one.",
            Group.WORKLOAD,
            also="--from",
        ),
    ] = None
    batch: Annotated[
        int | None,
        Field("Batch of the choice to export; default: the first.", Group.WORKLOAD, least=1),
    ] = None
    context: Annotated[
        int | None,
        Field("Context of the choice; default: the first.", Group.WORKLOAD, least=0),
    ] = None
    model: Annotated[str | None, Field("Target: shipped name, hub id or path.", Group.WORKLOAD)] = (
        None
    )
    draft: Annotated[
        str | None,
        Field(
            "Draft model or head: hub id or path; default: one published for the target.",
            Group.DRAFTING,
        ),
    ] = None
    method: Annotated[str | None, Field("Method slug.", Group.DRAFTING)] = None
    draft_tokens: Annotated[
        int | None,
        Field("Draft tokens K.", Group.DRAFTING, least=0, most=MOST_DRAFT_TOKENS),
    ] = None
    tree: Annotated[
        Path | None,
        Field("Tree: JSON, FILE.py[:NAME] of Medusa or EAGLE, Sequoia's growmap.", Group.DRAFTING),
    ] = None
    schedule: Annotated[
        str | None, Field("K by batch size, as 1-16:5,17-64:3,65-512:0.", Group.DRAFTING)
    ] = None
    no_schedule: Annotated[
        bool,
        Field("One draft length, though the file has a schedule.", Group.DRAFTING),
    ] = False
    ngram_min: Annotated[
        int | None, Field("Shortest n-gram looked up.", Group.DRAFTING, least=1)
    ] = None
    ngram_max: Annotated[
        int | None, Field("Longest n-gram looked up.", Group.DRAFTING, least=1)
    ] = None


@dataclass(frozen=True, kw_only=True)
class ExportTarget:
    """Where it runs, in which formats and up to which limits."""

    tp: _Devices = None
    pp: Annotated[int | None, Field("Stages of consecutive layers.", Group.HARDWARE, least=1)] = (
        None
    )
    ep: Annotated[
        int | None, Field("Devices that share the routed experts.", Group.HARDWARE, least=1)
    ] = None
    dp: Annotated[
        int | None, Field("Copies of the layers other than experts.", Group.HARDWARE, least=1)
    ] = None
    node_devices: Annotated[
        int,
        Field("Devices of one server; more spread over several servers.", Group.HARDWARE, least=1),
    ] = 8
    dtype: Dtype = None
    kv_dtype: KvDtype = None
    draft_dtype: DraftDtype = None
    max_batch: Annotated[
        int | None,
        Field(
            "Most requests decoded at once; default: the engine's limit.", Group.WORKLOAD, least=1
        ),
    ] = None
    max_length: _Length = None


@dataclass(frozen=True, kw_only=True)
class Imitated(AcceptanceOptions):
    """Acceptance that the engine draws instead of verifying."""

    acceptance_by_depth: Annotated[
        str | None,
        Field("P(first d draft tokens kept), d = 1..K, comma-separated.", Group.DRAFTING),
    ] = None
    trace: Trace = None


def exported_configuration(
    started: Started, served: ExportTarget, imitated: Imitated, *, synthetic: bool
) -> "DecodingConfiguration":
    """The configuration that the options name.

    Args:
        started: the configuration to begin with.
        served: where it runs.
        imitated: what is accepted.
        synthetic: rates of acceptance are needed, from the configuration's own source where options
            name none.

    Raises:
        InputError: options that exclude each other, or name no whole configuration.
    """
    from dataclasses import replace

    from costmodel.configuration import DecodingConfiguration, DeploymentNames
    from costmodel.configuration.file import read_configuration
    from costmodel.optimizers.drafters.named_drafters import slug_of
    from hardware_profiles.errors import InputError

    changes = _drafted(started)
    if imitated.drafter and started.method is None and started.config is None:
        changes["method"] = slug_of(imitated.drafter[0].partition(":")[0].strip())
    if started.config is not None:
        whole = "draft_tokens" not in changes and not started.no_schedule
        chosen = read_configuration(
            started.config, batch=started.batch, context=started.context, scheduled=whole
        )
    elif started.model is None or not _is_whole(changes):
        raise InputError(
            "--config FILE, or --model with --method and --draft-tokens, --schedule or --tree, is"
            " needed"
        )
    else:
        where = DeploymentNames(model=started.model)
        chosen = DecodingConfiguration(
            deployment=where, batch=started.batch, context=started.context
        )
    if changes.get("method", chosen.method) != chosen.method:
        chosen = chosen.without_drafter()
    if started.model is not None:
        changes["deployment"] = replace(chosen.deployment, model=started.model)
    chosen = _placed(replace(chosen, **changes), served)
    return _with_acceptance(chosen, started, imitated, synthetic=synthetic)


def _is_whole(changes: dict[str, Any]) -> bool:
    """Whether options name all of a configuration: what is drafted, or a method that drafts
    nothing.
    """
    from costmodel.method_library import load_method

    method = changes.get("method")
    return bool(changes.get("draft_tokens")) or method is None or not load_method(method).drafts


def _drafted(started: Started) -> dict[str, Any]:
    """What the options say of the method and of its draft."""
    from hardware_profiles.errors import InputError
    from traces.kinds.tree import read_tree

    ways = {
        "--tree": started.tree,
        "--draft-tokens": started.draft_tokens,
        "--schedule": started.schedule,
    }
    given = [option for option, value in ways.items() if value is not None]
    if len(given) > 1:
        raise InputError(
            f"{' and '.join(given)} exclude each other", key=given[0], value=str(ways[given[0]])
        )
    named = {"method": started.method, "draft_model": started.draft}
    changes: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
    if started.tree is not None:
        shape = read_tree(started.tree)
        changes |= {"shape": shape, "draft_tokens": shape.draft_tokens, "schedule": ()}
    elif started.draft_tokens is not None:
        changes |= {"shape": None, "draft_tokens": started.draft_tokens, "schedule": ()}
    elif started.schedule is not None:
        ranges = _ranges(started.schedule)
        changes |= {"shape": None, "draft_tokens": max(k for *_, k in ranges), "schedule": ranges}
    changes |= {
        name: value
        for name in ("ngram_min", "ngram_max")
        if (value := getattr(started, name)) is not None
    }
    return changes


def _ranges(text: str) -> tuple[tuple[int, int, int], ...]:
    import re

    from hardware_profiles.errors import InputError

    found = [
        re.fullmatch(r"\s*([0-9]{1,9})-([0-9]{1,9}):([0-9]{1,4})\s*", part)
        for part in text.split(",")
    ]
    if not all(found):
        raise InputError(
            "must be ranges of batch sizes and their K, as 1-16:5,17-64:0",
            key="--schedule",
            value=text,
        )
    return tuple((int(m[1]), int(m[2]), int(m[3])) for m in found if m is not None)


def _placed(chosen: "DecodingConfiguration", served: ExportTarget) -> "DecodingConfiguration":
    """The configuration on the devices, in the formats and within the limits of the options."""
    from dataclasses import replace

    named: dict[str, Any] = {
        "tensor_parallel": served.tp,
        "pipeline_parallel": served.pp,
        "expert_parallel": served.ep,
        "data_parallel": served.dp,
        "dtype": served.dtype,
        "kv_dtype": served.kv_dtype,
        "draft_dtype": served.draft_dtype,
    }
    limits: dict[str, Any] = {"max_batch": served.max_batch, "max_length": served.max_length}
    where = replace(
        chosen.deployment, **{name: value for name, value in named.items() if value is not None}
    )
    return replace(
        chosen,
        deployment=where,
        **{name: value for name, value in limits.items() if value is not None},
    )


def _with_acceptance(
    chosen: "DecodingConfiguration", started: Started, imitated: Imitated, *, synthetic: bool
) -> "DecodingConfiguration":
    """The configuration with one rate per draft token of its chain, where options or `synthetic`
    ask for them.
    """
    from dataclasses import replace

    from app.questions.resolve.accepted import one_source, rates_of
    from costmodel.optimizers.drafters.sources import configured_source
    from hardware_profiles.errors import InputError

    if not chosen.speculates:
        return chosen
    ways = (imitated.trace, imitated.acceptance, imitated.tokens_per_step, imitated.drafter)
    if imitated.acceptance_by_depth is not None:
        if any(way is not None for way in ways):
            raise InputError(
                "says all of the acceptance; leave out the others",
                key="--acceptance-by-depth",
                value=imitated.acceptance_by_depth,
            )
        rates = tuple(rates_of(imitated.acceptance_by_depth, "--acceptance-by-depth"))
        return replace(chosen, acceptance_by_depth=rates)
    method = "" if imitated.drafter else chosen.method
    source = one_source(
        imitated,
        imitated.trace,
        method=method,
        model=chosen.deployment.model,
        lengths=[chosen.draft_tokens],
    )
    if source is None and synthetic and chosen.topology == "chain":
        source = configured_source(chosen)
    if source is None:
        return chosen
    if source.method != chosen.method:
        rule = f"drafts in another way than {chosen.method}, which is exported"
        raise InputError(rule, key="--drafter", value=source.method)
    return _with_rates(chosen, source)


def _with_rates(chosen: "DecodingConfiguration", source: "Source") -> "DecodingConfiguration":
    from dataclasses import replace

    from hardware_profiles.errors import InputError
    from traces.replay.statistics import acceptance_by_depth

    length = chosen.draft_tokens
    if source.positions is not None:
        return replace(
            chosen,
            acceptance_by_depth=tuple(acceptance_by_depth(source.positions, length).tolist()),
        )
    if source.rates is None:
        rule = (
            "of the method's own shape are no rates of a chain; name their length: length=TOKENS@K"
        )
        raise InputError(f"tokens per step {rule}", key="--drafter", value=source.about)
    remark = source.rates.remark_at(length)
    provenance = {
        **chosen.provenance,
        "acceptance": f"{source.reference}; {remark}" if remark else source.reference,
    }
    return replace(chosen, acceptance_by_depth=source.rates.at(length), provenance=provenance)
