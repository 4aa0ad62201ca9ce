"""What would these drafters have proposed while this model wrote its answers?

`record` runs a model for real over a set of prompts and writes one acceptance trace per drafter and sampling
mode. The target runs once per mode; every drafter watches the same text. Leaves out how part files and trace
files are laid out (`recording_log`, `recording_files`), and running the drafters as a decoder
(`decoding.speculative`).
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardware_profiles.errors import InputError
from real_runs.models.weights import ModelSource, find_model, load_weights
from real_runs.prompt_set import Prompt, PromptSet, fit_questions, read_prompts
from real_runs.record_options import OnProgress, Progress, RecordOptions
from real_runs.recording_files import RecordReport, mode_name, write_recordings
from real_runs.recording_log import RecordingLog

if TYPE_CHECKING:
    from real_runs.drafters.bridge_fit import FitRecipe
    from real_runs.drafters.early_exit import Bridge
    from real_runs.drafters.fit_data import FitData
    from real_runs.drafters.recorded import RecordedDrafter
    from real_runs.models.llama import Llama
    from real_runs.models.tokenizer import Tokenizer

    _FitTexts = tuple[FitData, Callable[[], list[list[int]]]]

RECORDER_VERSION = "rooftree-record 1"
_LIBRARIES = ("torch", "transformers", "gguf", "safetensors")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Session:
    """A loaded model and what is asked of it."""

    options: RecordOptions
    prompts: PromptSet
    setup: Mapping[str, Any]
    model: Llama
    tokenizer: Tokenizer
    progress: OnProgress | None

    def report(self, stage: str, done: int, total: int, detail: str) -> None:
        if self.progress:
            self.progress(Progress(stage=stage, done=done, total=total, detail=detail))


def record(options: RecordOptions, *, progress: OnProgress | None = None) -> RecordReport:
    """Run the model over the prompts and write one trace per drafter and sampling mode.

    Safe to kill: finished requests are kept in a part file in `options.out`, and `resume=True` goes on after
    them.

    Args:
        options: what to record.
        progress: called after every finished piece of work.

    Returns:
        The files written and a summary of each.

    Raises:
        InputError: options, prompts or model files that cannot be used; torch or transformers missing; an
            unfinished recording in the way, or one of other options.
    """
    _require_libraries()
    import torch

    from real_runs.drafters.recorded import check_drafters
    from real_runs.models.device import checked_device, device_title
    from real_runs.models.llama import Llama
    from real_runs.models.tokenizer import Tokenizer

    check_drafters(options.drafters)
    device = checked_device(options.device)
    prompts = read_prompts(options.prompts)
    if options.prompts_per_kind is not None:
        prompts = prompts.first_of_each_kind(options.prompts_per_kind)
    source = find_model(options.model)
    torch.set_num_threads(_threads(options))
    weights = load_weights(source)
    setup = _setup(options, source, prompts, layers=weights.config.layers) | {
        "model_sha256": weights.sha256,
        "device": device_title(device),
    }
    log = RecordingLog(options.out / f"{source.name}.part.jsonl", setup, resume=options.resume)
    session = _Session(
        options=options,
        prompts=prompts,
        setup=setup,
        model=Llama(weights, device=device, dtype=getattr(torch, options.dtype)),
        tokenizer=Tokenizer(source.path),
        progress=progress,
    )
    drafters = _drafters(session)
    _record_missing(session, drafters, log)
    report = write_recordings(options.out, setup, prompts, drafters, log.finished)
    log.remove()
    return report


def _record_missing(session: _Session, drafters: list[RecordedDrafter], log: RecordingLog) -> None:
    """Run every request that the log does not hold yet."""
    prompts = session.prompts.prompts
    jobs = [(temperature, prompt) for temperature in session.options.temperatures for prompt in prompts]
    finished = {(entry["temperature"], entry["request"]) for entry in log.finished}
    for done, (temperature, prompt) in enumerate(jobs, start=1):
        if (temperature, prompt.id) not in finished:
            log.append(_recorded(session, drafters, prompt, temperature))
        session.report("record", done, len(jobs), f"{mode_name(temperature)} {prompt.id}")


def _recorded(session: _Session, drafters: list[RecordedDrafter], prompt: Prompt, temperature: float) -> dict[str, Any]:
    """Run one request and let every drafter watch it."""
    from real_runs.decoding.generate import generate
    from real_runs.decoding.sampling import Sampler
    from real_runs.decoding.stopping import looped_tokens

    options = session.options
    ids = session.tokenizer.chat_ids(prompt.text)
    sampler = Sampler(temperature=temperature, seed=options.seed, request=prompt.id, positions=options.max_new_tokens)
    capture = next((item.capture_layer for item in drafters if item.capture_layer is not None), None)
    wall, cpu = time.perf_counter(), time.process_time()
    made = generate(session.model, ids, sampler, max_new_tokens=options.max_new_tokens, capture_layer=capture)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {
        "temperature": temperature,
        "request": prompt.id,
        "prompt_tokens": len(ids),
        "tokens": len(made.tokens),
        "output_sha256": hashlib.sha256(" ".join(map(str, made.tokens)).encode()).hexdigest(),
        "ended": made.ended,
        "looped_tokens": looped_tokens(made.tokens) if made.ended == "loop" else 0,
        "wall_s": wall,
        "cpu_s": cpu,
        "drafters": {
            item.name: {key: values.tolist() for key, values in item.observe(ids, made).items()} for item in drafters
        },
    }


def _drafters(session: _Session) -> list[RecordedDrafter]:
    from real_runs.drafters.recorded import (
        early_exit_drafter,
        layer_skip_drafter,
        prompt_lookup_drafter,
        suffix_automaton_drafter,
    )

    options, model = session.options, session.model
    fit_texts = _fit_texts(session)
    made: list[RecordedDrafter] = []
    for name in options.drafters:
        if name == "prompt-lookup":
            made.append(prompt_lookup_drafter(options.ngram_sizes, options.most_draft_tokens))
        elif name == "suffix-automaton":
            made.append(suffix_automaton_drafter(options.least_match, options.most_draft_tokens))
        elif name == "early-exit":
            bridge, parameters = _exit_bridge(session, fit_texts)
            made.append(early_exit_drafter(model, bridge, parameters=parameters))
        else:
            across, parameters = _gap_bridge(session, fit_texts)
            start, stop = session.setup["skipped_layers"]
            made.append(layer_skip_drafter(model, (start, stop), across, parameters=parameters))
    return made


def _fit_texts(session: _Session) -> _FitTexts:
    """The text for fitting bridges; the model writes its part of it when it is first asked for, and once."""
    from real_runs.drafters.fit_data import FitData

    options = session.options
    data = FitData(
        questions=fit_questions(session.prompts),
        answers=options.fit_answers,
        help_characters=options.fit_characters,
        seed=options.seed,
    )

    def report(done: int, total: int) -> None:
        session.report("fit", done, total, "own answers")

    return data, cache(lambda: data.sequences(session.model, session.tokenizer, report))


def _exit_bridge(session: _Session, fit_texts: _FitTexts) -> tuple[Bridge, dict[str, Any]]:
    """The early exit's bridge and its parameters."""
    from real_runs.drafters.bridge_fit import FitRecipe, fit_bridge

    exit_layer, ridge = session.setup["exit_layer"], session.options.ridge
    recipe = FitRecipe(exit_layer=exit_layer, **_recipe_values(session, fit_texts))
    bridge, fitted = _stored_or_fitted(
        session.options.out / f"{session.setup['name']}--exit{exit_layer}-bridge.safetensors",
        recipe,
        lambda: fit_bridge(session.model, fit_texts[1](), exit_layer=exit_layer, ridge=ridge),
    )
    return bridge, {"exit_layer": exit_layer, "layers": session.model.config.layers, **fitted}


