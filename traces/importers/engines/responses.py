"""How is acceptance read from responses that report the speculation of their request?

Formats `vllm-responses` (served with `--per-request-spec-decode-metrics`:
`metrics.speculative_decoding`), `sglang-responses` (`meta_info`) and `tensorrt-llm-responses`
(`perf_metrics.speculative_decoding`): one response, a list, or JSON lines. Yields level 1 where
steps are listed (`per_step_accepted`), else level 0: rates by position from the histograms of
accepted drafts, or the mean. It cannot know batch sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from hardware_profiles.errors import InputError
from traces.importers.recognition import Format, Sample, sample_of
from traces.importers.records import is_record, pooled, record_of, request_objects
from traces.kinds.acceptance import AcceptanceTrace

_Key = tuple[str | int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Responses:
    """Where the responses of one engine keep the record of their request's speculation.

    Attributes:
        source: what wrote them, for the provenance.
        records: keys of the record, from the outermost in; the first that leads to one counts.
    """

    source: str
    records: Sequence[_Key]


_ENGINES = {
    "vllm-responses": _Responses(
        source="vLLM responses",
        records=(("metrics", "speculative_decoding"), ("speculative_decoding",)),
    ),
    "sglang-responses": _Responses(
        source="SGLang responses",
        records=(("meta_info",), ("choices", 0, "meta_info"), ("sglext",)),
    ),
    "tensorrt-llm-responses": _Responses(
        source="TensorRT-LLM responses",
        records=(
            ("perf_metrics", "speculative_decoding"),
            ("choices", 0, "perf_metrics", "speculative_decoding"),
        ),
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
    responses = _ENGINES[engine]
    records, models = [], set()
    for name, response in request_objects(sample_of(path)):
        body = response.get("response", response)
        models.add(str(body.get("model", "")) if isinstance(body, dict) else "")
        value = _record_in(response, responses.records)
        if value is not None:
            records.append(record_of(value, file, name))
    if not records:
        raise InputError("no response reports the speculation of its request", file=file)
    return pooled(
        records, file, source=responses.source, model=", ".join(sorted(models - {""}))[:300]
    )


def _record_in(response: Mapping[str, Any], keys: Sequence[_Key]) -> Mapping[str, Any] | None:
    """The record of a response, under the first of the keys that has one; None where none has.

    A client may have kept the response inside an object of its own, under `response`.
    """
    for body in (response, response.get("response")):
        for key in keys:
            value: Any = body
            for part in key:
                if isinstance(part, int):
                    is_long = isinstance(value, list) and len(value) > part
                    value = value[part] if is_long else None
                else:
                    value = value.get(part) if isinstance(value, dict) else None
            if is_record(value):
                return dict(value)
    return None


def _claims(sample: Sample, responses: _Responses) -> bool:
    first: Mapping[str, Any] = sample.first
    listed = next(
        (first[k] for k in ("results", "responses", "records") if isinstance(first.get(k), list)),
        None,
    )
    if listed and isinstance(listed[0], dict):
        first = listed[0]
    return _record_in(first, responses.records) is not None


FORMATS = tuple(
    Format(name=name, claims=partial(_claims, responses=responses), read=partial(read, engine=name))
    for name, responses in _ENGINES.items()
)
