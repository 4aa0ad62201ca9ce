"""What does decoding prompts by a setting take, once?

The small masked model, its prompts and a fixed pass that tells how disturbed the machine is. Leaves
out rounds and their log (`real_runs.validation.bench`), and predictions (`predict`).
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from real_runs.decoding.masked.batch import BatchRun, MaskedBatch
from real_runs.decoding.masked.drafts import self_verified
from real_runs.decoding.masked.loop import confidences_of
from real_runs.masked.network import MaskedModel
from real_runs.masked.training import MaskedRecipe
from real_runs.validation.masked.settings import CanvasSetting

_PROBES = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskedDecoder:
    """A model and its prompts.

    Attributes:
        model: of the recipe.
        recipe: lengths of prompt and canvas, and the mask.
        prompts: windows by name; their first part is the prompt.
    """

    model: MaskedModel
    recipe: MaskedRecipe
    prompts: Mapping[str, NDArray[np.int32]]

    def probes(self) -> list[float]:
        """Seconds of the same whole pass, a few times: they tell how disturbed the machine is."""
        rows, seconds = torch.zeros((1, self.recipe.corpus.window_tokens), dtype=torch.int64), []
        for _ in range(_PROBES):
            began = time.perf_counter()
            with torch.inference_mode():
                confidences_of(self.model(rows)[0], self.recipe.corpus.mask_id)
            seconds.append(time.perf_counter() - began)
        return seconds

    def decoded(self, setting: CanvasSetting, prompts: Sequence[str]) -> BatchRun:
        """The canvases behind some prompts, by name, decoded together."""
        windows = [self.prompts[name][: self.recipe.prompt_tokens].tolist() for name in prompts]
        sizes = {"canvas_tokens": self.recipe.canvas_tokens, "mask_id": self.recipe.corpus.mask_id}
        if setting.policy.commit == "self_verified":
            return self_verified(self.model, windows[0], setting.policy, **sizes)
        return MaskedBatch(self.model, windows, **sizes).run(setting.policy, prompts)

    def warm(self, configuration: CanvasSetting, prompts: Sequence[str]) -> None:
        """Decode once: code paths that run for the first time are in no run."""
        self.decoded(configuration, prompts)

    def run(self, configuration: CanvasSetting, prompts: Sequence[str]) -> dict[str, Any]:
        """Decode prompts once; JSON values of `Run` but for its place."""
        began, cpu = time.perf_counter(), time.process_time()
        batch_run = self.decoded(configuration, prompts)
        decode_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu
        return {
            "tokens": int(batch_run.tokens.size),
            "steps": len(batch_run.forwards),
            "request_steps": int(batch_run.steps.sum()),
            "drafted_tokens": 0,
            "decode_s": decode_s,
            "cpu_s": cpu_s,
            "draft_s": 0.0,
            "verify_s": sum(forward.wall_s for forward in batch_run.forwards),
            "passes": [[*forward[:3], round(forward.wall_s, 7)] for forward in batch_run.forwards],
            "output_sha256": hashlib.sha256(batch_run.tokens.tobytes()).hexdigest(),
        }
