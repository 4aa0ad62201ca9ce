"""How does vLLM spell a configuration, release by release?

Writes `--speculative-config` JSON and a script with the full command. The table below holds the
fields written here with the releases that know them, which the engine's record states; every result
is validated against them with unknown fields forbidden. Rules that need the checkpoints
(divisibility for MTP, vocabularies) are left to vLLM and mentioned in a note.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import ConfigDict, Field, ValidationError, create_model

from app.exporters.cache_length import cache_length
from app.exporters.checkpoints import DRAFT_PLACEHOLDER
from app.exporters.dialect import Dialect, above_one
from app.exporters.result import HEAD_ADDRESS, NODE_RANK, Written, command_line, json_lines, script
from app.exporters.tree_forms import token_tree
from app.exporters.tree_paths import Path, draft_paths
from app.exporters.untrained_head import HEAD_FILE, HEAD_FOLDER, HEAD_NOTE, untrained_head
from costmodel.configuration import DecodingConfiguration
from costmodel.engines.record.releases import Gate
from costmodel.engines.vllm import ENGINE


def _fields() -> dict[str, Gate]:
    """The fields that are written here, each with the releases that know it."""
    options = ENGINE.options
    assert options is not None
    always, eagle = Gate(first=options.releases[0]), options.drafting["eagle3"]
    plain = ("method", "num_speculative_tokens", "model", "prompt_lookup_min", "prompt_lookup_max")
    gated = {
        "parallel_drafting": options.drafting["pard"].releases,
        "draft_load_config": Gate(first="0.17.1"),
        "draft_sample_method": Gate(first="0.21.0"),
        "speculative_token_tree": eagle.static_tree,
        "num_speculative_tokens_per_batch_size": eagle.schedule,
        "rejection_sample_method": eagle.synthetic,
        "synthetic_acceptance_rates": eagle.synthetic,
        "enable_adaptive_verification": options.drafting["dspark"].verifies,
    }
    return dict.fromkeys(plain, always) | {
        name: gate for name, gate in gated.items() if isinstance(gate, Gate)
    }


CONFIG_FILE = "vllm-speculative-config.json"
SCRIPT_FILE = "vllm-serve.sh"

FIELDS: Mapping[str, Gate] = _fields()
# vLLM takes the method from the name of the draft model before it looks at the method that was
# asked for
_NAMES_THAT_DECIDE = ("eagle-", "eagle3", "dflash", "dspark")
_NAME_MAY_DECIDE = ("draft_model", "medusa", "pard", "block_verification")
_WEIGHTS = {
    "fp32": ("--dtype", "float32"),
    "bf16": ("--dtype", "bfloat16"),
    "fp16": ("--dtype", "float16"),
    "fp8": ("--quantization", "fp8"),
}
_FITS_LENGTH = Gate(first="0.14.1")  # `--max-model-len auto`: the longest that its memory holds
_CACHE: Mapping[str, tuple[str, ...]] = {"bf16": (), "fp16": (), "fp8": ("--kv-cache-dtype", "fp8")}


def export_vllm(
    chosen: DecodingConfiguration, dialect: Dialect, *, synthetic: bool, approximate: bool
) -> Written:
    """The JSON and the script for `vllm serve`; the script alone where nothing is drafted.

    Acceptance is synthetic at `chosen.acceptance_by_depth`; there is no near equivalent to fall
    back on. Arguments and errors as of `app.exporters.registry.Exporter`.
    """
    files: dict[str, str] = {}
    notes = dialect.limits(chosen)
    arguments = [
        "vllm",
        "serve",
        dialect.target(chosen, _WEIGHTS, notes),
        *_deployment(chosen, dialect, notes),
    ]
    if chosen.speculates:
        config = _config(chosen, dialect, notes, synthetic=synthetic)
        if (
            synthetic
            and config.get("model") == DRAFT_PLACEHOLDER
            and (head := untrained_head(chosen)) is not None
        ):
            files[HEAD_FILE] = head
            config["model"] = HEAD_FOLDER
            notes[:] = [*(note for note in notes if DRAFT_PLACEHOLDER not in note), HEAD_NOTE]
        check_config(config, dialect)
        files[CONFIG_FILE] = json_lines(config)
        arguments += ["--speculative-config", json.dumps(config, separators=(",", ":"))]
    notes += _notes(chosen, dialect, synthetic=synthetic)
    headless = "--headless" if dialect.nodes(chosen) > 1 else ""
    header, inside = dialect.header(chosen, notes), HEAD_FILE in files
    files[SCRIPT_FILE] = script(header, arguments, worker_flag=headless, inside=inside)
    return Written(
        files=files,
        command=command_line(arguments),
        notes=notes,
    )


def _deployment(chosen: DecodingConfiguration, dialect: Dialect, notes: list[str]) -> list[str]:
    where = chosen.deployment
    sizes = {
        "--pipeline-parallel-size": where.pipeline_parallel,
        "--data-parallel-size": where.data_parallel,
    }
    flags = ["--tensor-parallel-size", str(where.tensor_parallel), *above_one(sizes)]
    if where.expert_parallel > 1:
        if where.expert_parallel != where.tensor_parallel * where.data_parallel:
            rule = "spreads experts over all tensor times data parallel devices, or over none"
            raise dialect.refusal("expert_parallel", rule, where.expert_parallel)
        flags.append("--enable-expert-parallel")
    if (nodes := dialect.nodes(chosen)) > 1:
        flags += ["--nnodes", str(nodes), "--node-rank", NODE_RANK, "--master-addr", HEAD_ADDRESS]
        notes.append(
            f"start it on each of {nodes} nodes; every node but the first adds --headless, as the"
            " script does"
        )
    if where.max_loras:
        slots = ["--max-loras", str(where.max_loras), "--max-lora-rank", str(where.max_lora_rank)]
        flags += ["--enable-lora", *slots]
        notes.append("name the adapters with --lora-modules NAME=PATH")
    flags += dialect.weight_format(chosen, _WEIGHTS) or ()
    flags += dialect.cache_format(chosen, _CACHE) or ()
    if chosen.max_length is not None:
        flags += ["--max-model-len", str(chosen.max_length)]
    elif (held := cache_length(chosen, dialect.engine)) is not None:
        # what fits by vLLM's own account, so that a prediction that is off stops no server
        fitted = all(_FITS_LENGTH.admits(release) for release in dialect.releases)
        length = "auto" if fitted else str(held.tokens)
        flags += ["--max-model-len", length]
        notes.append(
            f"{held.words}; vLLM does not start with a length that does not fit, so that"
            f" --max-model-len {length} "
            + ("has it take what fits" if fitted else "says what does; lower it where it does not")
        )
    if chosen.max_batch is not None:
        flags += ["--max-num-seqs", str(dialect.per_copy(chosen, chosen.max_batch))]
    if chosen.token_budget is not None:
        flags += ["--max-num-batched-tokens", str(chosen.token_budget)]
    return flags


def check_config(config: Mapping[str, Any], dialect: Dialect) -> None:
    """Hold a speculative config against the rules of every release of a dialect.

    Args:
        config: what would be passed to `--speculative-config`.
        dialect: the releases to satisfy.

    Raises:
        InputError: a field is unknown to a release, or a value breaks one of its rules.
    """
    count = Annotated[int, Field(ge=1, strict=True)]
    rate = Annotated[float, Field(ge=0.0, le=1.0)]
    entry = tuple[count, count, Annotated[int, Field(ge=0, strict=True)]]
    types: dict[str, Any] = {
        "method": str,
        "num_speculative_tokens": count,
        "model": str,
        "prompt_lookup_min": count,
        "prompt_lookup_max": count,
        "speculative_token_tree": str,
        "num_speculative_tokens_per_batch_size": list[entry],
        "rejection_sample_method": str,
        "synthetic_acceptance_rates": list[rate],
        "parallel_drafting": bool,
        "draft_sample_method": str,
        "draft_load_config": dict[str, str],
        "enable_adaptive_verification": bool,
    }
    for release in dialect.releases:
        fields: dict[str, Any] = {
            name: (types[name], None) for name, gate in FIELDS.items() if gate.admits(release)
        }
        model = create_model("SpeculativeConfig", __config__=ConfigDict(extra="forbid"), **fields)
        try:
            model.model_validate(dict(config))
        except ValidationError as error:
            first = error.errors()[0]
            key = str(first["loc"][0])
            rule = (
                FIELDS[key].span
                if first["type"] == "extra_forbidden" and key in FIELDS
                else first["msg"]
            )
            raise dialect.refusal(key, rule, config.get(key)) from error


def _config(
    chosen: DecodingConfiguration, dialect: Dialect, notes: list[str], *, synthetic: bool
) -> dict[str, Any]:
    name = dialect.name(chosen)
    config: dict[str, Any] = {
        "method": dialect.drafting(chosen).name,
        "num_speculative_tokens": chosen.draft_tokens,
    }
    if name == "ngram":
        config |= {"prompt_lookup_min": chosen.ngram_min, "prompt_lookup_max": chosen.ngram_max}
    elif (draft := dialect.draft(chosen, notes)) is not None:
        config["model"] = _named_as_meant(draft, name, dialect)
    if name == "pard":
        config["parallel_drafting"] = True
    if name == "block_verification":
        # drafts that are argmax tokens are judged as well one by one
        config |= {"rejection_sample_method": "block", "draft_sample_method": "probabilistic"}
    if chosen.stop.rule == "cost":
        config["enable_adaptive_verification"] = True
        notes.append(
            "vLLM times its own passes when it starts and loads no table of costs; drafters need a"
            " confidence head"
        )
    if (paths := draft_paths(chosen)) is not None:
        config["speculative_token_tree"] = _token_tree(paths, dialect)
    if chosen.varies:
        if chosen.deployment.data_parallel > 1:
            raise dialect.refusal(
                "schedule", "switches a schedule off under data parallelism", chosen.schedule
            )
        if config["method"] == "ngram_gpu":
            raise dialect.refusal("schedule", "ngram_gpu ignores a schedule", chosen.schedule)
        config["num_speculative_tokens_per_batch_size"] = _schedule(chosen)
    if synthetic:
        config["rejection_sample_method"] = "synthetic"
        config["synthetic_acceptance_rates"] = list(dialect.synthetic_rates(chosen))
        if "model" in config and all(
            FIELDS["draft_load_config"].admits(release) for release in dialect.releases
        ):
            config["draft_load_config"] = {"load_format": "dummy"}
            notes.append(
                "the drafter's weights are not read: a folder with its config.json is enough"
            )
    return config


def _named_as_meant(draft_model: str, method: str, dialect: Dialect) -> str:
    other = [part for part in _NAMES_THAT_DECIDE if part in draft_model.lower()]
    if method in _NAME_MAY_DECIDE and other:
        rule = f"a draft model whose name contains {other[0]!r} is not run as {method}"
        raise dialect.refusal("draft_model", rule, draft_model)
    return draft_model


def _token_tree(paths: tuple[Path, ...], dialect: Dialect) -> str:
    spelled = token_tree(paths)
    if spelled is None:
        rule = (
            "speculative_token_tree keeps only the number of nodes per level, so every node of a"
            " level must have the same number of children, ranked from 0"
        )
        raise dialect.refusal("tree", rule, list(paths))
    return spelled


def _schedule(chosen: DecodingConfiguration) -> list[list[int]]:
    starts = [start for start, _ in chosen.steps]
    ends = [*(start - 1 for start in starts[1:]), chosen.schedule[-1][1]]
    return [[start, end, tokens] for (start, tokens), end in zip(chosen.steps, ends, strict=True)]


def _notes(chosen: DecodingConfiguration, dialect: Dialect, *, synthetic: bool) -> list[str]:
    if not chosen.speculates:
        return [
            "nothing is drafted, so there is no speculative config: the script starts plain"
            " decoding"
        ]
    notes, name = [], dialect.name(chosen)
    if chosen.varies:
        notes.append(
            "K is looked up by the number of scheduled requests, prefills included; data"
            " parallelism switches the schedule off, and with one the V1 runner captures piecewise"
            " CUDA graphs only"
        )
    if chosen.deployment.pipeline_parallel > 1:
        notes.append(
            "releases 0.28 and 0.29 do not start with drafts over several pipeline stages"
            " (vllm#57755); later ones were not tried"
        )
    if name == "mtp":
        notes.append(
            "above the checkpoint's n_predict, K must be a multiple of it; vLLM checks this at"
            " start"
        )
    if name == "suffix":
        notes.append(
            "suffix decoding needs `pip install arctic-inference==0.1.1`, and drafts up to K tokens"
            " a step"
        )
    if name in ("draft_model", "pard", "block_verification"):
        notes.append(
            "the draft model must have the target's vocabulary size; vLLM checks this at start"
        )
    if draft_paths(chosen) is not None:
        notes.append(
            "trees need the TREE_ATTN attention backend, and the tree sampler (vllm#22752) was"
            " never merged: measure before relying on the predicted tokens per step"
        )
    if synthetic:
        notes.append(
            "synthetic acceptance: timings are real, the generated text is not the model's"
        )
    return notes
