"""How does vLLM spell a choice, release by release?

Writes `--speculative-config` JSON and a script with the full command. The tables below hold the fields
written here and the releases that know them, from the sources of the releases in `RELEASES`; every result is
validated against them with unknown fields forbidden. Rules that need the checkpoints (divisibility for MTP,
vocabularies) are left to vLLM and said in a note.
"""

import json
from collections.abc import Mapping
from typing import Annotated, Any

from app.exporters.choice import DecodingChoice
from app.exporters.result import Dialect, ExportResult, command_line, json_lines, script
from app.exporters.tree_paths import Path, children_by_level
from app.exporters.versions import Gate, releases_for

RELEASES = (
    "0.8.5", "0.9.0", "0.9.2", "0.11.2", "0.14.1", "0.15.1", "0.16.0", "0.17.1", "0.20.2", "0.21.0", "0.22.1",
    "0.23.0", "0.24.0", "0.25.1", "0.26.0", "0.29.0", "0.30.0", "0.31.0", "0.32.0", "0.33.0",
)  # fmt: skip
DEFAULT_VERSION = "0.33.0"
CONFIG_FILE = "vllm-speculative-config.json"
SCRIPT_FILE = "vllm-serve.sh"

METHODS: Mapping[str, Gate] = {
    # the merged V1 proposer (vllm#24322); before it the V1 engine raises NotImplementedError (vllm#31883)
    "draft_model": Gate(first="0.15.1", why="the V1 engine of older releases does not run draft models"),
    "ngram": Gate(first="0.8.5"),
    "medusa": Gate(first="0.8.5", last="0.32.0"),
    "eagle3": Gate(first="0.9.2"),
    "mtp": Gate(first="0.11.2", why="older releases name it after the model family"),
}
FIELDS: Mapping[str, Gate] = {
    "method": Gate(first="0.8.5"),
    "num_speculative_tokens": Gate(first="0.8.5"),
    "model": Gate(first="0.8.5"),
    "prompt_lookup_min": Gate(first="0.8.5"),
    "prompt_lookup_max": Gate(first="0.8.5"),
    "speculative_token_tree": Gate(first="0.9.0", last="0.20.2", why="trees were removed in vllm#42121"),
    "num_speculative_tokens_per_batch_size": Gate(first="0.24.0"),
    "rejection_sample_method": Gate(first="0.20.2"),
    "synthetic_acceptance_rates": Gate(first="0.20.2"),
}
# vLLM takes the method from the name of the draft model before it looks at the method that was asked for
_NAMES_THAT_DECIDE = ("eagle-", "eagle3", "dflash", "dspark")
_NAME_MAY_DECIDE = ("draft_model", "medusa")


def export_vllm(
    choice: DecodingChoice,
    *,
    version: str = DEFAULT_VERSION,
    synthetic: bool = False,
    approximate: bool = False,
) -> ExportResult:
    """Write a choice for `vllm serve`.

    Args:
        choice: what to run.
        version: vLLM release.
        synthetic: accept draft tokens at `choice.acceptance_by_depth` instead of verifying them (for
        benchmarks).
        approximate: unused; vLLM has no near equivalent to fall back on.

    Returns:
        The JSON and the script; the script alone where nothing is drafted.

    Raises:
        InputError: this release cannot express the choice.
    """
    dialect = Dialect(engine="vllm", version=version, releases=releases_for("vllm", version, RELEASES))
    files: dict[str, str] = {}
    arguments = ["vllm", "serve", choice.model, "--tensor-parallel-size", str(choice.tensor_parallel)]
    if choice.max_batch is not None:
        arguments += ["--max-num-seqs", str(choice.max_batch)]
    if choice.speculates:
        config = _config(choice, dialect, synthetic=synthetic)
        check_config(config, dialect)
        files[CONFIG_FILE] = json_lines(config)
        arguments += ["--speculative-config", json.dumps(config, separators=(",", ":"))]
    elif synthetic:
        dialect.synthetic_rates(choice)
    notes = _notes(choice, synthetic=synthetic)
    files[SCRIPT_FILE] = script(dialect.header(choice, notes), arguments)
    return ExportResult(
        engine="vllm",
        version=version,
        checked_against=dialect.releases,
        files=files,
        command=command_line(arguments),
        notes=notes,
    )


