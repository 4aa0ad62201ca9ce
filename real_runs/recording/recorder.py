"""How are requests run, and how do drafters watch them?

The target runs once per sampling mode; every drafter watches the same text, but for those that a
finished text tells nothing: they decode it themselves. Leaves out how drafters are made
(`real_runs.drafters`) and how part files and trace files are laid out (`log`, `files`).
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from real_runs.decoding.batch_generate import generate_batch
from real_runs.decoding.generate import Generation, generate
from real_runs.decoding.sampling import Sampler
from real_runs.decoding.speculative import SpeculativeRun
from real_runs.decoding.stopping import looped_tokens
from real_runs.drafters.drafter import RecordedDrafter
from real_runs.drafters.registry import check_drafters, recorded_drafter
from real_runs.drafters.target import Target, load_target
from real_runs.drafters.token_recycling import walked_trace
from real_runs.models.device import checked_device, device_title
from real_runs.models.loading.weights import find_model
from real_runs.prompt_set import Prompt, read_prompts
from real_runs.recording.arrays import encoded
from real_runs.recording.files import RecordReport, mode_name, write_recordings
from real_runs.recording.log import RecordingLog
from real_runs.recording.options import OnProgress, Progress, RecordOptions
from real_runs.recording.probabilities import target_arrays
from real_runs.recording.setup import recording_setup, thread_count
from real_runs.recording.timed import TIMED, time_loops
from traces.kinds.acceptance import Provenance


@dataclass(frozen=True, kw_only=True, slots=True)
class Recorder:
    """What a recording works with.

    Attributes:
        options: what to record.
        target: the model, its prompts, and what its drafters are made from.
    """

    options: RecordOptions
    target: Target


def record_traces(options: RecordOptions, progress: OnProgress) -> RecordReport:
    """Run the model over the prompts and write the traces, as `record` says.

    Args:
        options: what to record.
        progress: called after every finished piece of work.

    Raises:
        InputError: as of `record`, but for missing libraries.
        UnknownNameError: no such drafter.
    """
    check_drafters(options.drafters)
    device = checked_device(options.device)
    prompts = read_prompts(options.prompts)
    if options.prompts_per_kind is not None:
        prompts = prompts.first_of_each_kind(options.prompts_per_kind)
    source = find_model(options.model)
    torch.set_num_threads(thread_count(options))
    target = load_target(
        source,
        options,
        prompts,
        device=device,
        folder=options.fits or options.out,
        report=lambda stage, done, total, detail: progress(
            Progress(stage=stage, done=done, total=total, detail=detail)
        ),
    )
    setup = recording_setup(options, source, prompts, layers=target.layers) | {
        "model_sha256": target.sha256,
        "device": device_title(device),
    }
    with RecordingLog(
        options.out / f"{source.name}.part.jsonl", setup, resume=options.resume
    ) as log:
        drafters = [recorded_drafter(name, target) for name in options.drafters]
        _record_missing(Recorder(options=options, target=target), drafters, log)
        if options.timing is not None:
            time_loops(target, options, drafters, log, partial(_sampler, options))
        report = write_recordings(options.out, setup, prompts, drafters, log.finished)
        log.remove()
    return report


def _record_missing(
    recorder: Recorder, drafters: Sequence[RecordedDrafter], log: RecordingLog
) -> None:
    """Run every request that the log does not hold yet."""
    prompts = recorder.target.prompts.prompts
    jobs = [
        (temperature, prompt) for temperature in recorder.options.temperatures for prompt in prompts
    ]
    finished = {
        (entry["temperature"], entry["request"]) for entry in log.finished if TIMED not in entry
    }
    if recorder.options.requests_at_once > 1 and any(
        item.capture_layer is not None for item in drafters
    ):
        raise InputError("must be 1 for a drafter that looks at layers", key="requests_at_once")
    written = _Written(recorder, [job for job in jobs if (job[0], job[1].id) not in finished])
    for done, (temperature, prompt) in enumerate(jobs, start=1):
        if (temperature, prompt.id) not in finished:
            log.append(_recorded(recorder, drafters, prompt, temperature, written))
        recorder.target.report("record", done, len(jobs), f"{mode_name(temperature)} {prompt.id}")


class _Written:
    """Texts of requests that are decoded together, a batch as soon as the first of it is asked
    for.
    """

    def __init__(self, recorder: Recorder, jobs: Sequence[tuple[float, Prompt]]) -> None:
        self._recorder, self._left = recorder, list(jobs)
        self._texts: dict[tuple[float, str], tuple[Generation, dict[str, float]]] = {}

    def text(self, temperature: float, prompt: Prompt) -> tuple[Generation, dict[str, float]]:
        """A request's text and its share of the batch's seconds."""
        options = self._recorder.options
        while (temperature, prompt.id) not in self._texts:
            jobs, self._left = (
                self._left[: options.requests_at_once],
                self._left[options.requests_at_once :],
            )
            ids = [self._recorder.target.tokenizer.chat_ids(job.text) for _, job in jobs]
            samplers = [_sampler(options, job, at) for at, job in jobs]
            clock = _Clock()
            texts = generate_batch(
                self._recorder.target.model, ids, samplers, max_new_tokens=options.max_new_tokens
            )
            seconds = {name: value / len(jobs) for name, value in clock.seconds("").items()}
            self._texts |= {
                (at, job.id): (text, seconds) for (at, job), text in zip(jobs, texts, strict=True)
            }
        return self._texts.pop((temperature, prompt.id))


def _sampler(options: RecordOptions, prompt: Prompt, temperature: float) -> Sampler:
    return Sampler(
        temperature=temperature,
        seed=options.seed,
        request=prompt.id,
        positions=options.max_new_tokens,
    )


def _recorded(
    recorder: Recorder,
    drafters: Sequence[RecordedDrafter],
    prompt: Prompt,
    temperature: float,
    written: _Written,
) -> dict[str, Any]:
    """Run one request and let every drafter watch it."""
    options = recorder.options
    ids = recorder.target.tokenizer.chat_ids(prompt.text)
    sampler = _sampler(options, prompt, temperature)
    capture = next(
        (item.capture_layer for item in drafters if item.capture_layer is not None), None
    )
    if options.requests_at_once > 1:
        generation, seconds = written.text(temperature, prompt)
    else:
        generation, seconds = _generated(recorder, ids, sampler, capture)
    return {
        "temperature": temperature,
        "request": prompt.id,
        "prompt_tokens": len(ids),
        **_text_columns(generation.tokens, generation.ended),
        **_output_ids(options, generation.tokens),
        **seconds,
        **generation.seconds,
        "drafters": {
            item.name: _watched(item, ids, generation, sampler, options) for item in drafters
        },
    }


def _generated(
    recorder: Recorder, ids: Sequence[int], sampler: Sampler, capture: int | None
) -> tuple[Generation, dict[str, float]]:
    """A request's text and its seconds."""
    options, clock = recorder.options, _Clock()
    generation = generate(
        recorder.target.model,
        ids,
        sampler,
        max_new_tokens=options.max_new_tokens,
        capture_layer=capture,
        keep_logits=options.level >= 3,
    )
    return generation, clock.seconds("")


