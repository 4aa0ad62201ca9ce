"""Which checkpoint does an engine load: a hub id, a path, or a mark to be replaced by one?

Engines know neither our names of models nor files that hold a config alone. Where no checkpoint is
known, a mark stands in the file and a note says so.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path

from costmodel.architectures.library import how_read, hub_id, model_names
from costmodel.configuration import DecodingConfiguration
from costmodel.method_library import load_method
from costmodel.optimizers.drafters.named_drafters import published_source
from hardware_profiles.errors import InputError
from hardware_profiles.places import is_place

TARGET_PLACEHOLDER = "PATH_OF_THE_TARGET"
DRAFT_PLACEHOLDER = "PATH_OF_THE_DRAFT_MODEL"
_TABLE = Path(__file__).parent / "drafters.toml"
_HOLDS_GGUF = re.compile(r"[\w.-]+/[\w.-]+:[\w.-]+|[\w.-]+/[\w.-]*gguf[\w.-]*", re.IGNORECASE)


def target_checkpoint(model: str, notes: list[str]) -> str:
    """The target as engines load it.

    Args:
        model: shipped name, hub id, path of a checkpoint or of a config.
        notes: what a reader must know is added here.

    Returns:
        A hub id, a path, or `TARGET_PLACEHOLDER`.
    """
    checkpoint = _loadable(model)
    if checkpoint is None:
        notes.append(f"replace {TARGET_PLACEHOLDER}: no checkpoint of {model} is known")
        return TARGET_PLACEHOLDER
    if checkpoint != model and Path(model).name == "config.json":
        notes.append(f"{checkpoint} must hold the weights and the tokenizer beside config.json")
    return checkpoint


def stored_placeholder(dtype: str) -> str:
    """What stands for a target that has to be stored in a format of its own.

    >>> stored_placeholder("q4_k_m")
    'PATH_OF_THE_Q4_K_M_CHECKPOINT'
    """
    return f"PATH_OF_THE_{re.sub(r'[^A-Z0-9]+', '_', dtype.upper())}_CHECKPOINT"


def draft_checkpoint(chosen: DecodingConfiguration, notes: list[str]) -> str | None:
    """The draft model or head as engines load it.

    Args:
        chosen: what to run; without `draft_model` the drafter is named whose acceptance on its
            target was published, else one that is published for its target and method, unless a
            drafter is described that nobody published.
        notes: what a reader must know is added here.

    Returns:
        A hub id, a path, `DRAFT_PLACEHOLDER`, or None where a method drafts without weights of its
        own.
    """
    if chosen.draft_model is not None:
        checkpoint = _loadable(chosen.draft_model)
        if checkpoint is None:
            notes.append(
                f"replace {DRAFT_PLACEHOLDER}: no checkpoint of {chosen.draft_model} is known"
            )
        elif checkpoint == DRAFT_PLACEHOLDER:
            notes.append(
                f"replace {DRAFT_PLACEHOLDER}, or name the draft model or head with --draft"
            )
        return checkpoint or DRAFT_PLACEHOLDER
    if chosen.own_drafter is not None:
        read = f"{chosen.draft_passes} passes a step of {chosen.draft_bytes:,.0f} bytes"
        notes.append(
            f"replace {DRAFT_PLACEHOLDER} by the checkpoint of {chosen.own_drafter} ({read}), or"
            f" name it with --draft; it is started as what {chosen.method} drafts with"
        )
        return DRAFT_PLACEHOLDER
    if not load_method(chosen.method).needs_trained_weights:
        return None
    target = chosen.deployment.model
    published = _measured_drafter(target, chosen.method) or published_drafter(
        _loadable(target) or "", chosen.method
    )
    if published is None:
        notes.append(f"replace {DRAFT_PLACEHOLDER}, or name the draft model or head with --draft")
        return DRAFT_PLACEHOLDER
    draft, source = published
    notes.append(
        f"no draft model is named: {draft} is taken ({source}), whose acceptance may differ"
    )
    return draft


def _measured_drafter(target: str, method: str) -> tuple[str, str] | None:
    """The drafter of the figure that answers for a method on a target where nobody states one, and
    where it stands: files of stated or counted acceptance name the same one as those of the figure.
    """
    try:
        source = published_source(method, target)
    except InputError:
        return None
    draft = None if source.draft_model is None else _loadable(source.draft_model)
    if draft is None or source.borrowed or source.figure is None:
        return None
    return draft, source.figure.entry.source


def published_drafter(target: str, method: str) -> tuple[str, str] | None:
    """A drafter that is published for a target, and where; None: none is known here.

    Args:
        target: hub id.
        method: slug.

    >>> published_drafter("meta-llama/Llama-3.1-8B-Instruct", "eagle-3")[0]
    'yuhuili/EAGLE3-LLaMA3.1-Instruct-8B'
    """
    return _published().get((method, target.casefold()))


def gguf_checkpoint(name: str, placeholder: str, notes: list[str]) -> str:
    """A checkpoint as llama.cpp loads it: a GGUF file, or a hub repository that holds one.

    Args:
        name: hub id or path.
        placeholder: what stands for it where it is neither.
        notes: what a reader must know is added here.
    """
    if name.endswith(".gguf") or (_HOLDS_GGUF.fullmatch(name) and not is_place(name)):
        return name
    if name != placeholder:
        notes.append(
            f"replace {placeholder}.gguf: `convert_hf_to_gguf.py` of llama.cpp makes it from {name}"
        )
    return f"{placeholder}.gguf"


def _loadable(name: str) -> str | None:
    """A hub id or path; None for one of our names without a checkpoint, and for our own files."""
    path = Path(name)
    if path.name == "config.json":
        return str(path.parent)
    if path.suffix.casefold() in (".toml", ".json"):
        return None
    model_id = hub_id(name)
    # a short name that says more of a release than ours is no checkpoint either
    unowned = "/" not in model_id and (model_id in model_names() or how_read(model_id))
    return None if unowned else model_id


@cache
def _published() -> dict[tuple[str, str], tuple[str, str]]:
    table = tomllib.loads(_TABLE.read_text(encoding="utf-8"))["drafters"]
    return {
        (group["method"], target.casefold()): (draft, group["source"])
        for group in reversed(table)
        for target, draft in group["models"].items()
    }