def check_config(config: Mapping[str, Any], dialect: Dialect) -> None:
    """Hold a speculative config against the rules of every release of a dialect.

    Args:
        config: what would be passed to `--speculative-config`.
        dialect: the releases to satisfy.

    Raises:
        InputError: a field is unknown to a release, or a value breaks one of its rules.
    """
    from pydantic import ConfigDict, Field, ValidationError, create_model

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
    }
    for release in dialect.releases:
        fields: dict[str, Any] = {name: (types[name], None) for name, gate in FIELDS.items() if gate.admits(release)}
        model = create_model("SpeculativeConfig", __config__=ConfigDict(extra="forbid"), **fields)
        try:
            model.model_validate(dict(config))
        except ValidationError as error:
            first = error.errors()[0]
            key = str(first["loc"][0])
            rule = FIELDS[key].span if first["type"] == "extra_forbidden" and key in FIELDS else first["msg"]
            raise dialect.refusal(key, rule, config.get(key)) from error


def _config(choice: DecodingChoice, dialect: Dialect, *, synthetic: bool) -> dict[str, Any]:
    gate = METHODS.get(choice.method)
    if gate is None:
        raise dialect.refusal("method", f"runs {', '.join(METHODS)}", choice.method)
    if not all(gate.admits(release) for release in dialect.releases):
        raise dialect.refusal("method", f"{choice.method} {gate.span}", choice.method)
    dialect.refuse_threshold(choice)
    config: dict[str, Any] = {"method": choice.method, "num_speculative_tokens": choice.draft_tokens}
    if choice.method == "ngram":
        config |= {"prompt_lookup_min": choice.ngram_min, "prompt_lookup_max": choice.ngram_max}
    elif choice.draft_model is not None:
        config["model"] = _named_as_meant(choice.draft_model, choice.method, dialect)
    if choice.tree_paths is not None:
        config["speculative_token_tree"] = _token_tree(choice, choice.tree_paths, dialect)
    if choice.varies:
        if choice.method == "medusa":
            raise dialect.refusal("schedule", "medusa ignores a schedule", choice.schedule)
        config["num_speculative_tokens_per_batch_size"] = _schedule(choice)
    if synthetic:
        config["rejection_sample_method"] = "synthetic"
        config["synthetic_acceptance_rates"] = list(dialect.synthetic_rates(choice))
    return config


def _named_as_meant(draft_model: str, method: str, dialect: Dialect) -> str:
    other = [part for part in _NAMES_THAT_DECIDE if part in draft_model.lower()]
    if method in _NAME_MAY_DECIDE and other:
        rule = f"a draft model whose name contains {other[0]!r} is not run as {method}"
        raise dialect.refusal("draft_model", rule, draft_model)
    return draft_model


def _token_tree(choice: DecodingChoice, paths: tuple[Path, ...], dialect: Dialect) -> str:
    if choice.method != "eagle3":
        raise dialect.refusal("tree", f"trees belong to eagle3, not to {choice.method}", f"{len(paths)} nodes")
    if children_by_level(paths) is None:
        rule = (
            "speculative_token_tree keeps only the number of nodes per level, so every node of a level must "
            "have the same number of children, ranked from 0"
        )
        raise dialect.refusal("tree", rule, list(paths))
    return str(list(paths))


def _schedule(choice: DecodingChoice) -> list[list[int]]:
    starts = [start for start, _ in choice.steps]
    ends = [*(start - 1 for start in starts[1:]), choice.schedule[-1][1]]
    return [[start, end, tokens] for (start, tokens), end in zip(choice.steps, ends, strict=True)]


def _notes(choice: DecodingChoice, *, synthetic: bool) -> tuple[str, ...]:
    if not choice.speculates:
        return ("nothing is drafted, so there is no speculative config: the script starts plain decoding",)
    notes = []
    if choice.varies:
        notes.append(
            "K is looked up by the number of scheduled requests, prefills included; data parallelism "
            "switches the schedule off, and with one the V1 runner captures piecewise CUDA graphs only"
        )
    if choice.method == "mtp":
        notes.append("above the checkpoint's n_predict, K must be a multiple of it; vLLM checks this at start")
    if choice.method == "draft_model":
        notes.append("the draft model must have the target's vocabulary size; vLLM checks this at start")
    if choice.tree_paths is not None:
        notes.append(
            "trees need the TREE_ATTN attention backend, and the tree sampler (vllm#22752) was never merged: "
            "measure before relying on the predicted tokens per step"
        )
    if synthetic:
        notes.append("synthetic acceptance: timings are real, the generated text is not the model's")
    return tuple(notes)
