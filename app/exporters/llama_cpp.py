"""How does llama.cpp's server spell a choice, before and after its flags were renamed?

llama.cpp numbers builds, not releases, so there are two versions here: "new" for builds whose `llama-server
--help` lists `--spec-draft-n-max`, "old" for builds that list `--draft-max`. Both are checked against the
project's own documentation of speculative decoding on either side of the renaming.
"""

import re
from collections.abc import Mapping

from app.exporters.choice import DecodingChoice
from app.exporters.result import Dialect, ExportResult, command_line, script
from hardware_profiles.errors import UnknownNameError

RELEASES = ("old", "new")
DEFAULT_VERSION = "new"
SCRIPT_FILE = "llama-cpp-serve.sh"

SPEC_TYPES: Mapping[str, Mapping[str, str]] = {
    "old": {"draft_model": "", "ngram": "ngram-simple"},
    "new": {
        "draft_model": "draft-simple",
        "ngram": "ngram-simple",
        "eagle3": "draft-eagle3",
        "mtp": "draft-mtp",
    },
}
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
        "lookup": "--spec-ngram-simple-size-n",
        "drafted": "--spec-ngram-simple-size-m",
        "hits": "--spec-ngram-simple-min-hits",
    },
}
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+(:[\w.-]+)?")


def export_llama_cpp(
    choice: DecodingChoice,
    *,
    version: str = DEFAULT_VERSION,
    synthetic: bool = False,
    approximate: bool = False,
) -> ExportResult:
    """Write a choice for `llama-server`.

    Args:
        choice: what to run; models are GGUF files, or hub repositories that hold one.
        version: "new" or "old", by the spelling of the flags.
        synthetic: accept draft tokens at `choice.acceptance_by_depth` (for benchmarks; "new" only).
        approximate: look up n-grams of `ngram_max` tokens alone.

    Returns:
        The script.

    Raises:
        InputError: llama.cpp cannot express the choice.
    """
    if version not in RELEASES:
        raise UnknownNameError("llama.cpp version", version, RELEASES, key="version")
    dialect = Dialect(engine="llama.cpp", version=version, releases=(version,))
    notes: list[str] = []
    if choice.tensor_parallel != 1:
        rule = "splits layers or rows over devices, which is not the tensor parallelism that was priced"
        raise dialect.refusal("tensor_parallel", rule, choice.tensor_parallel)
    arguments = ["llama-server", *_model(choice.model, "--model", "--hf-repo", "model", dialect)]
    if choice.max_batch is not None:
        arguments += ["--parallel", str(choice.max_batch)]
    if choice.speculates:
        arguments += _speculation(choice, dialect, notes, approximate=approximate)
    else:
        notes.append("nothing is drafted, so no speculative flag is set: the script starts plain decoding")
    if synthetic:
        arguments += _synthetic(choice, dialect, notes)
    return ExportResult(
        engine="llama.cpp",
        version=version,
        checked_against=dialect.releases,
        files={SCRIPT_FILE: script(dialect.header(choice, notes), arguments)},
        command=command_line(arguments),
        notes=tuple(notes),
    )


def _speculation(choice: DecodingChoice, dialect: Dialect, notes: list[str], *, approximate: bool) -> list[str]:
    types, spelling = SPEC_TYPES[dialect.version], FLAGS[dialect.version]
    if choice.method not in types:
        raise dialect.refusal("method", f"runs {', '.join(types)}", choice.method)
    if choice.tree_paths is not None:
        raise dialect.refusal("tree", "verifies one chain per request", f"{choice.draft_tokens} draft nodes")
    if choice.varies:
        raise dialect.refusal("schedule", "one draft length holds for every batch size", choice.schedule)
    flags = ["--spec-type", types[choice.method]] if types[choice.method] else []
    if choice.method == "ngram":
        dialect.refuse_threshold(choice)
        return flags + _ngram(choice, dialect, notes, approximate=approximate)
    if choice.draft_model is not None:
        flags += _model(choice.draft_model, spelling["draft_file"], spelling["draft_hub"], "draft_model", dialect)
    flags += [spelling["n_max"], str(choice.draft_tokens), spelling["n_min"], "0"]
    # old builds stop a draft below 0.75 unless told otherwise
    return [*flags, spelling["p_min"], f"{choice.confidence_threshold or 0.0:g}"]


def _ngram(choice: DecodingChoice, dialect: Dialect, notes: list[str], *, approximate: bool) -> list[str]:
    spelling = FLAGS[dialect.version]
    if choice.ngram_min != choice.ngram_max:
        if not approximate:
            rule = f"ngram-simple looks up one length, so ngram_min must equal ngram_max = {choice.ngram_max}"
            raise dialect.refusal("ngram_min", rule, choice.ngram_min)
        notes.append(f"APPROXIMATION: only n-grams of {choice.ngram_max} tokens are looked up")
    return [
        spelling["lookup"], str(choice.ngram_max),
        spelling["drafted"], str(choice.draft_tokens),
        spelling["hits"], "1",
        spelling["n_max"], str(choice.draft_tokens),
        spelling["n_min"], "0",
    ]  # fmt: skip


def _synthetic(choice: DecodingChoice, dialect: Dialect, notes: list[str]) -> list[str]:
    rates = dialect.synthetic_rates(choice)
    if dialect.version == "old":
        raise dialect.refusal("synthetic", "has no synthetic acceptance; newer builds do", True)
    notes.append("synthetic acceptance: timings are real, the generated text is not the model's")
    return ["--spec-synth-rates", ",".join(f"{rate:.9g}" for rate in rates)]


def _model(name: str, file_flag: str, hub_flag: str, key: str, dialect: Dialect) -> list[str]:
    if name.endswith(".gguf"):
        return [file_flag, name]
    if _HUB_NAME.fullmatch(name):
        return [hub_flag, name]
    raise dialect.refusal(key, "loads a .gguf file, or owner/repository[:quantisation] from the hub", name)
