"""How is acceptance read from SGLang's Prometheus metrics?

Format `sglang-metrics`. Yields level 0: steps from `spec_verify_calls_total` and tokens from
`generation_tokens_total` between two scrapes (or since the engine started), less one token per
request that its prefill emitted; where those counters are absent, the gauge `spec_accept_length`
alone, which is the mean of the latest interval. It cannot know rates by position or batch sizes.
"""

from __future__ import annotations

from pathlib import Path

from hardware_profiles.errors import InputError
from traces.importers.counted import counted
from traces.importers.prometheus import Series, gained, models_of, scrape, summed
from traces.importers.recognition import Format
from traces.kinds.acceptance import AcceptanceTrace

_PREFIX = "sglang:"
_COUNTERS = ("spec_verify_calls", "generation_tokens", "num_requests")
_GAUGES = ("spec_accept_length", "spec_num_draft_tokens", "spec_num_steps")


def read(
    before: str | Path, after: str | Path | None = None, *, model: str | None = None
) -> AcceptanceTrace:
    """Read the difference of two scrapes.

    Args:
        before: text of `/metrics` at the start; the only file where `after` is absent, counted from
            engine start.
        after: text of `/metrics` at the end.
        model: `model_name` to read where several models are served.

    Raises:
        InputError: nothing about speculation, several models and none chosen, a counter that fell,
            no step.
    """
    start = {} if after is None else scrape(before, _PREFIX, _COUNTERS + _GAUGES, model)
    file = str(before if after is None else after)
    end = scrape(file, _PREFIX, _COUNTERS + _GAUGES, model)
    nodes, levels = _highest(end, "spec_num_draft_tokens"), _highest(end, "spec_num_steps")
    longest = int(levels) or max(int(nodes) - 1, 0)
    notes = (
        ["One scrape only: everything since the engine started, warm-up included."]
        if after is None
        else []
    )
    counts = {
        name: _across_ranks(gained(_only(end, name), _only(start, name), file, before))
        for name in _COUNTERS
    }
    steps, tokens = (
        counts["spec_verify_calls"],
        counts["generation_tokens"] - counts["num_requests"],
    )
    if steps and tokens >= steps:
        return counted(
            file,
            source="SGLang Prometheus metrics",
            drafts=steps,
            draft_tokens=steps * (int(nodes) - 1) if nodes > 1 and tokens <= steps * nodes else 0,
            accepted_tokens=tokens - steps,
            longest_draft=longest,
            model=models_of(end),
            notes=[
                *notes,
                (
                    f"{tokens} tokens in {steps} verified steps; the first token of every request"
                    " is its prefill's."
                ),
            ],
        )
    gauge = _highest(end, "spec_accept_length")
    if gauge < 1:
        raise InputError("no step was verified", file=file, key="sglang:spec_verify_calls_total")
    return counted(
        file,
        source="SGLang Prometheus metrics",
        mean_tokens_per_step=gauge,
        longest_draft=longest,
        model=models_of(end),
        notes=["The gauge of the latest log interval alone: what came before it is not counted."],
    )


def _only(series: Series, name: str) -> Series:
    return {key: value for key, value in series.items() if key[0] == name}


def _across_ranks(series: Series) -> int:
    """A counter over its labels, ranks of one tensor-parallel group counted once."""
    groups: dict[tuple[tuple[str, str], ...], float] = {}
    for (_, labels), value in series.items():
        # ranks of a group count the same steps; the most advanced of them is the count
        group = tuple(
            label
            for label in labels
            if label[0] not in ("tp_rank", "pp_rank", "moe_ep_rank", "pid")
        )
        groups[group] = max(groups.get(group, 0.0), value)
    return summed({("", group): value for group, value in groups.items()}, "", "")


def _highest(series: Series, name: str) -> float:
    """A gauge, the same on every rank; the highest where replicas differ."""
    return max((value for (own, _), value in series.items() if own == name), default=0.0)


FORMATS = (
    Format(name="sglang-metrics", claims=lambda sample: sample.says("^sglang:spec_"), read=read),
)
