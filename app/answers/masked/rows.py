"""What does `optimize` answer about masked blocks? Every policy with its speed and its agreement."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from app.answers.answer import Answer, Column, Row, Table, require_run
from app.answers.breakeven.rows import Interval, TwinPayingRow
from app.answers.cells import LISTED, MarkedCell, several

_BEST = 3  # policies shown at a batch and context beside the Pareto front


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskedPolicy(Row):
    """A policy of masked decoding at one batch and context; without a speed where it has a reason.

    The interval of its pace reaches over states that hold less and more, that of its agreement over
    prompts.
    """

    model: Annotated[str, Column("Target model.")]
    device: Annotated[str, Column("Device.")]
    engine: Annotated[str, Column("Serving engine.")]
    feasible: Annotated[bool, Column("Whether it can be run.")]
    batch: Annotated[int, Column("Requests that decode together.")]
    context: Annotated[int, Column("Cached tokens per request before the canvas.")]
    method: Annotated[str, Column("Decoding method.")]
    topology: Annotated[str, Column("What a pass computes.")] = "block"
    policy: Annotated[str, Column("Name of the policy.")]
    commit: Annotated[str, Column("Rule by which a pass commits tokens.")]
    at: Annotated[Mapping[str, float], Column("Thresholds of the rule.")]
    block_tokens: Annotated[int, Column("Tokens of a block.", "block")]
    cache: Annotated[str, Column("What later passes of a block read: none, prefix or dual.")]
    reason: Annotated[str | None, Column("Why it has no answer.")]
    tokens_per_step: Annotated[
        float | None, Column("Tokens that a pass commits.", "tokens per pass", decimals=2)
    ] = None
    tokens_per_step_interval: Annotated[Interval | None, Column("Its bounds.")] = None
    how: Annotated[str | None, Column("How the recording was replayed.")] = None
    beyond_anchors: Annotated[
        bool | None, Column("Whether it commits more boldly than anything recorded.")
    ] = None
    agreement: Annotated[
        float | None, Column("Share of tokens that one token a pass puts there.", decimals=3)
    ]
    agreement_interval: Annotated[Interval | None, Column("Its 80 % interval.")]
    meets_floor: Annotated[bool | None, Column("Whether it agrees as much as asked.")] = None
    on_front: Annotated[bool | None, Column("Whether none as fast agrees more.")] = None
    step_s: Annotated[float | None, Column("Mean time of a pass.", unit="s")] = None
    tokens_per_s: Annotated[float | None, Column("Of all requests.", "tokens/s")] = None
    twin_tokens_per_s: Annotated[
        float | None, Column("Of the same model, one token a pass with a KV cache.")
    ] = None
    speedup: Annotated[float | None, Column("Over the twin.", "twin", decimals=2, alone=True)] = (
        None
    )

    @property
    def rule(self) -> Annotated[str, Column("Rule and thresholds.", of=("commit", "at"))]:
        """The commit rule with its thresholds, whose only one needs no name."""
        values = [
            f"{value:g}" if len(self.at) == 1 else f"{key} {value:g}"
            for key, value in self.at.items()
        ]
        return f"{self.commit} {', '.join(values)}"

    @property
    def marks(
        self,
    ) -> Annotated[
        str,
        Column("What sets it apart.", "mark", of=("on_front", "meets_floor", "beyond_anchors")),
    ]:
        """What sets the policy apart from others at its batch and context."""
        marks = (
            (self.on_front, "front"),
            (not self.meets_floor, "below the floor"),
            (self.beyond_anchors, "bolder than recorded"),
        )
        return ", ".join(words for holds, words in marks if holds)


@dataclass(frozen=True, kw_only=True, slots=True)
class PricedPolicy(MaskedPolicy):
    """A policy that is chosen or on the front: with the cost model's intervals and what to run."""

    step_s_interval: Annotated[Interval, Column("Its 80 % interval.")]
    tokens_per_s_interval: Annotated[Interval, Column("Its 80 % interval.")]
    speedup_interval: Annotated[Interval, Column("Its 80 % interval.")]
    limit: Annotated[str, Column("What a pass waits for.", "limited by")]
    needed_tokens_per_step: Annotated[
        float | None, Column("Tokens a pass that equal the twin; None: no pace does.")
    ]
    needed_tokens_per_step_interval: Annotated[Interval | None, Column("Its 80 % interval.")]
    configuration: Annotated[Mapping[str, Any], Column("What verbs read by `--config`.")]

    @property
    def twin_words(self) -> str:
        """From which pace it beats the model decoded token by token, and whether it does."""
        where = f"batch {self.batch:,}, context {self.context:,}"
        twin = f"one token a pass with a KV cache ({self.twin_tokens_per_s:,.0f} tokens/s)"
        if self.needed_tokens_per_step is None or self.needed_tokens_per_step_interval is None:
            return f"{where}: no pace beats {twin}"
        verdict = "wins" if self.speedup is not None and self.speedup > 1.0 else "loses"
        low, high = self.needed_tokens_per_step_interval
        return (
            f"{where}: needs {self.needed_tokens_per_step:.2f} [{low:.2f}–{high:.2f}] tokens per"
            f" pass to equal {twin}; has {self.tokens_per_step:.2f} and {verdict}"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class UnmetFloor(MarkedCell):
    """A batch and context at which no policy meets the floor or can be run."""

    @property
    def mark(self) -> str:
        """The reason, which the table says in place of numbers."""
        return self.reason


@dataclass(frozen=True, kw_only=True, slots=True)
class PayingPolicy(TwinPayingRow):
    """At which batches a chosen policy beats the model decoded token by token."""

    policy: Annotated[str, Column("Name of the policy.")]
    tokens_per_step: Annotated[float, Column("Tokens that a pass commits.")]

    @property
    def where(self) -> str:
        """The policy and the context."""
        return f"{self.policy}, context {self.context:,}"


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskedQuality(Row):
    """What quality means, and on what it was counted."""

    floor: Annotated[float, Column("Least agreement with one token a pass.")]
    definition: Annotated[str, Column("What agreement is.")]
    remark: Annotated[str, Column("What to think of it.")]
    prompts: Annotated[Mapping[str, int], Column("Prompts by the cache of their recording.")]
    canvas_tokens: Annotated[int, Column("Tokens that are refined.")]
    policies: Annotated[int, Column("Policies that were searched.")]

    @property
    def words(self) -> str:
        """All of it as a sentence."""
        prompts = ", ".join(
            f"{count} prompts (cache {cache})" for cache, count in self.prompts.items()
        )
        return f"{self.definition}; {prompts}, canvas of {self.canvas_tokens} tokens; {self.remark}"


@dataclass(frozen=True, kw_only=True)
class MaskedPolicies(Answer):
    """The answer of `optimize` for a method that refines masked blocks.

    Attributes:
        quality: what it means.
        choices: the fastest policy that meets the floor, at every batch and context.
        alternatives: all other policies; those on the Pareto front are priced too.
        unmet: batches and contexts at which nothing meets the floor.
        pays: at which batches chosen policies beat the model decoded token by token.
        schedules: none; verbs that read choices look for them.
    """

    name: ClassVar[str] = "recommendation"
    quality: MaskedQuality
    choices: Sequence[PricedPolicy]
    alternatives: Sequence[MaskedPolicy]
    unmet: Sequence[UnmetFloor]
    pays: Sequence[PayingPolicy]
    schedules: Sequence[Mapping[str, Any]] = ()

    @property
    def own_rows(self) -> Sequence[MaskedPolicy | UnmetFloor]:
        """The choices, all other policies, and where nothing is chosen."""
        return [*self.choices, *self.alternatives, *self.unmet]

    @property
    def best_rows(self) -> list[MaskedPolicy | UnmetFloor]:
        """At every batch and context the fastest policies that meet the floor, and the front."""
        rows: list[MaskedPolicy | UnmetFloor] = []
        for place in dict.fromkeys(_place(row) for row in self.own_rows):
            policies = [
                row
                for row in (*self.choices, *self.alternatives)
                if _place(row) == place and row.feasible
            ]
            best = [row for row in policies if row.meets_floor][:_BEST]
            front = [row for row in policies if row.on_front and row not in best]
            rows += [*best, *sorted(front, key=lambda row: -(row.agreement or 0.0))]
            rows += [row for row in self.unmet if _place(row) == place]
        return rows

    @property
    def twin_lines(self) -> list[str]:
        """From which pace, and at which batches, the choices beat the twin."""
        return [row.twin_words for row in self.choices] + [row.words for row in self.pays]

    @property
    def marked_lines(self) -> list[str]:
        """Reasons of the policies that have no answer, with how many they are."""
        reasons: dict[str, set[str]] = {}
        for row in self.alternatives:
            if not row.feasible and row.reason is not None:
                reasons.setdefault(row.reason, set()).add(row.policy)
        return [f"{len(names)} of the policies: {reason}" for reason, names in reasons.items()]

    def shown(self) -> Iterator[Table | str]:
        """The best policies, what quality means, when the twin is beaten, and what has no answer."""
        inputs, quality = self.inputs, self.quality
        names = [name for name in LISTED if "," in str(inputs[name])]
        title = " on ".join(several(str(inputs[name]), name) for name in ("model", "device"))
        yield Table(
            title=(
                f"{title}, {inputs['method']}: {quality.policies} policies, floor"
                f" {quality.floor:.1%}"
            ),
            rows=self.best_rows,
            columns=[
                *names,
                "batch",
                "context",
                "rule",
                "block_tokens",
                "cache",
                "tokens_per_step",
                "agreement",
                "tokens_per_s",
                "speedup",
                "marks",
            ],
            caption=(
                "brackets: of a pace by states that hold less and more, of agreement over prompts,"
                " of speeds the cost model"
            ),
            once=[*names, "batch", "context"],
            kind=MaskedPolicy,
        )
        yield f"agreement: {quality.words}"
        yield "twin: tokens/s over those of the same model decoded one token a pass with a KV cache"
        yield from self.twin_lines
        yield from self.marked_lines

    def documents(self) -> Mapping[str, Mapping[str, Any]]:
        """The first choice as a configuration."""
        return {"configuration.json": self.choices[0].configuration} if self.choices else {}

    def require(self) -> None:
        """End where no policy is chosen at any batch and context.

        Raises:
            InfeasibleError: the first reason.
        """
        require_run([*self.choices, *self.unmet])


def _place(row: MaskedPolicy | UnmetFloor) -> tuple[str, str, str, int | None, int | None]:
    return row.model, row.device, row.engine, row.context, row.batch
