"""What does a recording say: how acceptance falls with depth, moves along the text, and differs
from a law?

One recording, shipped or uploaded, beside a second one; of an engine's counters what they say.
Leaves out what it means for speed (`answers.run`).
"""

import html
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from app.answers.recordings.losses import Losses
from app.answers.replay.rows import ReplayedDrafts
from app.dashboard.answer import Card, Figure, PageAnswer
from app.dashboard.answers.chains import with_length
from app.dashboard.answers.trace.pair import (
    Pair,
    depth_rows,
    pair_note,
    pair_of,
    pair_rows,
    pair_words,
)
from app.dashboard.asking import Asked, Values
from app.dashboard.changes import asking_along
from app.dashboard.held import OWN_FILE
from app.dashboard.recorded import recorded
from app.dashboard.state import State, command
from app.questions.recordings import TracesCompareQuestion, TracesLossesQuestion
from app.questions.replay import ReplayQuestion
from app.render.charts.charts import DASHES, PALETTE, digits, framed
from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.provenance import POLICY_KEY
from traces.kinds.summary import Summary
from traces.library import shipped_traces
from traces.replay.statistics import (
    acceptance_by_depth,
    autocorrelation,
    by_kind,
    fitted_acceptance,
    geometric_tokens_per_step,
    start_positions,
)
from traces.replay.walk import replay_chain
from traces.storage.acceptance_file import write_acceptance

DEPTH = 8
USUAL_LENGTH = 5
LAGS = 16
PARTS = 10  # of a text, for acceptance along it


def answer_trace(state: State, uploaded: AcceptanceTrace | None = None) -> PageAnswer:
    """The recording beside the other one.

    Args:
        state: names of recordings, and K.
        uploaded: instead of the first one.

    Raises:
        InputError: a second recording that holds no lengths of accepted runs.
    """
    own = None if uploaded is None else own_name(uploaded)
    name = own or state.trace or shipped_traces()[0].stem
    shown = uploaded if uploaded is not None else recorded(name)
    one_draft = not shown.level or POLICY_KEY in shown.provenance.extra
    if shown.summary is not None and one_draft:
        return _counted(shown, shown.summary, None if own else name)
    traces: dict[str, AcceptanceTrace] = {name: shown}
    if state.other_trace and state.other_trace != name:
        traces[state.other_trace] = recorded(state.other_trace)
    for trace in traces.values():
        trace.require(1, "the trace lab")
        if not trace.positions:
            raise InputError("holds no positions", key="trace", value=name)
    first, state = traces[name], _with_length(state)
    k = state.draft_tokens
    asked = asked_trace(state, [OWN_FILE if trace == own else trace for trace in traces])
    alone = _replayed(state, name, uploaded) if len(traces) == 1 else None
    tokens = 0.0 if alone is None else alone.chains[0].tokens_per_step
    pair = (
        pair_of(first, traces[state.other_trace], k, seed=state.seed) if len(traces) > 1 else None
    )
    kinds = _kinds(first, k, state.seed) if pair is None else []
    law = (_law if uploaded is not None else _known_law)(first)
    return PageAnswer(
        headline=(
            _alone(name, first, tokens, k) if pair is None else pair_words(list(traces), pair, k)
        ),
        command=asked.line,
        numbers=_numbers(first, k, tokens, kinds) if pair is None else _both(list(traces), pair),
        cards=[
            Card(
                title="Acceptance by depth",
                note="Share of steps that keep at least so many draft tokens.",
                figure=_lines(
                    {n: _by_depth(t) for n, t in traces.items()},
                    "draft tokens kept",
                    "share of steps (%)",
                ),
            ),
            Card(
                title="Along the text",
                note="Mean tokens per step by place in the output, in tenths.",
                figure=_lines(
                    {n: _along(t, k) for n, t in traces.items()},
                    "place in the output (%)",
                    "tokens per step",
                ),
            ),
            Card(
                title="Tail",
                note=(
                    "Share of steps that emit at least so many tokens; straight would be one rate."
                ),
                figure=_lines(
                    {n: _tail(t) for n, t in traces.items()},
                    "tokens emitted by a step",
                    "share of steps (%)",
                    log=True,
                ),
            ),
            Card(
                title="Memory of the text",
                note="Correlation of steps so far apart; one rate for all has none.",
                figure=_lines(
                    {
                        n: (list(range(1, LAGS + 1)), autocorrelation(t, k, LAGS).tolist())
                        for n, t in traces.items()
                    },
                    "steps apart",
                    "correlation",
                ),
            ),
            asking_along(
                Card(
                    title="Law against replay",
                    note="The law is fitted at K = 1; replay counts what happened.",
                    figure=_lines(law, "draft tokens K", "tokens per step"),
                ),
                "draft_tokens",
            ),
        ],
        tables=(
            [("By kind of prompt", kinds), *([] if own else _losses(name))]
            if pair is None
            else [
                ("Side by side, by kind of prompt", pair_rows(traces, k, seed=state.seed)),
                ("Acceptance by depth", depth_rows({n: _by_depth(t) for n, t in traces.items()})),
            ]
        ),
        notes=(
            _notes(first)
            if pair is None
            else [
                pair_note(pair),
                *(f"{name}: {note}" for name, trace in traces.items() for note in _notes(trace)),
            ]
        ),
        command_answer=(
            (lambda: alone) if alone is not None else asked.answer if own is None else None
        ),
    )


