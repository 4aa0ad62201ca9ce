"""What does `replay` answer? A row for every draft, or every policy on halves of the requests."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from app.answers.answer import Answer, Column, Row, Table
from app.answers.drafting import MeanDrafts
from costmodel.method import Shape, Stop

Interval = tuple[float, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayedDraft(Row):
    """What a draft emits on a recording; counters tell neither steps nor an interval."""

    draft: Annotated[str, Column("Shape of the drafts, as `--shape` reads it.")]
    tree: Annotated[str | None, Column("File of a static tree.")] = None
    depth: Annotated[int | None, Column("Levels of a static tree, root excluded.")] = None
    draft_tokens: Annotated[int, Column("Draft tokens per request and step.")]
    tokens_per_step: Annotated[
        float,
        Column(
            "Tokens emitted per step.",
            "tokens/step",
            decimals=3,
            of=("tokens_per_step", "interval"),
        ),
    ]
    interval: Annotated[Interval | None, Column("80 % interval of the tokens per step.")]
    tokens: Annotated[int | None, Column("Tokens that steps emit, over all requests.")]
    steps: Annotated[
        float | None, Column("Steps over all requests; their expectation where drafts are sampled.")
    ]
    proposal_ratio: Annotated[float, Column("Share of steps in which the drafter proposes.")]
    rule: Annotated[str, Column("Rule that decides which draft tokens stay.", "verifier")]
    remark: Annotated[str, Column("What has to be said beside the numbers.")]
    topology: Annotated[str | None, Column("Kind of drafts that differ by step.")] = None
    shape: Annotated[Shape | None, Column("Their policy.")] = None
    stop: Annotated[Stop | None, Column("The rule that ends them.")] = None
    drafts: Annotated[MeanDrafts | None, Column("Their mean sizes.")] = None

    @property
    def configuration(
        self,
    ) -> Annotated[
        str, Column("The draft; a tree by its file.", of=("configuration", "draft_tokens"))
    ]:
        """The draft, or the file of a tree with its size."""
        return self.draft if self.tree is None else f"{self.tree} ({self.draft_tokens})"

    @property
    def tokens_per_step_interval(self) -> Interval | None:
        """The interval, where tables look for it."""
        return self.interval

    @property
    def proposals(
        self,
    ) -> Annotated[
        str, Column("Steps with a draft.", "steps with a proposal", of=("proposal_ratio",))
    ]:
        """The share of steps with a proposal in percent."""
        return f"{self.proposal_ratio:.1%}"


@dataclass(frozen=True, kw_only=True, slots=True)
class StepOracle(Row):
    """What no rule can exceed that chooses a draft at every step."""

    draft: Annotated[str, Column("What may be drafted.")]
    levels: Annotated[int, Column("Levels of the deepest draft.")]
    tokens_per_step: Annotated[float, Column("Tokens emitted per step.", decimals=3)]
    tokens: Annotated[int, Column("Tokens that steps emit, over all requests.")]
    steps: Annotated[int, Column("Steps over all requests.")]

    @property
    def configuration(self) -> str:
        """What may be drafted, where tables look for it."""
        return self.draft


@dataclass(frozen=True, kw_only=True)
class ReplayedDrafts(Answer):
    """The answer of `replay`.

    Attributes:
        chains: a row for every draft length.
        trees: a row for every static tree.
        varying: a row for every draft of `--shape`, and every chain that `--stop` ends.
        oracles: bounds for any rule, where the verifier matches tokens.
    """

    name: ClassVar[str] = "replay"
    chains: Sequence[ReplayedDraft]
    trees: Sequence[ReplayedDraft]
    varying: Sequence[ReplayedDraft]
    oracles: Sequence[StepOracle]

    @property
    def own_rows(self) -> Sequence[ReplayedDraft]:
        """The chains, the trees, and the drafts that differ from step to step."""
        return [*self.chains, *self.trees, *self.varying]

    def shown(self) -> Iterator[Table | str]:
        """All drafts with the oracles, and what belongs to their numbers."""
        yield Table(
            title=str(self.inputs["trace"]),
            rows=[*self.own_rows, *self.oracles],
            columns=["configuration", "tokens_per_step", "tokens", "steps", "proposals", "rule"],
            caption="brackets: 80 % intervals",
        )
        yield from dict.fromkeys(row.remark for row in self.own_rows if row.remark)


@dataclass(frozen=True, kw_only=True, slots=True)
class HalvesOfDraft(Row):
    """On how many halves a policy ran a draft."""

    draft: Annotated[str, Column("Shape of the drafts, as `--shape` reads it.")]
    halves: Annotated[int, Column("Halves on which it ran.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldOutPolicy(Row):
    """What a policy does at one batch on the requests that it did not see."""

    batch: Annotated[int, Column("Requests that decode together.")]
    policy: Annotated[str, Column("Name of the policy.", of=("batch", "policy"))]
    source: Annotated[str | None, Column("Where the policy was published.")]
    drafts: Annotated[Sequence[HalvesOfDraft], Column("What it ran, the most frequent first.")]
    tokens_per_step: Annotated[float, Column("Emitted per step.", "tokens/step", decimals=3)]
    tokens_per_s: Annotated[float, Column("Of the batch.", "tokens/s", decimals=0)]
    tokens_per_s_interval: Annotated[Interval, Column("Its 80 % interval.")]
    schedule_gain_ratio: Annotated[
        float | None,
        Column(
            "Tokens/s of one chain or static tree for the batch over its own, less 1; below 0: the"
            " one shape loses."
        ),
    ]
    schedule_gain_interval: Annotated[Interval | None, Column("Its 80 % interval.")]

    @property
    def chooses_by_step(self) -> bool:
        """Whether it is published, and what is verified differs from step to step."""
        return self.source is not None and any("+" in run.draft for run in self.drafts)

    @property
    def one_shape(self) -> Annotated[str, Column("That gain in percent.", "one shape")]:
        """The gain of one shape for the batch in percent; empty where it is that shape."""
        return "" if self.schedule_gain_ratio is None else f"{self.schedule_gain_ratio:+.1%}"

    @property
    def runs(self) -> Annotated[str, Column("What the policy ran.", "what it runs")]:
        """The drafts, with on how many halves where they differ."""
        if len(self.drafts) == 1:
            return self.drafts[0].draft
        words = [f"{run.draft} ({run.halves})" for run in self.drafts[:3]]
        more = len(self.drafts) - 3
        return ", ".join(words) + (f", {more} more" if more > 0 else "")


@dataclass(frozen=True, kw_only=True, slots=True)
class OracleSpeeds(Row):
    """Tokens per second of who knows what will be accepted; None where one length was recorded."""

    per_step_tokens_per_s: Annotated[float | None, Column("With the best length at every step.")]
    per_request_tokens_per_s: Annotated[
        float | None, Column("With the best length for every request.")
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class OracleLine(Row):
    """An oracle as the table of policies shows it."""

    policy: Annotated[str, Column("What is known.")]
    tokens_per_s: Annotated[float, Column("Of the batch.", decimals=0)]


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldOutBatch(Row):
    """Policies at one batch, and by how much ours is faster."""

    method: Annotated[str, Column("Decoding method.")]
    model: Annotated[str, Column("Target model.")]
    batch: Annotated[int, Column("Requests that decode together.")]
    context: Annotated[int, Column("Cached tokens per request.")]
    policies: Annotated[
        Sequence[HeldOutPolicy],
        Column("Ours first, then one shape for the batch, then the fastest first."),
    ]
    best_published: Annotated[str, Column("The policy that does best over all halves.")]
    gain_ratio: Annotated[float, Column("Tokens/s of ours over the best one's, less 1.")]
    gain_interval: Annotated[Interval, Column("Its 80 % interval.")]
    half_gain_ratio: Annotated[float, Column("The same against the best of each half.")]
    halves: Annotated[int, Column("Halves of the requests that were run.")]
    oracle: Annotated[OracleSpeeds, Column("What nothing can exceed.")]

    @property
    def lines(self) -> list[HeldOutPolicy | OracleLine]:
        """The policies, and below them the oracles."""
        bounds = (
            ("request", self.oracle.per_request_tokens_per_s),
            ("step", self.oracle.per_step_tokens_per_s),
        )
        oracles = [
            OracleLine(policy=f"oracle: the best length for every {unit}", tokens_per_s=speed)
            for unit, speed in bounds
            if speed is not None
        ]
        return [*self.policies, *oracles]

    @property
    def words(self) -> str:
        """By how much ours is faster, as a sentence."""
        low, high = self.gain_interval
        return (
            f"rooftree against {self.best_published}, the best other over all halves:"
            f" {self.gain_ratio:+.1%} [{low:+.1%}, {high:+.1%}]; against the best of each half:"
            f" {self.half_gain_ratio:+.1%}"
        )

    @property
    def schedule_words(self) -> str:
        """One shape for the batch beside who chooses at every step, as a sentence; empty where
        neither is there.
        """
        choosing = [policy for policy in self.policies if policy.chooses_by_step]
        if not choosing or choosing[0].schedule_gain_ratio is None:
            return ""
        best = max(choosing, key=lambda policy: policy.tokens_per_s)
        assert best.schedule_gain_ratio is not None and best.schedule_gain_interval is not None
        low, high = best.schedule_gain_interval
        return (
            f"one shape for the batch against {best.policy}, the best that chooses at every step:"
            f" {best.schedule_gain_ratio:+.1%} [{low:+.1%}, {high:+.1%}]"
        )


@dataclass(frozen=True, kw_only=True)
class HeldOutPolicies(Answer):
    """The answer of `replay --held-out`.

    Attributes:
        held_out: policies at every batch.
    """

    name: ClassVar[str] = "replay"
    held_out: Sequence[HeldOutBatch]

    @property
    def own_rows(self) -> Sequence[HeldOutPolicy]:
        """The policies at every batch."""
        return [policy for row in self.held_out for policy in row.policies]

    def shown(self) -> Iterator[Table | str]:
        """The policies at every batch with the oracles, and by how much ours is faster."""
        for row in self.held_out:
            yield Table(
                title=(
                    f"batch {row.batch}, {row.method} for {row.model} on {self.inputs['device']}"
                ),
                rows=row.lines,
                columns=["policy", "runs", "tokens_per_step", "tokens_per_s", "one_shape"],
                caption="brackets: 80 % intervals",
            )
            yield row.words
            if row.schedule_words:
                yield row.schedule_words
