"""What did users of a live server see: a row per request, and percentiles over all of them?

Rows are a request trace, so `simulate --requests` plays the same load, with the columns of its
`--per-request` beside, so that both stand in one table. Leaves out sending
(`real_runs.servers.load`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hardware_profiles.units import MILLI
from real_runs.servers.client import StreamedAnswer
from simulator.results.metrics import distribution, known
from traces.kinds.acceptance import RequestTrace
from traces.kinds.provenance import Provenance
from traces.kinds.summary import Summary
from traces.storage.acceptance_file import write_requests

Row = Mapping[str, Any]
# ASSUMED: no step is as short. Of 237 accepted drafts of llama.cpp on loopback, beside other work,
# 226 came within this
_ONE_DELIVERY_S = 0.5 * MILLI
_COUNTS = ("cached_tokens", "draft_tokens", "accepted_tokens")
_TIMES = ("sent_s", "scheduled_s", "first_token_s", "last_token_s")


def row_of(request: int, answer: StreamedAnswer, origin_s: float) -> dict[str, Any]:
    """One answered request as JSON values.

    Args:
        request: its index in the load.
        answer: whole.
        origin_s: the load's start on the clock of the answer; times are seconds after it.
    """
    timings = answer.timings or {}
    first_s, prompt_ms = answer.first_token_s, timings.get("prompt_ms")
    scheduled_s = (
        None
        if first_s is None or prompt_ms is None
        else max(first_s - prompt_ms * MILLI, answer.sent_s)
    )
    times = {
        "sent_s": answer.sent_s,
        "scheduled_s": scheduled_s,
        "first_token_s": first_s,
        "last_token_s": answer.last_token_s,
    }
    return {
        "request": request,
        "input_tokens": answer.prompt_tokens,
        "output_tokens": answer.output_tokens,
        "arrival_s": answer.due_s - origin_s,
        **{name: None if value is None else value - origin_s for name, value in times.items()},
        "cached_tokens": answer.cached_tokens,
        "draft_tokens": timings.get("draft_n"),
        "accepted_tokens": timings.get("draft_n_accepted"),
        "finish_reason": answer.finish_reason,
        "token_times_s": [value - origin_s for value in answer.token_times_s],
    }


def write_rows(rows: Sequence[Row], path: Path, *, model: str, engine: str, notes: str) -> None:
    """Write rows as a request trace.

    Columns beyond the trace's: request (index in the load), input_tokens, sent_s, scheduled_s
    (first token less the server's own prompt time; null where it states none), first_token_s,
    last_token_s, cached_tokens, draft_tokens, accepted_tokens (null where the server does not say)
    and token_times_s (arrivals of tokens). Times are seconds after the load's start, `arrival_s`
    when the request was due.

    Args:
        rows: at least one, of `row_of`.
        path: file to write.
        model: as the server names it.
        engine: its kind.
        notes: what a reader must know.

    Raises:
        InputError: the place cannot be written.
    """
    rows = sorted(rows, key=lambda row: row["arrival_s"])
    trace = RequestTrace(
        arrival_s=np.maximum(_column(rows, "arrival_s"), 0.0),
        prompt_tokens=np.asarray([max(row["input_tokens"], 1) for row in rows], dtype=np.int32),
        output_tokens=np.asarray([max(row["output_tokens"], 1) for row in rows], dtype=np.int32),
        provenance=Provenance(model=model, notes=notes, extra={"engine": engine}),
    )
    further = {
        "request": pa.array([row["request"] for row in rows], pa.int64()),
        "input_tokens": pa.array([row["input_tokens"] for row in rows], pa.int32()),
        **{name: pa.array([row[name] for row in rows], pa.float64()) for name in _TIMES},
        **{name: pa.array([row[name] for row in rows], pa.int64()) for name in _COUNTS},
        "token_times_s": pa.array([row["token_times_s"] for row in rows], pa.list_(pa.float64())),
    }
    write_requests(trace, path, further=further)


def summary_of(rows: Sequence[Row]) -> dict[str, Any]:
    """Rates and percentiles, by the names that `simulate` has for them.

    TTFT counts from when a request was due; ITL is the wait between deliveries, tokens of one step
    being one delivery.

    Args:
        rows: at least one, of `row_of`.
    """
    arrival, first, last = (
        _column(rows, name) for name in ("arrival_s", "first_token_s", "last_token_s")
    )
    output = _column(rows, "output_tokens")
    clock_s = float(np.nanmax(np.append(last, arrival)) - arrival.min())
    with np.errstate(divide="ignore", invalid="ignore"):
        tpot_s = np.where(output > 1, (last - first) / (output - 1), np.nan)
    waits = [np.diff(_deliveries(np.asarray(row["token_times_s"]))) for row in rows]
    drafted, accepted = (_total(rows, name) for name in ("draft_tokens", "accepted_tokens"))
    return {
        "ttft_s": distribution(first - arrival),
        "tpot_s": distribution(tpot_s),
        "itl_s": distribution(np.concatenate(waits)),
        "e2e_s": distribution(last - arrival),
        "queue_s": distribution(_column(rows, "scheduled_s") - arrival),
        "finished": len(rows),
        "clock_s": clock_s,
        "requests_per_s": known(len(rows) / clock_s) if clock_s else None,
        "tokens_per_s": known(output.sum() / clock_s) if clock_s else None,
        "prompt_tokens": int(_column(rows, "input_tokens").sum()),
        "output_tokens": int(output.sum()),
        "cached_tokens": _total(rows, "cached_tokens"),
        "draft_tokens": drafted,
        "accepted_tokens": accepted,
        "sent_late_s": distribution(_column(rows, "sent_s") - arrival),
    }


def proposal_share(rows: Sequence[Row], counted: Summary) -> float | None:
    """Share of the steps after first tokens in which anything was drafted.

    Args:
        rows: of `row_of`.
        counted: of the engine while it answered them.

    Returns:
        None where rows do not state their draft tokens, or the engine drafted for other requests
        too.
    """
    if (
        _total(rows, "draft_tokens") != counted.draft_tokens
        or _total(rows, "accepted_tokens") != counted.accepted_tokens
    ):
        return None
    steps = sum(row["output_tokens"] - 1 for row in rows) - counted.accepted_tokens
    return counted.drafts / steps if 0 < counted.drafts <= steps else None


def _deliveries(times_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """The times at which something arrived that had not just arrived."""
    return times_s[np.append(True, np.diff(times_s) > _ONE_DELIVERY_S)] if times_s.size else times_s


def _column(rows: Sequence[Row], name: str) -> NDArray[np.float64]:
    return np.asarray(
        [np.nan if row[name] is None else row[name] for row in rows], dtype=np.float64
    )


def _total(rows: Sequence[Row], name: str) -> int | None:
    counts = [row[name] for row in rows if row[name] is not None]
    return sum(counts) if counts else None
