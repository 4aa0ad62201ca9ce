"""Which scheduler and which cache does an engine have where a scenario does not say?

Published defaults of engines, the settings that a profile was measured under, the blocks that
memory leaves, and what moving a cache takes. Leaves out what a person wrote
(`simulator.scenario.file`), which goes over all of it.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np

from costmodel.answers.estimate import Setting
from costmodel.answers.fit import cache_tokens
from costmodel.architectures.architecture import NO_FEED_FORWARD
from costmodel.parallel.plan import Link, ParallelPlan
from costmodel.passes.deployment import Deployment
from costmodel.passes.memory import WeightValues, kv_bytes
from costmodel.passes.streaming import host_rate
from costmodel.scheduler import Scheduler
from hardware_profiles.errors import InfeasibleError, InputError
from hardware_profiles.loader import load_device
from hardware_profiles.units import format_bytes
from simulator.loop.block_options import BlockOptions
from simulator.loop.options import SchedulerOptions
from simulator.scenario.block_laws import even_commits, random_commits
from simulator.scenario.copies import Copies
from simulator.scenario.encoders import WHOLE_PROMPTS
from simulator.scenario.file import ScenarioFile
from simulator.scenario.sections import BlocksSection, FeedForwardSection
from simulator.timing.engine_settings import EngineSettings
from traces.importers.engines.started import read_engine_facts


def scheduler_of(
    written: ScenarioFile,
    setting: Setting | None,
    engine: EngineSettings | None,
    copies: Copies,
    mean_tokens: int,
) -> SchedulerOptions:
    """What is written, over what a profile's engine was started with, over what engines do by
    default.

    Args:
        written: the scenario.
        setting: what the cost model times; None with a profile.
        engine: of a profile; None without.
        copies: of the deployment, each with a scheduler of its own.
        mean_tokens: of a request, on which the cache of layers with a window depends.

    Raises:
        InputError: numbers that do not go together.
        InfeasibleError: no room for a cache.
    """
    limits, slo = written.scheduler, written.slo
    usual, options = Scheduler(), dict[str, Any]()
    if engine is not None:
        usual, options["block_tokens"] = engine.started, engine.block_tokens
    elif setting is not None:
        options["block_tokens"] = setting.engine.memory.block_tokens
        if setting.engine.scheduler is not None:
            usual = setting.engine.scheduler
            if copies.plan is not None and copies.schedulers == 1:
                usual = usual.of_copies(copies.plan.data)
    if written.deployment.shared_prefix_tokens:
        options["prefix_cache"] = True
    if setting is not None and setting.target.encoder is not None:
        options |= WHOLE_PROMPTS
    if limits.engine_log is not None:
        options |= logged_options(
            limits.engine_log, limits.block_tokens or options.get("block_tokens", 1)
        )
    options |= limits.model_dump(exclude={"engine_log"}, exclude_none=True)
    if slo.admission:
        options |= {"slo_ttft_s": slo.ttft_s, "slo_tpot_s": slo.tpot_s}
    apart = written.feed_forward
    if "kv_blocks" not in options and engine is not None:
        options["kv_blocks"] = engine.kv_blocks()
    elif "kv_blocks" not in options and written.deployment.cache_tokens is not None:
        options["kv_blocks"] = max(written.deployment.cache_tokens // options["block_tokens"], 1)
    elif "kv_blocks" not in options:
        assert setting is not None
        attention = setting if apart is None else _attention_side(setting)
        groups = 1 if apart is None else apart.attention_groups
        blocks = groups * kv_blocks(attention, copies.plan, options["block_tokens"], mean_tokens)
        options["kv_blocks"] = int(blocks * copies.blocks_ratio)
    if options["preemption"] == "swap" and "swap_block_s" not in options:
        options["swap_block_s"] = swap_block_s(setting, options["block_tokens"])
    return SchedulerOptions(**asdict(usual) | options)


def logged_options(log: str, block_tokens: int) -> dict[str, Any]:
    """Fields of `SchedulerOptions` that a running engine told of itself.

    Args:
        log: its log, or JSON of its configuration.
        block_tokens: of a block, where the engine does not say.

    Raises:
        InputError: a file that tells nothing.
    """
    facts = read_engine_facts(log)
    block = facts.block_tokens or block_tokens
    tokens = facts.tokens(block)
    blocks = None if tokens is None else max(tokens // block, 1)
    logged = {
        "block_tokens": block,
        "kv_blocks": blocks,
        "token_budget": facts.token_budget,
        "max_requests": facts.max_requests,
    }
    return {name: value for name, value in logged.items() if value is not None}


def feed_forward_of(section: FeedForwardSection, setting: Setting) -> tuple[Deployment, Link]:
    """The feed-forward side, and the link to it.

    Args:
        section: as written.
        setting: of the attention side.

    Raises:
        InputError: an unknown device, or a degree that does not divide the model.
        InfeasibleError: the feed-forward layers do not fit.
    """
    own = setting.deployment
    device = own.device if section.device is None else load_device(section.device)
    other = replace(own, device=device, tensor_parallel=section.tensor_parallel)
    a, precision = own.architecture, own.precision
    layers = sum(count * block.feed_forward.parameters(a.hidden) for block, count in a.blocks)
    values = WeightValues(matrices=layers - a.routed_parameters, experts=a.routed_parameters)
    needed = values.stored_bytes(precision) / section.tensor_parallel
    left = setting.engine.memory.cache_bytes(
        device.memory_bytes,
        weights_bytes=needed,
        activations_bytes=0.0,
        devices=section.tensor_parallel,
    )
    if left < 0.0:
        rule = (
            f"the feed-forward layers of {a.name} need {format_bytes(needed)} on each {device.name}"
        )
        raise InfeasibleError(
            rule, key="feed_forward.tensor_parallel", value=section.tensor_parallel
        )
    rate = section.link_bytes_per_s or min(own.device.link_bytes_per_s, device.link_bytes_per_s)
    return other, Link(bytes_per_s=rate, latency_s=section.link_latency_s)


def _attention_side(setting: Setting) -> Setting:
    """What the attention side's memory holds: the model without its feed-forward layers."""
    d = setting.deployment
    blocks = tuple(
        (replace(block, feed_forward=NO_FEED_FORWARD), count)
        for block, count in d.architecture.blocks
    )
    return replace(
        setting, deployment=replace(d, architecture=replace(d.architecture, blocks=blocks))
    )


