"""`traces losses`: what a choice loses that knows a recording by its mean, or by rates by depth."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np

from app.answers.answer import Answer, Column, Row, Table
from app.answers.cells import names_of
from app.answers.recordings.listed import short_device
from app.questions.field import inputs_of
from app.questions.recordings import TracesLossesQuestion
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.optimizers.drafters.competing import competing
from costmodel.optimizers.drafters.sources import Source, trace_source
from costmodel.optimizers.less_known import LessKnown, known_drafts, less_known
from costmodel.optimizers.recommend import drafter_question
from hardware_profiles.errors import InputError
from traces.library import gpu_recordings, read_trace, recordings, trace_file, trace_name


@dataclass(frozen=True, kw_only=True, slots=True)
class LossAtBatch(Row):
    """What three choices run at one batch, and what two of them lose."""

    trace: Annotated[str, Column("The recording.")]
    level: Annotated[int, Column("0 counts, 1 lengths, 2 ranks, 3 probabilities.")]
    model: Annotated[str, Column("Target model, the recorded one.")]
    recorded_on: Annotated[str, Column("What the recording ran on.")]
    device: Annotated[str, Column("Device that is asked about.")]
    batch: Annotated[int, Column("Requests that decode together.")]
    by_trace: Annotated[str, Column("Draft that the recording chooses.")]
    tokens_per_s: Annotated[float, Column("Of the batch with it.", decimals=0)]
    by_rates: Annotated[str | None, Column("Draft that rates choose; None: there are none.")]
    rates_lost_ratio: Annotated[
        float | None, Column("Share of these tokens/s that the rates' choice loses.")
    ]
    by_mean: Annotated[str, Column("Draft that the mean alone chooses.")]
    mean_lost_ratio: Annotated[
        float, Column("Share of these tokens/s that the mean's choice loses.")
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class LossOnDevice(Row):
    """What choices lose over all batches of a recording and a device."""

    trace: Annotated[str, Column("The recording.")]
    level: Annotated[int, Column("0 counts, 1 lengths, 2 ranks, 3 probabilities.")]
    recorded_on: Annotated[str, Column("What the recording ran on.")]
    device: Annotated[str, Column("Device that is asked about.")]
    batches: Annotated[int, Column("Batches that fit.")]
    rates_lost_ratio: Annotated[
        float | None, Column("Mean over batches, choosing by rates.", "by rates", "ratio", 1)
    ]
    rates_worst_ratio: Annotated[float | None, Column("Its worst batch.", "worst", "ratio", 1)]
    mean_lost_ratio: Annotated[
        float, Column("Mean over batches, choosing by the mean.", "by mean", "ratio", 1)
    ]
    mean_worst_ratio: Annotated[float, Column("Its worst batch.", "worst", "ratio", 1)]
    mean_worst_batch: Annotated[int, Column("Which batch that is.", "at batch")]

    @property
    def recorded_words(
        self,
    ) -> Annotated[str, Column("The device.", "recorded on", of=("recorded_on",))]:
        """What the recording ran on, without details."""
        return short_device(self.recorded_on)


@dataclass(frozen=True, kw_only=True)
class Losses(Answer):
    """The answer of `traces losses`.

    Attributes:
        losses: a row for every recording, device and batch.
        devices: the same over all batches.
        left_out: recordings that cannot be asked about, with the reason.
    """

    name: ClassVar[str] = "losses"
    frame_columns: ClassVar[tuple[str, ...]] = tuple(part.name for part in fields(LossAtBatch))
    losses: Sequence[LossAtBatch]
    devices: Sequence[LossOnDevice]
    left_out: Sequence[str]

    @property
    def own_rows(self) -> Sequence[LossAtBatch]:
        """A row for every recording, device and batch."""
        return self.losses

    def shown(self) -> Iterator[Table | str]:
        """Means over batches of every recording and device, and what was left out."""
        yield Table(
            title="tokens/s lost by a choice that knows less than the recording",
            rows=self.devices,
            columns=[
                "trace",
                "level",
                "recorded_words",
                "device",
                "batches",
                "rates_lost_ratio",
                "rates_worst_ratio",
                "mean_lost_ratio",
                "mean_worst_ratio",
                "mean_worst_batch",
            ],
            caption=(
                "by rates: from acceptance by depth; by mean: from tokens per step at one draft"
                " length; both against the choice from the recording itself, as means over batches"
            ),
        )
        if self.left_out:
            yield f"left out: {'; '.join(self.left_out)}"


def answer(question: TracesLossesQuestion) -> Losses:
    """What choices lose that know less of recordings.

    Raises:
        InputError: a recording that is named and cannot be asked about, or an unknown device.
    """
    named = [trace_file(file) for file in question.files or ()]
    rows: list[LossAtBatch] = []
    left_out: list[str] = []
    for path in named or _shipped():
        try:
            rows += trace_losses(
                trace_source(path),
                devices=names_of(question.device, "--device"),
                tensor_parallel=question.tp,
                engine=question.engine,
                batches=question.batch,
                context=question.context,
                seed=question.seed,
            )
        except InputError as error:
            if named:
                raise
            left_out.append(f"{trace_name(path)} ({error.message})")
    return Losses(
        inputs=inputs_of(question, files=[trace_name(file) for file in named]),
        losses=rows,
        devices=over_batches(rows),
        left_out=left_out,
    )


def _shipped() -> list[Path]:
    """Shipped recordings of drafters: those on GPUs, and of those on CPUs the ones with ranks.

    Repeats of a run say the same again, and timed ones the same of fewer requests.
    """
    first: dict[tuple[str, str], Path] = {}
    for run in gpu_recordings():
        if run.drafts:
            first.setdefault((run.target, run.method), run.path)
    on_gpu = {run.path for run in gpu_recordings()}
    others = {path: read_trace(path) for path in recordings().values() if path not in on_gpu}
    ranked = [path for path, trace in others.items() if trace.level >= 2 and trace.steps is None]
    return [*first.values(), *ranked]


def trace_losses(
    source: Source,
    *,
    devices: Sequence[str],
    tensor_parallel: int = 1,
    engine: str,
    batches: Sequence[int],
    context: int,
    seed: int = 0,
) -> list[LossAtBatch]:
    """What choices lose that know less of one recording, at every device and batch.

    Args:
        source: the recording.
        devices: names.
        tensor_parallel: devices that share the model.
        engine: name.
        batches: requests that decode together.
        context: cached tokens per request.
        seed: of the bootstrap and the split of the requests.

    Raises:
        InputError: a recording whose drafter needs to be named, or whose target is unknown.
    """
    known = known_drafts(source, seed=seed)
    rows = []
    for device in devices:
        where = DeploymentNames(
            model=source.model, device=device, tensor_parallel=tensor_parallel, engine=engine
        )
        question = DecodingConfiguration(deployment=where)
        (drafter,) = competing(question, [source])
        setting = build_setting(drafter_question(question, drafter))
        at_batches = less_known(known, setting, batches=batches, context=context)
        rows += [_row(source, device, batch, choices) for batch, choices in at_batches.items()]
    return rows


def over_batches(rows: Sequence[LossAtBatch]) -> list[LossOnDevice]:
    """Means and worst losses over the batches of every recording and device."""
    groups: dict[tuple[str, str], list[LossAtBatch]] = {}
    for row in rows:
        groups.setdefault((row.trace, row.device), []).append(row)
    return [_summed(group) for group in groups.values()]


def _row(source: Source, device: str, batch: int, choices: Sequence[LessKnown]) -> LossAtBatch:
    assert source.trace is not None
    by = {choice.knows: choice for choice in choices}
    rates = by.get("rates")
    return LossAtBatch(
        trace=source.recorded_as or "",
        level=source.trace.level,
        model=source.model,
        recorded_on=source.trace.provenance.device,
        device=device,
        batch=batch,
        by_trace=str(by["trace"].chosen),
        tokens_per_s=by["trace"].tokens_per_s,
        by_rates=None if rates is None else str(rates.chosen),
        rates_lost_ratio=None if rates is None else rates.lost_ratio,
        by_mean=str(by["mean"].chosen),
        mean_lost_ratio=by["mean"].lost_ratio,
    )


def _summed(rows: Sequence[LossAtBatch]) -> LossOnDevice:
    first = rows[0]
    rates = [row.rates_lost_ratio for row in rows if row.rates_lost_ratio is not None]
    worst = max(rows, key=lambda row: row.mean_lost_ratio)
    return LossOnDevice(
        trace=first.trace,
        level=first.level,
        recorded_on=first.recorded_on,
        device=first.device,
        batches=len(rows),
        rates_lost_ratio=float(np.mean(rates)) if rates else None,
        rates_worst_ratio=max(rates, default=None),
        mean_lost_ratio=float(np.mean([row.mean_lost_ratio for row in rows])),
        mean_worst_ratio=worst.mean_lost_ratio,
        mean_worst_batch=worst.batch,
    )
