"""How is acceptance read from responses that report the speculation of their request?

Formats `vllm-responses` (served with `--per-request-spec-decode-metrics`:
`metrics.speculative_decoding`), `sglang-responses` (`meta_info`) and `tensorrt-llm-responses`
(`perf_metrics.speculative_decoding`): one response, a list, or JSON lines. Yields level 1 where
steps are listed (`per_step_accepted`), else level 0: rates by position from the histograms of
accepted drafts, or the mean. It cannot know batch sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from hardware_profiles.errors import InputError
from traces.importers.recognition import Format, Sample, sample_of
from traces.importers.records import is_record, pooled, record_of, request_objects
from traces.kinds.acceptance import AcceptanceTrace

_ENGINES = {
    "vllm-responses": (
        "vLLM responses",
        ("metrics", "speculative_decoding"),
        ("speculative_decoding",),
    ),
    "sglang-responses": (
        "SGLang responses",
        ("meta_info",),
        ("choices", 0, "meta_info"),
        ("sglext",),
    ),
    "tensorrt-llm-responses": (
        "TensorRT-LLM responses",
        ("perf_metrics", "speculative_decoding"),
        ("choices", 0, "perf_metrics", "speculative_decoding"),
    ),
}


def read(path: str | Path, *, engine: str) -> AcceptanceTrace:
    """Read responses.

    Args:
        path: JSON, or JSON lines.
        engine: format by which they are read, of this module.

    Raises:
        InputError: no response reports speculation, or its counts contradict each other.
    """
    file = str(path)
    source, *places = _ENGINES[engine]
    records, models = [], set()
    for name, response in request_objects(sample_of(path)):
        spoken = response.get("response", response)
        models.add(str(spoken.get("model", "")) if isinstance(spoken, dict) else "")
        value = _at(response, places)
        if value is not None:
            records.append(record_of(value, file, name))
    if not records:
        raise InputError("no response reports the speculation of its request", file=file)
    return pooled(records, file, source=str(source), model=", ".join(sorted(models - {""}))[:300])


def _at(response: Mapping[str, Any], places: Any) -> Mapping[str, Any] | None:
    """The record of a response, by the first place that has one."""
    for spoken in (response, response.get("response")):
        for place in places:
            value: Any = spoken
            for step in place:
                listed = isinstance(value, list) and isinstance(step, int) and len(value) > step
                value = (
                    value[step] if listed else value.get(step) if isinstance(value, dict) else None
                )
            if is_record(value):
                return dict(value)
    return None


def _claims(sample: Sample, places: Any) -> bool:
    first: Mapping[str, Any] = sample.first
    listed = next(
        (first[k] for k in ("results", "responses", "records") if isinstance(first.get(k), list)),
        None,
    )
    if listed and isinstance(listed[0], dict):
        first = listed[0]
    return _at(first, places) is not None


FORMATS = tuple(
    Format(name=name, claims=partial(_claims, places=places), read=partial(read, engine=name))
    for name, (_, *places) in _ENGINES.items()
)
