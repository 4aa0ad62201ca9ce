"""How is acceptance read from responses that report the speculation of their request?

Formats `vllm-responses` (served with `--per-request-spec-decode-metrics`:
`metrics.speculative_decoding`), `sglang-responses` (`meta_info`) and `tensorrt-llm-responses`
(`perf_metrics.speculative_decoding`): one response, a list, or JSON lines. Yields level 1 where
steps are listed (`per_step_accepted`), else level 0: rates by position from the histograms of
accepted drafts, or the mean; and counts by adapter, where responses name the one that served them.
It cannot know batch sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from hardware_profiles.errors import InputError
from traces.importers.recognition import Format, Sample, sample_of
from traces.importers.records import Record, is_record, pooled, record_of, request_objects
from traces.kinds.acceptance import AcceptanceTrace

_Key = tuple[str | int, ...]
ADAPTER_KEYS = ("lora_name", "lora_adapter", "lora_path", "lora", "adapter_name", "adapter")
"""Keys of a response, or of the request beside it, that name an adapter; else `model` does, under
which engines serve adapters."""


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
    return _pooled(_reported(path, engine), str(path), engine)


def read_counts(path: str | Path, *, engine: str) -> AcceptanceTrace:
    """What all responses add up to, level 0.

    Args:
        path: JSON, or JSON lines.
        engine: format by which they are read, of this module.

    Raises:
        InputError: no response reports speculation, or its counts contradict each other.
    """
    return _pooled(_reported(path, engine), str(path), engine, positions=False)


def read_adapters(path: str | Path, *, engine: str) -> dict[str, AcceptanceTrace]:
    """What the responses of every adapter add up to, level 0, by its name in order; adapters without
    a draft are left out.

    Args:
        path: JSON, or JSON lines.
        engine: format by which they are read, of this module.

    Raises:
        InputError: no response reports speculation, or its counts contradict each other.
    """
    adapters: dict[str, list[_Response]] = {}
    for response in _reported(path, engine):
        adapters.setdefault(response.adapter or response.model, []).append(response)
    return {
        name: _pooled(adapters[name], str(path), engine, positions=False)
        for name in sorted(adapters)
        if any(response.record.steps for response in adapters[name])
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class _Response:
    """What one response reports.

    Attributes:
        record: of its speculation.
        model: that it names; empty where it names none.
        adapter: that it or its request names; empty where neither does.
    """

    record: Record
    model: str
    adapter: str


def _reported(path: str | Path, engine: str) -> list[_Response]:
    """The responses that report speculation.

    Raises:
        InputError: none does.
    """
    file, reported = str(path), []
    for name, response in request_objects(sample_of(path)):
        value = _record_in(response, _ENGINES[engine].records)
        if value is not None:
            reported.append(
                _Response(
                    record=record_of(value, file, name),
                    model=_named(response, ("model",)),
                    adapter=_named(response, ADAPTER_KEYS),
                )
            )
    if not reported:
        raise InputError("no response reports the speculation of its request", file=file)
    return reported


def _pooled(
    reported: Sequence[_Response], file: str, engine: str, *, positions: bool = True
) -> AcceptanceTrace:
    models = {response.model for response in reported} - {""}
    return pooled(
        [response.record for response in reported],
        file,
        source=_ENGINES[engine].source,
        model=", ".join(sorted(models))[:300] if positions or len(models) == 1 else "",
        positions=positions,
    )


def _named(response: Mapping[str, Any], keys: Sequence[str]) -> str:
    """The first text under one of these keys, in a response or what a client kept beside it."""
    bodies = (response.get("response"), response, response.get("request"))
    values = (body.get(key) for body in bodies if isinstance(body, dict) for key in keys)
    return next((value for value in values if isinstance(value, str) and value), "")[:300]


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
