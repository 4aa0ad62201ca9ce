"""`traces list`: every recording that comes with rooftree, and what it tells."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np

from app.answers.answer import Answer, Column, Row, Table
from app.questions.field import inputs_of
from app.questions.recordings import TracesListQuestion
from costmodel.acceptance_library import target_slug
from costmodel.answers.settings import stated_method
from costmodel.answers.uncertainty import interval
from costmodel.draft_shape import OWN, DraftShape, chain, shape_of
from costmodel.laws.acceptance import Acceptance, from_replay
from costmodel.method_library import load_method
from costmodel.optimizers.candidates.asked_shapes import shape_acceptances
from costmodel.optimizers.drafters.sources import Source, trace_source
from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.confidence import ConfidenceTrace
from traces.kinds.provenance import LICENCE_KEY, POLICY_KEY, REPEATS_KEY, Provenance
from traces.kinds.step_counts import NEW_TOKENS, STEPS, WALL_S
from traces.library import is_confidence, read_trace, shipped
from traces.replay.statistics import request_draws
from traces.replay.walk import replay_chain
from traces.storage.confidence_file import read_confidence

Interval = tuple[float, float]
OWN_LICENCE = "Apache-2.0"
"""Of recordings that rooftree made itself: its own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ShippedTrace(Row):
    """A recording that comes with rooftree."""

    name: Annotated[str, Column("What `--trace` takes.", "trace")]
    kind: Annotated[str, Column("`acceptance`, or `confidence` of a masked model.")]
    target: Annotated[str, Column("Target model.")]
    drafter: Annotated[str, Column("What drafted, as the recording names it.")]
    method: Annotated[str, Column("Method slug.")]
    device: Annotated[str, Column("What it ran on.")]
    licence: Annotated[str, Column("Licence of the recording.")]
    source: Annotated[str, Column("Where it was published; empty: rooftree recorded it.")]
    level: Annotated[
        int | None,
        Column("0 counts, 1 lengths, 2 ranks, 3 probabilities; None of confidence."),
    ]
    requests: Annotated[int, Column("Requests, or turns of a conversation.")]
    temperature: Annotated[float | None, Column("Of sampling; None where it is not stated.")]
    draft: Annotated[str | None, Column("Draft of which tokens per step are; None: of none.")]
    tokens_per_step: Annotated[
        float | None,
        Column(
            "Emitted per step of that draft; None of a masked model, whose policies differ.",
            "tokens/step",
            decimals=3,
        ),
    ]
    tokens_per_step_interval: Annotated[Interval | None, Column("Its 80 % interval.")]
    repeat_tokens_ratio: Annotated[
        float | None,
        Column("Most over fewest tokens per step of runs of the same prompts, less 1."),
    ] = None
    repeat_seconds_ratio: Annotated[
        float | None, Column("Most over fewest seconds per token of these runs, less 1.")
    ] = None

    @property
    def device_words(self) -> Annotated[str, Column("The device.", "device", of=("device",))]:
        """The device without its details."""
        return short_device(self.device)


@dataclass(frozen=True, kw_only=True)
class ShippedTraces(Answer):
    """The answer of `traces list`.

    Attributes:
        traces: a row for every recording.
    """

    name: ClassVar[str] = "traces"
    frame_columns: ClassVar[tuple[str, ...]] = tuple(part.name for part in fields(ShippedTrace))
    traces: Sequence[ShippedTrace]

    @property
    def own_rows(self) -> Sequence[ShippedTrace]:
        """The recordings."""
        return self.traces

    def shown(self) -> Iterator[Table | str]:
        """The recordings, and how far repeated ones are apart."""
        yield Table(
            title="recordings that come with rooftree",
            rows=self.traces,
            columns=[
                "name",
                "target",
                "method",
                "device_words",
                "licence",
                "level",
                "requests",
                "draft",
                "tokens_per_step",
            ],
            caption="brackets: 80 % intervals; `traces inspect NAME` tells more",
            once=["target", "method", "device_words", "licence"],
            yields=["requests", "licence", "device_words", "target", "draft", "method"],
        )
        repeated = {
            (row.method, row.target): (row.repeat_tokens_ratio, row.repeat_seconds_ratio)
            for row in self.traces
            if row.repeat_tokens_ratio is not None and row.repeat_seconds_ratio is not None
        }
        for (method, target), (tokens, seconds) in repeated.items():
            yield (
                f"{method} on {target}: runs of the same prompts differ by"
                f" {100 * tokens:.1f} % in tokens per step and by {100 * seconds:.1f} % in seconds per"
                " token"
            )


