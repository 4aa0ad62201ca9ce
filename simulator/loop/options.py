"""What is simulated: which requests, under which scheduler, with which speculation, timed by what?

Options as data, checked when they are made. Leaves out reading them from files and from the command
line.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from costmodel.laws.acceptance import MATCHING, Law
from costmodel.laws.batching import SERIAL, check_batch
from costmodel.method import Batch, Stop
from hardware_profiles.errors import InputError
from simulator.loop.block_options import BlockOptions, RecordedBlocks
from simulator.loop.length_policies import LengthPolicy
from simulator.loop.rank_time import RankTimer
from simulator.loop.request import Workload
from simulator.loop.step_time import DraftTimer, StepTimer
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.state_trees import StateTrees
from traces.kinds.tree import Tree
from traces.replay.dynamic import TreePolicy

Preemption = Literal["recompute", "swap"]
Router = Literal["round-robin", "least-loaded", "prefix", "reported-load"]
STOPS = ("length", "probability", "product", "ema", "goodput")
ROUTERS: tuple[Router, ...] = ("round-robin", "least-loaded", "prefix", "reported-load")
LONGEST_DRAFT = 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class SchedulerOptions:
    """How an engine fills its iterations and its cache.

    Args:
        token_budget: most query tokens of an iteration.
        max_requests: most requests that hold cache at once.
        chunked_prefill: prompts may be split over iterations; False: a prompt runs whole.
        prefill_first: prompts run alone, before anybody decodes; False: they share iterations with
            decodes.
        overlapped_scheduling: an iteration is composed while the one before it runs; a request that
            arrives meanwhile waits for the next one.
        wait_iterations: prompts wait for so many iterations of requests that decode, or until they
            are enough.
        wait_ratio: enough are those that fill, with the tokens that decode, this share of the
            budget, in [0, 1].
        receive_iterations: after so many iterations that only decode the scheduler looks for new
            requests, and after each with prompts.
        numbered_slots: requests hold one of `max_requests` numbered slots, which they take before
            the iteration is filled; slots are served in the order of their numbers, and a request
            takes the one that was left first.
        pass_tokens: most query tokens of a pass; an iteration of more is computed in several. 0: in
            one.
        equal_passes: a pass holds equally many tokens of neighbouring slots, because each has a
            cache of its own; False: whoever comes next, as far as there is room.
        drafts_within_output: nobody drafts tokens beyond the end of its output, the last of which
            needs no draft.
        block_tokens: tokens of a cache block.
        kv_blocks: blocks of the cache.
        watermark_ratio: share of the blocks that admission leaves free while others run.
        preemption: a preempted request computes its tokens again, or moves to host memory and back.
        swap_block_s: seconds to move one block one way, `swap` only.
        prefix_cache: blocks with the same id are computed once and kept until their room is needed.
        priorities: `Workload.priority` counts; equal priorities in order of arrival.
        reserve_ratio: admit only what fits with its whole prompt, with what the running requests
            hold and with this share of the tokens that all of them have still to generate, in [0,
            1]; 1: nobody is ever preempted. None: its next tokens are enough, which over-commits
            the cache where prompts come in chunks.
        intake_s: seconds that the front end needs to receive a request; it takes one after another.
        intake_token_s: and for each token of its prompt.
        slo_ttft_s: a request that has waited longer is rejected. None: requests wait.
        slo_tpot_s: nobody is admitted beside others while a token takes longer than this. None: no
            such limit.
        horizon_s: requests that have not ended by then have failed. None: run to the end.

    Raises:
        InputError: a value out of range.
    """

    token_budget: int = 8192
    max_requests: int = 256
    chunked_prefill: bool = True
    prefill_first: bool = False
    overlapped_scheduling: bool = False
    wait_iterations: int = 0
    wait_ratio: float = 1.0
    receive_iterations: int = 1
    numbered_slots: bool = False
    pass_tokens: int = 0
    equal_passes: bool = False
    drafts_within_output: bool = False
    block_tokens: int = 16
    kv_blocks: int
    watermark_ratio: float = 0.0
    preemption: Preemption = "recompute"
    swap_block_s: float = 0.0
    prefix_cache: bool = False
    priorities: bool = False
    reserve_ratio: float | None = None
    intake_s: float = 0.0
    intake_token_s: float = 0.0
    slo_ttft_s: float | None = None
    slo_tpot_s: float | None = None
    horizon_s: float | None = None

    def __post_init__(self) -> None:
        for name in (
            "token_budget",
            "max_requests",
            "block_tokens",
            "kv_blocks",
            "receive_iterations",
        ):
            if getattr(self, name) < 1:
                raise InputError("must be >= 1", key=name, value=getattr(self, name))
        if self.wait_iterations < 0:
            raise InputError("must be >= 0", key="wait_iterations", value=self.wait_iterations)
        self._check_passes()
        if not 0.0 <= self.watermark_ratio < 1.0:
            raise InputError(
                "must lie in [0, 1)", key="watermark_ratio", value=self.watermark_ratio
            )
        if self.preemption not in ("recompute", "swap"):
            raise InputError("must be recompute or swap", key="preemption", value=self.preemption)
        for name in ("reserve_ratio", "wait_ratio"):
            share = getattr(self, name)
            if share is not None and not 0.0 <= share <= 1.0:
                raise InputError("must lie in [0, 1]", key=name, value=share)
        for name in ("swap_block_s", "intake_s", "intake_token_s"):
            if not 0.0 <= getattr(self, name) < np.inf:
                raise InputError("must be finite and >= 0", key=name, value=getattr(self, name))
        for name in ("slo_ttft_s", "slo_tpot_s", "horizon_s"):
            limit = getattr(self, name)
            if limit is not None and not 0.0 < limit < np.inf:
                raise InputError("must be positive and finite", key=name, value=limit)

    def _check_passes(self) -> None:
        if self.pass_tokens < 0:
            raise InputError("must be >= 0", key="pass_tokens", value=self.pass_tokens)
        if self.equal_passes and not (self.numbered_slots and self.pass_tokens):
            rule = "passes of equally many tokens need numbered_slots and pass_tokens"
            raise InputError(rule, key="equal_passes", value=self.equal_passes)
        if self.numbered_slots and self.reserve_ratio != 1.0:
            rule = "a slot has room for all of its request: must be 1 with numbered_slots"
            raise InputError(rule, key="reserve_ratio", value=self.reserve_ratio)


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
            (`ema`); or at the length that emits most tokens a second at the acceptance seen lately
            (`goodput`).
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
        if self.stop.rule in ("probability", "product"):
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
        if self.stop.rule in ("ema", "goodput"):
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
        if (self.policy.rule == "verified") != (self.batch.slots == "likeliest"):
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
        in_step: the replicas are ranks with experts of each other, and begin every iteration
            together.
        disaggregation: None: every replica computes prompts and decodes.
        merge: runs of iterations that differ in context alone are advanced together, with the same
            result.
        series: states over time are noted; without them long runs of equal iterations are advanced
            at once.
        seed: of every random choice.

    Raises:
        InputError: no replica, an unknown router, two decoders at once; ranks in step with a timer
            that does not tell their own part, or that share their passes otherwise; a limit of
            passes that are shared otherwise.
    """

    workload: Workload
    scheduler: SchedulerOptions
    timer: StepTimer
    speculation: SpeculationOptions | None = None
    blocks: BlockOptions | RecordedBlocks | None = None
    replicas: int = 1
    router: Router = "round-robin"
    in_step: bool = False
    disaggregation: Disaggregation | None = None
    merge: bool = True
    series: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        if self.replicas < 1:
            raise InputError("must be >= 1", key="replicas", value=self.replicas)
        if self.router not in ROUTERS:
            raise InputError(
                f"must be one of {', '.join(ROUTERS)}", key="router", value=self.router
            )
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
