"""How are the results of guidellm, aiperf and genai-perf read?

Formats `aiperf` (`profile_export.jsonl` with `spec_decode_acceptance`, or the pooled histogram of
`profile_export_aiperf.json`) and `guidellm` (`benchmarks.json` whose responses carry the engine's
report): acceptance. Formats `aiperf-requests`, `guidellm-requests` and `genai-perf-requests`
(`profile_export.json`): when requests were sent, and how many tokens they had. Acceptance yields
level 1 where steps are listed, else level 0. It cannot know batch sizes, and genai-perf reports no
acceptance at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hardware_profiles.errors import InputError
from hardware_profiles.units import NANO
from traces.importers.files import expect_list, expect_object, json_lines, parse_json, read_text
from traces.importers.recognition import Format, Sample, sample_of
from traces.importers.records import is_record, pooled, record_of
from traces.importers.request_tables import request_trace, whole_column
from traces.kinds.acceptance import AcceptanceTrace, RequestTrace

_RECORD = "spec_decode_acceptance"
_POOLED = "pooled_spec_decode_acceptance_histogram"
_REPORTS = ("response_metrics", "metrics", "output_metrics")


@dataclass(frozen=True, kw_only=True, slots=True)
class _RequestKeys:
    """Where a program's record of one request keeps what a trace of requests needs; of several keys
    the first counts that holds a number.

    Attributes:
        source: program that wrote it, for the notes.
        start: keys of the time of sending; inner ones follow a dot.
        start_unit_s: seconds of its unit.
        prompt_tokens: keys of the prompt's length, in tokens.
        output_tokens: keys of the output's length, in tokens.
        within: objects of the record in which the keys may stand, the outermost first.
    """

    source: str
    start: Sequence[str]
    start_unit_s: float = 1.0
    prompt_tokens: Sequence[str]
    output_tokens: Sequence[str]
    within: Sequence[str] = ("",)


_AIPERF = _RequestKeys(
    source="an aiperf run",
    start=("metadata.request_start_ns",),
    start_unit_s=NANO,
    prompt_tokens=("metrics.input_sequence_length",),
    output_tokens=("metrics.output_sequence_length", "metrics.output_token_count"),
)
_GUIDELLM = _RequestKeys(  # newer versions nest times and lengths
    source="a guidellm run",
    start=("request_start_time", "start_time", "request_start", "resolve_start"),
    prompt_tokens=(
        "prompt_tokens",
        "input_metrics.total_tokens",
        "input_metrics.text_tokens",
        "input_tokens",
        "input_length",
    ),
    output_tokens=(
        "output_tokens",
        "output_metrics.total_tokens",
        "output_metrics.text_tokens",
        "completion_tokens",
        "output_length",
    ),
    within=(
        "",
        "scheduler_info",
        "scheduler_info.timings",
        "request_info",
        "request_info.timings",
        "info",
        "info.timings",
    ),
)
_GENAI_PERF = _RequestKeys(
    source="a genai-perf run",
    start=("timestamp",),
    start_unit_s=NANO,
    prompt_tokens=("usage.prompt_tokens",),
    output_tokens=("usage.completion_tokens",),
)


def read_aiperf(path: str | Path) -> AcceptanceTrace:
    """Read acceptance from aiperf's records, or from its report.

    Raises:
        InputError: no request reports acceptance, or its counts contradict each other.
    """
    file = str(path)
    sample = sample_of(path)
    if sample.first.get(_POOLED):
        histogram = {"acceptance_histogram": sample.first[_POOLED]}
        return pooled([record_of(histogram, file, _POOLED)], file, source="aiperf")
    rows = [
        (name, row[_RECORD]) for name, row in _records(sample) if isinstance(row.get(_RECORD), dict)
    ]
    return pooled([record_of(value, file, name) for name, value in rows], file, source="aiperf")


def read_guidellm(path: str | Path) -> AcceptanceTrace:
    """Read acceptance from guidellm's benchmarks, all rates together.

    Raises:
        InputError: no response reports speculation, or its counts contradict each other.
    """
    file = str(path)
    records = []
    for name, request in _guidellm_requests(path, file):
        reports = [request.get(key) for key in _REPORTS]
        inner = [
            report.get("speculative_decoding") for report in reports if isinstance(report, dict)
        ]
        first_report = next((record for record in (*inner, *reports) if is_record(record)), None)
        if first_report is not None:
            records.append(record_of(first_report, file, name))
    return pooled(records, file, source="guidellm")


def read_aiperf_requests(path: str | Path) -> RequestTrace:
    """Read when aiperf's requests were sent and how many tokens they had.

    Raises:
        InputError: anything that is not as described.
    """
    records = ((name, row) for name, row in _records(sample_of(path)) if not row.get("error"))
    return _requests(records, _AIPERF, str(path))


def read_guidellm_requests(path: str | Path) -> RequestTrace:
    """Read when guidellm's requests were sent and how many tokens they had; the runs of a sweep
    follow each other.

    Raises:
        InputError: anything that is not as described.
    """
    file = str(path)
    return _requests(_guidellm_requests(path, file), _GUIDELLM, file)


def read_genai_requests(path: str | Path) -> RequestTrace:
    """Read when genai-perf's requests were sent, and the tokens that the server reported as usage.

    Raises:
        InputError: anything that is not as described, or responses without usage: their text alone
            tells no tokens.
    """
    file = str(path)
    return _requests(_genai_requests(path, file), _GENAI_PERF, file)


def _genai_requests(path: str | Path, file: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    document = expect_object(parse_json(read_text(path), file), file, "document")
    for index, experiment in enumerate(
        expect_list(document.get("experiments"), file, "experiments")
    ):
        key = f"experiments[{index}].requests"
        requests = expect_object(experiment, file, f"experiments[{index}]").get("requests")
        for number, request in enumerate(expect_list(requests, file, key)):
            name = f"{key}[{number}]"
            sent = expect_object(request, file, name)
            usage = _usage(sent)
            if usage is None:
                rule = (
                    "responses must report usage (--extra-inputs stream_options:...): text alone"
                    " has no token counts"
                )
                raise InputError(rule, file=file, key=f"{name}.response_outputs")
            yield name, {**sent, "usage": usage}


def _usage(request: Mapping[str, Any]) -> Mapping[str, Any] | None:
    outputs = request.get("response_outputs")
    for output in reversed(outputs if isinstance(outputs, list) else []):
        text = output.get("response") if isinstance(output, dict) else None
        if isinstance(text, str) and '"usage"' in text:
            try:
                response = parse_json(text.strip().removeprefix("data:"), "response")
            except InputError:
                continue
            usage = response.get("usage") if isinstance(response, dict) else None
            if isinstance(usage, dict):
                return usage
    return None


def _records(sample: Sample) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if sample.document is None:
        yield from json_lines(sample.text, sample.file)
    else:
        yield "document", sample.first


def _guidellm_requests(path: str | Path, file: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    document = expect_object(parse_json(read_text(path), file), file, "document")
    for index, benchmark in enumerate(expect_list(document.get("benchmarks"), file, "benchmarks")):
        requests = expect_object(benchmark, file, f"benchmarks[{index}]").get("requests")
        listed = requests.get("successful") if isinstance(requests, dict) else requests
        for number, request in enumerate(
            expect_list(listed, file, f"benchmarks[{index}].requests")
        ):
            name = f"benchmarks[{index}].requests[{number}]"
            yield name, expect_object(request, file, name)


def _requests(
    records: Iterable[tuple[str, Mapping[str, Any]]], keys: _RequestKeys, file: str
) -> RequestTrace:
    """Requests in order of their sending, since the first of them.

    Args:
        records: of single requests, with their names for messages.
        keys: where they keep their numbers.
        file: name for messages.
    """
    rows = []
    for name, record in records:
        start, prompt, output = (
            _number_at(record, listed, keys.within, file, name)
            for listed in (keys.start, keys.prompt_tokens, keys.output_tokens)
        )
        rows.append((start * keys.start_unit_s, prompt, output))
    if not rows:
        raise InputError("must list at least one request", file=file, key="rows", value=0)
    table = np.asarray(sorted(rows), dtype=np.float64)
    return request_trace(
        file,
        arrival_s=table[:, 0] - table[0, 0],
        prompt_tokens=whole_column(table[:, 1], file, "prompt tokens"),
        output_tokens=whole_column(table[:, 2], file, "output tokens"),
        source=keys.source,
    )


def _number_at(
    record: Mapping[str, Any], keys: Sequence[str], within: Sequence[str], file: str, name: str
) -> float:
    """The number under the first of the keys that has one, in the outermost object that has it."""
    values = ((key, _inner(_inner(record, place), key)) for key in keys for place in within)
    key, value = next((pair for pair in values if pair[1] is not None), (keys[0], None))
    # aiperf writes a number as an object with its unit
    return _number(value.get("value") if isinstance(value, dict) else value, file, f"{name}.{key}")


def _inner(value: Any, key: str) -> Any:
    """What stands under a dotted key; the value itself under no key, None where nothing does."""
    for part in key.split(".") if key else ():
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _number(value: object, file: str, key: str) -> float:
    if type(value) not in (int, float) or not 0 <= value < 1e30:  # type: ignore[operator]
        raise InputError("must be a number >= 0", file=file, key=key, value=value)
    return float(value)  # type: ignore[arg-type]


def _speculates(sample: Sample) -> bool:
    within = sample.holds("metadata") and sample.says(rf'"{_RECORD}"\s{{0,4}}:\s{{0,4}}\{{')
    return bool(sample.first.get(_POOLED)) or within


FORMATS = (
    Format(name="aiperf", claims=_speculates, read=read_aiperf),
    Format(
        name="guidellm",
        claims=lambda sample: (
            sample.holds("benchmarks") and sample.says('"num_spec_steps"|"acceptance_histogram"')
        ),
        read=read_guidellm,
    ),
    Format(
        name="aiperf-requests",
        kind="requests",
        claims=lambda sample: sample.holds("metadata", "metrics") and not _speculates(sample),
        read=read_aiperf_requests,
    ),
    Format(
        name="guidellm-requests",
        kind="requests",
        claims=lambda sample: (
            sample.holds("benchmarks")
            and not sample.says('"num_spec_steps"|"acceptance_histogram"')
        ),
        read=read_guidellm_requests,
    ),
    Format(
        name="genai-perf-requests",
        kind="requests",
        claims=lambda sample: sample.holds("experiments"),
        read=read_genai_requests,
    ),
)