def block_options(section: BlocksSection, seed: int) -> BlockOptions:
    """A block decoder as written.

    Args:
        section: as written.
        seed: of blocks that are drawn.

    Raises:
        InputError: commits that do not fill a block, or more passes than tokens.
    """
    size = section.block_tokens
    if section.commits is not None:
        longest = max(len(row) for row in section.commits)
        commits = np.array(
            [[*row, *[0] * (longest - len(row))] for row in section.commits], dtype=np.int64
        )
    elif section.passes is not None:
        commits = even_commits(size, section.passes)
    else:
        commits = random_commits(
            size, section.commit_ratio or 0.0, np.random.default_rng([seed, size])
        )
    stated = section.query_tokens
    queries_by_pass = (
        (size if stated is None else stated,) if not isinstance(stated, tuple) else stated
    )
    passes = commits.shape[1]
    queries = np.array(
        [queries_by_pass[min(at, len(queries_by_pass) - 1)] for at in range(passes)], dtype=np.int64
    )
    return BlockOptions(
        block_tokens=size,
        commits=commits,
        query_tokens=queries,
        closing_passes=section.closing_passes,
    )


def swap_block_s(setting: Setting | None, block_tokens: int) -> float:
    """Seconds to move one block between a device and its host.

    Raises:
        InputError: a profile, which does not know the link.
    """
    if setting is None:
        raise InputError("must be given beside a measured profile", key="scheduler.swap_block_s")
    d = setting.deployment
    block_bytes = kv_bytes(
        d.architecture,
        d.precision,
        batch=1,
        context=block_tokens,
        tensor_parallel=d.tensor_parallel,
    )
    return float(block_bytes) / host_rate(d.device)


def kv_blocks(setting: Setting, plan: ParallelPlan | None, block_tokens: int, context: int) -> int:
    """Blocks of a replica's cache that fit beside weights, drafter and activations.

    Args:
        setting: target, device, drafter and engine.
        plan: how the target is spread; None: one tensor-parallel group.
        block_tokens: tokens of a block.
        context: tokens of a mean request.

    Raises:
        InfeasibleError: not one block.
    """
    d = setting.deployment
    tokens = cache_tokens(d, setting.engine, context=context, drafter=setting.drafter, plan=plan)
    blocks = int(np.floor(tokens / block_tokens))
    if blocks < 1:
        raise InfeasibleError(
            f"{d.architecture.called} leaves no room for a cache on {d.device.name}",
            key="kv_blocks",
        )
    return blocks