def _gap_bridge(session: _Session, fit_texts: _FitTexts) -> tuple[Bridge | None, dict[str, Any]]:
    """The bridge across the skipped layers, None where none is wanted, and the layer skip's parameters."""
    from real_runs.drafters.layer_skip import GapRecipe, fit_gap

    (start, stop), layers, ridge = session.setup["skipped_layers"], session.model.config.layers, session.options.ridge
    parameters = {"skipped_layers": [start, stop], "layers": layers, "draft_layers": layers - (stop - start)}
    if not session.options.skip_bridge:
        return None, parameters
    recipe = GapRecipe(exit_layer=start, stop_layer=stop, **_recipe_values(session, fit_texts))
    bridge, fitted = _stored_or_fitted(
        session.options.out / f"{session.setup['name']}--skip{start}-{stop}-bridge.safetensors",
        recipe,
        lambda: fit_gap(session.model, fit_texts[1](), start=start, stop=stop, ridge=ridge),
    )
    return bridge, parameters | fitted


def _recipe_values(session: _Session, fit_texts: _FitTexts) -> dict[str, Any]:
    return {
        "model_sha256": session.setup["model_sha256"],
        "dtype": session.options.dtype,
        "ridge": session.options.ridge,
        "data": fit_texts[0].title,
        "data_sha256": fit_texts[0].sha256,
    }


