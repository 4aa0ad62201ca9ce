"""How does llama.cpp's server spell a configuration, before and after its flags were renamed?

llama.cpp numbers builds, not releases, so there are two versions here: "new" for builds whose
`llama-server --help` lists `--spec-draft-n-max`, "old" for builds that list `--draft-max`. Both are
checked against the project's own documentation of speculative decoding on either side of the
renaming.
"""

from __future__ import annotations

from collections.abc import Mapping

from app.exporters.cache_length import cache_length
from app.exporters.checkpoints import (
    DRAFT_PLACEHOLDER,
    TARGET_PLACEHOLDER,
    gguf_checkpoint,
    stored_placeholder,
)
from app.exporters.dialect import Dialect
from app.exporters.result import Written, command_line, script
from costmodel.configuration import DecodingConfiguration

SCRIPT_FILE = "llama-cpp-serve.sh"

FLAGS: Mapping[str, Mapping[str, str]] = {
    "old": {
        "n_max": "--draft-max",
        "n_min": "--draft-min",
        "p_min": "--draft-p-min",
        "draft_file": "--model-draft",
        "draft_hub": "--hf-repo-draft",
        "lookup": "--spec-ngram-size-n",
        "drafted": "--spec-ngram-size-m",
        "hits": "--spec-ngram-min-hits",
    },
    "new": {
        "n_max": "--spec-draft-n-max",
        "n_min": "--spec-draft-n-min",
        "p_min": "--spec-draft-p-min",
        "draft_file": "--spec-draft-model",
        "draft_hub": "--spec-draft-hf",
    },
}
_CACHE = {"fp32": "f32", "bf16": "bf16", "fp16": "f16", "int8": "q8_0", "int4": "q4_0"}
# of the other ways to look up n-grams: the flags of the n-gram, of the draft, and what else is
# needed to draft at all
_LOOKUPS: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "ngram-mod": (
        "--spec-ngram-mod-n-match",
        "--spec-ngram-mod-n-max",
        ("--spec-ngram-mod-n-min", "0"),
    ),
    **{
        name: (f"--spec-{name}-size-n", f"--spec-{name}-size-m", (f"--spec-{name}-min-hits", "1"))
        for name in ("ngram-simple", "ngram-map-k", "ngram-map-k4v")
    },
}


def export_llama_cpp(
    chosen: DecodingConfiguration, dialect: Dialect, *, synthetic: bool, approximate: bool
) -> Written:
    """The script for `llama-server`; models are GGUF files, or hub repositories that hold one.

    Acceptance is synthetic at `chosen.acceptance_by_depth` in "new" builds only; `approximate`
    looks up n-grams of `ngram_max` tokens alone, and no longer ones than are drafted. Arguments and
    errors as of `app.exporters.registry.Exporter`.
    """
    notes: list[str] = []
    named = dialect.target(chosen, (), notes)
    mark = stored_placeholder(chosen.deployment.dtype or "")
    target = gguf_checkpoint(named, mark if named == mark else TARGET_PLACEHOLDER, notes)
    arguments = [
        "llama-server",
        *_model(target, "--model", "--hf-repo"),
        *_deployment(chosen, dialect, notes),
    ]
    if chosen.speculates:
        arguments += _speculation(chosen, dialect, notes, approximate=approximate)
    else:
        notes.append(
            "nothing is drafted, so no speculative flag is set: the script starts plain decoding"
        )
    if synthetic:
        arguments += _synthetic(chosen, dialect, notes)
    return Written(
        files={SCRIPT_FILE: script(dialect.header(chosen, notes), arguments)},
        command=command_line(arguments),
        notes=notes,
    )


