"""How is acceptance read from TensorRT-LLM's statistics?

Formats `tensorrt-llm-stats` (iterations of `/metrics` or `get_stats`, a JSON list or JSON lines
with `specDecodingStats`) and `tensorrt-llm-metrics` (Prometheus). Yields level 0: counts, with the
iterations by batch size as windows; newer counters by `token_position` yield rates by position. It
cannot know positions in a text; older Prometheus counters do not count steps, and the gauge of the
acceptance length stands in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hardware_profiles.errors import InputError
from traces.importers.counted import counted
from traces.importers.files import expect_object, expect_whole
from traces.importers.prometheus import by_position, gained, models_of, scrape, summed
from traces.importers.recognition import Format, sample_of
from traces.importers.records import request_objects
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.summary import Window

_PREFIX = "trtllm_"
_COUNTERS = tuple(
    f"spec_decode_{name}_tokens" for name in ("drafted", "accepted", "num_draft", "num_accepted")
)
_GAUGE = "spec_decode_acceptance_length"
_STATS = "specDecodingStats"


def read_stats(path: str | Path) -> AcceptanceTrace:
    """Read iteration statistics.

    Args:
        path: JSON list or JSON lines of iterations; those without draft tokens are passed over.

    Raises:
        InputError: no iteration with a draft, or a count of another kind.
    """
    file = str(path)
    windows = list(_iterations(path, file))
    if not windows:
        raise InputError("no iteration has draft tokens", file=file, key=_STATS)
    return counted(
        file,
        source="TensorRT-LLM iteration statistics",
        drafts=sum(window.drafts for window in windows),
        draft_tokens=sum(window.draft_tokens for window in windows),
        accepted_tokens=sum(window.accepted_tokens for window in windows),
        windows=windows,
        notes=[f"{len(windows)} iterations with drafts."],
    )


def _iterations(path: str | Path, file: str) -> Iterator[Window]:
    for name, row in request_objects(sample_of(path)):
        stats = row.get(_STATS)
        if stats is None:
            continue
        stats = expect_object(stats, file, f"{name}.{_STATS}")
        count = {
            key: expect_whole(stats.get(key, 0), file, f"{name}.{key}")
            for key in ("numDraftTokens", "numAcceptedTokens", "numRequestsWithDraftTokens")
        }
        if count["numDraftTokens"]:
            running = _inflight(row).get("numGenRequests", count["numRequestsWithDraftTokens"])
            yield Window(
                drafts=count["numRequestsWithDraftTokens"],
                draft_tokens=count["numDraftTokens"],
                accepted_tokens=count["numAcceptedTokens"],
                batch_requests=expect_whole(running, file, f"{name}.numGenRequests"),
            )


def _inflight(row: Mapping[str, Any]) -> Mapping[str, Any]:
    stats = row.get("inflightBatchingStats")
    return stats if isinstance(stats, dict) else {}


def read_metrics(
    before: str | Path, after: str | Path | None = None, *, model: str | None = None
) -> AcceptanceTrace:
    """Read the difference of two scrapes.

    Args:
        before: text of the Prometheus endpoint at the start; the only file where `after` is absent.
        after: the same at the end.
        model: `model_name` to read where several models are served.

    Raises:
        InputError: no counters, several models and none chosen, a counter that fell, no draft.
    """
    start = {} if after is None else scrape(before, _PREFIX, _COUNTERS, model)
    file = str(before if after is None else after)
    end = scrape(file, _PREFIX, (*_COUNTERS, _GAUGE), model)
    series = gained(
        {key: value for key, value in end.items() if key[0] != _GAUGE}, start, file, before
    )
    notes = (
        ["One scrape only: everything since the engine started, warm-up included."]
        if after is None
        else []
    )
    reached = by_position(series, "spec_decode_drafted_tokens", file, "token_position")
    kept = by_position(series, "spec_decode_accepted_tokens", file, "token_position")
    if reached and reached[0]:
        if sum(reached) != reached[0] * len(reached):
            notes.append(
                "Draft lengths were mixed: deeper positions count steps that never drafted so deep"
                " as refused."
            )
        return counted(
            file,
            source="TensorRT-LLM Prometheus counters",
            drafts=reached[0],
            draft_tokens=sum(reached),
            accepted_tokens=sum(kept),
            rates=[count / reached[0] for count in kept],
            slack=0.01 + 8 / reached[0],
            model=models_of(end),
            notes=notes,
        )
    proposed = summed(series, "spec_decode_num_draft_tokens", file)
    accepted = summed(series, "spec_decode_num_accepted_tokens", file)
    if not proposed:
        raise InputError(
            "no draft was verified between the scrapes",
            file=file,
            key=f"{_PREFIX}spec_decode_num_draft_tokens",
        )
    gauge = max((value for (name, _), value in end.items() if name == _GAUGE), default=0.0)
    # the gauge is 1 + accepted / drafts; a draft has one token at least
    drafts = min(round(accepted / (gauge - 1)), proposed) if gauge > 1 and accepted else 0
    if drafts:
        notes.append(
            "Steps follow from the gauge of the acceptance length, which is that of the latest"
            " iterations."
        )
    return counted(
        file,
        source="TensorRT-LLM Prometheus counters",
        drafts=drafts,
        draft_tokens=proposed,
        accepted_tokens=accepted,
        model=models_of(end),
        notes=notes,
    )


FORMATS = (
    Format(
        name="tensorrt-llm-stats",
        claims=lambda sample: (
            sample.holds(_STATS) or (sample.holds("iter", "iterLatencyMS") and sample.says(_STATS))
        ),
        read=read_stats,
    ),
    Format(
        name="tensorrt-llm-metrics",
        claims=lambda sample: sample.says("^trtllm_spec_decode_"),
        read=read_metrics,
    ),
)
