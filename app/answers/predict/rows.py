"""What does `predict` answer? A prediction for every batch, context and draft of every cell."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from app.answers.answer import Answer, Column, Row, Table
from app.answers.cells import LISTED, MarkedCell, reason_lines
from app.answers.deployment_words import deployment_words
from app.answers.drafting_cost import DraftingCost
from app.answers.estimates import Interval, KnownAcceptance, Phases, UncertainTerm
from app.answers.explanations import ExplainedStep, Roofs
from app.answers.numbers import LOPSIDED, lopsided
from app.answers.scoring.certainty import Certainty, certainty_lines
from app.answers.sentences import folded
from costmodel.answers.workload import Limits


@dataclass(frozen=True, kw_only=True, slots=True)
class PredictionRow(Row):
    """A configuration at one batch and context; intervals hold 80 %."""

    model: Annotated[str, Column("Target model.")]
    device: Annotated[str, Column("Device.")]
    engine: Annotated[str, Column("Serving engine.")]
    batch: Annotated[int, Column("Requests that decode together.")]
    context: Annotated[int, Column("Cached tokens per request.")]
    draft: Annotated[str, Column("Shape of the drafts, as `--shape` reads it.")]
    draft_tokens: Annotated[int, Column("Draft tokens per request and step.")]
    feasible: Annotated[bool, Column("Whether it can be run.")] = True
    breakdown_s: Annotated[Phases, Column("Where the step's time goes.")]
    tokens_per_step: Annotated[float, Column("Tokens emitted per step.", decimals=2, alone=True)]
    tokens_per_step_interval: Annotated[Interval, Column("Its interval.")]
    proposal_ratio: Annotated[float, Column("Share of steps in which the drafter proposes.")]
    step_s: Annotated[float, Column("Time of a step.", head="step", unit="s", alone=True)]
    step_s_interval: Annotated[Interval, Column("Its interval.")]
    tokens_per_s: Annotated[float, Column("Tokens of all requests.", head="tokens/s")]
    tokens_per_s_interval: Annotated[Interval, Column("Its interval.")]
    speedup: Annotated[float, Column("Against no speculation.", decimals=2)]
    speedup_interval: Annotated[Interval, Column("Its interval.")]
    tpot_s: Annotated[float, Column("Mean time per output token.", "TPOT", "s")]
    memory_bytes: Annotated[float, Column("That each device needs.", unit="bytes")]
    joules_per_token: Annotated[float, Column("Energy of all devices.", "J/token")]
    usd_per_million_tokens: Annotated[
        float | None, Column("Price of the tokens; none where the device has none.", "$/Mtoken")
    ]
    ttft_s: Annotated[
        float | None,
        Column(
            "Of a prompt of the context's length; none where no latency is limited.", "TTFT", "s"
        ),
    ] = None
    meets_limits: Annotated[
        bool | None,
        Column("Whether both are within the limits; none where there are none.", "within limits"),
    ] = None
    limit: Annotated[str, Column("What the step waits for.", head="limited by")]
    rule: Annotated[str | None, Column("How drafts are verified, where it loses quality.")]
    remark: Annotated[str, Column("What has to be said beside the numbers.")]
    dominant_uncertainty: Annotated[
        Sequence[UncertainTerm], Column("The widest terms of the interval, with sources.")
    ]
    topology: Annotated[str | None, Column("Kind of drafts that differ by step.")] = None
    shape: Annotated[Mapping[str, Any] | None, Column("Their policy.")] = None
    stop: Annotated[Mapping[str, Any] | None, Column("The rule that ends them.")] = None
    drafts: Annotated[Mapping[str, float] | None, Column("Their mean sizes.")] = None
    throughput_speedup: Annotated[
        float | None,
        Column("Of whole requests, prompts included.", "of throughput", decimals=2, alone=True),
    ] = None
    throughput_speedup_interval: Annotated[Interval | None, Column("Its interval.")] = None
    mean_prompt_tokens: Annotated[float | None, Column("Mean prompt of these requests.")] = None
    mean_output_tokens: Annotated[float | None, Column("Mean output of these requests.")] = None
    plan: Annotated[Mapping[str, Any] | None, Column("How several devices share it.")] = None
    explain: Annotated[ExplainedStep | None, Column("Every operation of the step.")] = None

    @property
    def phases(
        self,
    ) -> Annotated[
        tuple[float, ...], Column("Phases.", "draft + verify + rest", unit="s", of=("breakdown_s",))
    ]:
        """Times of the phases that tables show."""
        return self.breakdown_s.draft, self.breakdown_s.verify, self.breakdown_s.overhead


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedCell(Row):
    """What a device of a plan does and holds."""

    model: Annotated[str, Column("Target model.")]
    device: Annotated[str, Column("Device.")]
    batch: Annotated[int, Column("Requests of the whole plan.")]
    context: Annotated[int, Column("Cached tokens per request.")]
    draft: Annotated[str, Column("Shape of the drafts.")]
    tokens_per_s_per_device: Annotated[float, Column("Tokens/s.", "tokens/s per device")]
    bytes_per_device: Annotated[
        float, Column("Memory in use.", head="memory per device", unit="bytes", decimals=1)
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class ExplainedOperation(Row):
    """An operation of a step."""

    name: Annotated[str, Column("Its name.", head="operation")]
    seconds: Annotated[float, Column("Time of all its calls.", head="time", unit="s")]
    step_ratio: Annotated[float, Column("Of the step.", "of step", unit="ratio", decimals=1)]
    bound: Annotated[str, Column("What it waits for.", head="waits for")]
    intensity: Annotated[float | None, Column("Operations per byte moved.", head="FLOP/byte")]
    bandwidth_ratio: Annotated[
        float, Column("Of the bandwidth.", "of bandwidth", unit="ratio", decimals=0)
    ]
    compute_ratio: Annotated[float, Column("Of the peak.", "of peak", unit="ratio", decimals=1)]


@dataclass(frozen=True, kw_only=True)
class Predictions(Answer):
    """The answer of `predict`.

    Attributes:
        acceptance: where tokens per step come from; None where nothing is drafted.
        baseline: what speedups are against, in words.
        predictions: a row for every cell, in the order of models, devices and engines, contexts,
            batches and drafts.
        drafting_costs: what the longest draft costs beside time, of every model, device and engine
            that can be run; at the first batch and context.
        how_sure: an entry for every model, device and engine that can be run.
        remarks: sentences about the acceptance, which are shown and stand in `acceptance`.
        roofs: of the first device, for the page of explanations.
        limits: of latency that rows are compared with.
    """

    name: ClassVar[str] = "predictions"
    unwritten: ClassVar[tuple[str, ...]] = ("remarks", "roofs", "limits")
    acceptance: KnownAcceptance | None
    baseline: str
    predictions: Sequence[PredictionRow | MarkedCell]
    drafting_costs: Sequence[DraftingCost]
    how_sure: Sequence[Certainty]
    remarks: Sequence[str]
    roofs: Roofs
    limits: Limits

    @property
    def own_rows(self) -> Sequence[PredictionRow | MarkedCell]:
        """The predictions."""
        return self.predictions

    def shown(self) -> Iterator[Table | str]:
        """The predictions, what belongs to their numbers, and why cells cannot be run."""
        inputs = self.inputs
        able = [row for row in self.predictions if isinstance(row, PredictionRow)]
        names = [name for name in LISTED if "," in inputs[name]]
        yield Table(
            title=", ".join((deployment_words(inputs), inputs["method"], *inputs["transform"])),
            rows=self.predictions,
            columns=[
                *names,
                "batch",
                "context",
                "draft",
                "tokens_per_step",
                "step_s",
                *([] if names or self.limits.limited else ["phases"]),
                "tokens_per_s",
                "speedup",
                "throughput_speedup",
                *(["tpot_s", "ttft_s", "meets_limits"] if self.limits.limited else ["limit"]),
            ],
            caption=f"speedup against {self.baseline}; brackets: 80 % intervals",
            once=[*names, "batch", "context", "draft"],
            kind=PredictionRow,
        )
        if any(row.throughput_speedup is not None for row in able):
            yield (
                "speedup: of a step, at the same batch and context; of throughput: of whole"
                " requests at that batch, prompts included, as benchmarks of engines measure it"
            )
        if any(lopsided(row.tokens_per_s, row.tokens_per_s_interval) for row in able):
            yield LOPSIDED
        if self.limits.limited:
            yield folded(
                f"limits: {self.limits.words}; TTFT is that of a prompt as long as the context,"
                " processed alone"
            )
        if inputs["borrowed"] and not any("borrowed" in remark for remark in self.remarks):
            yield "acceptance borrowed: it is that of another model"
        yield from map(folded, dict.fromkeys(row.remark for row in able if row.remark))
        yield from reason_lines([r for r in self.predictions if isinstance(r, MarkedCell)], names)
        if able and able[0].plan is not None:
            yield _plans(able)
        for row in able:
            if row.explain is not None:
                yield from _explained(row, row.explain)
        if len(self.how_sure) == 1:
            yield from (folded(cost.words) for cost in self.drafting_costs)
        yield from map(folded, self.remarks)
        yield from certainty_lines(self.how_sure, explain=inputs["explain"])


def _plans(rows: Sequence[PredictionRow]) -> Table:
    first = rows[0].plan or {}
    sizes = ", ".join(
        f"{name} {first[name]}" for name in ("tp", "pp", "ep", "dp", "cp") if first[name] > 1
    )
    cells = [
        PlannedCell(
            model=row.model,
            device=row.device,
            batch=row.batch,
            context=row.context,
            draft=row.draft,
            tokens_per_s_per_device=row.plan["tokens_per_s_per_device"],
            bytes_per_device=row.plan["bytes_per_device"],
        )
        for row in rows
        if row.plan is not None
    ]
    return Table(
        title=f"the plan of these predictions: {sizes}, {first['devices']} devices",
        rows=cells,
        columns=[
            "model",
            "device",
            "batch",
            "context",
            "draft",
            "tokens_per_s_per_device",
            "bytes_per_device",
        ],
        once=["model", "device", "context"],
    )


def _explained(row: PredictionRow, explained: ExplainedStep) -> Iterator[Table | str]:
    total = sum(operation.seconds for operation in explained.operations)
    yield Table(
        title=f"batch {row.batch}, context {row.context}, {row.draft}: where the time goes",
        rows=[
            ExplainedOperation(
                name=operation.name,
                seconds=operation.seconds,
                step_ratio=operation.seconds / total,
                bound=operation.bound,
                intensity=operation.intensity_flops_per_byte or None,
                bandwidth_ratio=operation.bandwidth_ratio,
                compute_ratio=operation.compute_ratio,
            )
            for operation in explained.operations
        ],
        columns=[
            "name",
            "seconds",
            "step_ratio",
            "bound",
            "intensity",
            "bandwidth_ratio",
            "compute_ratio",
        ],
    )
    moved = "; ".join(
        f"{e.lever} {e.tokens_per_s:+.2f} % tokens/s, {e.speedup:+.2f} % speedup"
        for e in explained.elasticities
    )
    yield f"what 1 % more of each changes: {moved}"
    yield f"most of the interval comes from {' and '.join(explained.dominant_variance)}"
    yield explained.sentence


@dataclass(frozen=True, kw_only=True, slots=True)
class ServedRow(Row):
    """A row of a table of serving runs, answered."""

    id: Annotated[str, Column("Of the row.")]
    ttft_ms: Annotated[float | None, Column("Time to the first token, ms.", "TTFT ms")]
    tpot_ms: Annotated[float | None, Column("Time per output token, ms.", "TPOT ms")]
    ttft_ms_interval: Annotated[Interval | None, Column("Its interval.")]
    tpot_ms_interval: Annotated[Interval | None, Column("Its interval.")]
    reason: Annotated[str | None, Column("Why it has no answer.")]


@dataclass(frozen=True, kw_only=True)
class ServedRows(Answer):
    """The answer of `predict --table`: times to first and per output token of every row."""

    name: ClassVar[str] = "rows"
    rows: Sequence[ServedRow]

    @property
    def own_rows(self) -> Sequence[ServedRow]:
        """The rows of the table."""
        return self.rows

    def shown(self) -> Iterator[Table | str]:
        """The rows, with how many of them have no answer."""
        unanswered = sum(row.reason is not None for row in self.rows)
        yield Table(
            title=str(self.inputs["table"]).rpartition("/")[2],
            rows=self.rows,
            columns=["id", "ttft_ms", "tpot_ms", "reason"],
            caption=(
                f"brackets: 80 % intervals; {unanswered} of {len(self.rows)} rows without an answer"
            ),
        )
