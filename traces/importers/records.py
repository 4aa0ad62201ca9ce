"""What do engines report about the speculation of one request, and what do many such records add up
to?

vLLM, aiperf and guidellm write one record per request under the same keys, SGLang and TensorRT-LLM
under their own. A record with per-step arrays yields level 1; a histogram of accepted drafts yields
rates by position; counts alone yield a mean. Leaves out where in a file the records stand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from traces.importers.counted import MOST_POSITIONS, counted
from traces.importers.files import expect_list, expect_whole, json_lines
from traces.importers.recognition import Sample
from traces.importers.steps import Steps, stepped
from traces.kinds.acceptance import AcceptanceTrace, Provenance

_KEYS = {
    "steps": ("num_spec_steps", "spec_verify_ct"),
    "accepted": (
        "num_accepted_draft_tokens",
        "spec_num_correct_drafts",
        "spec_accept_token_num",
        "total_accepted_draft_tokens",
    ),
    "drafted": (
        "num_draft_tokens",
        "spec_num_proposed_drafts",
        "spec_draft_token_num",
        "total_draft_tokens",
    ),
    "longest": ("num_spec_tokens",),
}
_HISTOGRAMS = ("acceptance_histogram", "spec_correct_drafts_histogram", "spec_accept_histogram")


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """The speculation of one request.

    Attributes:
        name: of the request.
        steps: verified, 0 where they were not counted.
        accepted: draft tokens accepted.
        drafted: tokens proposed, 0 where they were not counted.
        longest: draft length in use, 0 where unknown.
        histogram: steps by accepted draft tokens, None where there is none.
        per_step: (accepted, drafted) of every step, None where there are none; drafted may be None.
    """

    name: str
    steps: int
    accepted: int
    drafted: int
    longest: int
    histogram: NDArray[np.int64] | None
    per_step: tuple[Sequence[int], Sequence[int] | None] | None


def is_record(value: object) -> bool:
    """Whether a JSON value is a record of one request's speculation."""
    keys = (*_HISTOGRAMS, *_KEYS["steps"], "total_accepted_draft_tokens", "per_step_accepted")
    return isinstance(value, dict) and any(key in value for key in keys)


def record_of(value: Mapping[str, Any], file: str, name: str) -> Record:
    """A record.

    Args:
        value: the record as an engine wrote it.
        file: name for messages.
        name: of the request.

    Raises:
        InputError: a count of another kind, or no count at all.
    """
    numbers = {quantity: _count(value, keys, file, name) for quantity, keys in _KEYS.items()}
    histogram = next((value[key] for key in _HISTOGRAMS if value.get(key)), None)
    accepted_by_step = value.get("per_step_accepted")
    drafted = value.get("per_step_drafted")
    per_step = None
    if accepted_by_step is not None:
        per_step = (
            [
                expect_whole(count, file, f"{name}.per_step_accepted")
                for count in expect_list(accepted_by_step, file, name)
            ],
            (
                None
                if drafted is None
                else [
                    expect_whole(count, file, f"{name}.per_step_drafted")
                    for count in expect_list(drafted, file, f"{name}.per_step_drafted")
                ]
            ),
        )
    counts = None if histogram is None else _histogram(histogram, file, name)
    if per_step is not None and counts is None:
        counts = _histogram(_counted(per_step[0]), file, name)
    steps, accepted = numbers["steps"], numbers["accepted"]
    if counts is not None and not steps:
        # every step stands in the histogram once, at its accepted tokens
        steps, accepted = int(counts.sum()), int(counts @ np.arange(counts.size))
    if (
        "spec_verify_ct" in value
        and not any(key in value for key in _KEYS["accepted"])
        and counts is None
    ):
        output_tokens = _count(value, ("completion_tokens", "spec_completion_tokens"), file, name)
        accepted = max(0, output_tokens - steps)
    proposed = () if per_step is None or per_step[1] is None else per_step[1]
    return Record(
        name=name,
        steps=steps,
        accepted=accepted,
        drafted=numbers["drafted"] or sum(proposed),
        longest=numbers["longest"] or max(proposed, default=0),
        histogram=counts,
        per_step=per_step,
    )


