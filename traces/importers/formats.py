"""Which formats can be read, and by what?

A table from every format's name to the module that claims and reads it, loaded only when used: some
formats hold acceptance, some requests. A file is read without naming its format where exactly one
format claims it; installed packages provide further ones. Leaves out how each source is understood:
that is its own module.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from hardware_profiles.entry_points import provided
from hardware_profiles.errors import InputError, UnknownNameError
from traces.importers.counted import with_draft_length
from traces.importers.recognition import (
    Format,
    Sample,
    claimed_by,
    claims,
    known_otherwise,
    sample_of,
)
from traces.kinds.acceptance import AcceptanceTrace, RequestTrace
from traces.kinds.confidence import ConfidenceTrace
from traces.storage.header import METADATA_KEY

_HERE = "traces.importers"
READERS = {
    "acceptance-table": f"{_HERE}.benchmarks.tables",
    "aiperf": f"{_HERE}.benchmarks.load_generators",
    "answers": f"{_HERE}.benchmarks.answers",
    "guidellm": f"{_HERE}.benchmarks.load_generators",
    "jacobi-passes": f"{_HERE}.jacobi_passes",
    "llama-cpp-log": f"{_HERE}.engines.llama_cpp",
    "llama-cpp-metrics": f"{_HERE}.engines.counters",
    "llama-cpp-timings": f"{_HERE}.engines.llama_cpp",
    "lmdeploy-log": f"{_HERE}.engines.decoding_log",
    "lmdeploy-metrics": f"{_HERE}.engines.counters",
    "position-json": f"{_HERE}.benchmarks.position_json",
    "sglang-bench": f"{_HERE}.engines.sglang_bench",
    "sglang-log": f"{_HERE}.engines.sglang_log",
    "sglang-metrics": f"{_HERE}.engines.sglang_metrics",
    "sglang-responses": f"{_HERE}.engines.responses",
    "specdecode-bench": f"{_HERE}.benchmarks.specdecode_bench",
    "tensorrt-llm-metrics": f"{_HERE}.engines.tensorrt_llm",
    "tensorrt-llm-responses": f"{_HERE}.engines.responses",
    "tensorrt-llm-stats": f"{_HERE}.engines.tensorrt_llm",
    "vllm-bench": f"{_HERE}.engines.vllm_bench",
    "vllm-log": f"{_HERE}.engines.decoding_log",
    "vllm-metrics": f"{_HERE}.engines.counters",
    "vllm-responses": f"{_HERE}.engines.responses",
}
REQUEST_READERS = {
    "aiperf-requests": f"{_HERE}.benchmarks.load_generators",
    "azure": f"{_HERE}.requests.tables",
    "burstgpt": f"{_HERE}.requests.tables",
    "genai-perf-requests": f"{_HERE}.benchmarks.load_generators",
    "guidellm-requests": f"{_HERE}.benchmarks.load_generators",
    "lengths": f"{_HERE}.requests.tables",
    "mooncake": f"{_HERE}.requests.tables",
    "request-log": f"{_HERE}.requests.request_log",
    "sharegpt": f"{_HERE}.requests.sharegpt",
    "vllm-requests": f"{_HERE}.requests.vllm_requests",
}
CONFIDENCE_READERS = {"masked-passes": f"{_HERE}.confidence.passes"}


FAMILIES = {
    "eagle-eval": ("answers",),
    "genai-perf": ("genai-perf-requests",),
    "spec-bench": ("answers",),
    "trtllm": ("tensorrt-llm-metrics", "tensorrt-llm-responses", "tensorrt-llm-stats"),
    "trtllm-metrics": ("tensorrt-llm-metrics", "tensorrt-llm-stats"),
    **{
        engine: tuple(
            name for name in (*READERS, *REQUEST_READERS) if name.startswith(f"{engine}-")
        )
        for engine in ("llama-cpp", "lmdeploy", "sglang", "tensorrt-llm", "vllm")
    },
}
"""Names of several formats, of which the file shows one: those of an engine, and what programs call
their own files."""


@cache
def _provided() -> Mapping[str, Format]:
    """Formats of installed packages, by name."""
    formats = provided("rooftree.importers", Format, _require_free)
    return {declaration.name: declaration for declaration in formats}


def _require_free(declaration: Format) -> None:
    if declaration.name in (*READERS, *REQUEST_READERS, *CONFIDENCE_READERS, *FAMILIES):
        raise InputError("is the name of a known format", key="name", value=declaration.name)


def acceptance_formats() -> tuple[str, ...]:
    """Names of the formats that hold acceptance."""
    return (*READERS, *(name for name, own in _provided().items() if own.kind == "acceptance"))


def request_formats() -> tuple[str, ...]:
    """Names of the formats that hold requests."""
    return (
        *REQUEST_READERS,
        *(name for name, own in _provided().items() if own.kind == "requests"),
    )


@cache
def format_named(name: str) -> Format:
    """The format of a name.

    Raises:
        UnknownNameError: no such format.
    """
    if name in _provided():
        return _provided()[name]
    readers = {**READERS, **REQUEST_READERS, **CONFIDENCE_READERS}
    if name not in readers:
        raise UnknownNameError("format", name, [*readers, *_provided()])
    declared: Sequence[Format] = importlib.import_module(readers[name]).FORMATS
    return next(declaration for declaration in declared if declaration.name == name)


def detect(path: str | Path, name: str | None = None, among: Iterable[str] | None = None) -> Format:
    """The format of a file: the one that is named, or the one that claims it.

    Args:
        path: the file.
        name: of a format, which is then not asked whether it claims the file, or of a family; None:
            neither.
        among: names of the formats that come into question; None: all of them.

    Raises:
        UnknownNameError: no format and no family of that name.
        InputError: none claims it, or several do.
    """
    every = (
        [*acceptance_formats(), *request_formats(), *CONFIDENCE_READERS]
        if among is None
        else list(among)
    )
    listed = every
    if name in listed:
        return format_named(name)
    if name is not None:
        listed = [member for member in FAMILIES.get(name, ()) if member in listed]
        if not listed:
            raise UnknownNameError("format", name, (*every, *FAMILIES))
        if len(listed) == 1:
            return format_named(listed[0])
    return _detected(sample_of(path), listed)


def _detected(sample: Sample, among: Iterable[str]) -> Format:
    return claimed_by(sample, {name: format_named(name) for name in among})


def possible(path: str | Path) -> tuple[str, ...]:
    """The names of the acceptance formats that a file may be in: those that claim it, or all where
    nothing tells.

    Args:
        path: the file.

    Raises:
        InputError: absent, damaged, or known to hold no acceptance.
    """
    sample = sample_of(path)
    if claiming := claims(sample, {name: format_named(name) for name in acceptance_formats()}):
        return tuple(claiming)
    if description := known_otherwise(sample):
        raise InputError(description, file=path)
    if claiming := claims(sample, {name: format_named(name) for name in request_formats()}):
        rule = (
            f"holds requests ({' or '.join(claiming)}) and no acceptance: `rooftree simulate"
            " --requests` plays them"
        )
        raise InputError(rule, file=path)
    return acceptance_formats()


def import_requests(format: str, path: str | Path) -> RequestTrace:
    r"""Read a foreign file as a request trace.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder, "log.csv")
        ...     _ = file.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2024-01-01 00:00:00,100,20\n")
        ...     import_requests("azure", file).output_tokens.tolist()
        [20]

    Args:
        format: one of `request_formats()`, or a family.
        path: the file.

    Raises:
        UnknownNameError: no such format.
        InputError: a file that is not as described.
    """
    trace: RequestTrace = detect(path, format, request_formats()).read(path)
    return trace


def read_requests_any(path: str | Path, format: str | None = None) -> RequestTrace:
    """Read a request trace of any known form.

    Args:
        path: a trace file (.parquet), or a foreign file.
        format: name of the foreign format; None: the one that claims the file.

    Raises:
        InputError: no format claims the file, several do, or it is not as described.
    """
    if format is not None:
        return import_requests(format, path)
    sample = sample_of(path)
    if sample.columns and not sample.text:
        # pyarrow is loaded for Parquet alone
        from traces.storage.acceptance_file import read_requests
        from traces.storage.parquet_files import opened_parquet

        with opened_parquet(path) as parquet:
            own = METADATA_KEY in (parquet.schema_arrow.metadata or {})
        if own:
            return read_requests(path)
    return import_requests(_detected(sample, request_formats()).name, path)


def import_confidence(format: str, path: str | Path) -> ConfidenceTrace:
    """Read a foreign file as a confidence trace.

    Args:
        format: one of `CONFIDENCE_READERS`.
        path: the file.

    Raises:
        UnknownNameError: no such format.
        InputError: a file that is not as described.
    """
    trace: ConfidenceTrace = detect(path, format, CONFIDENCE_READERS).read(path)
    return trace


def import_trace(
    format: str,
    paths: str | Path | Sequence[str | Path],
    *,
    match_rate: float | None = None,
    draft_tokens: int | None = None,
    **options: Any,
) -> AcceptanceTrace:
    """Read a foreign file as an acceptance trace.

    Args:
        format: one of `acceptance_formats()`, or a family.
        paths: the file; two scrapes, before and after, for counters.
        match_rate: share of steps with a proposal, where the format does not tell.
        draft_tokens: draft length in use, where the format does not tell.
        options: what the format's reader takes besides, e.g. `drafter` for specdecode-bench.

    Returns:
        A trace of the level that the format allows; its notes say what it cannot know.

    Raises:
        UnknownNameError: no such format.
        InputError: another number of files, an option that the format does not take, a file that is
            not as described.
    """
    listed = [paths] if isinstance(paths, str | Path) else list(paths)
    read = (
        detect(listed[-1], format, acceptance_formats()) if listed else format_named(format)
    ).read
    taken = inspect.signature(read).parameters
    # a reader takes its files by position and its options by keyword
    files = [name for name, item in taken.items() if item.kind is item.POSITIONAL_OR_KEYWORD]
    if not 1 <= len(listed) <= len(files):
        raise InputError(f"{format} takes 1 to {len(files)} files", key="paths", value=len(listed))
    if match_rate is not None:
        options = {**options, "match_rate": match_rate}
    if draft_tokens is not None and "draft_tokens" in taken:
        options = {**options, "draft_tokens": draft_tokens}
    for name in options:
        if name not in taken or name in files or name == "engine":
            raise InputError(f"{format} takes no such option", key=name, value=options[name])
    trace: AcceptanceTrace = read(*listed, **options)
    if draft_tokens is None or "draft_tokens" in taken:
        return trace
    return with_draft_length(trace, draft_tokens)


def read_trace_any(
    path: str | Path, format: str | None = None, *, match_rate: float | None = None
) -> AcceptanceTrace:
    """Read an acceptance trace of any known form.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder, "engine.json")
        ...     _ = file.write_text('{"requests": [{"prompt_tokens": 5, "emitted": [3, 2, 1, 1]}]}')
        ...     read_trace_any(file).emitted.tolist()
        [3, 2, 1, 1]

    Args:
        path: a trace file (.parquet), or a foreign file.
        format: name of the foreign format; None: .parquet is a trace, and of others the one that
            claims the file.
        match_rate: share of steps with a proposal, where the file does not tell.

    Raises:
        InputError: no format claims the file, several do, or it is not as described.
    """
    ending = Path(path).suffix.lower()
    if format is None and ending == ".parquet":
        # pyarrow is loaded for Parquet alone
        from traces.storage.acceptance_file import read_acceptance

        trace = read_acceptance(path)
        if match_rate is None or trace.emitted is None or trace.drafted is not None:
            return trace
        return replace(trace, match_rate=match_rate)
    return import_trace(
        detect(path, format, acceptance_formats()).name, path, match_rate=match_rate
    )
