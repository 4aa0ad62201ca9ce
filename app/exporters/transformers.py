"""How does Transformers spell a configuration, and on which model's generation config does each key
belong?

Writes `generation_config.json` files and a script that loads the models with them. Transformers
reads the draft length, its schedule and the confidence threshold from the generation config of the
model that drafts: the assistant, or the target itself where it drafts by leaving early. Prompt
lookup and early exit are read from the target's. The files hold these keys alone; merge them into a
model's own generation config to keep its sampling settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.exporters.dialect import Dialect
from app.exporters.result import Written, command_line, comments, json_lines
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames

TARGET_FILE = "target/generation_config.json"
ASSISTANT_FILE = "assistant/generation_config.json"
SCRIPT_FILE = "transformers-generate.py"
_WEIGHTS = {"fp32": ", dtype='float32'", "bf16": ", dtype='bfloat16'", "fp16": ", dtype='float16'"}
_CACHE = {"bf16": "", "fp16": ""}


def export_transformers(
    chosen: DecodingConfiguration, dialect: Dialect, *, synthetic: bool, approximate: bool
) -> Written:
    """A generation config per model that needs one, and a script that calls `model.generate` for
    one request.

    There is no synthetic mode; `approximate` looks up n-grams that are shorter than asked.
    Arguments and errors as of `app.exporters.registry.Exporter`.
    """
    notes: list[str] = []
    configs: dict[str, dict[str, Any]] = {}
    if chosen.speculates:
        configs = _configs(chosen, dialect, notes, approximate=approximate)
    else:
        notes.append(
            "nothing is drafted, so no generation config is written: the script decodes plainly"
        )
    files = {name: json_lines(config) for name, config in configs.items()}
    files[SCRIPT_FILE] = _script(chosen, dialect, notes, configs)
    return Written(
        files=files,
        command=command_line(["python3", SCRIPT_FILE, "Once upon a time"]),
        notes=notes,
    )


def _configs(
    chosen: DecodingConfiguration, dialect: Dialect, notes: list[str], *, approximate: bool
) -> dict[str, dict[str, Any]]:
    if dialect.name(chosen) == "ngram":
        if chosen.ngram_min != 1:
            if not approximate:
                raise dialect.refusal(
                    "ngram_min", "prompt lookup matches from one token on", chosen.ngram_min
                )
            notes.append(
                f"APPROXIMATION: matches shorter than {chosen.ngram_min} tokens are drafted from as"
                " well"
            )
        lookup = {
            "prompt_lookup_num_tokens": chosen.draft_tokens,
            "max_matching_ngram_size": chosen.ngram_max,
        }
        return {TARGET_FILE: lookup}
    drafting = {
        "num_assistant_tokens": chosen.draft_tokens,
        "num_assistant_tokens_schedule": "constant",
        # the default, 0.4, cuts drafts short; 0 switches the test off
        "assistant_confidence_threshold": dialect.threshold(chosen),
    }
    notes += dialect.unlikely_notes(chosen)
    if dialect.threshold(chosen):
        notes.append(
            "where scikit-learn is installed the threshold is re-fitted while it generates"
        )
    if dialect.name(chosen) == "early_exit":
        return {TARGET_FILE: {"assistant_early_exit": exit_layers(chosen), **drafting}}
    notes.append("the script expects the assistant to share the target's tokenizer")
    return {ASSISTANT_FILE: drafting}


def exit_layers(chosen: DecodingConfiguration) -> int:
    """Layers of the target that draft: those named, else the share that predictions assume."""
    if chosen.exit_layers is not None:
        return chosen.exit_layers
    # of any device
    where = DeploymentNames(model=chosen.deployment.model)
    return build_setting(replace(chosen, deployment=where)).drafter.exit_layers or 1


def _script(
    chosen: DecodingConfiguration, dialect: Dialect, notes: list[str], configs: Mapping[str, object]
) -> str:
    dialect.cache_format(chosen, _CACHE)
    dtype = dialect.weight_format(chosen, _WEIGHTS) or ""
    lines = [
        "import sys",
        "from pathlib import Path",
        "",
        "from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig",
        "",
        "here = Path(__file__).resolve().parent",
        f"target_name = {dialect.target(chosen, _WEIGHTS, notes)!r}",
        "tokenizer = AutoTokenizer.from_pretrained(target_name)",
        f"target = AutoModelForCausalLM.from_pretrained(target_name{dtype})",
    ]
    extra = ""
    if chosen.speculates and dialect.name(chosen) == "draft_model":
        lines.append(
            "assistant ="
            f" AutoModelForCausalLM.from_pretrained({dialect.draft(chosen, notes)!r}{dtype})"
        )
        extra = ", assistant_model=assistant"
    for name in configs:
        model = name.partition("/")[0]
        lines += [
            f"settings = GenerationConfig.from_pretrained(here / {model!r}).to_diff_dict()",
            "settings.pop('transformers_version', None)",
            f"{model}.generation_config.update(**settings)",
        ]
    lines += [
        "prompt = tokenizer(sys.argv[1], return_tensors='pt')",
        f"tokens = target.generate(**prompt, max_new_tokens=64{extra})",
        "print(tokenizer.decode(tokens[0], skip_special_tokens=True))",
    ]
    return comments(dialect.header(chosen, notes)) + "\n".join(lines) + "\n"
