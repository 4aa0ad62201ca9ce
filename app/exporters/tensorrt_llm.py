"""How does TensorRT-LLM spell a configuration?

Writes the `speculative_config` YAML of the PyTorch backend and a script for `trtllm-serve`. A
schedule is read as "up to this batch size", which holds since 1.3 (TensorRT-LLM#10860); releases
that read the same key the other way round are not offered.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import yaml

from app.exporters.cache_length import cache_length
from app.exporters.dialect import Dialect, above_one
from app.exporters.result import Written, command_line, comments, script
from app.exporters.tree_paths import Path, depth, draft_paths, widest
from costmodel.configuration import DecodingConfiguration
from costmodel.engines.tensorrt_llm import ENGINE

CONFIG_FILE = "tensorrt-llm-config.yaml"
SCRIPT_FILE = "tensorrt-llm-serve.sh"
# counts accepted draft tokens, the target's own token not among them; a fraction is the chance of
# one more
_FORCED = "TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS"
_WEIGHTS = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
_CACHE = {"bf16": "auto", "fp16": "auto", "fp8": "fp8", "fp4": "nvfp4"}


def export_tensorrt_llm(
    chosen: DecodingConfiguration, dialect: Dialect, *, synthetic: bool, approximate: bool
) -> Written:
    """The YAML and the script for `trtllm-serve`; the script alone where nothing is drafted.

    Synthetic acceptance forces the mean of `chosen.acceptance_by_depth`. Where a static tree cannot
    be loaded, `approximate` takes a dynamic one of its size and depth; it looks up n-grams that are
    shorter than asked. Arguments and errors as of `app.exporters.registry.Exporter`.
    """
    notes = dialect.limits(chosen)
    files: dict[str, str] = {}
    environment = _forced(chosen, dialect, notes) if synthetic else {}
    arguments = [
        *_launcher(chosen, dialect, notes),
        "trtllm-serve",
        dialect.target(chosen, _WEIGHTS, notes),
        *_spread(chosen),
    ]
    if chosen.max_batch is not None:
        arguments += ["--max_batch_size", str(dialect.per_copy(chosen, chosen.max_batch))]
    if chosen.max_length is not None:
        arguments += ["--max_seq_len", str(chosen.max_length)]
    elif (held := cache_length(chosen, dialect.engine)) is not None:
        notes.append(f"{held.words}; TensorRT-LLM cuts max_seq_len down to its cache at start")
    if chosen.token_budget is not None:
        arguments += ["--max_num_tokens", str(chosen.token_budget)]
    config = _engine_options(chosen, dialect, notes)
    if chosen.speculates:
        config["speculative_config"] = _config(chosen, dialect, notes, approximate=approximate)
    else:
        notes.append(
            "nothing is drafted, so there is no speculative_config: the script starts plain"
            " decoding"
        )
    if config:
        files[CONFIG_FILE] = comments(dialect.header(chosen, notes)) + _yaml(config)
        arguments += ["--config", CONFIG_FILE]
    header = dialect.header(chosen, notes)
    files[SCRIPT_FILE] = script(header, arguments, files=(CONFIG_FILE,), environment=environment)
    return Written(
        files=files,
        command=command_line(arguments, environment),
        notes=notes,
    )


def _launcher(chosen: DecodingConfiguration, dialect: Dialect, notes: list[str]) -> list[str]:
    if (nodes := dialect.nodes(chosen)) == 1:
        return []
    devices = _devices(chosen)
    notes.append(
        f"srun starts one process per device on {nodes} nodes, inside an allocation of Slurm"
    )
    tasks = [
        "--nodes",
        str(nodes),
        "--ntasks",
        str(devices),
        "--ntasks-per-node",
        str(devices // nodes),
    ]
    return ["srun", "--mpi", "pmix", *tasks, "trtllm-llmapi-launch"]


def _devices(chosen: DecodingConfiguration) -> int:
    where = chosen.deployment
    return where.tensor_parallel * where.pipeline_parallel * where.data_parallel


def _spread(chosen: DecodingConfiguration) -> list[str]:
    where = chosen.deployment
    # attention data parallelism runs over the devices that are counted as tensor parallel
    sizes = {"--pp_size": where.pipeline_parallel, "--ep_size": where.expert_parallel}
    return ["--tp_size", str(where.tensor_parallel * where.data_parallel), *above_one(sizes)]


def _engine_options(
    chosen: DecodingConfiguration, dialect: Dialect, notes: list[str]
) -> dict[str, Any]:
    """What stands in the YAML beside the speculative_config."""
    where = chosen.deployment
    options: dict[str, Any] = {}
    if where.data_parallel > 1:
        if where.tensor_parallel > 1:
            rule = "copies attention on every device of a group, or shares it among all"
            raise dialect.refusal("tensor_parallel", rule, where.tensor_parallel)
        options["enable_attention_dp"] = True
    if (weights := dialect.weight_format(chosen, _WEIGHTS)) is not None:
        options["dtype"] = weights
    if (cache := dialect.cache_format(chosen, _CACHE)) is not None:
        options["kv_cache_config"] = {"dtype": cache}
    return options


def _forced(chosen: DecodingConfiguration, dialect: Dialect, notes: list[str]) -> dict[str, str]:
    rates = dialect.synthetic_rates(chosen)
    if chosen.varies:
        rule = "one number of accepted tokens is forced for every batch size"
        raise dialect.refusal("synthetic", rule, chosen.schedule)
    notes.append(
        "synthetic acceptance keeps the mean length alone; the generated text is not the model's"
    )
    return {_FORCED: f"{math.fsum(rates):.6g}"}


def draft_len_schedule(chosen: DecodingConfiguration, dialect: Dialect) -> dict[int, int]:
    """The schedule as {largest batch: draft length}; above the largest key nothing is drafted.

    Ranges without drafts at the end are left to that rule, and a last range with drafts is carried
    to the largest batch that the server takes: the one that it is started with, or its own limit.

    Raises:
        InputError: the first range does not hold the largest K, which TensorRT-LLM insists on.
    """
    if chosen.steps[0][1] != chosen.draft_tokens:
        rule = (
            f"the smallest key must hold max_draft_len, the largest K ({chosen.draft_tokens}): "
            "K may not rise above what it is at batch 1"
        )
        raise dialect.refusal("draft_len_schedule", rule, chosen.schedule)
    ends = [start - 1 for start, _ in chosen.steps[1:]]
    last = max(chosen.schedule[-1][1], chosen.max_batch or _requests())
    schedule = {end: tokens for end, (_, tokens) in zip([*ends, last], chosen.steps, strict=True)}
    if chosen.steps[-1][1] == 0:
        del schedule[last]
    return schedule


def _requests() -> int:
    """Requests at once of a server that has no stated limit."""
    return ENGINE.scheduling.max_requests


def _config(
    chosen: DecodingConfiguration, dialect: Dialect, notes: list[str], *, approximate: bool
) -> dict[str, Any]:
    name, own = dialect.name(chosen), dialect.drafting(chosen)
    config: dict[str, Any] = {
        "decoding_type": own.name,
        "max_draft_len": chosen.draft_tokens,
    }
    if name == "ngram":
        config |= _ngram(chosen, dialect, notes, own.name, approximate=approximate)
    elif name == "suffix_automaton":
        config["max_matching_ngram_size"] = -1
    elif (draft := dialect.draft(chosen, notes)) is not None:
        config["speculative_model"] = draft
    if (paths := draft_paths(chosen)) is not None:
        config |= _tree(paths, notes, static=dialect.has(own.static_tree))
    elif (numbers := dialect.dynamic_numbers(chosen)) is not None:
        config |= {"max_draft_len": numbers[0], **_dynamic(numbers[1], chosen.draft_tokens)}
    if chosen.varies:
        config["draft_len_schedule"] = draft_len_schedule(chosen, dialect)
        if chosen.steps[-1][1] == 0:
            notes.append(
                "while a batch is too large to draft, the drafter's own cache is not kept up, and"
                " acceptance may stay low for requests that live through it (TensorRT-LLM#16888)"
            )
    if name == "mtp":
        notes.append("with several MTP layers, K above their number is cut down to it at start")
    return config


def _ngram(
    chosen: DecodingConfiguration,
    dialect: Dialect,
    notes: list[str],
    decoding_type: str,
    *,
    approximate: bool,
) -> dict[str, Any]:
    if decoding_type == "SA":
        if chosen.ngram_min != chosen.ngram_max:
            if not approximate:
                rule = (
                    "SA looks up one length, so ngram_min must equal ngram_max ="
                    f" {chosen.ngram_max}"
                )
                raise dialect.refusal("ngram_min", rule, chosen.ngram_min)
            notes.append(f"APPROXIMATION: only n-grams of {chosen.ngram_max} tokens are looked up")
        return {"max_matching_ngram_size": chosen.ngram_max}
    if chosen.ngram_min != 1:
        if not approximate:
            raise dialect.refusal("ngram_min", "NGram matches from one token on", chosen.ngram_min)
        notes.append(
            f"APPROXIMATION: matches shorter than {chosen.ngram_min} tokens are drafted from as"
            " well"
        )
    notes.append("NGram shares its pool of n-grams among requests unless is_public_pool is false")
    return {"max_matching_ngram_size": chosen.ngram_max}


def _tree(paths: tuple[Path, ...], notes: list[str], *, static: bool) -> dict[str, Any]:
    levels = {"max_draft_len": depth(paths)}
    if static:
        notes.append("eagle_choices is deprecated in 1.3 and gone in 1.4")
        return levels | {"eagle_choices": [list(path) for path in paths]}
    topk = max(widest(paths), -(-len(paths) // depth(paths)))
    notes.append(
        f"APPROXIMATION: a dynamic tree of the static tree's size and depth ({depth(paths)} levels,"
        f" top {topk}); the predicted tokens per step belong to the static tree"
    )
    return levels | _dynamic(topk, len(paths))


def _dynamic(topk: int, nodes: int) -> dict[str, Any]:
    return {
        "use_dynamic_tree": True,
        "dynamic_tree_max_topK": topk,
        "max_total_draft_tokens": nodes,
    }


def _yaml(content: Mapping[str, Any]) -> str:
    text: str = yaml.safe_dump(
        dict(content), sort_keys=False, default_flow_style=None, allow_unicode=True
    )
    return text