def _stored_or_fitted(path: Path, recipe: FitRecipe, fit: Callable[[], Bridge]) -> tuple[Bridge, dict[str, Any]]:
    """A bridge, read from beside the part file if the same recipe made it, and how it was made."""
    from real_runs.drafters.bridge_fit import bridge_sha256, load_bridge, save_bridge

    bridge = load_bridge(path, recipe)
    if bridge is None:
        bridge = fit()
        save_bridge(bridge, recipe, path)
    return bridge, {
        "ridge": recipe.ridge,
        "fit_data": recipe.data,
        "fit_data_sha256": recipe.data_sha256,
        "fit_tokens": bridge.fit_tokens,
        "bridge_sha256": bridge_sha256(bridge),
    }


def _setup(options: RecordOptions, source: ModelSource, prompts: PromptSet, *, layers: int) -> dict[str, Any]:
    """All that a recording depends on: a part file of another setup is not continued."""
    import torch

    from real_runs.drafters.layer_skip import check_gap, default_gap

    exit_layer = max(1, round(layers / 3)) if options.exit_layer is None else options.exit_layer
    if "early-exit" in options.drafters and not 1 <= exit_layer < layers:
        raise InputError(f"must lie in 1..{layers - 1}", key="exit_layer", value=exit_layer)
    skipped = options.skipped_layers or default_gap(layers)
    if "layer-skip" in options.drafters:
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
        "max_new_tokens": options.max_new_tokens,
        "ngram_sizes": list(options.ngram_sizes),
        "most_draft_tokens": options.most_draft_tokens,
        "least_match": options.least_match,
        "exit_layer": exit_layer,
        "skipped_layers": list(skipped),
        "skip_bridge": options.skip_bridge,
        "ridge": options.ridge,
        "fit_characters": options.fit_characters,
        "fit_answers": options.fit_answers,
        "seed": options.seed,
        "threads": _threads(options),
        "dtype": options.dtype,
        "torch": torch.__version__,
    }


def _threads(options: RecordOptions) -> int:
    return options.threads or min(2, os.cpu_count() or 1)


def _require_libraries() -> None:
    from importlib.util import find_spec

    missing = [name for name in _LIBRARIES if find_spec(name) is None]
    if missing:
        raise InputError(
            "recording needs the extra `real` (pip install 'rooftree[real]')",
            key="missing",
            value=", ".join(missing),
        )
