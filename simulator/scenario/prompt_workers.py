"""Who computes the prompts of a scenario where other replicas decode, and how does a cache get to
these?

Replicas like those that decode, or workers with a plan of their own. Leaves out queues
(`simulator.cluster`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from costmodel.answers.steps.setting import Setting
from costmodel.parallel.disaggregation import cache_bytes
from costmodel.parallel.plan import ParallelPlan
from costmodel.parallel.pools import ServingPlan, Workers, transfer_seconds, workers_of
from hardware_profiles.errors import InputError
from simulator.loop.options import Disaggregation, SchedulerOptions
from simulator.scenario.copies import Copies
from simulator.scenario.defaults import kv_blocks
from simulator.scenario.file import ScenarioFile


def disaggregation_of(
    written: ScenarioFile,
    setting: Setting | None,
    mean_tokens: int,
    *,
    copies: Copies,
    scheduler: SchedulerOptions,
) -> Disaggregation | None:
    """Replicas for prompts, and how a cache travels from them.

    Args:
        written: the scenario.
        setting: what the cost model times; None with a profile.
        mean_tokens: of a request, on which the cache of layers with a window depends.
        copies: of the deployment that decodes.
        scheduler: of each of them.

    Raises:
        InputError: a profile, which does not know the links, and no time stated; a plan that does
            not divide the model.
        InfeasibleError: workers for prompts without room for a cache.
    """
    split = written.disaggregation
    if split is None:
        return None
    stated = split.model_dump(exclude={"prefill"})
    if setting is None:
        if split.prefill is not None:
            raise InputError(
                "is timed by the cost model, not by a profile", key="disaggregation.prefill"
            )
        if split.transfer_token_s is None:
            raise InputError(
                "must be given beside a measured profile", key="disaggregation.transfer_token_s"
            )
        return Disaggregation(**stated)
    if split.prefill is not None:
        decode = Workers(count=written.replicas or 1, plan=_plan(setting, copies))
        plan = ServingPlan(
            prefill=workers_of(split.prefill, key="disaggregation.prefill"), decode=decode
        )
        planned = _workers(setting, plan, mean_tokens, scheduler, copies)
        if split.transfer_token_s is None:
            planned["transfer_latency_s"] += split.transfer_latency_s
        else:
            planned |= {name: stated[name] for name in ("transfer_token_s", "transfer_latency_s")}
        return Disaggregation(**stated | planned)
    d = setting.deployment
    if split.transfer_token_s is None:
        moved = float(cache_bytes(d.architecture, d.precision, float(mean_tokens))) / mean_tokens
        stated["transfer_token_s"] = moved / (d.tensor_parallel * d.device.link_bytes_per_s)
    if written.feed_forward is not None:
        from simulator.timing.cost_timer import CostModelTimer

        # replicas for prompts hold the whole model
        stated["prefill_timer"] = CostModelTimer(setting)
    return Disaggregation(**stated)


def _plan(setting: Setting, copies: Copies) -> ParallelPlan:
    return copies.plan or ParallelPlan(tensor=setting.deployment.tensor_parallel)


def _workers(
    setting: Setting,
    plan: ServingPlan,
    mean_tokens: int,
    scheduler: SchedulerOptions,
    copies: Copies,
) -> dict[str, Any]:
    """Fields of `Disaggregation` of workers with a plan: the limits of those that decode, by data
    copy.
    """
    from simulator.timing.cost_timer import CostModelTimer

    assert plan.prefill is not None
    d, own = setting.deployment, plan.prefill.plan
    own.check(d.architecture)
    copies_per_scheduler = plan.decode.plan.data if copies.schedulers == 1 else 1
    blocks = kv_blocks(setting, own, scheduler.block_tokens, mean_tokens)
    latency_s, token_s = transfer_seconds(
        d.architecture, d.precision, d.device, plan, tokens=mean_tokens
    )
    return {
        "transfer_latency_s": latency_s,
        "transfer_token_s": token_s,
        "prefill_replicas": plan.prefill.count,
        "prefill_timer": CostModelTimer(setting, own),
        "prefill_scheduler": replace(
            scheduler,
            kv_blocks=blocks,
            token_budget=scheduler.token_budget * own.data // copies_per_scheduler,
            max_requests=max(scheduler.max_requests * own.data // copies_per_scheduler, 1),
        ),
    }
