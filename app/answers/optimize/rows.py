"""What are the rows of `optimize`? What may be run (choices, policies, designs), who wins where and
what stands beside it, schedules and drafters.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from app.answers.answer import Column, Row
from app.answers.breakeven.rows import TwinPayingRow
from app.answers.drafting import rule_words
from app.answers.drafting_cost import DraftingCost
from app.answers.estimates import Interval, KnownAcceptance, Phases, ProvenanceRow
from app.answers.numbers import signed_percent

Range = tuple[int, int, int]  # first batch, last batch, draft tokens


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared(Row):
    """A configuration that was compared: what it drafts, and what a step of it emits."""

    drafter: Annotated[str | None, Column("What drafts.")]
    topology: Annotated[str, Column("Kind of drafts, such as `chain`; `off` for none.")]
    draft: Annotated[str, Column("Shape of the drafts, as `--shape` reads it, or the policy.")]
    draft_tokens: Annotated[int, Column("Draft tokens per request and step.")]
    tokens_per_step: Annotated[float, Column("Tokens emitted per step.", "tokens/step", decimals=2)]

    @property
    def words(self) -> str:
        """What to run: `eagle-3 chain:6`, or `off`."""
        return run_words(self.drafter, self.topology, self.draft)


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate(Compared):
    """What may be run: where, what it drafts, and how fast that is."""

    model: Annotated[str, Column("Target model.")]
    device: Annotated[str, Column("Device.")]
    engine: Annotated[str, Column("Serving engine.")]
    feasible: Annotated[bool, Column("Whether it can be run.")] = True
    method: Annotated[str, Column("Decoding method.")]
    batch: Annotated[int, Column("Requests that decode together.")]
    context: Annotated[int, Column("Cached tokens per request.")]
    tpot_s: Annotated[float, Column("Mean time per output token.", "TPOT", "s")]
    tokens_per_s: Annotated[float, Column("Tokens of all requests.", "tokens/s")]
    speedup: Annotated[
        float, Column("Against no speculation at the same batch and context.", decimals=2)
    ]
    configuration: Annotated[
        Mapping[str, Any] | None, Column("What to run, as `--config` reads it.")
    ] = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ChoiceRow(Candidate):
    """The best configuration of a drafter at one batch and context; intervals hold 80 %."""

    tree: Annotated[Mapping[str, Any] | None, Column("The tree, as `--tree` reads it.")]
    tree_source: Annotated[str | None, Column("What chose the tree.")]
    shape: Annotated[Mapping[str, Any] | None, Column("Policy of drafts that differ by step.")] = (
        None
    )
    stop: Annotated[Mapping[str, Any] | None, Column("The rule that ends them.")] = None
    drafts: Annotated[Mapping[str, float] | None, Column("Their mean sizes.")] = None
    proposal_ratio: Annotated[float, Column("Share of steps in which the drafter proposes.")]
    rule: Annotated[str | None, Column("How drafts are verified, where it loses quality.")]
    remark: Annotated[str, Column("What has to be said beside the numbers.")]
    exit_layers: Annotated[int | None, Column("Layers after which an early exit drafts.")]
    step_s: Annotated[float, Column("Time of a step.", unit="s")]
    step_s_interval: Annotated[Interval | None, Column("Its interval.")] = None
    tokens_per_step_interval: Annotated[
        Interval | None, Column("Interval of the tokens per step.")
    ] = None
    tokens_per_s_interval: Annotated[
        Interval | None, Column("Interval of the tokens per second.")
    ] = None
    speedup_interval: Annotated[Interval | None, Column("Interval of the speedup.")] = None
    memory_bytes: Annotated[float | None, Column("That each device needs.", unit="bytes")] = None
    joules_per_token: Annotated[float | None, Column("Energy of all devices.", "J/token")] = None
    usd_per_million_tokens: Annotated[
        float | None, Column("Price of the tokens; none where the device has none.", "$/Mtoken")
    ] = None
    limit: Annotated[str | None, Column("What the step waits for.")] = None
    breakdown_s: Annotated[Phases | None, Column("Where the step's time goes.")] = None
    provenance: Annotated[ProvenanceRow | None, Column("Where the numbers come from.")] = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyRow(ChoiceRow):
    """A policy of masked blocks at one batch and context.

    Those that are neither chosen nor on the front have no intervals of the cost model, nor what
    stands behind them. The interval of a policy's pace reaches over states that hold less and more,
    that of its agreement over prompts.
    """

    policy: Annotated[str, Column("Name of the policy.")]
    commit: Annotated[str, Column("Rule by which a pass commits tokens.")]
    at: Annotated[Mapping[str, float], Column("Thresholds of the rule.")]
    block_tokens: Annotated[int, Column("Tokens of a block.", "block")]
    cache: Annotated[str, Column("What later passes of a block read: none, prefix or dual.")]
    how: Annotated[str, Column("How the recording was replayed.")]
    beyond_anchors: Annotated[
        bool, Column("Whether it commits more boldly than anything recorded.")
    ]
    agreement: Annotated[
        float | None, Column("Share of tokens that one token a pass puts there.", decimals=3)
    ]
    agreement_interval: Annotated[Interval | None, Column("Its 80 % interval.")]
    meets_floor: Annotated[bool, Column("Whether it agrees as much as asked.")]
    on_front: Annotated[bool, Column("Whether none as fast agrees more.")]
    against: Annotated[str, Column("Model of the twin; empty: the same one.")] = ""
    twin_tokens_per_s: Annotated[float, Column("Of the twin, one token a pass with a KV cache.")]
    needed_tokens_per_step: Annotated[
        float | None, Column("Tokens a pass that equal the twin; None: no pace does.")
    ]
    needed_tokens_per_step_interval: Annotated[Interval | None, Column("Its 80 % interval.")]

    @property
    def committed(
        self,
    ) -> Annotated[str, Column("Rule and thresholds.", "rule", of=("commit", "at"))]:
        """The commit rule of a policy with its thresholds."""
        return rule_words(self.commit, self.at)

    @property
    def marks(
        self,
    ) -> Annotated[
        str, Column("What sets it apart.", "mark", of=("meets_floor", "beyond_anchors"))
    ]:
        """What sets a policy on the front apart from others there."""
        marks = (
            (not self.meets_floor, "below the floor"),
            (self.beyond_anchors, "bolder than recorded"),
        )
        return ", ".join(words for holds, words in marks if holds)

    @property
    def twin_words(self) -> str:
        """From which pace a policy beats the model decoded token by token, and whether it does."""
        where = f"batch {self.batch:,}, context {self.context:,}"
        whose = f"{self.against}, " if self.against else ""
        twin = f"{whose}one token a pass with a KV cache ({self.twin_tokens_per_s:,.0f} tokens/s)"
        if self.needed_tokens_per_step is None or self.needed_tokens_per_step_interval is None:
            return f"{where}: no pace beats {twin}"
        verdict = "wins" if self.speedup > 1.0 else "loses"
        low, high = self.needed_tokens_per_step_interval
        return (
            f"{where}: needs {self.needed_tokens_per_step:.2f} [{low:.2f}–{high:.2f}] tokens per"
            f" pass to equal {twin}; has {self.tokens_per_step:.2f} and {verdict}"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class SimulatedDesign(Row):
    """What simulations of one replica of a design say, means over seeds."""

    objective_ratio: Annotated[float, Column("Simulated over predicted objective.")]
    seeds: Annotated[int, Column("Simulations.")]
    tokens_per_s_per_replica: Annotated[float, Column("Output tokens.")]
    tpot_s: Annotated[float, Column("Mean time per output token.", unit="s")]
    ttft_s: Annotated[float, Column("Mean time to the first token.", unit="s")]
    e2e_s: Annotated[float, Column("Mean time of a whole request.", unit="s")]
    good_ratio: Annotated[float, Column("Share of requests within the limits.", unit="ratio")]
    sustained: Annotated[bool, Column("Whether the backlog does not grow.")]
    meets_limits: Annotated[bool, Column("Whether it is sustained and within the limits.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class DesignRow(Candidate):
    """One design: what it is, what is predicted of it, and what was simulated.

    Its batch is what a replica has in flight at most, its context what a request reads on average
    while it decodes, its tokens per second those of all replicas at most.
    """

    layout: Annotated[str, Column("How a replica's devices share the model.")]
    tp: Annotated[int, Column("Devices that share every layer.")]
    dp: Annotated[int, Column("Copies of the layers without experts.")]
    ep: Annotated[int, Column("Devices that share the routed experts.")]
    pp: Annotated[int, Column("Pipeline stages.")]
    dtype: Annotated[str, Column("Weight format.")]
    kv_dtype: Annotated[str, Column("Cache format.")]
    batch_cap: Annotated[int, Column("Most requests in flight of a scheduler.", "cap")]
    token_budget: Annotated[int, Column("Most query tokens of an iteration.", "budget")]
    replicas: Annotated[int, Column("Replicas.")]
    devices: Annotated[int, Column("Devices of all replicas.")]
    requests_per_s: Annotated[float, Column("That all replicas finish at most.")]
    tokens_per_s_per_user: Annotated[float, Column("Of one request.", "tokens/s per user")]
    tokens_per_s_per_device: Annotated[float, Column("Of one device.", "tokens/s per device")]
    ttft_s: Annotated[float, Column("Mean time to the first token, predicted.", unit="s")]
    e2e_s: Annotated[float, Column("Mean time of a whole request, predicted.", unit="s")]
    meets_limits: Annotated[bool, Column("Whether it does what is asked within the limits.")]
    carries_load: Annotated[bool, Column("Whether it carries the stated rate.")]
    predicted_objective: Annotated[float | None, Column("What is maximised, predicted.")]
    objective: Annotated[float | None, Column("The same, as simulations correct it.")]
    usd_per_hour: Annotated[float | None, Column("Price of all devices.", "$/h", decimals=2)]
    simulated: Annotated[SimulatedDesign | None, Column("What was simulated of it.")]
    not_simulated: Annotated[str | None, Column("Why nothing was.")]
    calibrated: Annotated[bool, Column("Whether the device's kernels were measured.")]
    agreement: Annotated[
        float | None, Column("Share of tokens that one token a pass puts there.", decimals=3)
    ] = None
    agreement_interval: Annotated[Interval | None, Column("Its 80 % interval.")] = None
    prompt_workers: Annotated[
        int | None, Column("That compute prompts alone; None: replicas do both.")
    ] = None
    decode_workers: Annotated[int | None, Column("That decode; None: replicas do both.")] = None

    @property
    def counted(self) -> str:
        """How many replicas, or workers of two pools."""
        if self.prompt_workers is not None:
            return f"{self.prompt_workers} prompt and {self.decode_workers} decode workers"
        return f"{self.replicas} replicas" if self.replicas > 1 else "1 replica"

    @property
    def design(
        self,
    ) -> Annotated[
        str, Column("Where and what.", of=("device", "layout", "dtype", "drafter", "draft"))
    ]:
        """The design in a cell: `b200-sxm tp2 fp8, eagle-3 chain:3`."""
        cache = f"/{self.kv_dtype} cache" if self.kv_dtype != "bf16" else ""
        drafts = "no drafts" if self.topology == "off" else self.words
        return f"{self.device} {self.layout} {self.dtype}{cache}, {drafts}"


@dataclass(frozen=True, kw_only=True, slots=True)
class FinalistRow(DesignRow):
    """The best design of a drafter and placement, compared with the others."""

    objective_interval: Annotated[Interval, Column("Interval of the objective.")]
    best_probability: Annotated[float, Column("That it is the best.")]
    loses_to_winner_probability: Annotated[
        float | None, Column("That the first design is better; None of the first.")
    ]
    ties: Annotated[bool, Column("Whether it reaches as much as the best, the first among them.")]
    as_fast: Annotated[
        bool,
        Column("Whether it ties, and nobody tells its time per output token from the first one's."),
    ]

    @property
    def run(self) -> Annotated[str, Column("What to run.", of=("drafter", "draft"))]:
        """What is drafted, on which pools, and what the design misses."""
        return self._marked(self.words)

    @property
    def marked_design(self) -> str:
        """The design in a cell, and what it misses."""
        return self._marked(self.design)

    @property
    def design_in_pools(self) -> str:
        """The design, and its pools where prompts have workers of their own."""
        return self.design if self.prompt_workers is None else f"{self.design}, {self.counted}"

    def _marked(self, words: str) -> str:
        if self.prompt_workers is not None:
            words += f", {self.prompt_workers} + {self.decode_workers} workers"
        if self.meets_limits:
            return words
        missed = "misses limits" if self.carries_load else "carries a part of the load"
        return f"{words}, {missed}"

    @property
    def seen_tpot_s(self) -> Annotated[float, Column("Mean time per token.", "TPOT", "s")]:
        """Time per output token: simulated, else predicted."""
        return (self.simulated or self).tpot_s

    @property
    def seen_ttft_s(self) -> Annotated[float, Column("Mean time to first token.", "TTFT", "s")]:
        """Time to the first token: simulated, else predicted."""
        return (self.simulated or self).ttft_s

    @property
    def seen_e2e_s(self) -> Annotated[float, Column("Mean time of a request.", "E2E", "s")]:
        """Time of a whole request: simulated, else predicted."""
        return (self.simulated or self).e2e_s

    @property
    def deviation(
        self,
    ) -> Annotated[str | None, Column("Against predicted.", "simulated", of=("simulated",))]:
        """By how much the simulated objective differs from the prediction."""
        run = self.simulated
        return None if run is None else f"{100 * (run.objective_ratio - 1):+.0f} %"

    @property
    def loses(
        self,
    ) -> Annotated[str | None, Column("To the first.", of=("loses_to_winner_probability",))]:
        """The probability that the first design is better, where anybody can tell."""
        lost = self.loses_to_winner_probability
        if lost is None:
            return None
        return "same" if self.as_fast else f"{100 * lost:.0f} %"


@dataclass(frozen=True, kw_only=True, slots=True)
class Placed(Compared):
    """A winner or runner-up over all drafters; plain decoding belongs to none of them."""

    method: Annotated[str, Column("Decoding method.")]
    tokens_per_s: Annotated[float, Column("Tokens of all requests.")]
    tokens_per_s_interval: Annotated[Interval, Column("Its interval.")]
    speedup: Annotated[float, Column("Against no speculation.")]
    speedup_interval: Annotated[Interval, Column("Its interval.")]
    acceptance: Annotated[KnownAcceptance | None, Column("Where acceptance is known from.")]
    tpot_s: Annotated[float | None, Column("Mean time per output token.")] = None
    ttft_s: Annotated[
        float | None,
        Column(
            "Time to first token of a prompt of the context's length, where latency is limited."
        ),
    ] = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TieRow(Row):
    """The simplest configuration that ties with a winner."""

    draft: Annotated[str, Column("Shape of its drafts.")]
    topology: Annotated[str, Column("Their kind.")]
    draft_tokens: Annotated[int, Column("Draft tokens per request and step.")]
    lost_ratio: Annotated[float, Column("Tokens/s that it loses.", unit="ratio")]


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordingLength(Row):
    """Whether a recording is long enough for what was chosen on it."""

    tokens: Annotated[int, Column("Tokens recorded.")]
    loss_ratio: Annotated[float, Column("What the choice may lose so.", unit="ratio")]
    enough: Annotated[bool, Column("Whether that is little.")]
    enough_tokens: Annotated[int, Column("Tokens that would be enough.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class NeighbourRow(Compared):
    """A configuration beside a winner."""

    kind: Annotated[str, Column("`shorter`, `longer`, another shape or drafter, or `off`.")]
    tokens_per_s: Annotated[float | None, Column("Tokens of all requests.")]
    lost_ratio: Annotated[float | None, Column("Tokens/s that it loses.", unit="ratio")]
    lost_by: Annotated[Mapping[str, float], Column("What of that tokens and phases bring.")]
    barred: Annotated[str | None, Column("`memory` or `limits`, where it is not allowed.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class CarriedRow(Row):
    """What a winner loses at a neighbouring batch."""

    batch: Annotated[int, Column("Requests there.")]
    lost_ratio: Annotated[float | None, Column("Tokens/s lost; none where it cannot run.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class CellRow(Row):
    """Who wins at one batch and context over all drafters, and what stands beside."""

    model: Annotated[str, Column("Target model.")]
    device: Annotated[str, Column("Device.")]
    engine: Annotated[str, Column("Serving engine.")]
    batch: Annotated[int, Column("Requests that decode together.")]
    context: Annotated[int, Column("Cached tokens per request.")]
    winner: Annotated[Placed, Column("The fastest.")]
    runner_up: Annotated[Placed | None, Column("The fastest of another drafter.")]
    lost_ratio: Annotated[float | None, Column("Tokens/s that it loses.", unit="ratio")]
    tie: Annotated[TieRow | None, Column("What ties with the winner and is simpler.")]
    recorded: Annotated[
        RecordingLength | None, Column("Whether the winner's recording is long enough.")
    ]
    neighbours: Annotated[
        Sequence[NeighbourRow], Column("What stands beside it, nearest first.")
    ] = ()
    carried: Annotated[Sequence[CarriedRow], Column("What it loses at other batches.")] = ()
    longest_compared: Annotated[bool, Column("Whether nothing longer was compared.")] = False
    drafting_cost: Annotated[
        DraftingCost | None, Column("What the winner's drafts cost beside time.")
    ] = None

    @property
    def run(self) -> Annotated[str, Column("What to run.", of=("drafter", "draft"))]:
        """The winner in words."""
        return self.winner.words

    @property
    def tokens_per_step(
        self,
    ) -> Annotated[float, Column("Tokens emitted per step.", "tokens per step", decimals=2)]:
        """Of the winner."""
        return self.winner.tokens_per_step

    @property
    def tokens_per_s(self) -> Annotated[float, Column("Tokens of all requests.", "tokens/s")]:
        """Of the winner."""
        return self.winner.tokens_per_s

    @property
    def tokens_per_s_interval(self) -> Interval:
        """Of the winner."""
        return self.winner.tokens_per_s_interval

    @property
    def speedup(self) -> Annotated[float, Column("Against no speculation.", decimals=2)]:
        """Of the winner."""
        return self.winner.speedup

    @property
    def speedup_interval(self) -> Interval:
        """Of the winner."""
        return self.winner.speedup_interval

    @property
    def tpot_s(self) -> Annotated[float | None, Column("Time per output token.", "TPOT", "s")]:
        """Of the winner."""
        return self.winner.tpot_s

    @property
    def plain_tpot_s(
        self,
    ) -> Annotated[float | None, Column("The same without speculation.", "off", "s")]:
        """Of no speculation at the same batch and context; None where it does not run there."""
        if self.tpot_s is None or not math.isfinite(self.speedup):
            return None
        return self.tpot_s * self.speedup

    @property
    def ttft_s(self) -> Annotated[float | None, Column("Time to first token.", "TTFT", "s")]:
        """Of the winner."""
        return self.winner.ttft_s

    @property
    def next_best(self) -> Annotated[str, Column("The fastest of another drafter.")]:
        """The runner-up, and how far its tokens/s lie below the winner's; empty where nothing else
        was allowed.
        """
        if self.runner_up is None or self.lost_ratio is None:
            return ""
        return f"{self.runner_up.drafter or 'off'} {signed_percent(-self.lost_ratio, 0)} %"


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextScheduleRow(Row):
    """The draft length by batch of a drafter's chains at one context."""

    drafter: Annotated[str, Column("What drafts.")]
    method: Annotated[str, Column("Decoding method.")]
    context: Annotated[int, Column("Cached tokens per request.")]
    schedule: Annotated[Sequence[Range], Column("First batch, last batch and draft tokens.")]
    schedule_loss_ratio: Annotated[float, Column("Mean loss against the best length.")]
    schedule_worst_loss_ratio: Annotated[float, Column("Most that a batch loses.")]
    idle_loss_ratio: Annotated[
        float | None,
        Column("Most that its ranges without drafts lose to a server without the drafter."),
    ] = None
    gain_over_off_ratio: Annotated[
        float | None,
        Column("What ranges that draft gain on average over a server without the drafter."),
    ] = None
    configuration: Annotated[Mapping[str, Any], Column("What to run, as `--config` reads it.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextLoss(Row):
    """What one schedule for all contexts loses at one of them."""

    context: Annotated[int, Column("Cached tokens per request.")]
    loss_ratio: Annotated[float, Column("Mean loss against the best length.")]
    own_schedule_loss_ratio: Annotated[float, Column("The same of a schedule of that context.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedSchedule(Row):
    """One schedule of a drafter for all contexts."""

    drafter: Annotated[str, Column("What drafts.")]
    method: Annotated[str, Column("Decoding method.")]
    schedule: Annotated[Sequence[Range], Column("First batch, last batch and draft tokens.")]
    schedule_loss_ratio: Annotated[float, Column("Mean loss against the best length.")]
    contexts: Annotated[Sequence[ContextLoss], Column("What it loses at each context.")]
    configuration: Annotated[Mapping[str, Any], Column("What to run, as `--config` reads it.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class KindLengthRow(Row):
    """A kind of requests and its draft length."""

    kind: Annotated[str, Column("Kind of prompts.")]
    share: Annotated[float, Column("Share of the requests.")]
    draft_tokens: Annotated[int, Column("Draft tokens; 0: it opts out.")]
    tokens_per_step: Annotated[float, Column("Tokens per step of its requests.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class KindLengthsRow(Row):
    """Draft lengths by kind of requests beside one for all."""

    drafter: Annotated[str, Column("What drafts.")]
    batch: Annotated[int, Column("Requests.")]
    context: Annotated[int, Column("Cached tokens per request.")]
    draft_tokens: Annotated[int, Column("The best draft length for all.")]
    lengths: Annotated[Sequence[KindLengthRow], Column("The best draft length of every kind.")]
    gain_ratio: Annotated[float, Column("Tokens per second over those with one length.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptsRow(Row):
    """What is fastest with the acceptance that was published for one data set."""

    data_set: Annotated[str, Column("As the source names it.")]
    temperature: Annotated[float | None, Column("Of sampling; None: not stated.")]
    method: Annotated[str, Column("Decoding method.")]
    recorded_drafter: Annotated[str, Column("As the source names it.")]
    batch: Annotated[int, Column("Requests.")]
    context: Annotated[int, Column("Cached tokens per request.")]
    draft: Annotated[str, Column("What is drafted.")]
    draft_tokens: Annotated[int, Column("Draft tokens per request and step.")]
    tokens_per_step: Annotated[float, Column("Emitted, the bonus token counted.")]
    tokens_per_s: Annotated[float, Column("Of the whole batch.")]
    speedup: Annotated[float, Column("Against plain decoding.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class DrafterRow(Row):
    """A drafter that competed, and what its acceptance rests on."""

    name: Annotated[str, Column("As the answer names it.")]
    method: Annotated[str, Column("Decoding method.")]
    model: Annotated[str, Column("Target on which its acceptance is known.")]
    borrowed: Annotated[bool, Column("Whether that is another than the one asked about.")]
    acceptance: Annotated[KnownAcceptance, Column("Where its acceptance is known from.")]
    file: Annotated[str | None, Column("Recording.")]
    recorded_drafter: Annotated[str | None, Column("Drafter of the recording.")]
    sampling: Annotated[Mapping[str, Any] | None, Column("How its tokens were sampled.")]
    dataset: Annotated[str | None, Column("Prompts of the recording.")]
    requests: Annotated[int | None, Column("Requests recorded.")]
    tokens: Annotated[int | None, Column("Tokens recorded.")]
    level: Annotated[int | None, Column("What the recording holds, 1 to 3.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class Emission(Compared):
    """Tokens per step of a configuration that was compared."""

    method: Annotated[str, Column("Decoding method.")]
    interval: Annotated[Interval | None, Column("Its interval.")]
    path_acceptance: Annotated[
        Sequence[float] | None,
        Column("Of a chosen tree, the share of steps that keep each token, in node order."),
    ] = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TopologyBestRow(Compared):
    """The fastest of a drafter's topology at one batch and context."""

    batch: Annotated[int, Column("Requests that decode together.")]
    context: Annotated[int, Column("Cached tokens per request.")]
    method: Annotated[str, Column("Decoding method.")]
    tokens_per_s: Annotated[float, Column("Tokens of all requests.")]
    speedup: Annotated[float, Column("Against no speculation.")]
    wins: Annotated[bool, Column("Whether nothing else of the drafter is faster there.")]
    shape: Annotated[Mapping[str, Any] | None, Column("Policy of drafts that differ.")] = None
    stop: Annotated[Mapping[str, Any] | None, Column("The rule that ends them.")] = None
    drafts: Annotated[Mapping[str, float] | None, Column("Their mean sizes.")] = None


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
    """What quality of masked blocks means, and on what it was counted."""

    floor: Annotated[float, Column("Least agreement with one token a pass.")]
    definition: Annotated[str, Column("What agreement is.")]
    remark: Annotated[str, Column("What to think of it.")]
    prompts: Annotated[Mapping[str, int], Column("Prompts by the cache of their recording.")]
    canvas_tokens: Annotated[int, Column("Tokens that are refined.")]
    policies: Annotated[int, Column("Policies that were searched.")]

    @property
    def brief(self) -> str:
        """What agreement is, and what to do about it."""
        return (
            f"{self.definition}; estimated where a rule was not recorded: check a choice live, as"
            " `rooftree validate --method` does"
        )

    @property
    def words(self) -> str:
        """All of it as a sentence."""
        prompts = ", ".join(
            f"{count} prompts (cache {cache})" for cache, count in self.prompts.items()
        )
        return f"{self.definition}; {prompts}, canvas of {self.canvas_tokens} tokens; {self.remark}"


def run_words(drafter: str | None, topology: str, draft: str) -> str:
    """What is run: `eagle-3 chain:6`, `off`, or a policy of masked blocks.

    Args:
        drafter: its name; None where nothing is drafted.
        topology: kind of drafts, `off`, or `block` of masked blocks.
        draft: shape of the drafts as `--shape` reads it, or the policy.
    """
    return draft if topology in ("off", "block") else f"{drafter} {draft}"