def _with_length(state: State) -> State:
    """The state with the recommended K of its question, or with the usual one where that is to draft
    nothing, which leaves nothing to show of a recording.
    """
    try:
        resolved = with_length(state)
    except InputError:  # the question's drafter is not this recording's
        resolved = state
    return resolved if resolved.draft_tokens else replace(state, draft_tokens=USUAL_LENGTH)


def asked_trace(state: State, recordings: Sequence[str]) -> Asked:
    """What `replay` is asked of one recording, and `traces compare` of two.

    Args:
        state: with K.
        recordings: as a command line names them.
    """
    if len(recordings) == 1:
        values: Values = {"trace": recordings[0], "draft_tokens": str(state.draft_tokens)}
        return Asked(verb=ReplayQuestion, values={**values, "seed": state.seed})
    values = {"files": tuple(recordings), "draft_tokens": state.draft_tokens}
    return Asked(verb=TracesCompareQuestion, values={**values, "seed": state.seed})


def _replayed(state: State, name: str, uploaded: AcceptanceTrace | None) -> ReplayedDrafts:
    """What `replay` answers of one recording; one of the session lies in a file meanwhile."""
    with tempfile.TemporaryDirectory(prefix="rooftree-session-") as folder:
        place = name
        if uploaded is not None:
            place = str(Path(folder) / "trace.parquet")
            write_acceptance(uploaded, Path(place))
        answer = asked_trace(state, [place]).answer()
    assert isinstance(answer, ReplayedDrafts)
    return answer


def own_name(trace: AcceptanceTrace) -> str:
    """What an uploaded recording is called: its file, without folders."""
    return Path(trace.file or "").name or "uploaded"


def _alone(name: str, trace: AcceptanceTrace, tokens: float, k: int) -> str:
    return (
        f"{name}: {digits(tokens)} tokens per step with K = {k}, over {trace.positions:,} positions"
        f" of {trace.requests:,} texts"
    )


def _both(names: Sequence[str], pair: Pair) -> list[tuple[str, str]]:
    low, high = pair.ratio_interval
    return [
        (f"{names[0]}, tokens per step", digits(pair.first)),
        (f"{names[1]}, tokens per step", digits(pair.second)),
        (
            "First over second (80 % interval)",
            f"{digits(pair.ratio)}× ({digits(low)}–{digits(high)}×)",
        ),
    ]


