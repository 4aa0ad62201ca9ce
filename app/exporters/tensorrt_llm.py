"""How does TensorRT-LLM spell a choice?

Writes the `speculative_config` YAML of the PyTorch backend and a script for `trtllm-serve`. A schedule is
read as "up to this batch size", which holds since 1.3 (TensorRT-LLM#10860); releases that read the same key
the other way round are not offered.
"""

from collections.abc import Mapping
from typing import Any

from app.exporters.choice import DecodingChoice
from app.exporters.result import Dialect, ExportResult, command_line, comments, script
from app.exporters.tree_paths import Path, depth, widest
from app.exporters.versions import Gate, releases_for

RELEASES = ("1.3.0rc27", "1.4.0rc1")
DEFAULT_VERSION = "1.3.0rc27"
CONFIG_FILE = "tensorrt-llm-config.yaml"
SCRIPT_FILE = "tensorrt-llm-serve.sh"

DECODING_TYPES: Mapping[str, str] = {
    "draft_model": "Draft_Target",
    "ngram": "NGram",
    "eagle3": "Eagle3",
    "mtp": "MTP",
}
METHODS: Mapping[str, Gate] = {
    "draft_model": Gate(first="1.3.0rc27", last="1.3.0rc27", why="later releases were not read for it"),
    "ngram": Gate(first="1.3.0rc27", last="1.3.0rc27", why="later releases were not read for it"),
    "eagle3": Gate(first="1.3.0rc27"),
    "mtp": Gate(first="1.3.0rc27"),
}
STATIC_TREES = Gate(first="1.3.0rc27", last="1.3.0rc27", why="eagle_choices was removed in 1.4")
_DYNAMIC_TREES = ("eagle3", "mtp")


def export_tensorrt_llm(
    choice: DecodingChoice,
    *,
    version: str = DEFAULT_VERSION,
    synthetic: bool = False,
    approximate: bool = False,
) -> ExportResult:
    """Write a choice for `trtllm-serve`.

    Args:
        choice: what to run.
        version: TensorRT-LLM release.
        synthetic: refused, there is no such mode.
        approximate: where a static tree cannot be loaded, use a dynamic one of its size and depth; look up
        n-grams
            that are shorter than asked.

    Returns:
        The YAML and the script; the script alone where nothing is drafted.

    Raises:
        InputError: this release cannot express the choice.
    """
    dialect = Dialect(engine="tensorrt-llm", version=version, releases=releases_for("tensorrt-llm", version, RELEASES))
    if synthetic:
        raise dialect.refusal("synthetic", "has no synthetic acceptance", synthetic)
    notes: list[str] = []
    files: dict[str, str] = {}
    arguments = ["trtllm-serve", choice.model, "--tp_size", str(choice.tensor_parallel)]
    if choice.largest_batch is not None:
        arguments += ["--max_batch_size", str(choice.largest_batch)]
    if choice.speculates:
        config = _config(choice, dialect, notes, approximate=approximate)
        files[CONFIG_FILE] = comments(dialect.header(choice, notes)) + _yaml({"speculative_config": config})
        arguments += ["--config", CONFIG_FILE]
    else:
        notes.append("nothing is drafted, so there is no speculative_config: the script starts plain decoding")
    files[SCRIPT_FILE] = script(dialect.header(choice, notes), arguments, files=(CONFIG_FILE,))
    return ExportResult(
        engine="tensorrt-llm",
        version=version,
        checked_against=dialect.releases,
        files=files,
        command=command_line(arguments),
        notes=tuple(notes),
    )