def pooled(
    records: Sequence[Record],
    file: str,
    *,
    source: str,
    model: str = "",
    positions: bool = True,
) -> AcceptanceTrace:
    """What the records of one file add up to.

    Args:
        records: requests without speculation may be among them.
        file: name for messages.
        source: program that wrote them.
        model: target model, where the file names it.
        positions: steps are kept one by one where all records list them; False: they are counted.

    Raises:
        InputError: no record counted anything, or the counts contradict each other.
    """
    used = [record for record in records if record.steps or record.drafted or record.per_step]
    if not used:
        raise InputError("no request has a step with a proposal", file=file)
    if positions and all(record.per_step is not None for record in used):
        return _levelled(used, file, source, model)
    summed = [record for record in used if record.histogram is not None]
    longest = max((record.longest for record in used), default=0)
    notes = []
    rates: Sequence[float] = ()
    if len(summed) == len(used):
        rates = _rates(
            [record.histogram for record in summed if record.histogram is not None], longest
        )
        apart = sum(
            int(record.histogram.sum()) != record.steps
            for record in summed
            if record.histogram is not None
        )
        if apart:
            notes.append(
                f"{apart} of {len(summed)} histograms do not add up to the steps counted beside"
                " them."
            )
    unknown = [record for record in used if not record.steps]
    if unknown and len(unknown) < len(used):
        notes.append(
            f"{len(unknown)} of {len(used)} requests do not count their steps and were left out."
        )
        used = [record for record in used if record.steps]
    return counted(
        file,
        source=source,
        drafts=sum(record.steps for record in used),
        draft_tokens=sum(record.drafted for record in used),
        accepted_tokens=sum(record.accepted for record in used),
        rates=rates,
        longest_draft=longest,
        model=model,
        notes=[f"{len(used)} requests with speculation of {len(records)}.", *notes],
    )


def request_objects(sample: Sample) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The JSON objects of a file that lists requests: JSON lines, a list, one request, or a
    `results` list.
    """
    document = sample.document
    if document is None:
        yield from json_lines(sample.text, sample.file)
        return
    if isinstance(document, dict):
        listed = next(
            (
                document[key]
                for key in ("results", "responses", "records")
                if _objects(document.get(key))
            ),
            None,
        )
        document = [document] if listed is None else listed
    for index, entry in enumerate(expect_list(document, sample.file, "document")):
        if isinstance(entry, dict):
            yield f"[{index}]", entry


def _objects(value: object) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _count(value: Mapping[str, Any], keys: Sequence[str], file: str, name: str) -> int:
    present = next((key for key in keys if value.get(key) is not None), None)
    return 0 if present is None else expect_whole(value[present], file, f"{name}.{present}")


def _counted(accepted: Sequence[int]) -> dict[str, int]:
    """Steps by accepted draft tokens."""
    return {str(tokens): accepted.count(tokens) for tokens in set(accepted)}


def _histogram(value: object, file: str, name: str) -> NDArray[np.int64]:
    """Steps by accepted draft tokens, from a list or a map of counts."""
    if isinstance(value, dict):
        pairs = [
            (int(k), v) for k, v in value.items() if k.isascii() and k.isdigit() and len(k) < 6
        ]
        if len(pairs) != len(value) or any(depth > MOST_POSITIONS for depth, _ in pairs):
            rule = f"must count steps by accepted draft tokens, 0..{MOST_POSITIONS}"
            raise InputError(rule, file=file, key=f"{name}.histogram", value=list(value)[:8])
        counts = np.zeros(max((depth for depth, _ in pairs), default=0) + 1, dtype=np.int64)
        for depth, steps in pairs:
            counts[depth] = expect_whole(steps, file, f"{name}.histogram")
        return counts
    listed = expect_list(value, file, f"{name}.histogram")
    if len(listed) > MOST_POSITIONS + 1:
        raise InputError(
            f"must have at most {MOST_POSITIONS + 1} entries", file=file, key=f"{name}.histogram"
        )
    return np.asarray(
        [expect_whole(count, file, f"{name}.histogram") for count in listed], dtype=np.int64
    )


def _rates(histograms: Sequence[NDArray[np.int64]], longest: int) -> list[float]:
    total = np.zeros(
        max(min(longest, MOST_POSITIONS) + 1, *(histogram.size for histogram in histograms)),
        dtype=np.int64,
    )
    for histogram in histograms:
        total[: histogram.size] += histogram
    # steps that accepted d tokens or more accepted the first d
    reached = np.cumsum(total[::-1])[::-1]
    return [] if not reached[0] else (reached[1:] / reached[0]).tolist()


def _levelled(records: Sequence[Record], file: str, source: str, model: str) -> AcceptanceTrace:
    requests = [
        Steps(
            request=record.name,
            emitted=[1 + n for n in record.per_step[0]],
            drafted=record.per_step[1],
        )
        for record in records
        if record.per_step is not None
    ]
    notes = f"{len(records)} requests with speculation."
    return stepped(requests, file, Provenance(model=model, recorder_version=source, notes=notes))
