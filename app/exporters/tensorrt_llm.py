"""How does TensorRT-LLM spell a configuration?

Writes the `speculative_config` YAML of the PyTorch backend and a script for `trtllm-serve`. A schedule is
read as "up to this batch size", which holds since 1.3 (TensorRT-LLM#10860); releases that read the same key
the other way round are not offered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from app.exporters.result import Dialect, Written, command_line, comments, script
from app.exporters.tree_paths import Path, depth, draft_paths, widest

if TYPE_CHECKING:
    from costmodel.configuration import DecodingConfiguration


CONFIG_FILE = "tensorrt-llm-config.yaml"
SCRIPT_FILE = "tensorrt-llm-serve.sh"


def export_tensorrt_llm(
    chosen: DecodingConfiguration, dialect: Dialect, *, synthetic: bool, approximate: bool
) -> Written:
    """The YAML and the script for `trtllm-serve`; the script alone where nothing is drafted.

    There is no synthetic mode. Where a static tree cannot be loaded, `approximate` takes a dynamic one of its size and
    depth; it looks up n-grams that are shorter than asked. Arguments and errors as of
    `app.exporters.registry.Exporter`.
    """
    notes: list[str] = []
    files: dict[str, str] = {}
    arguments = ["trtllm-serve", dialect.target(chosen), "--tp_size", str(chosen.deployment.tensor_parallel)]
    if chosen.largest_batch is not None:
        arguments += ["--max_batch_size", str(chosen.largest_batch)]
    if chosen.speculates:
        config = _config(chosen, dialect, notes, approximate=approximate)
        files[CONFIG_FILE] = comments(dialect.header(chosen, notes)) + _yaml({"speculative_config": config})
        arguments += ["--config", CONFIG_FILE]
    else:
        notes.append("nothing is drafted, so there is no speculative_config: the script starts plain decoding")
    files[SCRIPT_FILE] = script(dialect.header(chosen, notes), arguments, files=(CONFIG_FILE,))
    return Written(
        files=files,
        command=command_line(arguments),
        notes=notes,
    )


def draft_len_schedule(chosen: DecodingConfiguration, dialect: Dialect) -> dict[int, int]:
    """The schedule as {largest batch: draft length}; above the largest key nothing is drafted.

    Ranges without drafts at the end are left to that rule, and a last range with drafts is carried to the
    largest batch that the server is started with.

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
    last = max(chosen.schedule[-1][1], chosen.largest_batch or 0)
    schedule = {end: tokens for end, (_, tokens) in zip([*ends, last], chosen.steps, strict=True)}
    if chosen.steps[-1][1] == 0:
        del schedule[last]
    return schedule


def _config(chosen: DecodingConfiguration, dialect: Dialect, notes: list[str], *, approximate: bool) -> dict[str, Any]:
    name, own = dialect.name(chosen), dialect.drafting(chosen)
    config: dict[str, Any] = {
        "decoding_type": own.name,
        "max_draft_len": chosen.draft_tokens,
    }
    if name == "ngram":
        config |= _ngram(chosen, dialect, notes, approximate=approximate)
    elif (draft := dialect.draft(chosen)) is not None:
        config["speculative_model"] = draft
    if (paths := draft_paths(chosen)) is not None:
        config |= _tree(paths, notes, static=dialect.has(own.static_tree))
    elif (numbers := dialect.dynamic_numbers(chosen)) is not None:
        config |= {"max_draft_len": numbers[0], **_dynamic(numbers[1], chosen.draft_tokens)}
    if chosen.varies:
        config["draft_len_schedule"] = draft_len_schedule(chosen, dialect)
        if chosen.steps[-1][1] == 0:
            notes.append(
                "while a batch is too large to draft, the drafter's own cache is not kept up, and acceptance "
                "may stay low for requests that live through it (TensorRT-LLM#16888)"
            )
    if name == "mtp":
        notes.append("with several MTP layers, K above their number is cut down to it at start")
    return config


def _ngram(chosen: DecodingConfiguration, dialect: Dialect, notes: list[str], *, approximate: bool) -> dict[str, Any]:
    if chosen.ngram_min != 1:
        if not approximate:
            raise dialect.refusal("ngram_min", "NGram matches from one token on", chosen.ngram_min)
        notes.append(f"APPROXIMATION: matches shorter than {chosen.ngram_min} tokens are drafted from as well")
    notes.append("NGram shares its pool of n-grams among requests unless is_public_pool is false")
    return {"max_matching_ngram_size": chosen.ngram_max}


def _tree(paths: tuple[Path, ...], notes: list[str], *, static: bool) -> dict[str, Any]:
    levels = {"max_draft_len": depth(paths)}
    if static:
        notes.append("eagle_choices is deprecated in 1.3 and gone in 1.4")
        return levels | {"eagle_choices": [list(path) for path in paths]}
    topk = max(widest(paths), -(-len(paths) // depth(paths)))
    notes.append(
        f"APPROXIMATION: a dynamic tree of the static tree's size and depth ({depth(paths)} levels, "
        f"top {topk}); the predicted tokens per step belong to the static tree"
    )
    return levels | _dynamic(topk, len(paths))


def _dynamic(topk: int, nodes: int) -> dict[str, Any]:
    return {"use_dynamic_tree": True, "dynamic_tree_max_topK": topk, "max_total_draft_tokens": nodes}


def _yaml(content: Mapping[str, Any]) -> str:
    import yaml

    text: str = yaml.safe_dump(dict(content), sort_keys=False, default_flow_style=None, allow_unicode=True)
    return text
