"""What does `breakeven` answer? A point for every batch, context and draft, and the batches that pay."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from app.answers.answer import Answer, Column, Row, Table
from app.answers.breakeven.curves import CurvePoint, CurveRow
from app.answers.cells import LISTED, MarkedCell, reason_lines
from app.answers.deployment_words import deployment_words
from app.answers.estimates import KnownAcceptance
from app.answers.numbers import ranged

Interval = Sequence[float]


@dataclass(frozen=True, kw_only=True, slots=True)
class BreakEvenRow(Row):
    """Where a method equals plain decoding at one batch and context."""

    model: Annotated[str, Column("Target model.")]
    device: Annotated[str, Column("Device.")]
    engine: Annotated[str, Column("Serving engine.")]
    feasible: Annotated[bool, Column("Whether it can be run.")] = True
    batch: Annotated[int, Column("Requests that decode together.")]
    context: Annotated[int, Column("Cached tokens per request, before a canvas.")]
    draft_tokens: Annotated[
        int | None, Column("Draft tokens per request and step; None of masked blocks.", "K")
    ]
    verdict: Annotated[str, Column("`always`, `never`, or `on` from the least tokens per step.")]
    least_tokens_per_step: Annotated[
        float | None, Column("From which it pays.", "needed tokens/step", decimals=2)
    ]
    least_tokens_per_step_interval: Annotated[Interval | None, Column("Its interval.")]
    most_tokens_per_step: Annotated[float, Column("That a step can emit.")]
    tokens_per_step: Annotated[
        float | None, Column("Emitted per step.", "tokens/step", decimals=2)
    ] = None
    speedup: Annotated[float | None, Column("Against plain decoding.", decimals=2)] = None
    speedup_interval: Annotated[Interval | None, Column("Its interval.")] = None
    pays: Annotated[bool | None, Column("Whether it is faster than plain decoding.")] = None


@dataclass(frozen=True, kw_only=True, slots=True)
class BreakEvenPoint(BreakEvenRow):
    """The break-even of a draft; ratios are to a plain pass."""

    least_acceptance: Annotated[float | None, Column("Rate of one token from which it pays.")]
    least_acceptance_interval: Annotated[Interval | None, Column("Its interval.")]
    draft_s: Annotated[float, Column("Of all draft passes of a step.", head="draft", unit="s")]
    draft_ratio: Annotated[float, Column("The same, in plain passes.")]
    target_pass_s: Annotated[float, Column("A plain pass.", unit="s")]
    greatest_draft_s: Annotated[float | None, Column("To which it pays.", unit="s")] = None
    greatest_draft_s_interval: Annotated[Interval | None, Column("Its interval.")] = None
    greatest_draft_ratio: Annotated[float | None, Column("The same, in plain passes.")] = None
    greatest_draft_verdict: Annotated[str | None, Column("`never`, or `up to` it.")] = None

    @property
    def needed_acceptance(
        self,
    ) -> Annotated[str, Column("Least rate of one token.", of=("least_acceptance",))]:
        """The least acceptance, or that any or none is enough; empty where the tokens say all."""
        if self.verdict == "always":
            return "always"
        if self.verdict == "never":
            return f"never ({self.most_tokens_per_step:.2f} at most)"
        if self.least_acceptance is None:
            return ""
        return ranged(self.least_acceptance, self.least_acceptance_interval, 2)

    @property
    def draft_at_most(
        self,
    ) -> Annotated[
        float | str | None, Column("To which it pays.", unit="s", of=("greatest_draft_s",))
    ]:
        """The greatest draft cost at which it pays."""
        return "none" if self.greatest_draft_verdict == "never" else self.greatest_draft_s


@dataclass(frozen=True, kw_only=True, slots=True)
class RefiningPoint(BreakEvenRow):
    """The break-even of masked blocks, whose plain decoding is that of the same model, or of another
    one that is named, token by token.
    """

    block_tokens: Annotated[int, Column("Tokens of a block.")]
    twin_tokens_per_s: Annotated[float, Column("The twin, one token a pass.", "twin tokens/s")]
    tokens_per_s: Annotated[float | None, Column("Of all requests.", "tokens/s")] = None

    @property
    def needed(
        self,
    ) -> Annotated[str, Column("Least pace.", "needed tokens/pass", of=("least_tokens_per_step",))]:
        """The least pace, or that none is enough."""
        if self.least_tokens_per_step is None:
            return f"never ({self.most_tokens_per_step:g} at most)"
        return ranged(self.least_tokens_per_step, self.least_tokens_per_step_interval, 2)


@dataclass(frozen=True, kw_only=True, slots=True)
class PayingRow(Row):
    """At which batches a method pays at one context."""

    model: Annotated[str, Column("Target model.")]
    device: Annotated[str, Column("Device.")]
    engine: Annotated[str, Column("Serving engine.")]
    context: Annotated[int, Column("Cached tokens per request.")]
    draft_tokens: Annotated[int, Column("Draft tokens per request and step.")]
    verdict: Annotated[str, Column("`always`, `never`, or `up to` the last batch.")]
    largest_batch: Annotated[int, Column("Largest batch that was tried.")]
    ranges: Annotated[Sequence[Sequence[int]], Column("First and last batch of every range.")]
    last_batch: Annotated[int, Column("After which it pays no more.")]
    last_batch_interval: Annotated[Sequence[int], Column("Its interval.")]

    @property
    def words(self) -> str:
        """The row as a sentence."""
        where = f"K={self.draft_tokens}, context {self.context}"
        low, high = self.last_batch_interval
        if self.verdict == "never":
            maybe = f" (it may up to batch {high})" if high else ""
            return f"{where}: never pays, at no batch to {self.largest_batch}{maybe}"
        if self.verdict == "always":
            maybe = f" (it may stop after batch {low})" if low < self.largest_batch else ""
            return (
                f"{where}: always pays, at every batch to {self.largest_batch}, the largest"
                f" tried{maybe}"
            )
        ranges = ", ".join(f"{a}-{b}" if b > a else str(a) for a, b in self.ranges)
        last = f"{self.last_batch} [{low}, {high}]"
        return f"{where}: pays at batch {ranges}; stops after {last}"


@dataclass(frozen=True, kw_only=True, slots=True)
class TwinPayingRow(PayingRow):
    """At which batches masked blocks beat the twin decoded token by token."""

    draft_tokens: Annotated[int, Column("Masked blocks draft nothing.")] = 0

    @property
    def where(self) -> str:
        """The context."""
        return f"context {self.context:,}"

    @property
    def words(self) -> str:
        """The row as a sentence."""
        if self.verdict == "never":
            return f"{self.where}: beats the twin at no batch to {self.largest_batch:,}"
        if self.verdict == "always":
            return (
                f"{self.where}: beats the twin at every batch to {self.largest_batch:,}, the"
                " largest that fits"
            )
        ranges = ", ".join(
            f"{low:,}-{high:,}" if high > low else f"{low:,}" for low, high in self.ranges
        )
        return f"{self.where}: beats the twin at batch {ranges}"


@dataclass(frozen=True, kw_only=True)
class BreakEvens(Answer):
    """When a method pays.

    Attributes:
        points: a row for every draft, context and batch of every cell.
        acceptance: where tokens per step come from, where they are known.
        batches: at which batches it pays, where tokens per step are known.
        curves: the speedup over acceptance and bandwidth, where they were asked for.
        remarks: sentences about the acceptance.
        is_masked: it refines masked blocks.
        against: model that masked blocks are compared with; empty: their own.
    """

    name: ClassVar[str] = "breakeven"
    unwritten: ClassVar[tuple[str, ...]] = ("remarks", "is_masked", "against")
    points: Sequence[BreakEvenRow | MarkedCell]
    acceptance: KnownAcceptance | None = None
    batches: Sequence[PayingRow] | None = None
    curves: Sequence[CurveRow] | None = None
    remarks: Sequence[str]
    is_masked: bool
    against: str = ""

    @property
    def own_rows(self) -> Sequence[BreakEvenRow | MarkedCell | CurvePoint]:
        """The points, or those of the curves where they were asked for and there are any."""
        return [point for curve in self.curves or () for point in curve.rows()] or self.points

    def shown(self) -> Iterator[Table | str]:
        """The points, the batches that pay, and why cells cannot be run."""
        names = [name for name in LISTED if "," in self.inputs[name]]
        yield self._pace_table(names) if self.is_masked else self._draft_table(names)
        if self.is_masked:
            yield f"twin: {twin_words(self.against)}"
        for row in self.batches or ():
            yield _named(row, names)
        for curve in self.curves or ():
            yield _named(curve, names)
        yield from reason_lines([p for p in self.points if isinstance(p, MarkedCell)], names)
        if self.acceptance is not None and (remark := self.acceptance.remark):
            yield remark
        yield from self.remarks

    def _draft_table(self, names: Sequence[str]) -> Table:
        return Table(
            title=f"{_where(self.inputs)}: when does it pay?",
            rows=self.points,
            columns=[
                *names,
                "batch",
                "context",
                "draft_tokens",
                "least_tokens_per_step",
                "needed_acceptance",
                "draft_s",
                "tokens_per_step",
                "speedup",
                "draft_at_most",
            ],
            heads={}
            if self.acceptance is None
            else {"tokens_per_step": f"{self.acceptance.kind} tokens/step"},
            caption="brackets: 80 % intervals",
            once=[*names, "context", "draft_tokens"],
            mark="needed_acceptance",
            kind=BreakEvenPoint,
        )

    def _pace_table(self, names: Sequence[str]) -> Table:
        return Table(
            title=f"{_where(self.inputs)}: when does it beat {self.against or 'one token a pass'}?",
            rows=self.points,
            columns=[
                *names,
                "batch",
                "context",
                "needed",
                "twin_tokens_per_s",
                "tokens_per_step",
                "speedup",
            ],
            caption="brackets: 80 % intervals of the cost model",
            once=[*names, "context"],
            mark="needed",
            kind=RefiningPoint,
            heads={"tokens_per_step": "tokens/pass"},
        )


def twin_words(against: str) -> str:
    """What masked blocks are compared with.

    Args:
        against: another model by name; empty: the same one.
    """
    if against:
        return f"{against} decoded token by token; its tokens may hold another amount of text"
    return "the same model decoded one token a pass with a KV cache"


def _where(inputs: Mapping[str, Any]) -> str:
    return f"{deployment_words(inputs)}, {inputs['method']}"


def _named(row: PayingRow | CurveRow, names: Sequence[str]) -> str:
    """A row as a sentence after the names that tell cells apart."""
    words = f"{row.where}: {row.words}" if isinstance(row, CurveRow) else row.words
    return ": ".join([*filter(None, [", ".join(getattr(row, n) for n in names)]), words])
