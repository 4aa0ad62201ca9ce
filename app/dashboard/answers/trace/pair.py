"""Which of two recordings is accepted more, by how much, and is that more than their prompts would
say anyway?

Where both hold the same prompts, these are drawn together, so that hard prompts count alike. Leaves
out speed: a drafter that is accepted more may still cost more than it saves.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from app.dashboard.answer import Row
from app.render.charts.charts import digits
from traces.kinds.acceptance import AcceptanceTrace
from traces.replay.bootstrap import drawn_tokens_per_step, request_draws
from traces.replay.comparison import ALL, compare
from traces.replay.walk import replay_chain

LEVELS = (0.1, 0.9)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """Tokens per step of two recordings.

    Args:
        first: of the first.
        second: of the other.
        ratio_interval: 80 % interval of first over second.
        paired: they hold the same prompts.
    """

    first: float
    second: float
    ratio_interval: tuple[float, float]
    paired: bool

    @property
    def ratio(self) -> float:
        """First over second."""
        return self.first / self.second


def pair_of(
    first: AcceptanceTrace, second: AcceptanceTrace, draft_tokens: int, *, seed: int
) -> Pair:
    """Replay both with chains of K draft tokens.

    Args:
        first: level 1 or more.
        second: level 1 or more.
        draft_tokens: K.
        seed: of the bootstrap over prompts.

    Raises:
        InputError: a recording of level 0, or without steps.
    """
    replays = [replay_chain(trace, draft_tokens) for trace in (first, second)]
    paired = first.request_ids == second.request_ids and first.prompt_kinds == second.prompt_kinds
    draws = [
        request_draws(
            trace.prompt_kinds, generator=np.random.default_rng([seed, 0 if paired else place])
        )
        for place, trace in enumerate((first, second))
    ]
    one, other = (
        drawn_tokens_per_step(replay, trace_draws)
        for replay, trace_draws in zip(replays, draws, strict=True)
    )
    low, high = np.quantile(one / other, LEVELS)
    return Pair(
        first=replays[0].tokens_per_step,
        second=replays[1].tokens_per_step,
        ratio_interval=(float(low), float(high)),
        paired=paired,
    )


def pair_words(names: Sequence[str], pair: Pair, draft_tokens: int) -> str:
    """The comparison in a sentence."""
    more, less = names if pair.ratio >= 1.0 else tuple(reversed(names))
    high, low = max(pair.first, pair.second), min(pair.first, pair.second)
    gain = max(pair.ratio, 1.0 / pair.ratio) - 1.0
    ends = sorted(end if pair.ratio >= 1.0 else 1.0 / end for end in pair.ratio_interval)
    spread = f"80 %: {100 * (ends[0] - 1):+.1f} to {100 * (ends[1] - 1):+.1f} %"
    sure = "" if ends[0] > 1.0 else "; their prompts alone could turn that round"
    return (
        f"{more} emits {digits(high)} tokens per step with K = {draft_tokens}, {less}"
        f" {digits(low)}: {100 * gain:.1f} % more ({spread}{sure})"
    )


def pair_note(pair: Pair) -> str:
    """How sure the comparison is."""
    if pair.paired:
        return "Both hold the same prompts, which are drawn together for the interval."
    return "They hold different prompts: part of the difference may be the prompts'."


def pair_rows(traces: Mapping[str, AcceptanceTrace], draft_tokens: int, *, seed: int) -> list[Row]:
    """Both recordings side by side, by kind of prompt and over all."""
    (first, one), (second, other) = (
        (name, {row.kind: row for row in compare([trace], draft_tokens=draft_tokens, seed=seed)})
        for name, trace in traces.items()
    )
    kinds = sorted({*one, *other}, key=lambda kind: (kind == ALL, kind))
    rows: list[Row] = []
    for kind in kinds:
        row: dict[str, object] = {"kind": kind}
        values = []
        for name, by_kind in ((first, one), (second, other)):
            summary = by_kind.get(kind)
            value = None if summary is None else summary.tokens_per_step
            span = None if summary is None else summary.interval
            row[f"{name}: tokens per step"] = None if value is None else round(value, 3)
            row[f"{name}: 80 % interval"] = "" if span is None else "–".join(map(digits, span))
            values.append(value)
        a, b = values
        rows.append(
            row | {"first over second (%)": round(100 * (a / b - 1.0), 1) if a and b else None}
        )
    return rows


def depth_rows(traces: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> list[Row]:
    """Share of steps that keep at least so many draft tokens, of both recordings."""
    depth = max(len(x) for x, _ in traces.values())
    return [
        {"draft tokens kept": at + 1}
        | {
            f"{name} (%)": round(y[at], 1) if at < len(y) else None
            for name, (_, y) in traces.items()
        }
        for at in range(depth)
    ]