def short_device(device: str) -> str:
    """A device without its details.

    Example:
        >>> short_device("CPU: AMD EPYC, 1 thread(s)"), short_device("NVIDIA A100")
        ('CPU', 'NVIDIA A100')
    """
    return re.split(r"[:,]", device)[0]


def answer(question: TracesListQuestion) -> ShippedTraces:
    """Every shipped recording that filters leave.

    Raises:
        InputError: none is left.
    """
    method = None if question.method is None else stated_method(question.method, key="method")
    rows = []
    for name, path in shipped().items():
        about, opened = _opened(path)
        if method not in (None, about.method):
            continue
        if question.model not in (None, "") and not _is_of(about.model, question.model):
            continue
        rows.append(_row(name, path, about, opened, question))
    if not rows:
        filters = {"--model": question.model, "--method": question.method}
        stated = {key: value for key, value in filters.items() if value}
        rule = "no shipped recording is of that; see `rooftree traces list`"
        raise InputError(rule, key=" and ".join(stated), value=", ".join(stated.values()))
    return ShippedTraces(inputs=inputs_of(question), traces=rows)


def _is_of(recorded: str, model: str) -> bool:
    """Whether a recorded target is the model of a question."""
    return target_slug(recorded) == target_slug(model)


def _opened(path: Path) -> tuple[Provenance, AcceptanceTrace | ConfidenceTrace]:
    trace = read_confidence(path) if is_confidence(path) else read_trace(path)
    return trace.provenance, trace


def _row(
    name: str,
    path: Path,
    about: Provenance,
    trace: AcceptanceTrace | ConfidenceTrace,
    question: TracesListQuestion,
) -> ShippedTrace:
    accepted = None
    if isinstance(trace, AcceptanceTrace):
        accepted = recorded_acceptance(path, trace, question.draft_tokens, question.seed)
    bounds = None if accepted is None else interval(accepted.samples)
    tokens_ratio, seconds_ratio = _repeat_ratios(about)
    temperature = about.sampling.get("temperature")
    return ShippedTrace(
        name=name,
        kind="confidence" if accepted is None else "acceptance",
        target=about.model,
        drafter=about.drafter,
        method=about.method,
        device=about.device,
        licence=str(about.extra.get(LICENCE_KEY, OWN_LICENCE)),
        source=str(about.extra.get("source", "")),
        level=trace.level if isinstance(trace, AcceptanceTrace) else None,
        requests=len(set(trace.request_ids)),
        temperature=None if temperature is None else float(temperature),
        draft=None if accepted is None else str(shape_of(accepted)),
        tokens_per_step=None if accepted is None else accepted.tokens_per_step,
        tokens_per_step_interval=(None if bounds is None else (float(bounds[0]), float(bounds[1]))),
        repeat_tokens_ratio=tokens_ratio,
        repeat_seconds_ratio=seconds_ratio,
    )


def recorded_acceptance(
    path: Path, trace: AcceptanceTrace, draft_tokens: int, seed: int
) -> Acceptance:
    """What a recording says of one draft: the one that alone was recorded, else a chain.

    Args:
        path: of a shipped recording.
        trace: what it holds.
        draft_tokens: K of the chain, as far as the recording reaches.
        seed: of the bootstrap over requests.
    """
    generator = np.random.default_rng(seed)
    if not load_method(trace.provenance.method).drafts:
        draws = request_draws(trace.prompt_kinds, generator=generator)
        return from_replay(replay_chain(trace, 0), draws, rule="none")
    source = trace_source(path)
    return shape_acceptances(source, [_shape(source, draft_tokens)], generator=generator)[0]


def _shape(source: Source, draft_tokens: int) -> DraftShape:
    if source.own_draft is not None:
        return OWN
    trace = source.positions
    assert trace is not None  # shipped counters name their tree
    policy = trace.provenance.extra.get(POLICY_KEY)
    reach = draft_tokens if trace.depth is None else min(draft_tokens, trace.depth)
    return chain(reach if policy is None else policy)


def _repeat_ratios(about: Provenance) -> tuple[float | None, float | None]:
    """How far runs of the same prompts are apart, in tokens per step and seconds per token."""
    runs = about.extra.get(REPEATS_KEY)
    if runs is None:
        return None, None
    tokens = [run[NEW_TOKENS] / run[STEPS] for run in runs]
    seconds = [run[WALL_S] / run[NEW_TOKENS] for run in runs]
    return max(tokens) / min(tokens) - 1.0, max(seconds) / min(seconds) - 1.0
