"""What does a recording depend on?

The values that a part file must agree with before it is gone on with. Leaves out running
(`recorder`).
"""

from __future__ import annotations

import os
from dataclasses import asdict, fields
from typing import Any

import torch

from real_runs.drafters.entries.early_exit import exit_after
from real_runs.drafters.entries.layer_skip import skipped_span
from real_runs.drafters.options import DrafterOptions
from real_runs.drafters.registry import load_drafter
from real_runs.models.loading.weights import ModelSource, file_sha256, find_model
from real_runs.prompt_set import PromptSet
from real_runs.recording.options import RecordOptions

RECORDER_VERSION = "rooftree-record 1"


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
    for name in options.drafters:
        load_drafter(name).check(options, layers)
    timing = {} if options.timing is None else {"timing": asdict(options.timing)}
    drafting = {field.name: getattr(options, field.name) for field in fields(DrafterOptions)}
    return (
        timing
        | drafting
        | {
            "recorder": RECORDER_VERSION,
            "name": source.name,
            "model": source.title,
            "model_file": source.path.name,
            "dataset": prompts.title,
            "dataset_sha256": prompts.sha256,
            "drafters": list(options.drafters),
            "temperatures": list(options.temperatures),
            "max_new_tokens": options.max_new_tokens,
            "requests_at_once": options.requests_at_once,
            "exit_layer": exit_after(options, layers),
            "skipped_layers": list(skipped_span(options, layers)),
            "draft_model": _draft_model(options),
            "threads": thread_count(options),
            "torch": torch.__version__,
        }
    )


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