def draft_len_schedule(choice: DecodingChoice, dialect: Dialect) -> dict[int, int]:
    """The schedule as {largest batch: draft length}; above the largest key nothing is drafted.

    Ranges without drafts at the end are left to that rule, and a last range with drafts is carried to the
    largest batch that the server is started with.

    Raises:
        InputError: the first range does not hold the largest K, which TensorRT-LLM insists on.
    """
    if choice.steps[0][1] != choice.draft_tokens:
        rule = (
            f"the smallest key must hold max_draft_len, the largest K ({choice.draft_tokens}): "
            "K may not rise above what it is at batch 1"
        )
        raise dialect.refusal("draft_len_schedule", rule, choice.schedule)
    ends = [start - 1 for start, _ in choice.steps[1:]]
    last = max(choice.schedule[-1][1], choice.largest_batch or 0)
    schedule = {end: tokens for end, (_, tokens) in zip([*ends, last], choice.steps, strict=True)}
    if choice.steps[-1][1] == 0:
        del schedule[last]
    return schedule


def _config(choice: DecodingChoice, dialect: Dialect, notes: list[str], *, approximate: bool) -> dict[str, Any]:
    gate = METHODS.get(choice.method)
    if gate is None:
        rule = f"the PyTorch backend runs {', '.join(METHODS)}"
        raise dialect.refusal("method", rule, choice.method)
    if not all(gate.admits(release) for release in dialect.releases):
        raise dialect.refusal("method", f"{choice.method} {gate.span}", choice.method)
    dialect.refuse_threshold(choice)
    config: dict[str, Any] = {
        "decoding_type": DECODING_TYPES[choice.method],
        "max_draft_len": choice.draft_tokens,
    }
    if choice.method == "ngram":
        config |= _ngram(choice, dialect, notes, approximate=approximate)
    elif choice.draft_model is not None:
        config["speculative_model"] = choice.draft_model
    if choice.tree_paths is not None:
        config |= _tree(choice, choice.tree_paths, dialect, notes, approximate=approximate)
    if choice.varies:
        config["draft_len_schedule"] = draft_len_schedule(choice, dialect)
        if choice.steps[-1][1] == 0:
            notes.append(
                "while a batch is too large to draft, the drafter's own cache is not kept up, and acceptance "
                "may stay low for requests that live through it (TensorRT-LLM#16888)"
            )
    if choice.method == "mtp":
        notes.append("with several MTP layers, K above their number is cut down to it at start")
    return config


def _ngram(choice: DecodingChoice, dialect: Dialect, notes: list[str], *, approximate: bool) -> dict[str, Any]:
    if choice.ngram_min != 1:
        if not approximate:
            raise dialect.refusal("ngram_min", "NGram matches from one token on", choice.ngram_min)
        notes.append(f"APPROXIMATION: matches shorter than {choice.ngram_min} tokens are drafted from as well")
    notes.append("NGram shares its pool of n-grams among requests unless is_public_pool is false")
    return {"max_matching_ngram_size": choice.ngram_max}


def _tree(
    choice: DecodingChoice, paths: tuple[Path, ...], dialect: Dialect, notes: list[str], *, approximate: bool
) -> dict[str, Any]:
    levels = {"max_draft_len": depth(paths)}
    static = choice.method == "eagle3" and all(STATIC_TREES.admits(release) for release in dialect.releases)
    if static:
        notes.append("eagle_choices is deprecated in 1.3 and gone in 1.4")
        return levels | {"eagle_choices": [list(path) for path in paths]}
    if not approximate or choice.method not in _DYNAMIC_TREES:
        rule = f"eagle_choices {STATIC_TREES.span}" if choice.method == "eagle3" else "static trees belong to eagle3"
        raise dialect.refusal("tree", rule, f"{choice.method} with {len(paths)} draft nodes")
    topk = max(widest(paths), -(-len(paths) // depth(paths)))
    notes.append(
        f"APPROXIMATION: a dynamic tree of the static tree's size and depth ({depth(paths)} levels, "
        f"top {topk}); the predicted tokens per step belong to the static tree"
    )
    dynamic = {"use_dynamic_tree": True, "dynamic_tree_max_topK": topk, "max_total_draft_tokens": len(paths)}
    return levels | dynamic


def _yaml(content: Mapping[str, Any]) -> str:
    import yaml

    text: str = yaml.safe_dump(dict(content), sort_keys=False, default_flow_style=None, allow_unicode=True)
    return text
