"""How does llama.cpp's server spell a configuration, before and after its flags were renamed?

llama.cpp numbers builds, not releases, so there are two versions here: "new" for builds whose `llama-server
--help` lists `--spec-draft-n-max`, "old" for builds that list `--draft-max`. Both are checked against the
project's own documentation of speculative decoding on either side of the renaming.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from app.exporters.result import Dialect, Written, command_line, script

if TYPE_CHECKING:
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
        "lookup": "--spec-ngram-simple-size-n",
        "drafted": "--spec-ngram-simple-size-m",
        "hits": "--spec-ngram-simple-min-hits",
    },
}
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+(:[\w.-]+)?")


def export_llama_cpp(chosen: DecodingConfiguration, dialect: Dialect, *, synthetic: bool, approximate: bool) -> Written:
    """The script for `llama-server`; models are GGUF files, or hub repositories that hold one.

    Acceptance is synthetic at `chosen.acceptance_by_depth` in "new" builds only; `approximate` looks up n-grams of
    `ngram_max` tokens alone. Arguments and errors as of `app.exporters.registry.Exporter`.
    """
    notes: list[str] = []
    arguments = ["llama-server", *_model(dialect.target(chosen), "--model", "--hf-repo", "model", dialect)]
    if chosen.max_batch is not None:
        arguments += ["--parallel", str(chosen.max_batch)]
    if chosen.speculates:
        arguments += _speculation(chosen, dialect, notes, approximate=approximate)
    else:
        notes.append("nothing is drafted, so no speculative flag is set: the script starts plain decoding")
    if synthetic:
        arguments += _synthetic(chosen, dialect, notes)
    return Written(
        files={SCRIPT_FILE: script(dialect.header(chosen, notes), arguments)},
        command=command_line(arguments),
        notes=notes,
    )


def _speculation(chosen: DecodingConfiguration, dialect: Dialect, notes: list[str], *, approximate: bool) -> list[str]:
    spelling, name = FLAGS[dialect.version], dialect.name(chosen)
    # old builds draft with a model as soon as one is named
    silent = dialect.version == "old" and name == "draft_model"
    flags = [] if silent else ["--spec-type", dialect.drafting(chosen).name]
    if name == "ngram":
        return flags + _ngram(chosen, dialect, notes, approximate=approximate)
    if (draft := dialect.draft(chosen)) is not None:
        flags += _model(draft, spelling["draft_file"], spelling["draft_hub"], "draft_model", dialect)
    flags += [spelling["n_max"], str(chosen.draft_tokens), spelling["n_min"], "0"]
    # old builds stop a draft below 0.75 unless an option says otherwise
    return [*flags, spelling["p_min"], f"{dialect.threshold(chosen):g}"]


def _ngram(chosen: DecodingConfiguration, dialect: Dialect, notes: list[str], *, approximate: bool) -> list[str]:
    spelling = FLAGS[dialect.version]
    if chosen.ngram_min != chosen.ngram_max:
        if not approximate:
            rule = f"ngram-simple looks up one length, so ngram_min must equal ngram_max = {chosen.ngram_max}"
            raise dialect.refusal("ngram_min", rule, chosen.ngram_min)
        notes.append(f"APPROXIMATION: only n-grams of {chosen.ngram_max} tokens are looked up")
    return [
        spelling["lookup"], str(chosen.ngram_max),
        spelling["drafted"], str(chosen.draft_tokens),
        spelling["hits"], "1",
        spelling["n_max"], str(chosen.draft_tokens),
        spelling["n_min"], "0",
    ]  # fmt: skip


def _synthetic(chosen: DecodingConfiguration, dialect: Dialect, notes: list[str]) -> list[str]:
    rates = dialect.synthetic_rates(chosen)
    notes.append("synthetic acceptance: timings are real, the generated text is not the model's")
    return ["--spec-synth-rates", ",".join(f"{rate:.9g}" for rate in rates)]


def _model(name: str, file_flag: str, hub_flag: str, key: str, dialect: Dialect) -> list[str]:
    if name.endswith(".gguf"):
        return [file_flag, name]
    if _HUB_NAME.fullmatch(name):
        return [hub_flag, name]
    raise dialect.refusal(key, "loads a .gguf file, or owner/repository[:quantisation] from the hub", name)
