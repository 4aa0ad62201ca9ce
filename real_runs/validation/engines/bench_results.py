"""What did a serving engine's own benchmark measure, and how far was the prediction from it?

Reads the JSON of `vllm bench serve`, `vllm bench latency` and of SGLang's `bench_serving` (JSON
lines), and puts each run beside the prediction at the nearest batch and context. Files are
untrusted. Leaves out running engines.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardware_profiles.errors import InputError
from hardware_profiles.outside_file import read_bounded
from hardware_profiles.units import MIB, MILLI

MAX_BENCH_BYTES = 512 * MIB
MAX_RUNS = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class BenchRun:
    """One run of a benchmark; None where a file does not tell.

    Attributes:
        source: format: vllm-serve, vllm-latency or sglang-serving.
        file: where it stood.
        batch: requests in flight: the mean where it is stated, else the limit.
        context: cached tokens in the middle of a request's output.
        tpot_s: mean seconds per output token of a request after its first.
        ttft_s: mean seconds to the first token.
        tokens_per_step: emitted per step of a request, bonus included.
        output_tokens_per_s: of all requests, prompts' time included.
        latency_s: mean seconds of a whole batch.
    """

    source: str
    file: str
    batch: float | None = None
    context: float | None = None
    tpot_s: float | None = None
    ttft_s: float | None = None
    tokens_per_step: float | None = None
    output_tokens_per_s: float | None = None
    latency_s: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class BenchComparison:
    """A run beside the nearest prediction; errors are predicted / measured - 1.

    Attributes:
        run: what was measured.
        batch: of the prediction.
        context: of the prediction.
        draft_tokens: of the prediction.
        predicted_tpot_s: seconds per token.
        predicted_tokens_per_step: emitted per step.
        tpot_error_ratio: None where the run does not tell.
        tokens_per_step_error_ratio: None where the run does not tell.
        covered: whether the measured time per token lies in the prediction's interval; None without
            one.
    """

    run: BenchRun
    batch: float
    context: float
    draft_tokens: int
    predicted_tpot_s: float
    predicted_tokens_per_step: float
    tpot_error_ratio: float | None
    tokens_per_step_error_ratio: float | None
    covered: bool | None


def read_bench(path: Path) -> list[BenchRun]:
    """The runs of a benchmark file.

    Raises:
        InputError: absent, too large, no JSON, or of a format that is none of those above.
    """
    try:
        text = read_bounded(path, MAX_BENCH_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"cannot be read ({error})", file=path) from None
    runs = []
    for place, value in enumerate(_objects(text, path)):
        if place >= MAX_RUNS:
            raise InputError(f"must hold at most {MAX_RUNS} runs", file=path)
        runs.append(_run(value, path))
    if not runs:
        raise InputError("holds no run of a benchmark", file=path)
    return runs


def compare(
    runs: Sequence[BenchRun], prediction: Mapping[str, Any], *, file: str = ""
) -> list[BenchComparison]:
    """Every run beside the prediction at the nearest batch (by ratio), then the nearest context.

    Args:
        runs: measured.
        prediction: the JSON answer of `predict`.
        file: it stood in, for errors.

    Raises:
        InputError: no answer of `predict`, or a run that tells no time per token.
    """
    predictions = prediction.get("predictions")
    if (
        not isinstance(predictions, list)
        or not predictions
        or not all(isinstance(prediction_row, Mapping) for prediction_row in predictions)
    ):
        raise InputError("must be a JSON answer of predict", file=file, key="predictions")
    return [_beside(run, predictions, file) for run in runs]


def _beside(run: BenchRun, predictions: Sequence[Mapping[str, Any]], file: str) -> BenchComparison:
    if run.tpot_s is None:
        raise InputError("tells no time per output token", file=run.file, key=run.source)

    def distance(prediction: Mapping[str, Any]) -> tuple[float, float]:
        batch, context = (_number(prediction, key, file) for key in ("batch", "context"))
        away = abs(math.log(batch / run.batch)) if run.batch else 0.0
        return away, abs(
            math.log((context + 1.0) / (run.context + 1.0))
        ) if run.context is not None else 0.0

    near = min(predictions, key=distance)
    batch, rate, emitted = (
        _number(near, key, file) for key in ("batch", "tokens_per_s", "tokens_per_step")
    )
    tpot = batch / rate
    interval = near.get("tokens_per_s_interval")
    covered = None
    if (
        isinstance(interval, list)
        and len(interval) == 2
        and all(isinstance(end, int | float) for end in interval)
    ):
        covered = interval[0] <= batch / run.tpot_s <= interval[1]
    return BenchComparison(
        run=run,
        batch=batch,
        context=_number(near, "context", file),
        draft_tokens=int(near.get("draft_tokens") or 0),
        predicted_tpot_s=tpot,
        predicted_tokens_per_step=emitted,
        tpot_error_ratio=tpot / run.tpot_s - 1.0,
        tokens_per_step_error_ratio=emitted / run.tokens_per_step - 1.0
        if run.tokens_per_step
        else None,
        covered=covered,
    )


def _objects(text: str, path: Path) -> list[Any]:
    """One JSON value, or one per line."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        try:
            return [json.loads(line) for line in text.splitlines() if line.strip()]
        except (ValueError, RecursionError) as error:
            raise InputError(f"must be JSON or JSON lines ({error})", file=path) from None
    return value if isinstance(value, list) else [value]


def _run(value: Any, path: Path) -> BenchRun:
    if not isinstance(value, Mapping):
        raise InputError("must hold JSON objects", file=path)
    if "avg_latency" in value:
        return BenchRun(
            source="vllm-latency",
            file=path.name,
            latency_s=_number(value, "avg_latency", str(path)),
        )
    if "mean_tpot_ms" not in value or "completed" not in value:
        rule = "must be the JSON of vllm bench serve, vllm bench latency or SGLang's bench_serving"
        raise InputError(rule, file=path)
    sglang = "accept_length" in value or "total_output_tokens_retokenized" in value
    done = _number(value, "completed", str(path))
    prompt, output = (
        _optional(value, key, path) for key in ("total_input_tokens", "total_output_tokens")
    )
    context = (
        None if prompt is None or output is None or not done else (prompt + output / 2.0) / done
    )
    emitted = _optional(value, "accept_length" if sglang else "spec_decode_acceptance_length", path)
    tpot, ttft = _optional(value, "mean_tpot_ms", path), _optional(value, "mean_ttft_ms", path)
    return BenchRun(
        source="sglang-serving" if sglang else "vllm-serve",
        file=path.name,
        batch=_optional(value, "concurrency", path) or _optional(value, "max_concurrency", path),
        context=context,
        tpot_s=tpot * MILLI if tpot else None,
        ttft_s=ttft * MILLI if ttft else None,
        tokens_per_step=emitted,
        output_tokens_per_s=_optional(value, "output_throughput", path),
    )


def _optional(value: Mapping[str, Any], key: str, path: Path) -> float | None:
    return None if value.get(key) is None else _number(value, key, str(path))


def _number(value: Mapping[str, Any], key: str, file: str) -> float:
    number = value.get(key)
    if (
        isinstance(number, bool)
        or not isinstance(number, int | float)
        or not math.isfinite(number)
        or number < 0
    ):
        raise InputError("must be a finite number, not negative", file=file, key=key, value=number)
    return float(number)
