"""What does an engine run right now, as its counters or its log say?

Draft length in use, requests of a step, share of steps with a draft and mean lengths, beside
acceptance between two scrapes or since the engine started; of a log also what the engine said of
itself when it started, and of responses that report their speculation which adapter served them.
Leaves out which drafter made the drafts, which none of them tells.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from hardware_profiles.errors import InputError
from traces.importers.engines import responses
from traces.importers.engines.metric_names import (
    BUSY,
    COUNTERS,
    DECODES,
    GAUGES,
    PREFIXES,
    RATES,
    STEPS,
    first_of,
)
from traces.importers.engines.ran import EngineFacts, Running, stored_running
from traces.importers.engines.scrape_order import in_order
from traces.importers.engines.started import stated_facts
from traces.importers.engines.started_drafting import stated_drafting
from traces.importers.files import read_text
from traces.importers.formats import format_named, import_trace
from traces.importers.prometheus import samples
from traces.importers.recognition import sample_of
from traces.importers.scrapes import Observed, Scrape, observed
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.summary import Summary

_FIGURE = r"\d{1,9}(?:\.\d{1,9})?"
_FORMATS: dict[str, str] = {
    "vllm": "vllm-metrics",
    "sglang": "sglang-metrics",
    "tensorrt-llm": "tensorrt-llm-metrics",
    "llama.cpp": "llama-cpp-metrics",
}
_RESPONSES: dict[str, str] = {
    "vllm-responses": "vllm",
    "sglang-responses": "sglang",
    "tensorrt-llm-responses": "tensorrt-llm",
}
_LOGS: dict[str, str] = {"vllm-log": "vllm", "sglang-log": "sglang"}
_LOG_MODEL = re.compile(r"\bmodel(?:_path)?='([^'\n]{1,400})'")
_LOG_METHOD = re.compile(  # of vLLM's SpeculativeConfig or its options, and of SGLang's arguments
    r"(?:SpeculativeConfig\(method|speculative_config[^\n]{0,200}'method'|speculative_algorithm)"
    r"\s{0,2}[=:]\s{0,2}'(\w{1,40})'"
)
_LOG_SPEEDS = (  # requests that run, and tokens per second of all of them, in either order
    re.compile(
        rf"Avg generation throughput: (?P<speed>{_FIGURE}) tokens/s, Running: (?P<runs>\d+)"
    ),
    re.compile(
        rf"Decode batch\b.{{0,80}}#running-req: (?P<runs>\d+)\b.{{0,400}}"
        rf"gen throughput \(token/s\): (?P<speed>{_FIGURE})"
    ),
)
_ADAPTERS = "vllm:lora_requests_info"
_TPOT = "request_time_per_output_token_seconds"
_SPECULATION = {
    "vllm": "spec_decode_",
    "sglang": "spec_",
    "tensorrt-llm": "spec_decode_",
    "llama.cpp": "spec_decode_",
}


def read_running(
    before: str | Path,
    after: str | Path | None = None,
    *,
    model: str | None = None,
    is_served: Callable[[str], bool] = lambda label: True,
) -> Running:
    """Read one or two scrapes of an engine's counters, a log of it, or its responses.

    Args:
        before: text of `/metrics` at the start; the only scrape where `after` is absent, counted
            from engine start; a log of vLLM or SGLang, responses that report the speculation of
            their requests, or a recording that says what its engine ran (`ran.with_running`).
        after: text of `/metrics` at the end; scrapes in the other order are told by their counters.
        model: `model_name` to read where several models are served; None: the only one that
            `is_served`.
        is_served: whether a `model_name` is the model of the question.

    Raises:
        InputError: neither counters of a known engine nor a log that tells acceptance, a log beside
            another file, two engines, no counters of speculation, several models, a counter that
            fell, no draft, or drafts that are trees.
    """
    if after is None and (kept := stored_running(before)) is not None:
        return kept
    for path in (before, after):
        if path is not None and (format := _whole_format(path)) is not None:
            if after is not None:
                kind = "is a log, which tells all by itself"
                if format in _RESPONSES:
                    kind = "holds responses, which tell all by themselves"
                rule = f"{kind}: leave out the other file"
                raise InputError(rule, file=str(path), key="metrics")
            if format in _LOGS:
                return _read_log(path, format)
            return _of_responses(path, format, responses.read_counts(path, engine=format))
    files: tuple[str, ...] = (str(before),) if after is None else (str(before), str(after))
    engine = _one_engine(files)
    named, files = files, files if after is None else in_order(before, after)
    chosen = model or _chosen_model(files[-1], is_served)
    options: dict[str, Any] = {} if chosen is None else {"model": chosen}
    trace = import_trace(_FORMATS[engine], list(files), **options)
    assert trace.summary is not None
    _refuse_trees(trace.summary, files[-1])
    texts = ["", *(read_text(file) for file in files)][-2:]
    span = observed(Scrape(at_s=0.0, text=texts[0]), Scrape(at_s=0.0, text=texts[1]), chosen)
    counts, prefix = trace.summary, PREFIXES[engine]

    def gained(figure: str) -> float | None:
        return first_of(span.total, prefix, COUNTERS[figure])

    output, requests, prompts = gained("output_tokens"), gained("requests"), gained("prompt_tokens")
    # SGLang counts every step of every request
    steps = float(counts.drafts) if engine == "sglang" else None
    if output is not None and counts.drafts and engine != "sglang":
        steps = output - (requests or 0.0) - counts.accepted_tokens
    batch, batch_from = _batch(span, engine, steps)
    return Running(
        engine=engine,
        files=files,
        trace=trace,
        draft_tokens=counts.draft_levels,
        mean_draft_tokens=_mean_draft_tokens(counts),
        batch=batch,
        batch_from=batch_from,
        proposal_ratio=min(counts.drafts / steps, 1.0) if steps and steps > 0 else None,
        prompt_tokens=prompts / requests if prompts and requests else None,
        output_tokens=output / requests if output and requests else None,
        tpot_s=_tpot_s(span, prefix),
        facts=_counted_facts(span),
        reordered=files != named,
    )


def read_adapters(
    files: Sequence[str | Path], is_adapter: Callable[[str], bool] = lambda label: True
) -> dict[str, Running]:
    """What an engine ran for every adapter, by its name in order; empty where its files tell of
    fewer than two.

    Args:
        files: one scrape or two, or responses; a log tells of no adapter.
        is_adapter: whether a `model_name` of counters is one, or the model that is adapted.

    Raises:
        InputError: as `read_running`.
    """
    adapters: dict[str, Running] = {}
    format = _whole_format(files[-1])
    if format in _RESPONSES:
        for name, trace in responses.read_adapters(files[-1], engine=format).items():
            adapters[name] = _of_responses(files[-1], format, trace)
    elif format is None:
        names = [name for name in _served(files[-1]) if is_adapter(name)]
        if len(names) > 1:
            adapters = {name: read_running(*files, model=name) for name in names}
    return adapters if len(adapters) > 1 else {}


def _whole_format(path: str | Path) -> str | None:
    """The format of a log or of responses that tell acceptance; None of any other file."""
    sample = sample_of(path)
    names = (*_LOGS, *_RESPONSES)
    return next((name for name in names if format_named(name).claims(sample)), None)


def _of_responses(path: str | Path, format: str, trace: AcceptanceTrace) -> Running:
    """What responses say: acceptance, and nothing of batches."""
    assert trace.summary is not None
    counts = trace.summary
    return Running(
        engine=_RESPONSES[format],
        files=(str(path),),
        trace=trace,
        draft_tokens=counts.draft_levels,
        mean_draft_tokens=_mean_draft_tokens(counts),
    )


def _mean_draft_tokens(counts: Summary) -> float | None:
    """Draft tokens of a step with a draft; None where they are not counted."""
    return counts.draft_tokens / counts.drafts if counts.drafts and counts.draft_tokens else None


def _read_log(path: str | Path, format: str) -> Running:
    """What the lines of a log say: acceptance of all of it, and the requests that ran."""
    text = read_text(path)
    trace = import_trace(format, path)
    named, drafted = _LOG_MODEL.search(text), _LOG_METHOD.search(text)
    model, method = named[1] if named else "", drafted[1].lower() if drafted else ""
    trace = replace(trace, provenance=replace(trace.provenance, model=model, method=method))
    assert trace.summary is not None
    counts = trace.summary
    speeds = [
        (int(line["runs"]), float(line["speed"]))
        for line in chain.from_iterable(pattern.finditer(text) for pattern in _LOG_SPEEDS)
    ]
    busy = [(running, speed) for running, speed in speeds if running and speed]
    tokens_per_s = math.fsum(speed for _, speed in busy)
    running = sum(running for running, _ in busy)
    return Running(
        engine=_LOGS[format],
        files=(str(path),),
        trace=trace,
        draft_tokens=counts.draft_levels,
        mean_draft_tokens=_mean_draft_tokens(counts),
        batch=running / len(busy) if busy else None,
        batch_from="requests that ran at its log's lines" if busy else "",
        tpot_s=running / tokens_per_s if busy else None,
        facts=stated_facts(path),
        drafting=stated_drafting(text, _LOGS[format]),
    )


def _counted_facts(span: Observed) -> EngineFacts:
    """What labels of counters say of the engine: SGLang's name every tensor-parallel rank, vLLM's
    the slots of adapters, with a sample for every set of them that ran since it started.
    """
    ranks = {
        int(value)
        for _, labels in span.after
        for name, value in labels
        if name == "tp_rank" and _is_short_number(value)
    }
    ran = [dict(labels) for sample, labels in span.after if sample == _ADAPTERS]
    slots = [int(n) for labels in ran if _is_short_number(n := labels.get("max_lora", ""))]
    names = ",".join(labels.get("running_lora_adapters", "") for labels in ran).split(",")
    return EngineFacts(
        tensor_parallel=max(ranks) + 1 if len(ranks) > 1 else None,
        max_loras=max(slots, default=0) or None,
        adapters=len({name.strip() for name in names} - {""}) or None,
    )


def _is_short_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 5


def _one_engine(files: tuple[str, ...]) -> str:
    """The engine whose counters all files hold.

    Raises:
        InputError: none, or two; or no counters of speculation.
    """
    engines: list[str] = []
    for file in files:
        sample = sample_of(file)
        claimed = [engine for engine, prefix in PREFIXES.items() if sample.says(f"^{prefix}")]
        if not claimed:
            rule = (
                "holds no counters of vLLM, SGLang, TensorRT-LLM or llama.cpp: it must be the text"
                " of /metrics, a log of vLLM or SGLang with lines of its speculation, or responses that"
                " report the speculation of their requests"
            )
            raise InputError(rule, file=file, key="metrics")
        engines.append(claimed[0])
    engine, file = engines[0], files[-1]
    if engines[-1] != engine:
        rule = (
            f"is of {engines[-1]}, and {files[0]} of {engine}: both scrapes must be of one engine"
        )
        raise InputError(rule, file=file, key="metrics")
    if not sample_of(file).says(f"^{PREFIXES[engine]}{_SPECULATION[engine]}"):
        rule = (
            f"holds {engine}'s counters, and none of speculation: the engine runs without a drafter"
        )
        raise InputError(rule, file=file, key="metrics")
    return engine


def _chosen_model(file: str, is_served: Callable[[str], bool]) -> str | None:
    """The model to read among several that counters name; None where they name one or none, or it
    is not told.
    """
    names = _served(file)
    served = [name for name in names if is_served(name)] if len(names) > 1 else []
    return served[0] if len(served) == 1 else None


def _served(file: str | Path) -> list[str]:
    """The models that counters name, in order."""
    series, _ = samples(read_text(file))
    return sorted({value for _, labels in series for name, value in labels if name == "model_name"})


def _refuse_trees(counts: Summary, file: str) -> None:
    """Refuse counters of drafts that have more tokens than levels.

    Raises:
        InputError: counts of trees do not determine what chains accept.
    """
    levels, drafted = counts.draft_levels, counts.draft_tokens
    if levels and counts.drafts and drafted > counts.drafts * levels:
        nodes = drafted / counts.drafts
        rule = (
            f"counts trees of {nodes:.3g} draft tokens in {levels} levels, which do not determine"
            " the acceptance of shorter drafts: run chains for a while (SGLang:"
            " --speculative-eagle-topk 1), or record a trace"
        )
        raise InputError(rule, file=file, key="metrics")


def _batch(span: Observed, engine: str, steps: float | None) -> tuple[float | None, str]:
    """Requests of a step, and how that is known."""
    prefix = PREFIXES[engine]
    if (busy := span.weighted_mean(f"{prefix}{BUSY}", f"{prefix}{DECODES}")) is not None:
        return busy, f"{prefix}{BUSY}"
    iterations = span.total(f"{prefix}{STEPS}_count")
    if iterations and steps and steps > 0:
        return max(steps / iterations, 1.0), f"steps of requests over {prefix}{STEPS}_count"
    running = first_of(span.level, prefix, GAUGES["running"])
    return (running, "requests that ran at the last scrape") if running else (None, "")


def _tpot_s(span: Observed, prefix: str) -> float | None:
    """Mean seconds per output token of requests; times between deliveries, which hold several
    tokens, do not tell.
    """
    if (mean := span.mean(f"{prefix}{_TPOT}")) is not None:
        return mean
    seconds, tokens = (span.total(f"{prefix}{name}") for name in RATES["tpot_s"])
    return seconds / tokens if seconds is not None and tokens else None
