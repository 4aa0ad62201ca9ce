"""What does a recording work with, and what does it depend on?

The loaded model beside what is asked of it, and the values that a part file must agree with before
it is gone on with. Leaves out the drafters (`drafters`) and running (`record`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hardware_profiles.errors import InputError
from real_runs.models.loading.weights import ModelSource, file_sha256, find_model
from real_runs.prompt_set import PromptSet
from real_runs.recording.options import OnProgress, Progress, RecordOptions

if TYPE_CHECKING:
    from real_runs.models.llama import Llama
    from real_runs.models.loading.tokenizer import Tokenizer

RECORDER_VERSION = "rooftree-record 1"
_LIBRARIES = ("torch", "transformers", "gguf", "safetensors")
_AS_ASKED = (
    "max_new_tokens",
    "most_draft_tokens",
    "least_match",
    "skip_bridge",
    "ridge",
    "fit_characters",
    "fit_answers",
    "level",
    "candidates",
    "expansion_nodes",
    "recycling_nodes",
    "retrieval_nodes",
    "lookahead",
    "cascade_tokens",
    "prompt_tokens",
    "requests_at_once",
    "head_steps",
    "head_rows",
    "head_row_tokens",
    "seed",
    "dtype",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """A loaded model and what is asked of it.

    Attributes:
        options: what to record.
        prompts: of which answers.
        setup: everything that the recording depends on.
        model: the target.
        tokenizer: its tokenizer.
        progress: called with every finished piece of work.
    """

    options: RecordOptions
    prompts: PromptSet
    setup: Mapping[str, Any]
    model: Llama
    tokenizer: Tokenizer
    progress: OnProgress | None

    def report(self, stage: str, done: int, total: int, detail: str) -> None:
        """Tell of a finished piece of work."""
        if self.progress:
            self.progress(Progress(stage=stage, done=done, total=total, detail=detail))


def recording_setup(
    options: RecordOptions, source: ModelSource, prompts: PromptSet, *, layers: int
) -> dict[str, Any]:
    """All that a recording depends on: a part file of another setup is not continued.

    Args:
        options: what to record.
        source: the target's files.
        prompts: of which answers.
        layers: of the target.

    Raises:
        InputError: options that do not fit the model, or no draft model where one is named.
    """
    import torch

    from real_runs.drafters.layer_skip import check_gap, default_gap

    exit_layer = max(1, round(layers / 3)) if options.exit_layer is None else options.exit_layer
    if "early-exit" in options.drafters and not 1 <= exit_layer < layers:
        raise InputError(f"must lie in 1..{layers - 1}", key="exit_layer", value=exit_layer)
    skipped = options.skipped_layers or default_gap(layers)
    if {"layer-skip", "cascade"} & set(options.drafters):
        check_gap(*skipped, layers)
    return {
        "recorder": RECORDER_VERSION,
        "name": source.name,
        "model": source.title,
        "model_file": source.path.name,
        "dataset": prompts.title,
        "dataset_sha256": prompts.sha256,
        "drafters": list(options.drafters),
        "temperatures": list(options.temperatures),
        "ngram_sizes": list(options.ngram_sizes),
        "exit_layer": exit_layer,
        "skipped_layers": list(skipped),
        "draft_model": _draft_model(options),
        "threads": thread_count(options),
        "torch": torch.__version__,
    } | {name: getattr(options, name) for name in _AS_ASKED}


def _draft_model(options: RecordOptions) -> dict[str, str] | None:
    """Title and digest of the draft model's own files."""
    if "draft-model" not in options.drafters or options.draft_model is None:
        return None
    source = find_model(options.draft_model)
    files = sorted(source.path.glob("*.safetensors")) if source.path.is_dir() else [source.path]
    return {"title": source.title, "sha256": " ".join(file_sha256(path) for path in files)}


def thread_count(options: RecordOptions) -> int:
    """CPU threads of a recording."""
    return options.threads or min(2, os.cpu_count() or 1)


def require_libraries() -> None:
    """Insist on the libraries that recording needs.

    Raises:
        InputError: naming those that are not installed.
    """
    from importlib.util import find_spec

    missing = [name for name in _LIBRARIES if find_spec(name) is None]
    if missing:
        raise InputError(
            "recording needs the extra `real` (pip install 'rooftree[real]')",
            key="missing",
            value=", ".join(missing),
        )
