"""What is simulated: which requests, under which scheduler, with which speculation, timed by what?

Options as data, checked when they are made. Leaves out reading them from files and from the command
line.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

from costmodel.laws.acceptance import MATCHING, Law
from costmodel.laws.batching import SERIAL, check_batch
from costmodel.method import Batch, Stop
from costmodel.scheduler import Scheduler
from hardware_profiles.errors import InputError
from simulator.loop.block_options import BlockOptions, RecordedBlocks
from simulator.loop.length_policies import LengthPolicy
from simulator.loop.rank_time import RankTimer
from simulator.loop.replica_sample import ReplicaSample
from simulator.loop.request import Workload
from simulator.loop.step_time import DraftTimer, StepTimer
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.state_trees import StateTrees
from traces.kinds.tree import Tree
from traces.replay.dynamic import TreePolicy
from traces.replay.outcomes import require_guesses

Preemption = Literal["recompute", "swap"]
Router = Literal["round-robin", "random", "least-loaded", "prefix", "reported-load"]
STOPS = ("length", "probability", "product", "ema", "goodput", "cost")
ROUTERS: tuple[Router, ...] = get_args(Router)
LONGEST_DRAFT = 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class SchedulerOptions(Scheduler):
    """A scheduler in service: with its cache, its front end and the limits that it keeps.

    Args:
        block_tokens: tokens of a cache block.
        kv_blocks: blocks of the cache.
        watermark_ratio: share of the blocks that admission leaves free while others run.
        preemption: a preempted request computes its tokens again, or moves to host memory and back.
        swap_block_s: seconds to move one block one way, `swap` only.
        priorities: `Workload.priority` counts; equal priorities in order of arrival.
        intake_s: seconds that the front end needs to receive a request; it takes one after another.
        intake_token_s: and for each token of its prompt.
        slo_ttft_s: a request that has waited longer is rejected. None: requests wait.
        slo_tpot_s: nobody is admitted beside others while a token takes longer than this. None: no
            such limit.
        horizon_s: requests that have not ended by then have failed. None: run to the end.

    Raises:
        InputError: a value out of range.
    """

    block_tokens: int = 16
    kv_blocks: int
    watermark_ratio: float = 0.0
    preemption: Preemption = "recompute"
    swap_block_s: float = 0.0
    priorities: bool = False
    intake_s: float = 0.0
    intake_token_s: float = 0.0
    slo_ttft_s: float | None = None
    slo_tpot_s: float | None = None
    horizon_s: float | None = None

    def __post_init__(self) -> None:
        Scheduler.__post_init__(self)  # a dataclass with slots is no class that `super()` knows
        for name in ("block_tokens", "kv_blocks"):
            if getattr(self, name) < 1:
                raise InputError("must be >= 1", key=name, value=getattr(self, name))
        if not 0.0 <= self.watermark_ratio < 1.0:
            raise InputError(
                "must lie in [0, 1)", key="watermark_ratio", value=self.watermark_ratio
            )
        if self.preemption not in ("recompute", "swap"):
            raise InputError("must be recompute or swap", key="preemption", value=self.preemption)
        for name in ("swap_block_s", "intake_s", "intake_token_s"):
            if not 0.0 <= getattr(self, name) < np.inf:
                raise InputError("must be finite and >= 0", key=name, value=getattr(self, name))
        for name in ("slo_ttft_s", "slo_tpot_s", "horizon_s"):
            limit = getattr(self, name)
            if limit is not None and not 0.0 < limit < np.inf:
                raise InputError("must be positive and finite", key=name, value=limit)


@dataclass(frozen=True, kw_only=True, slots=True)
class SpeculationOptions:
    """What every decoding request drafts, and what becomes of it.

    Args:
        topology: K of a chain, a tree, trees by the prompt tokens that the step before left behind,
            or the policy by which every step picks a tree of its own (a recording with expansions).
            A step that has no room for its tree keeps its prompt tokens.
        trace: recording that the simulated requests walk along, each from a place of its own; level
            1 for chains, 2 for trees.
        draft: seconds of the draft passes; None: drafting is free.
        schedule: (first batch, last batch, K) by the number of decoding requests, as engines read
            it; batches outside draft as `topology` says. A tree is either verified whole or, where
            K is 0, not drafted.
        stop: when a draft ends: at the topology's length; where the drafter is unsure
            (`probability`, `product`; level 3); one token behind as many as were lately accepted
            (`ema`); at the length that emits most tokens a second at the acceptance seen lately
            (`goodput`); or whole, and verified as far as that emits most (`cost`; level 3).
        ema_weight: weight of the latest step in what `ema` and `goodput` remember.
        law: how drafts are verified on the recording.
        batch: how draft and verify passes share time, and requests the passes. More than one branch
            needs a recording of level 2 as wide as that, branching where the drafter is unsure one
            of level 3. Padded requests are grouped by order of arrival (`pad`), or by length
            wherever that costs less (`regroup`); every group is a pass of its own.
        group_requests: most requests that are padded together; None: everybody.
        policy: who sets the draft length of the batch instead of `stop`; None: nobody.

    Raises:
        InputError: a topology out of range, a broken schedule, options that do not go together, or
            more than the recording tells.
    """

    topology: int | Tree | StateTrees | TreePolicy
    trace: AcceptanceTrace
    draft: DraftTimer | None = None
    schedule: tuple[tuple[int, int, int], ...] = ()
    stop: Stop = field(default_factory=Stop)
    ema_weight: float = 0.2
    law: Law = MATCHING
    batch: Batch = SERIAL
    group_requests: int | None = None
    policy: LengthPolicy | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.draft_tokens <= LONGEST_DRAFT:
            raise InputError(
                f"draft tokens must lie in 0..{LONGEST_DRAFT}",
                key="topology",
                value=self.draft_tokens,
            )
        self.trace.require(
            2 if isinstance(self.topology, Tree | StateTrees) else 1, "simulating speculation"
        )
        last = 0
        for row in self.schedule:
            first, end, draft_tokens = row
            if not (last < first <= end and 0 <= draft_tokens <= self.draft_tokens):
                raise InputError(
                    f"ranges must not overlap and K lie in 0..{self.draft_tokens}",
                    key="schedule",
                    value=row,
                )
            last = end
        if self.stop.rule not in STOPS:
            raise InputError(
                f"must be one of {', '.join(STOPS)}", key="stop.rule", value=self.stop.rule
            )
        if self.stop.rule in ("probability", "product", "cost"):
            self.trace.require(3, "ending drafts where the drafter is unsure")
        check_batch(self.batch)
        self._check_slots()
        self._check_law()
        self._check_branches()
        self._check_groups()
        self._check_policy()
        chains = (
            self.stop.rule != "length" or self.batch.drafts_during_verify or self.batch.parts > 1
        )
        if not isinstance(self.topology, int) and chains:
            raise InputError(
                "early stops and overlapped passes are for chains", key="topology", value="tree"
            )
        if not 0.0 < self.ema_weight <= 1.0:
            raise InputError("must lie in (0, 1]", key="ema_weight", value=self.ema_weight)

    def _check_slots(self) -> None:
        if self.batch.slots == "alike":
            return
        if not isinstance(self.topology, int) or self.batch.drafts_during_verify:
            rule = "draft tokens of chains are chosen, drafted before they are verified"
            raise InputError(rule, key="slots", value=self.batch.slots)
        if self.stop.rule in ("ema", "goodput", "cost"):
            raise InputError(
                "a batch that chooses draft tokens needs no controller",
                key="stop.rule",
                value=self.stop.rule,
            )
        if self.batch.slots == "likeliest":
            self.trace.require(3, "verifying the likeliest draft tokens of a batch")

    def _check_policy(self) -> None:
        if self.policy is None:
            return
        if (
            not isinstance(self.topology, int)
            or self.batch.drafts_during_verify
            or self.batch.parts > 1
        ):
            rule = "the draft length of a batch is set for chains, drafted before they are verified"
            raise InputError(rule, key="policy", value=self.policy.rule)
        if self.stop.rule != "length":
            raise InputError(
                "a policy sets the length; leave out the stop rule",
                key="stop.rule",
                value=self.stop.rule,
            )
        if self.policy.rule == "expected" and len(self.policy.gains) != self.topology + 1:
            raise InputError(
                f"must hold {self.topology + 1} numbers",
                key="policy.gains",
                value=self.policy.gains,
            )
        if (self.policy.rule in ("verified", "cost")) != (self.batch.slots == "likeliest"):
            rule = "verifying the likeliest tokens goes with slots `likeliest` and no others"
            raise InputError(rule, key="policy", value=self.policy.rule)

    def _check_law(self) -> None:
        if isinstance(self.topology, TreePolicy | StateTrees) and not self.law.by_matching:
            rule = (
                "trees that differ from step to step are walked along greedy recordings, where"
                " exact rules match"
            )
            raise InputError(rule, key="law", value=self.law.rule)

    def _check_branches(self) -> None:
        if self.batch.fan_out:
            require_guesses(self.trace, self.batch.fan_out)
        if self.batch.branches > 1:
            self.trace.require(2, "drafting several branches")
            if self.batch.branches > self.trace.rank_width:
                rule = f"the recording holds the {self.trace.rank_width} likeliest tokens"
                raise InputError(
                    rule, file=self.trace.file, key="branches", value=self.batch.branches
                )
            if self.batch.branch_at < 1.0:
                self.trace.require(3, "branching where the drafter is unsure")

    def _check_groups(self) -> None:
        if self.group_requests is None:
            return
        if self.batch.ragged == "split":
            raise InputError(
                "groups are for batches that are padded",
                key="group_requests",
                value=self.group_requests,
            )
        if self.group_requests < 1:
            raise InputError("must be >= 1", key="group_requests", value=self.group_requests)

    @property
    def slots(self) -> Literal["alike", "likeliest", "by_request"]:
        """Who gets the verify budget: where verification is weighed, the likeliest draft tokens."""
        return "likeliest" if self.stop.rule == "cost" else self.batch.slots

    @property
    def draft_tokens(self) -> int:
        """Most draft tokens of a request and step."""
        if isinstance(self.topology, TreePolicy):
            return self.topology.nodes
        if isinstance(self.topology, StateTrees):
            return max(self.topology.sizes)
        return self.topology.draft_tokens if isinstance(self.topology, Tree) else self.topology


@dataclass(frozen=True, kw_only=True, slots=True)
class Disaggregation:
    """Prompts on replicas of their own; the cache then travels to a replica that decodes.

    Args:
        prefill_replicas: replicas that compute prompts and first tokens; `Scenario.replicas`
            decode.
        prefill_timer: times them; None: as the decoding ones.
        transfer_token_s: seconds to move one token's cache.
        transfer_latency_s: seconds of a transfer beside that.
        prefill_scheduler: of the replicas for prompts; None: as of the decoding ones.
        delivers: whose answer users read: `prefill` streams a first token as soon as it is there;
            with `decode` it waits for its cache to arrive and the decoding replica to take the
            request in.

    Raises:
        InputError: no replica, negative times.
    """

    prefill_replicas: int = 1
    prefill_timer: StepTimer | None = None
    transfer_token_s: float = 0.0
    transfer_latency_s: float = 0.0
    prefill_scheduler: SchedulerOptions | None = None
    delivers: Literal["prefill", "decode"] = "prefill"

    def __post_init__(self) -> None:
        if self.prefill_replicas < 1:
            raise InputError("must be >= 1", key="prefill_replicas", value=self.prefill_replicas)
        for name in ("transfer_token_s", "transfer_latency_s"):
            if not 0.0 <= getattr(self, name) < np.inf:
                raise InputError("must be finite and >= 0", key=name, value=getattr(self, name))


@dataclass(frozen=True, kw_only=True, slots=True)
class Scenario:
    """One simulation.

    Args:
        workload: the requests.
        scheduler: of every replica.
        timer: seconds of an iteration.
        speculation: None: plain decoding.
        blocks: a decoder of blocks in place of speculation: as stated, or along recorded ones.
        replicas: engines behind the router, each with the scheduler's cache.
        router: which replica takes a request.
        report_s: seconds between two reports by which a router knows how many of the requests that
            it has sent to a replica have ended; 0: it always knows.
        in_step: the replicas are ranks with experts of each other, and begin every iteration
            together.
        disaggregation: None: every replica computes prompts and decodes.
        merge: runs of iterations that differ in context alone are advanced together, with the same
            result.
        series: states over time are noted; without them long runs of equal iterations are advanced
            at once.
        seed: of every random choice.
        sample: the replicas are some of a larger fleet, and the workload has their requests alone;
            None: they are all there are.

    Raises:
        InputError: no replica, an unknown router, two decoders at once; ranks in step with a timer
            that does not tell their own part, or that share their passes otherwise; a limit of
            passes that are shared otherwise; a sample of replicas that depend on the others.
    """

    workload: Workload
    scheduler: SchedulerOptions
    timer: StepTimer
    speculation: SpeculationOptions | None = None
    blocks: BlockOptions | RecordedBlocks | None = None
    replicas: int = 1
    router: Router = "round-robin"
    report_s: float = 0.0
    in_step: bool = False
    disaggregation: Disaggregation | None = None
    merge: bool = True
    series: bool = True
    seed: int = 0
    sample: ReplicaSample | None = None

    def __post_init__(self) -> None:
        if self.replicas < 1:
            raise InputError("must be >= 1", key="replicas", value=self.replicas)
        if self.router not in ROUTERS:
            raise InputError(
                f"must be one of {', '.join(ROUTERS)}", key="router", value=self.router
            )
        if not 0.0 <= self.report_s < np.inf:
            raise InputError("must be finite and >= 0", key="report_s", value=self.report_s)
        if self.speculation is not None and self.blocks is not None:
            raise InputError("a decoder speculates or commits blocks, not both", key="blocks")
        batch = self.speculation.batch if self.speculation is not None else SERIAL
        if self.scheduler.pass_tokens and (batch.parts > 1 or batch.ragged != "split"):
            raise InputError(
                "batches that are padded or verified in parts have no such limit", key="pass_tokens"
            )
        if self.in_step:
            self._check_ranks()
        elif self.router == "reported-load":
            raise InputError("is for ranks in step", key="router", value=self.router)
        if self.sample is not None:
            self._check_alone()

    def _check_alone(self) -> None:
        """Refuse a sample whose replicas do not serve their requests by themselves."""
        assert self.sample is not None
        if (len(self.sample.chosen), self.sample.places.size) != (
            self.replicas,
            self.workload.requests,
        ):
            raise InputError("must have the replicas and the requests that are run", key="sample")
        depends = {
            "router": "looks at the load of all replicas" * (self.router != self.sample.router),
            "requests.users": "wait for answers of all replicas"
            * (self.workload.users is not None),
            "disaggregation": "joins all replicas" * (self.disaggregation is not None),
            "deployment": "has ranks that begin every iteration together" * self.in_step,
        }
        for key, words in depends.items():
            if words:
                rule = f"{words}: such replicas cannot be sampled; leave out sample_replicas"
                raise InputError(rule, key=key)

    def _check_ranks(self) -> None:
        timer = self.timer
        if not isinstance(timer, RankTimer) or timer.ranks != self.replicas:
            raise InputError(
                "ranks in step need a timer that tells each one's own part", key="timer"
            )
        if self.disaggregation is not None:
            raise InputError("ranks in step compute prompts and decode", key="disaggregation")
        batch = self.speculation.batch if self.speculation is not None else SERIAL
        if batch.parts > 1 or batch.ragged != "split" or batch.drafts_during_verify:
            raise InputError(
                "ranks in step verify everything in one pass after drafting",
                key="speculation.overlap",
            )