def _watched(
    drafter: RecordedDrafter,
    ids: Sequence[int],
    generation: Generation,
    sampler: Sampler,
    options: RecordOptions,
) -> dict[str, Any]:
    """What one drafter leaves of a request: its arrays, and columns that stand in place of the
    request's.
    """
    clock = _Clock()
    if drafter.decode is not None:
        run = drafter.decode(ids, sampler, options.max_new_tokens)
        columns = _text_columns(run.tokens, run.ended) | clock.seconds("")
        return {
            "arrays": {key: encoded(value) for key, value in _walked_lengths(run).items()},
            "columns": columns,
            **_output_ids(options, run.tokens),
        }
    arrays = dict(drafter.observe(ids, generation))
    counts = dict(drafter.count(ids, generation)) if drafter.count else {}
    columns = clock.seconds("observe_") | counts
    if "draft_ids" in arrays:
        arrays |= target_arrays(generation, arrays["draft_ids"], sampler.temperature)
    return {"arrays": {key: encoded(value) for key, value in arrays.items()}, "columns": columns}


def _output_ids(options: RecordOptions, tokens: Sequence[int]) -> dict[str, Any]:
    """A text itself, where loops that are timed have to keep to it."""
    if options.timing is None:
        return {}
    return {"output_ids": encoded(np.array(tokens, dtype=np.int32))}


def _walked_lengths(run: SpeculativeRun) -> dict[str, NDArray[Any]]:
    """The lengths that a run leaves at the positions where its steps started."""
    trace = walked_trace([run], Provenance())
    assert trace.emitted is not None
    assert trace.drafted is not None
    return {"emitted": trace.emitted, "drafted": trace.drafted}


def _text_columns(tokens: Sequence[int], ended: str) -> dict[str, Any]:
    return {
        "tokens": len(tokens),
        "output_sha256": hashlib.sha256(" ".join(map(str, tokens)).encode()).hexdigest(),
        "ended": ended,
        "looped_tokens": looped_tokens(tokens) if ended == "loop" else 0,
    }


class _Clock:
    """Wall and CPU seconds since it was made."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def seconds(self, prefix: str) -> dict[str, float]:
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        return {f"{prefix}wall_s": wall, f"{prefix}cpu_s": cpu}
