"""What does a trace file say about itself before its rows are read?

The JSON header under the key `rooftree` of a Parquet footer: schema version, kind, level, shapes,
provenance and summary, both ways, with every value from outside checked. Leaves out the rows
(`traces.storage.acceptance_file`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from hardware_profiles.errors import InputError
from traces.kinds.acceptance import SCHEMA_VERSION, AcceptanceTrace, Provenance, RequestTrace
from traces.kinds.naming import naming
from traces.kinds.summary import Summary, Window
from traces.kinds.timed_steps import TimedSteps

METADATA_KEY = b"rooftree"
KINDS = ("acceptance", "requests", "kernels", "confidence")
MAX_HEADER_BYTES = 64 << 20


def encode_header(trace: AcceptanceTrace | RequestTrace) -> bytes:
    """The header of a trace.

    Raises:
        InputError: provenance that JSON cannot hold.
    """
    header: dict[str, Any] = {"schema": SCHEMA_VERSION, "requests": trace.requests}
    if isinstance(trace, AcceptanceTrace):
        header |= {
            "kind": "acceptance",
            "level": trace.level,
            "positions": trace.positions,
            "first_step_position": trace.first_step_position,
            "match_rate": trace.match_rate,
            "depth_invariant": trace.depth_invariant,
            "rank_width": trace.rank_width,
            "rank_depth": trace.depth,
            "probability_width": None if trace.draft_ids is None else trace.draft_ids.shape[1],
            "summary": None if trace.summary is None else asdict(trace.summary),
        }
        if trace.expansions is not None:
            header["expansions"] = {
                key: getattr(trace.expansions, key) for key in ("nodes", "depth", "width")
            }
        if trace.steps is not None:
            header["steps"] = steps_header(trace.steps)
    else:
        header["kind"] = "requests"
    return header_bytes(header, trace.provenance)


def steps_header(steps: TimedSteps) -> dict[str, Any]:
    """What the header says of timed steps, as JSON values."""
    return {"shapes": [tree.to_json() for tree in steps.shapes]}


def header_bytes(header: Mapping[str, Any], provenance: Provenance) -> bytes:
    """A header with where the trace comes from, as it stands in a file.

    Raises:
        InputError: provenance that JSON cannot hold.
    """
    about = {item.name: getattr(provenance, item.name) for item in fields(Provenance)}
    try:
        return json.dumps({**header, "provenance": about}, allow_nan=False, default=_plain).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"must hold JSON values only ({error})", key="provenance") from None


def decode_header(raw: bytes | None, file: str, kinds: Sequence[str] = KINDS) -> dict[str, Any]:
    """Read and check a header.

    Args:
        raw: the footer's value; None where there is none.
        file: name for messages.
        kinds: that it may be of.

    Raises:
        InputError: no header, another schema, another kind, a value of the wrong type.
    """
    if raw is None:
        raise InputError("is Parquet but no rooftree trace (no rooftree header)", file=file)
    if len(raw) > MAX_HEADER_BYTES:
        raise InputError(f"the header must not exceed {MAX_HEADER_BYTES} bytes", file=file)
    try:
        header = json.loads(raw)
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise InputError("the rooftree header must be a JSON object", file=file)
    if header.get("schema") != SCHEMA_VERSION or isinstance(header["schema"], bool):
        rule = f"only schema version {SCHEMA_VERSION} can be read"
        raise InputError(rule, file=file, key="schema", value=header.get("schema"))
    if header.get("kind") not in kinds:
        raise InputError(
            f"must be of kind {' or '.join(kinds)}", file=file, key="kind", value=header.get("kind")
        )
    return header


def whole_number(
    header: Mapping[str, Any], key: str, file: str, default: int | None = None
) -> int | None:
    """A whole number of the header, 0..2^31-1; `default` where it is absent or null.

    Args:
        header: of a trace file.
        key: in it.
        file: name for messages.
        default: where the key is absent or null.

    Raises:
        InputError: anything else.
    """
    value = header.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 31:
        raise InputError("must be a whole number >= 0", file=file, key=key, value=value)
    return value


def provenance_of(header: Mapping[str, Any], file: str) -> Provenance:
    """The header's provenance; keys that this version does not know are passed over.

    Args:
        header: of a trace file.
        file: name for messages.

    Raises:
        InputError: a value of the wrong type.
    """
    recorded = header.get("provenance")
    if not isinstance(recorded, dict):
        raise InputError("must be an object", file=file, key="provenance", value=recorded)
    values: dict[str, Any] = {}
    for item in fields(Provenance):
        value = recorded.get(item.name)
        if value is None:
            continue
        kind = dict if item.name in {"sampling", "extra"} else str
        if not isinstance(value, kind):
            raise InputError(
                "must be an object" if kind is dict else "must be text",
                file=file,
                key=f"provenance.{item.name}",
                value=value,
            )
        values[item.name] = value
    return Provenance(**values)


def summary_of(header: Mapping[str, Any], file: str) -> Summary | None:
    """The header's summary, if it has one.

    Args:
        header: of a trace file.
        file: name for messages.

    Raises:
        InputError: a value of the wrong type or range.
    """
    summary = header.get("summary")
    if summary is None:
        return None
    if not isinstance(summary, dict):
        raise InputError("must be an object", file=file, key="summary", value=summary)
    try:
        with naming(file):
            return _summary(summary)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"must hold counts and probabilities ({error})", file=file, key="summary"
        ) from None


def _summary(recorded: Mapping[str, Any]) -> Summary:
    windows = [Window(**window) for window in recorded.get("windows", [])]
    counts = [
        value for record in (recorded, *recorded.get("windows", [])) for value in _counts(record)
    ]
    if not all(type(value) is int for value in counts):
        raise TypeError("counts must be whole numbers")
    return Summary(
        acceptance_by_depth=_numbers(recorded.get("acceptance_by_depth", [])),
        sibling_vectors=tuple(_numbers(vector) for vector in recorded.get("sibling_vectors", [])),
        drafts=recorded.get("drafts", 0),
        draft_tokens=recorded.get("draft_tokens", 0),
        accepted_tokens=recorded.get("accepted_tokens", 0),
        windows=tuple(windows),
        mean_tokens_per_step=recorded.get("mean_tokens_per_step"),
        longest_draft=recorded.get("longest_draft", 0),
    )


def _counts(record: Mapping[str, Any]) -> list[Any]:
    names = ("drafts", "draft_tokens", "accepted_tokens", "batch_requests", "longest_draft")
    return [record[name] for name in names if record.get(name) is not None]


def _numbers(values: Any) -> tuple[float, ...]:
    if not isinstance(values, list) or not all(type(value) in (int, float) for value in values):
        raise TypeError("probabilities must be lists of numbers")
    return tuple(float(value) for value in values)


def _plain(value: object) -> object:
    """Mappings and numpy scalars as JSON writes them."""
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is no JSON value")
