"""Which configuration do the options of `export` name: that of a file with changes, or a stated
one?
"""

import re
from dataclasses import replace
from typing import Any

from app.questions.export import ExportQuestion, ServedOptions, StartedOptions
from app.questions.resolve.accepted import one_source
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.configuration.file import read_configuration
from costmodel.method_library import load_method
from costmodel.optimizers.drafters.named_drafters import named_drafter
from costmodel.optimizers.drafters.sources import Source, configured_source
from hardware_profiles.errors import InputError
from traces.kinds.tree import read_tree
from traces.replay.statistics import acceptance_by_depth


def exported_configuration(question: ExportQuestion) -> DecodingConfiguration:
    """The configuration that a question names.

    Raises:
        InputError: options that exclude each other, or name no whole configuration.
    """
    changes = _drafted(question)
    if question.drafter and question.method is None and question.config is None:
        changes["method"], model = named_drafter(question.drafter[0].partition(":")[0].strip())
        if model is not None and changes.get("draft_model", model) != model:
            raise InputError(
                "--drafter names another draft model", key="--draft", value=question.draft
            )
        if model is not None:
            changes["draft_model"] = model
    if question.config is not None:
        whole = "draft_tokens" not in changes and not question.no_schedule
        chosen = read_configuration(
            question.config, batch=question.batch, context=question.context, scheduled=whole
        )
    elif question.model is None or not _is_whole(changes):
        raise InputError(
            "--config FILE, or --model with --method and --draft-tokens, --schedule or --tree, is"
            " needed"
        )
    else:
        where = DeploymentNames(model=question.model, device="")  # which no option names
        chosen = DecodingConfiguration(
            deployment=where, batch=question.batch, context=question.context
        )
    if changes.get("method", chosen.method) != chosen.method:
        chosen = chosen.without_drafter()
    if question.model is not None:
        changes["deployment"] = replace(chosen.deployment, model=question.model)
    chosen = _placed(replace(chosen, **changes), question)
    return _with_acceptance(chosen, question)


def _is_whole(changes: dict[str, Any]) -> bool:
    """Whether options name all of a configuration: what is drafted, or a method that drafts
    nothing.
    """
    method = changes.get("method")
    return "draft_tokens" in changes or method is None or not load_method(method).drafts


def _drafted(started: StartedOptions) -> dict[str, Any]:
    """What the options say of the method and of its draft."""
    ways = {
        "--tree": started.tree,
        "--draft-tokens": started.draft_tokens,
        "--schedule": started.schedule,
    }
    stated = [option for option, value in ways.items() if value is not None]
    if len(stated) > 1:
        raise InputError(
            f"{' and '.join(stated)} exclude each other", key=stated[0], value=str(ways[stated[0]])
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
    """Ranges of batch sizes with their K, out of the words of --schedule."""
    ranges = [
        re.fullmatch(r"\s*([0-9]{1,9})-([0-9]{1,9}):([0-9]{1,4})\s*", part)
        for part in text.split(",")
    ]
    if not all(ranges):
        raise InputError(
            "must be ranges of batch sizes and their K, as 1-16:5,17-64:0",
            key="--schedule",
            value=text,
        )
    return tuple((int(m[1]), int(m[2]), int(m[3])) for m in ranges if m is not None)


def _placed(chosen: DecodingConfiguration, served: ServedOptions) -> DecodingConfiguration:
    """The configuration on the devices, in the formats and within the limits of the options."""
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
    chosen: DecodingConfiguration, question: ExportQuestion
) -> DecodingConfiguration:
    """The configuration with one rate per draft token of its chain, where options or `synthetic`
    ask for them.
    """
    if not chosen.speculates:
        return chosen
    ways = (question.trace, question.acceptance, question.tokens_per_step, question.drafter)
    if question.acceptance_by_depth is not None:
        if any(way is not None for way in ways):
            raise InputError(
                "says all of the acceptance; leave out the others",
                key="--acceptance-by-depth",
                value=",".join(map(str, question.acceptance_by_depth)),
            )
        return replace(chosen, acceptance_by_depth=question.acceptance_by_depth)
    method = "" if question.drafter else chosen.method
    source = one_source(
        question,
        question.trace,
        method=method,
        model=chosen.deployment.model,
        lengths=[chosen.draft_tokens],
    )
    if source is None and question.synthetic and chosen.topology == "chain":
        source = configured_source(chosen)
    if source is None:
        return chosen
    if source.method != chosen.method:
        rule = f"drafts in another way than {chosen.method}, which is exported"
        raise InputError(rule, key="--drafter", value=source.method)
    return _with_rates(chosen, source)


def _with_rates(chosen: DecodingConfiguration, source: Source) -> DecodingConfiguration:
    """The configuration with the rates of a source, as far as its chain reaches."""
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
