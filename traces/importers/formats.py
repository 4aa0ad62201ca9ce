"""Which formats can be read, and by what?

Tables from the format's name to its reader, loaded only when used: some formats hold acceptance, some requests. Leaves
out how each source is understood: that is its own module.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hardware_profiles.errors import InputError, UnknownNameError
from traces.kinds.acceptance import AcceptanceTrace, RequestTrace

READERS = {
    "position-json": "traces.importers.position_json",
    "specdecode-bench": "traces.importers.specdecode_bench",
    "vllm-log": "traces.importers.vllm_log",
    "vllm-metrics": "traces.importers.vllm_metrics",
}
REQUEST_READERS = {
    "azure": "traces.importers.azure",
    "lengths": "traces.importers.lengths",
    "mooncake": "traces.importers.mooncake",
    "vllm-requests": "traces.importers.vllm_requests",
}
BLOCK_TOKENS_KEY = "block_tokens"
"""Key of `Provenance.extra` of a request trace: tokens of one prefix block."""


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
        format: one of `REQUEST_READERS`.
        path: the file.

    Raises:
        UnknownNameError: no such format.
        InputError: a file that is not as described.
    """
    if format not in REQUEST_READERS:
        raise UnknownNameError("format", format, REQUEST_READERS)
    trace: RequestTrace = importlib.import_module(REQUEST_READERS[format]).read(path)
    return trace


def read_requests_any(path: str | Path, format: str | None = None) -> RequestTrace:
    """Read a request trace of any known form.

    Args:
        path: a trace file (.parquet), or a foreign file.
        format: name of the foreign format; None: by its columns and ending (Mooncake's `.jsonl`, Azure's `.csv`, the
            table or `.json` result of a vLLM run, lengths alone).

    Raises:
        InputError: another ending and no format, or a file that is not as described.
    """
    if format is not None:
        return import_requests(format, path)
    ending = Path(path).suffix.lower()
    if ending != ".parquet":
        usual = {".csv": "azure", ".jsonl": "mooncake", ".json": "vllm-requests"}
        if ending not in usual:
            wanted = f"must end in .parquet, .csv, .json or .jsonl, or name its format: {', '.join(REQUEST_READERS)}"
            raise InputError(wanted, file=path, key="format")
        return import_requests(usual[ending], path)
    from traces.storage.acceptance_file import read_requests
    from traces.storage.header import METADATA_KEY
    from traces.storage.parquet_files import opened_parquet

    with opened_parquet(path) as parquet:
        own = METADATA_KEY in (parquet.schema_arrow.metadata or {})
        names = parquet.schema_arrow.names
    if own:
        return read_requests(path)
    return import_requests("vllm-requests" if "arrival_s" in names else "lengths", path)


def import_trace(
    format: str,
    paths: str | Path | Sequence[str | Path],
    *,
    match_rate: float | None = None,
    **options: Any,
) -> AcceptanceTrace:
    """Read a foreign file as an acceptance trace.

    Args:
        format: one of `READERS`.
        paths: the file; two scrapes, before and after, for vllm-metrics.
        match_rate: share of steps with a proposal, where the format does not tell.
        options: what the format's reader takes besides, e.g. `drafter` for specdecode-bench.

    Returns:
        A trace of the level that the format allows; its notes say what it cannot know.

    Raises:
        UnknownNameError: no such format.
        InputError: another number of files, an option that the format does not take, a file that is not as
            described.
    """
    if format not in READERS:
        raise UnknownNameError("format", format, READERS)
    read = importlib.import_module(READERS[format]).read
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    taken = inspect.signature(read).parameters
    files = [name for name, item in taken.items() if item.kind is item.POSITIONAL_OR_KEYWORD]
    if not 1 <= len(given) <= len(files):
        raise InputError(f"{format} takes 1 to {len(files)} files", key="paths", value=len(given))
    if match_rate is not None:
        options = {**options, "match_rate": match_rate}
    for name in options:
        if name not in taken or name in files:
            raise InputError(f"{format} takes no such option", key=name, value=options[name])
    trace: AcceptanceTrace = read(*given, **options)
    return trace


def read_trace_any(path: str | Path, format: str | None = None, *, match_rate: float | None = None) -> AcceptanceTrace:
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
        format: name of the foreign format; None: .parquet is a trace, .json is position-json.
        match_rate: share of steps with a proposal, where the file does not tell.

    Raises:
        InputError: another ending and no format, or a file that is not as described.
    """
    ending = Path(path).suffix.lower()
    if format is None and ending == ".parquet":
        from traces.storage.acceptance_file import read_acceptance

        trace = read_acceptance(path)
        if match_rate is None or trace.emitted is None or trace.drafted is not None:
            return trace
        return replace(trace, match_rate=match_rate)
    if format is None and ending != ".json":
        wanted = f"must end in .parquet or .json, or name its format: {', '.join(READERS)}"
        raise InputError(wanted, file=path, key="format")
    return import_trace(format or "position-json", path, match_rate=match_rate)