@lru_cache(maxsize=64)
def _losses(name: str) -> list[tuple[str, Sequence[Mapping[str, Any]]]]:
    """What a mean loses against a shipped recording, over batches and on three devices; nothing
    where that cannot be asked.
    """
    try:
        answer = Asked(verb=TracesLossesQuestion, values={"files": (name,)}).answer()
    except InputError:
        return []
    assert isinstance(answer, Losses)
    rows = [
        {
            "device": row.device,
            "batches": f"1 to {max(at.batch for at in answer.losses if at.device == row.device)}",
            "lost by rates (%)": _percent(row.rates_lost_ratio),
            "lost by the mean (%)": _percent(row.mean_lost_ratio),
            "at worst (%)": _percent(row.mean_worst_ratio),
            "at batch": row.mean_worst_batch,
        }
        for row in answer.devices
    ]
    return [("Tokens/s lost where only rates, or only the mean, are known", rows)]


def _percent(ratio: float | None) -> str:
    """A share in percent; empty where it is not known."""
    return "" if ratio is None else f"{100 * ratio:.1f}"


def _counted(trace: AcceptanceTrace, counts: Summary, name: str | None) -> PageAnswer:
    """What an engine's log or counters say: the draft in use alone, and no places in a text.

    Args:
        trace: whose counts they are.
        counts: of its steps.
        name: of a shipped recording; None: it was uploaded.
    """
    mean, rates = counts.tokens_per_step, counts.acceptance_by_depth
    windows = [window.tokens_per_step for window in counts.windows]
    cards = []
    if rates:
        line = {
            "counted": (
                [float(d) for d in range(1, len(rates) + 1)],
                [100 * rate for rate in rates],
            )
        }
        cards.append(
            Card(
                title="Acceptance by depth",
                note="Share of steps that keep at least so many draft tokens.",
                figure=_lines(line, "draft tokens kept", "share of steps (%)"),
            )
        )
    if (
        len(
            points := [
                (at + 1.0, tokens) for at, tokens in enumerate(windows) if tokens is not None
            ]
        )
        > 1
    ):
        line = {"counted": ([at for at, _ in points], [tokens for _, tokens in points])}
        cards.append(
            Card(
                title="Along the log",
                note="Mean tokens per step of every window that was printed.",
                figure=_lines(line, "window of the log", "tokens per step"),
            )
        )
    mean_words = "acceptance without a mean" if mean is None else f"{digits(mean)} tokens per step"
    return PageAnswer(
        headline=(
            f"{name or own_name(trace)}: {mean_words}, as an engine counted"
            f" {'them' if mean is not None else 'it'}"
        ),
        command=command(["traces", "inspect", name or OWN_FILE], {}),
        numbers=[
            ("Tokens per step", digits(mean)),
            ("Level", f"{trace.level}, {'lengths of one draft' if trace.level else 'counters'}"),
            *(
                [
                    (
                        "Draft tokens accepted",
                        f"{counts.accepted_tokens:,} of {counts.draft_tokens:,}",
                    )
                ]
                if counts.draft_tokens
                else []
            ),
        ],
        cards=cards,
        tables=_losses(name) if name else [],
        notes=[
            *_notes(trace),
            "Counters hold for the draft length in use: no other one can be replayed from them.",
        ],
    )


def _numbers(
    trace: AcceptanceTrace, k: int, tokens: float, kinds: Sequence[Mapping[str, Any]]
) -> list[tuple[str, str]]:
    numbers = [("Tokens per step", digits(tokens)), ("Level", str(trace.level))]
    if 1 <= tokens <= k + 1:
        numbers.append(("Acceptance rate that fits", f"{100 * fitted_acceptance(tokens, k):.1f} %"))
    spread = float(np.ptp([row["tokens_per_step"] or tokens for row in kinds]))
    return [*numbers, ("Between kinds of prompts", f"±{digits(spread / 2)} tokens per step")]


