"""What happens to this workload on these engines? The front door of the simulator.

Builds the arrays of a scenario, lets its processes run, and collects what they left. Leaves out
reading scenarios from files (`simulator.scenario.file`) and repeating them over seeds (the app).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.laws.batching import OUTCOME_PASSES, concurrent_drafts
from hardware_profiles.errors import InfeasibleError, InputError
from simulator.cluster.ranks import Ranks
from simulator.cluster.service import Disaggregated, Progress
from simulator.cluster.stage import Pool, Stage
from simulator.loop.block_options import RecordedBlocks
from simulator.loop.dealing import dealt_at_random
from simulator.loop.decoders.record import ALWAYS, EMA, GATE, TIERS, TREE
from simulator.loop.decoders.speculation import (
    build_drafts,
    lookahead_tokens,
    mean_rows_by_pass,
    place_requests,
)
from simulator.loop.histogram import Histogram
from simulator.loop.options import Scenario
from simulator.loop.rank_time import RankTimer
from simulator.loop.request import ENDINGS, FAILED, FINISHED
from simulator.loop.state import (
    BY_ROWS,
    COUNTERS,
    SchedulerLimits,
    Whole,
    new_limits,
    new_prefixes,
    new_requests,
)
from simulator.loop.step_time import StepTimer
from simulator.loop.tables import Tables
from simulator.results.metrics import SimulationResult
from simulator.timing.cost_timer import TabledTimer, TableSize
from traces.kinds.tree import Tree


def simulate(scenario: Scenario, *, progress: Progress | None = None) -> SimulationResult:
    """Run a scenario to its end.

    Example:
        >>> from simulator.loop.request import Workload
        >>> from simulator.loop.options import SchedulerOptions
        >>> workload = Workload(
        ...     arrival_s=np.zeros(2), prompt_tokens=np.array([64, 64]), output_tokens=np.array([3, 1]))
        >>> def timer(decode_requests, query_tokens, decode_context_tokens, prefill, longest_context=0.0):
        ...     return 1e-3 + 1e-6 * sum(new for new, _ in prefill)
        >>> result = simulate(Scenario(workload=workload, scheduler=SchedulerOptions(kv_blocks=64), timer=timer))
        >>> result.state.tolist(), result.ttft_s.round(6).tolist(), result.tpot_s[0].round(6).item()
        (['finished', 'finished'], [0.001128, 0.001128], 0.001)

    Args:
        scenario: workload, scheduler, speculation and timers. Equal scenarios have equal results.
        progress: called now and then with the requests that have ended, and all.

    Returns:
        What every request saw, and totals; every request is finished, rejected or failed.

    Raises:
        InputError: options that do not go together.
        InfeasibleError: a service level that not even one request alone can meet.
    """
    _check_service_levels(scenario)
    generator = np.random.default_rng(scenario.seed)
    workload, apart = scenario.workload, scenario.disaggregation
    if scenario.in_step and isinstance(scenario.timer, RankTimer):
        own = replace(scenario, timer=scenario.timer.own, in_step=False, router="round-robin")
        ranks = Ranks(new_pool(own, generator), scenario.timer, workload, scenario.router)
        ranks.run(progress)
        return collect(scenario, [ranks.stage], ranks.idle_passes)
    routed: dict[str, Any] = {"how": scenario.router, "report_s": scenario.report_s}
    if apart is None:
        pool, dealt = new_pool(scenario, generator), _dealt(scenario, scenario.replicas)
        stage = Stage(pool, workload, scenario.replicas, **routed, dealt=dealt)
        stage.run(np.inf, None if progress is None else lambda n: progress(n, workload.requests))
        result = collect(scenario, [stage])
        if scenario.sample is None:
            return result
        alone = [collect(scenario, [stage], replica=i) for i in range(scenario.replicas)]
        return replace(result, sample=scenario.sample, alone=tuple(alone))
    closed = workload.users is not None
    decoders = Stage(
        new_pool(after_prompts(scenario), generator),
        workload,
        scenario.replicas,
        **routed,
        dealt=_dealt(scenario, scenario.replicas),
        listed=False,
        disaggregated=closed,
    )
    prompts = Stage(
        prompt_pool(scenario, generator),
        workload,
        apart.prefill_replicas,
        **routed,
        dealt=_dealt(scenario, apart.prefill_replicas, prompts=True),
        disaggregated=closed,
    )
    Disaggregated(workload, prompts, decoders, apart).run(progress)
    return collect(scenario, [decoders, prompts])


def _dealt(scenario: Scenario, replicas: int, *, prompts: bool = False) -> NDArray[np.int32] | None:
    """The replica of every request behind a random router, which deals prompts out by itself; None:
    the router is another.
    """
    if scenario.router != "random":
        return None
    if scenario.sample is not None:
        return scenario.sample.owners
    places = np.arange(scenario.workload.requests)
    return dealt_at_random(places, replicas, (scenario.seed, 1) if prompts else scenario.seed)


def after_prompts(scenario: Scenario) -> Scenario:
    """What replicas that only decode see: requests that were received before, and have their first
    token.
    """
    options = replace(scenario.scheduler, slo_ttft_s=None, intake_s=0.0, intake_token_s=0.0)
    return replace(scenario, scheduler=options)


def _check_service_levels(scenario: Scenario) -> None:
    """Refuse limits that even the smallest request, alone, cannot meet."""
    options, workload, timer = scenario.scheduler, scenario.workload, scenario.timer
    if options.slo_ttft_s is not None:
        least = min(int(workload.prompt_tokens.min()), options.token_budget)
        alone = timer(0, 0.0, 0.0, [(least, 0)])
        if alone > options.slo_ttft_s:
            raise InfeasibleError(
                f"the smallest prompt alone takes {alone:.3g} s",
                key="slo_ttft_s",
                value=options.slo_ttft_s,
            )
    if options.slo_tpot_s is not None:
        drafts = scenario.speculation.draft_tokens if scenario.speculation is not None else 0
        tokens = scenario.blocks.block_tokens if scenario.blocks is not None else 1 + drafts
        alone = timer(1, 1.0, float(workload.prompt_tokens.min()), []) / tokens
        if alone > options.slo_tpot_s:
            raise InfeasibleError(
                f"one request alone takes {alone:.3g} s a token",
                key="slo_tpot_s",
                value=options.slo_tpot_s,
            )


def new_pool(scenario: Scenario, generator: np.random.Generator) -> Pool:
    """Replicas that decode, and compute prompts where nobody else does.

    Args:
        scenario: to simulate.
        generator: of draws of the decoder, and of where requests begin in the recording.

    Raises:
        InputError: a controller or a drafted tree that needs tables, and timers that have none.
    """
    workload, options = scenario.workload, scenario.scheduler
    drafts = build_drafts(scenario, generator)
    requests = new_requests(workload, options)
    place_requests(requests, drafts, generator)
    blocks = scenario.blocks if isinstance(scenario.blocks, RecordedBlocks) else None
    limits = new_limits(
        workload,
        options,
        lag=0 if scenario.blocks is not None else 1,
        lookahead=lookahead_tokens(scenario),
        sequences=1 if blocks is None else blocks.held_sequences,
        canvas=0 if blocks is None or blocks.texts_end else blocks.canvas_tokens,
    )
    draft_timer = scenario.speculation.draft if scenario.speculation is not None else None
    tables = _tables(scenario, scenario.timer, limits, draft_timer)
    if drafts.controller not in (ALWAYS, EMA, TIERS, GATE) and tables is None:
        rule = "a controller that weighs seconds needs timers that can be tabulated"
        raise InputError(rule, key="controller", value=drafts.controller)
    if drafts.decoder == TREE and drafts.passes.size and draft_timer is not None and tables is None:
        raise InputError(
            "dynamic trees need timers that can be tabulated", key="topology", value="dynamic tree"
        )
    return Pool(
        requests=requests,
        prefixes=new_prefixes(workload, options),
        limits=limits,
        drafts=drafts,
        tables=tables,
        timer=scenario.timer,
        draft_timer=draft_timer,
        merge=scenario.merge,
        series=scenario.series,
    )


def prompt_pool(scenario: Scenario, generator: np.random.Generator) -> Pool:
    """Replicas that compute prompts and first tokens, and nothing else."""
    assert scenario.disaggregation is not None
    apart = scenario.disaggregation
    timer, options = (
        apart.prefill_timer or scenario.timer,
        apart.prefill_scheduler or scenario.scheduler,
    )
    pool = new_pool(
        replace(scenario, speculation=None, blocks=None, timer=timer, scheduler=options),
        generator,
    )
    pool.requests["output"] = 1
    return pool


def _tables(
    scenario: Scenario, timer: StepTimer, limits: SchedulerLimits, draft_timer: object
) -> Tables | None:
    """Tables that cover a scenario, if all its timers have them."""
    if not isinstance(timer, TabledTimer) or not (
        draft_timer is None or isinstance(draft_timer, TabledTimer)
    ):
        return None
    workload, speculation, blocks = scenario.workload, scenario.speculation, scenario.blocks
    tree = (
        speculation.topology
        if speculation is not None and isinstance(speculation.topology, Tree)
        else None
    )
    most = 1 + (speculation.draft_tokens if speculation is not None else 0)
    if speculation is not None and speculation.batch.fan_out:
        most += OUTCOME_PASSES
    exact: tuple[int, ...] = ()
    if blocks is not None:
        exact, most = blocks.query_sizes, max(blocks.query_sizes)
    context = (
        int((workload.prompt_tokens.astype(np.int64) + workload.output_tokens).max())
        + limits.lookahead
    )
    requests = min(limits.max_requests, workload.requests)
    rows = limits.token_budget + most
    if not limits.chunked or isinstance(blocks, RecordedBlocks):
        rows = max(rows, context)
    at_once = requests
    if speculation is not None:
        at_once = int(requests * concurrent_drafts(speculation.batch, speculation.draft_tokens))
    if blocks is not None:
        at_once = requests * blocks.copies
    levels = mean_rows_by_pass(speculation)
    most_rows, queries = min(rows, context * requests + most), max(most, 1 + len(levels))
    size = TableSize(most_rows, at_once, context, queries, tree, levels, exact)
    tables = timer.tables(size, drafts=False)
    if isinstance(draft_timer, TabledTimer):
        drafted = draft_timer.tables(size, drafts=True)
        tables = tables._replace(draft_s=drafted.draft_s, draft_row_s=drafted.draft_row_s)
    return tables


def _counted(scenario: Scenario) -> tuple[str, ...]:
    """Names of the totals; changes of the draft length are counted where a policy sets it."""
    policy = scenario.speculation.policy if scenario.speculation is not None else None
    return COUNTERS if policy is None else (*COUNTERS, "length_changes")


def _added(counts: Sequence[Whole]) -> Whole:
    """The sum of tables of stages, [replica, 2, columns], that go on to different columns."""
    total = np.zeros((2, max(table.shape[2] for table in counts)), dtype=np.int64)
    for table in counts:
        total[:, : table.shape[2]] += table.sum(axis=0)
    return total


def collect(
    scenario: Scenario,
    stages: Sequence[Stage],
    idle_passes: int | None = None,
    *,
    replica: int | None = None,
) -> SimulationResult:
    """What the requests and the replicas ended with.

    Args:
        scenario: as it was run.
        stages: the one that decodes, then the one that computes prompts, if they do not decode.
        idle_passes: of ranks in step; None: the replicas are no such ranks.
        replica: the one whose requests and counts are taken; None: all.
    """
    workload = scenario.workload
    whose = slice(None) if replica is None else slice(replica, replica + 1)
    last, first = stages[0].pool.requests, stages[-1].pool.requests
    ending = last["phase"].astype(np.uint8)
    if first is not last:
        never_came = (first["phase"] != FINISHED) | (workload.output_tokens == 1)
        ending[never_came] = first["phase"][never_came]
    ending[~np.isin(ending, list(ENDINGS))] = FAILED
    finished = ending == FINISHED
    last_s = np.where(np.isnan(last["last_s"]), first["last_s"], last["last_s"])
    first_s = np.where(first["phase"] == FINISHED, first["first_s"], last["first_s"])
    if scenario.disaggregation is not None and scenario.disaggregation.delivers == "decode":
        first_s = np.where(np.isnan(last["scheduled_s"]), first_s, last["scheduled_s"])
    states = [state for stage in stages for state in stage.fleet.replicas[whose]]
    by_batch = _added(
        [stage.fleet.counts[whose, :BY_ROWS, : stage.fleet.running.shape[1]] for stage in stages]
    )
    by_rows = _added(
        [stage.fleet.counts[whose, BY_ROWS:, : stage.pool.limits.most_rows + 1] for stage in stages]
    )
    taken = slice(None) if replica is None else np.flatnonzero(last["replica"] == replica)
    return SimulationResult(
        request=np.arange(workload.requests)[taken],
        input_tokens=workload.prompt_tokens[taken],
        output_tokens=workload.output_tokens[taken],
        arrival_s=first["sent_s"][taken].copy(),
        scheduled_s=first["scheduled_s"][taken].copy(),
        first_token_s=first_s[taken],
        last_token_s=np.where(finished, last_s, np.nan)[taken],
        ending=ending[taken],
        replica=last["replica"][taken].astype(np.int32),
        itl=Histogram(
            counts=np.sum([state.itl for state in states], axis=0),
            total_s=float(sum(s.itl_s for s in states)),
        ),
        iterations=int(sum(s.iterations for s in states)),
        clock_s=max(stage.clock_s for stage in stages),
        busy_s=float(sum(s.busy_s for s in states)),
        replicas=len(states),
        counters={name: int(sum(getattr(s, name) for s in states)) for name in _counted(scenario)},
        steps_by_batch=by_batch[0],
        emitted_by_batch=by_batch[1],
        iterations_by_rows=by_rows[0],
        iterations_by_sampled=by_rows[1],
        exposed_host_s=float(sum(s.host_s for s in states)),
        kv_peak_ratio=max(
            float(stage.fleet.replicas["peak_blocks"][whose].max()) / stage.pool.limits.kv_blocks
            for stage in stages
        ),
        series=tuple(series for stage in stages for series in stage.series()[whose]),
        busy_by_replica_s=np.array([state.busy_s for state in states[: scenario.replicas]]),
        idle_passes=idle_passes,
        users=workload.users,
    )