def _deployment(chosen: DecodingConfiguration, dialect: Dialect, notes: list[str]) -> list[str]:
    flags: list[str] = []
    if (cache := dialect.cache_format(chosen, _CACHE)) is not None:
        flags += ["--cache-type-k", cache, "--cache-type-v", cache]
    slots = chosen.largest_batch
    if chosen.max_length is not None:
        # one cache is shared by all slots
        flags += ["--ctx-size", str(chosen.max_length * (slots or 1))]
    elif (held := cache_length(chosen, dialect.engine)) is not None:
        if dialect.version == "old":  # which takes the model's own length and fails
            flags += ["--ctx-size", str(held.tokens)]
        does = (
            "--ctx-size is what fits"
            if "--ctx-size" in flags
            else "llama.cpp takes what fits (--fit)"
        )
        notes.append(f"{held.words}; {does}, and all slots share it")
    if slots is not None:
        flags += ["--parallel", str(slots)]
    if chosen.token_budget is not None:
        flags += ["--batch-size", str(chosen.token_budget)]
    if slots is not None and chosen.max_batch is None:
        notes.append(
            f"--parallel {slots} is the largest batch of the configuration: without it llama.cpp"
            " has few slots"
        )
    return flags


def _speculation(
    chosen: DecodingConfiguration, dialect: Dialect, notes: list[str], *, approximate: bool
) -> list[str]:
    spelling, name = FLAGS[dialect.version], dialect.name(chosen)
    # old builds draft with a model as soon as one is named
    silent = dialect.version == "old" and name == "draft_model"
    flags = [] if silent else ["--spec-type", dialect.drafting(chosen).name]
    if name == "ngram":
        return flags + _ngram(chosen, dialect, notes, approximate=approximate)
    if (draft := dialect.draft(chosen, notes)) is not None:
        if name in ("eagle3", "dflash"):
            notes.append(
                "a drafter on the target's features is converted with --target-model-dir"
                " FOLDER_OF_THE_TARGET"
            )
        draft = gguf_checkpoint(draft, DRAFT_PLACEHOLDER, notes)
        flags += _model(draft, spelling["draft_file"], spelling["draft_hub"])
    flags += [spelling["n_max"], str(chosen.draft_tokens), spelling["n_min"], "0"]
    notes += dialect.unlikely_notes(chosen)
    # old builds stop a draft below 0.75 unless an option says otherwise
    return [*flags, spelling["p_min"], f"{dialect.threshold(chosen):g}"]


def _ngram(
    chosen: DecodingConfiguration, dialect: Dialect, notes: list[str], *, approximate: bool
) -> list[str]:
    spelling, name = FLAGS[dialect.version], dialect.drafting(chosen).name
    if chosen.ngram_min != chosen.ngram_max:
        if not approximate:
            rule = (
                f"{name} looks up one length, so ngram_min must equal ngram_max ="
                f" {chosen.ngram_max}"
            )
            raise dialect.refusal("ngram_min", rule, chosen.ngram_min)
        notes.append(f"APPROXIMATION: only n-grams of {chosen.ngram_max} tokens are looked up")
    size = chosen.ngram_max
    if name == "ngram-simple" and size > chosen.draft_tokens:
        if not approximate:
            rule = f"ngram-simple drafts no fewer tokens than it looks up, ngram_max = {size}"
            raise dialect.refusal("draft_tokens", rule, chosen.draft_tokens)
        size = chosen.draft_tokens
        notes.append(
            f"APPROXIMATION: n-grams of {size} tokens are looked up, since no fewer are drafted"
            " than that"
        )
    lookup, drafted, further = _LOOKUPS[name]
    if dialect.version == "old":
        lookup, drafted, further = spelling["lookup"], spelling["drafted"], (spelling["hits"], "1")
    return [
        lookup,
        str(size),
        drafted,
        str(chosen.draft_tokens),
        *further,
        spelling["n_max"],
        str(chosen.draft_tokens),
        spelling["n_min"],
        "0",
    ]


def _synthetic(chosen: DecodingConfiguration, dialect: Dialect, notes: list[str]) -> list[str]:
    rates = dialect.synthetic_rates(chosen)
    notes.append("synthetic acceptance: timings are real, the generated text is not the model's")
    return ["--spec-synth-rates", ",".join(f"{rate:.9g}" for rate in rates)]


def _model(name: str, file_flag: str, hub_flag: str) -> list[str]:
    return [file_flag if name.endswith(".gguf") else hub_flag, name]
