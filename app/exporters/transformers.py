"""How does Transformers spell a choice, and on which model's generation config does each key belong?

Writes `generation_config.json` files and a script that loads the models with them. Transformers reads the
draft length, its schedule and the confidence threshold from the generation config of the model that drafts:
the assistant, or the target itself where it drafts by leaving early. Prompt lookup and early exit are read
from the target's. The files hold these keys alone; merge them into a model's own generation config to keep
its sampling settings.
"""

from collections.abc import Mapping
from typing import Any

from app.exporters.choice import DecodingChoice
from app.exporters.result import Dialect, ExportResult, command_line, comments, json_lines
from app.exporters.versions import releases_for

RELEASES = ("5.23.0",)
DEFAULT_VERSION = "5.23.0"
TARGET_FILE = "target/generation_config.json"
ASSISTANT_FILE = "assistant/generation_config.json"
SCRIPT_FILE = "transformers-generate.py"
METHODS = ("draft_model", "ngram", "early_exit")


def export_transformers(
    choice: DecodingChoice,
    *,
    version: str = DEFAULT_VERSION,
    synthetic: bool = False,
    approximate: bool = False,
) -> ExportResult:
    """Write a choice for `model.generate`.

    Args:
        choice: what to run; one request at a time.
        version: Transformers release.
        synthetic: refused, there is no such mode.
        approximate: look up n-grams that are shorter than asked.

    Returns:
        A generation config per model that needs one, and a script.

    Raises:
        InputError: Transformers cannot express the choice.
    """
    releases = releases_for("transformers", version, RELEASES)
    dialect = Dialect(engine="transformers", version=version, releases=releases)
    if synthetic:
        raise dialect.refusal("synthetic", "has no synthetic acceptance", synthetic)
    if choice.tensor_parallel != 1:
        rule = "the script written here runs one process on one device"
        raise dialect.refusal("tensor_parallel", rule, choice.tensor_parallel)
    notes: list[str] = []
    configs: dict[str, dict[str, Any]] = {}
    if choice.speculates:
        _refuse(choice, dialect)
        configs = _configs(choice, dialect, notes, approximate=approximate)
    else:
        notes.append("nothing is drafted, so no generation config is written: the script decodes plainly")
    files = {name: json_lines(config) for name, config in configs.items()}
    files[SCRIPT_FILE] = _script(choice, dialect, notes, configs)
    return ExportResult(
        engine="transformers",
        version=version,
        checked_against=releases,
        files=files,
        command=command_line(["python3", SCRIPT_FILE, "Once upon a time"]),
        notes=tuple(notes),
    )


def _refuse(choice: DecodingChoice, dialect: Dialect) -> None:
    if choice.method not in METHODS:
        why = "; mtp drafts as many tokens as the model has MTP layers" if choice.method == "mtp" else ""
        raise dialect.refusal("method", f"drafts a set K by {', '.join(METHODS)}{why}", choice.method)
    if (choice.largest_batch or 1) > 1:
        key = "max_batch" if choice.max_batch is not None else "schedule"
        rule = "assisted generation raises an error for more than one request at a time"
        raise dialect.refusal(key, rule, choice.largest_batch)
    if choice.tree_paths is not None:
        raise dialect.refusal("tree", "verifies one chain", f"{choice.draft_tokens} draft nodes")
    if choice.method == "ngram":
        dialect.refuse_threshold(choice)


def _configs(
    choice: DecodingChoice, dialect: Dialect, notes: list[str], *, approximate: bool
) -> dict[str, dict[str, Any]]:
    if choice.method == "ngram":
        if choice.ngram_min != 1:
            if not approximate:
                raise dialect.refusal("ngram_min", "prompt lookup matches from one token on", choice.ngram_min)
            notes.append(f"APPROXIMATION: matches shorter than {choice.ngram_min} tokens are drafted from as well")
        lookup = {
            "prompt_lookup_num_tokens": choice.draft_tokens,
            "max_matching_ngram_size": choice.ngram_max,
        }
        return {TARGET_FILE: lookup}
    drafting = {
        "num_assistant_tokens": choice.draft_tokens,
        "num_assistant_tokens_schedule": "constant",
        # the default, 0.4, cuts drafts short; 0 switches the test off
        "assistant_confidence_threshold": choice.confidence_threshold or 0.0,
    }
    if choice.confidence_threshold:
        notes.append("where scikit-learn is installed the threshold is re-fitted while it generates")
    if choice.method == "early_exit":
        return {TARGET_FILE: {"assistant_early_exit": choice.exit_layers, **drafting}}
    notes.append("the script expects the assistant to share the target's tokenizer")
    return {ASSISTANT_FILE: drafting}


def _script(choice: DecodingChoice, dialect: Dialect, notes: list[str], configs: Mapping[str, object]) -> str:
    lines = [
        "import sys",
        "from pathlib import Path",
        "",
        "from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig",
        "",
        "here = Path(__file__).resolve().parent",
        f"target_name = {choice.model!r}",
        "tokenizer = AutoTokenizer.from_pretrained(target_name)",
        "target = AutoModelForCausalLM.from_pretrained(target_name)",
    ]
    extra = ""
    if choice.speculates and choice.method == "draft_model":
        lines.append(f"assistant = AutoModelForCausalLM.from_pretrained({choice.draft_model!r})")
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
    return comments(dialect.header(choice, notes)) + "\n".join(lines) + "\n"