def _by_depth(trace: AcceptanceTrace) -> tuple[list[float], list[float]]:
    depth = DEPTH if trace.depth is None else min(DEPTH, trace.depth)
    return [float(d) for d in range(1, depth + 1)], (
        100 * acceptance_by_depth(trace, depth)
    ).tolist()


def _emitted(trace: AcceptanceTrace, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Places of a walk's steps and the tokens that each emits."""
    assert trace.emitted is not None
    at = start_positions(trace, "walk", k)
    emitted = np.minimum(trace.emitted[at].astype(np.float64), k + 1)
    return at, emitted if trace.drafted is None else np.minimum(emitted, trace.drafted[at] + 1.0)


def _along(trace: AcceptanceTrace, k: int) -> tuple[list[float], list[float]]:
    at, emitted = _emitted(trace, k)
    request = np.searchsorted(trace.offsets, at, side="right") - 1
    place = (at - trace.offsets[request]) / np.maximum(trace.output_tokens[request], 1)
    part = np.minimum((place * PARTS).astype(np.int64), PARTS - 1)
    count = np.bincount(part, minlength=PARTS)
    mean = np.bincount(part, weights=emitted, minlength=PARTS) / np.maximum(count, 1)
    shown = np.flatnonzero(count)
    return (100 * (shown + 0.5) / PARTS).tolist(), mean[shown].tolist()


def _tail(trace: AcceptanceTrace) -> tuple[list[float], list[float]]:
    longest = 64 if trace.depth is None else trace.depth
    _, emitted = _emitted(trace, longest)
    values = np.arange(1, int(emitted.max(initial=1)) + 1)
    share = 100 * (emitted[None, :] >= values[:, None]).mean(axis=1)
    return [float(value) for value in values], share.tolist()


def _law(trace: AcceptanceTrace) -> dict[str, tuple[list[float], list[float]]]:
    depth = DEPTH if trace.depth is None else min(DEPTH, trace.depth)
    lengths = list(range(1, depth + 1))
    replayed = [float(replay_chain(trace, k).tokens_per_step) for k in lengths]
    rate = fitted_acceptance(min(max(replayed[0], 1.0), 2.0), 1)
    law = [geometric_tokens_per_step(rate, k) for k in lengths]
    x = [float(k) for k in lengths]
    return {"replay": (x, replayed), f"one rate of {100 * rate:.1f} %": (x, law)}


_known_law = lru_cache(maxsize=64)(_law)  # of shipped recordings, which are read once


def _kinds(trace: AcceptanceTrace, k: int, seed: int) -> Sequence[Mapping[str, Any]]:
    return [
        {
            "kind": row.kind or "unnamed",
            "texts": row.requests,
            "tokens": row.tokens,
            "steps": row.steps,
            "tokens_per_step": row.tokens_per_step,
            "80 % interval": (
                "" if row.interval is None else "–".join(digits(v) for v in row.interval)
            ),
        }
        for row in by_kind(trace, k, generator=np.random.default_rng(seed))
    ]


def _lines(
    lines: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    bottom: str,
    side: str,
    *,
    log: bool = False,
) -> Figure:
    data = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": html.escape(name),
            "x": list(x),
            "y": list(y),
            "line": {"color": PALETTE[place], "dash": DASHES[place], "width": 2.5},
            "marker": {"size": 7},
        }
        for place, (name, (x, y)) in enumerate(lines.items())
    ]
    up = {"title": {"text": side}} | ({"type": "log"} if log else {})
    return framed(
        data, {"title": {"text": bottom}}, up, height=260, hovermode="x unified", showlegend=True
    )


def _notes(trace: AcceptanceTrace) -> list[str]:
    p = trace.provenance
    facts = [
        f"{label}: {value}"
        for label, value in (
            ("model", p.model),
            ("drafter", p.drafter),
            ("method", p.method),
            ("device", p.device),
            ("data", p.dataset),
        )
        if value
    ]
    return (
        ["Recorded " + ", ".join(facts) + "."]
        if facts
        else ["The recording does not say where it comes from."]
    )
