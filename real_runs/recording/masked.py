"""How sure was a masked model of every position, while several policies decoded the same prompts?

Trains or loads the small masked model, decodes every prompt by every anchor, and writes one
confidence trace per way of caching. Safe to kill: finished runs stay in a part file, and a resumed
recording goes on after them. Leaves out the loop (`real_runs.decoding.masked`) and the model
(`real_runs.masked`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hardware_profiles.errors import InputError
from real_runs.decoding.masked.loop import MaskedLoop
from real_runs.masked.training import MaskedRecipe, masked_model
from real_runs.models.device import checked_device, device_title
from real_runs.recording.arrays import decoded, encoded
from real_runs.recording.log import RecordingLog
from real_runs.recording.options import OnProgress, Progress
from real_runs.training import module_sha256
from traces.kinds.confidence import CELL_FIELDS, STEP_FIELDS, ConfidenceTrace
from traces.kinds.provenance import Provenance
from traces.kinds.refine_policy import CACHES, Cache, RefinePolicy
from traces.storage.confidence_file import write_confidence

RECORDER_VERSION = "rooftree-record-masked 1"
BLOCK_TOKENS = 32
_STEPS = ("forward", *STEP_FIELDS, "wall_s")
_CELLS = ("top_ids", "doubt", *CELL_FIELDS)


def anchor_policies(cache: Cache, block_tokens: int = BLOCK_TOKENS) -> tuple[RefinePolicy, ...]:
    """What a recording follows: one token a pass, three thresholds, a bound of entropy, and a
    random order.
    """
    rules: tuple[tuple[str, dict[str, float]], ...] = (
        ("static", {}),
        ("threshold", {"confidence": 0.9}),
        ("threshold", {"confidence": 0.5}),
        ("threshold", {"confidence": 0.3}),
        ("entropy_bound", {"bound": 0.1}),
        ("random", {}),
    )
    return tuple(
        RefinePolicy(commit=name, at=at, block_tokens=block_tokens, cache=cache)
        for name, at in rules
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskedRecording:
    """What to record.

    Attributes:
        out: folder for model, part file and traces.
        recipe: of the model.
        prompts: how many.
        first: prompts passed over, so that another recording has others.
        caches: ways of caching, a trace each.
        policies: by cache; None: `anchor_policies`.
        name: first part of the files' names.
        resume: go on with an unfinished recording of the same kind.
        device: torch device of the model; it is trained on the CPU.
        fits: folder of the trained model; None: `out`.

    Raises:
        InputError: too many prompts, a block that does not divide the canvas, or policies of one
            name.
    """

    out: Path
    recipe: MaskedRecipe = field(default_factory=MaskedRecipe)
    prompts: int = 64
    first: int = 0
    caches: tuple[Cache, ...] = CACHES
    policies: Mapping[Cache, Sequence[RefinePolicy]] | None = None
    name: str = "masked-names"
    resume: bool = False
    device: str = "cpu"
    fits: Path | None = None

    def __post_init__(self) -> None:
        most = self.recipe.corpus.held_back
        if not 1 <= self.prompts <= most - self.first or self.first < 0:
            raise InputError(
                f"must be 1 to {most}, those passed over counted", key="prompts", value=self.prompts
            )
        for cache in self.caches:
            names = [policy.name for policy in self.of(cache)]
            if len(set(names)) < len(names):
                raise InputError(
                    "must have names of their own", key="policies", value=", ".join(names)
                )
            for policy in self.of(cache):
                policy.check_canvas(self.recipe.canvas_tokens)
                if policy.cache != cache:
                    raise InputError(
                        f"must be {cache} in that trace", key="cache", value=policy.cache
                    )

    def of(self, cache: Cache) -> tuple[RefinePolicy, ...]:
        """The policies recorded with a way of caching."""
        return anchor_policies(cache) if self.policies is None else tuple(self.policies[cache])


def record_masked(
    options: MaskedRecording, *, progress: OnProgress | None = None
) -> tuple[Path, ...]:
    """Decode the prompts by all policies and write a trace per way of caching.

    Args:
        options: what to record.
        progress: called after every finished piece of work.

    Returns:
        The files.

    Raises:
        InputError: an unfinished recording in the way, one of other options, or a place that cannot
            be written.
    """
    torch.set_num_threads(1)

    def trained(done: int, total: int, loss: float) -> None:
        if progress:
            progress(Progress(stage="training", done=done, total=total, detail=f"loss {loss:.2f}"))

    device = checked_device(options.device)
    model = masked_model(options.fits or options.out, options.recipe, trained)
    corpus = options.recipe.corpus
    prompts = corpus.prompts(options.prompts, first=options.first)
    setup = {
        "recorder": RECORDER_VERSION,
        "model_sha256": module_sha256(model),
        "dataset_sha256": corpus.sha256,
        "torch": torch.__version__,
        "device": device_title(device),
        "prompts": list(prompts),
        "caches": list(options.caches),
        "policies": [policy.as_json() for cache in options.caches for policy in options.of(cache)],
    }
    with RecordingLog(
        options.out / f"{options.name}.part.jsonl", setup, resume=options.resume
    ) as log:
        jobs = [
            (policy, name)
            for cache in options.caches
            for policy in options.of(cache)
            for name in prompts
        ]
        finished = {(entry["policy"], entry["request"]) for entry in log.finished}
        model = model.to(device)
        for done, (policy, name) in enumerate(jobs, start=1):
            if (policy.name, name) not in finished:
                window = prompts[name][: options.recipe.prompt_tokens].tolist()
                loop = MaskedLoop(
                    model,
                    window,
                    canvas_tokens=options.recipe.canvas_tokens,
                    mask_id=corpus.mask_id,
                )
                log.append(_entry(loop, policy, name))
            if progress:
                progress(
                    Progress(stage="recording", done=done, total=len(jobs), detail=policy.commit)
                )
        entries = {(entry["policy"], entry["request"]): entry for entry in log.finished}
        paths = tuple(_written(options, cache, prompts, entries, setup) for cache in options.caches)
        log.remove()
    return paths


def _entry(loop: MaskedLoop, policy: RefinePolicy, name: str) -> dict[str, Any]:
    run = loop.run(policy, name)
    arrays = {"final_ids": run.tokens, "committed_at": run.committed_at, **run.steps, **run.cells}
    return {
        "policy": policy.name,
        "request": name,
        "arrays": {key: encoded(value) for key, value in arrays.items()},
    }


def _written(
    options: MaskedRecording,
    cache: Cache,
    prompts: Mapping[str, Any],
    entries: Mapping[tuple[str, str], Mapping[str, Any]],
    setup: Mapping[str, Any],
) -> Path:
    """The trace of one way of caching."""
    policies = options.of(cache)
    runs = [(name, place) for name in prompts for place in range(len(policies))]
    arrays: dict[str, list[Any]] = {
        key: [] for key in ("final_ids", "committed_at", *_STEPS, *_CELLS)
    }
    for name, place in runs:
        for key, values in entries[policies[place].name, name]["arrays"].items():
            arrays[key].append(decoded(values))
    recipe = options.recipe
    final_ids, committed_at = (
        np.stack(arrays.pop("final_ids")),
        np.stack(arrays.pop("committed_at")),
    )
    joined: dict[str, Any] = {key: np.concatenate(values) for key, values in arrays.items()}
    steps = [len(values) for values in arrays["forward"]]
    trace = ConfidenceTrace(
        provenance=_provenance(recipe, setup),
        vocabulary=recipe.corpus.vocabulary,
        mask_id=recipe.corpus.mask_id,
        canvas_tokens=recipe.canvas_tokens,
        policies=policies,
        request_ids=tuple(name for name, _ in runs),
        prompt_kinds=("names",) * len(runs),
        policy_of_run=np.array([place for _, place in runs], dtype=np.int16),
        prompt_offsets=np.arange(len(runs) + 1, dtype=np.int64) * recipe.prompt_tokens,
        prompt_ids=np.concatenate([prompts[name][: recipe.prompt_tokens] for name, _ in runs]),
        step_offsets=np.cumsum([0, *steps], dtype=np.int64),
        final_ids=final_ids,
        committed_at=committed_at,
        **joined,
    )
    path = trace_path(options, cache)
    write_confidence(trace, path)
    return path


def trace_path(options: MaskedRecording, cache: Cache) -> Path:
    """Where the trace of a way of caching lies."""
    return (
        options.out / f"{options.name}--{'plain' if cache == 'none' else f'{cache}-cache'}.parquet"
    )


def _provenance(recipe: MaskedRecipe, setup: Mapping[str, Any]) -> Provenance:
    title = (
        f"masked diffusion, {recipe.layers} layers of width {recipe.width}, {recipe.steps} steps"
    )
    return Provenance(
        model=title,
        method="masked",
        device=f"{setup['device']}, 1 thread(s)",
        dtype="float32",
        sampling={"temperature": 0.0},
        dataset=recipe.corpus.title,
        dataset_sha256=setup["dataset_sha256"],
        recorder_version=RECORDER_VERSION,
        notes=(
            "The likeliest token is committed. Prompts are windows of the text that the model was"
            " not trained on."
        ),
        extra={key: setup[key] for key in ("model_sha256", "torch")}
        | {"seed": recipe.seed, "rows": recipe.rows},
    )


def other_prompts(options: MaskedRecording) -> MaskedRecording:
    """The same recording on prompts that the first one did not see."""
    return replace(options, first=options.first + options.prompts, name=f"{options.name}-others")
