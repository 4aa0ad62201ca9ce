"""Which scheduler and which cache does an engine have where a scenario does not say?

Published defaults of engines, the settings that a profile was measured under, the blocks that memory leaves, and what
moving a cache takes. Leaves out what a person wrote (`simulator.scenario_file`), which goes over all of it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from costmodel.architecture import NO_FEED_FORWARD
from costmodel.deployment import Deployment
from costmodel.estimate import Setting
from costmodel.memory import USABLE_RATIO, activation_bytes, kv_bytes
from costmodel.parallel import plan as parallel
from costmodel.parallel.disaggregation import cache_bytes
from costmodel.parallel.plan import Link, ParallelPlan
from costmodel.serving.closed_loop import cache_tokens
from costmodel.serving.policies import GROUP_BYTES, policy, policy_names
from hardware_profiles.errors import InfeasibleError, InputError
from hardware_profiles.loader import load_device
from hardware_profiles.units import format_bytes
from simulator.block_laws import chance_commits, even_commits
from simulator.engine_settings import EngineSettings
from simulator.scenario import BlockOptions, Disaggregation, SchedulerOptions
from simulator.scenario_file import ScenarioFile
from simulator.scenario_sections import BlocksSection, FeedForwardSection

_BLOCK_TOKENS = 16
# engines whose prompts share blocks by default: vLLM's enable_prefix_caching, SGLang's radix cache, TensorRT-LLM's
# kv_cache_config.enable_block_reuse
_SHARING = ("vllm", "sglang", "tensorrt-llm")


def scheduler_of(
    written: ScenarioFile,
    setting: Setting | None,
    engine: EngineSettings | None,
    plan: ParallelPlan | None,
    mean_tokens: int,
) -> SchedulerOptions:
    """What is written, over what a profile's engine was started with, over what engines do by default.

    Args:
        written: the scenario.
        setting: what the cost model times; None with a profile.
        engine: of a profile; None without.
        plan: how the target is spread; None: one tensor-parallel group.
        mean_tokens: of a request, on which the cache of layers with a window depends.

    Raises:
        InputError: numbers that do not go together.
        InfeasibleError: no room for a cache.
    """
    limits, slo, name = written.scheduler, written.slo, written.deployment.engine
    options: dict[str, Any] = {"block_tokens": _BLOCK_TOKENS}
    if engine is not None:
        options = {
            "token_budget": engine.token_budget, "max_requests": engine.max_requests, "chunked_prefill":
            engine.chunked_prefill, "prefix_cache": engine.prefix_cache, "block_tokens": engine.block_tokens,
        }  # fmt: skip
    elif setting is not None and name in policy_names():
        usual = policy(name, setting.device)
        options |= {
            "token_budget": usual.batch_tokens, "max_requests": usual.requests, "chunked_prefill": usual.chunks,
            "prefill_first": not usual.mixes, "prefix_cache": name in _SHARING,
            "reserve_output": usual.reserve_ratio >= 1.0,
        }  # fmt: skip
    options |= {key: value for key, value in limits.model_dump().items() if value is not None}
    if slo.admission:
        options |= {"slo_ttft_s": slo.ttft_s, "slo_tpot_s": slo.tpot_s}
    apart = written.feed_forward
    if "kv_blocks" not in options and engine is not None:
        options["kv_blocks"] = engine.kv_blocks()
    elif "kv_blocks" not in options:
        assert setting is not None
        held = setting if apart is None else _attention_side(setting)
        groups = 1 if apart is None else apart.attention_groups
        options["kv_blocks"] = groups * kv_blocks(held, name, plan, options["block_tokens"], mean_tokens)
    if options["preemption"] == "swap" and "swap_block_s" not in options:
        options["swap_block_s"] = swap_block_s(setting, options["block_tokens"])
    return SchedulerOptions(**options)


def disaggregation_of(
    written: ScenarioFile, setting: Setting | None, mean_tokens: int
) -> Disaggregation | None:  # fmt: skip
    """Replicas for prompts, and how a cache travels from them.

    Args:
        written: the scenario.
        setting: what the cost model times; None with a profile.
        mean_tokens: of a request, on which the cache of layers with a window depends.

    Raises:
        InputError: a profile, which does not know the links, and no time stated.
    """
    split = written.disaggregation
    if split is None:
        return None
    given = split.model_dump()
    if given["transfer_token_s"] is None:
        if setting is None:
            raise InputError("must be given beside a measured profile", key="disaggregation.transfer_token_s")
        d = setting.deployment
        moved = float(cache_bytes(d.architecture, d.precision, float(mean_tokens))) / mean_tokens
        given["transfer_token_s"] = moved / (d.tensor_parallel * d.device.link_bytes_per_s)
    if written.feed_forward is not None and setting is not None:
        from simulator.cost_timer import CostModelTimer

        given["prefill_timer"] = CostModelTimer(setting)  # replicas for prompts hold the whole model
    return Disaggregation(**given)


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
    values = sum(count * block.feed_forward.parameters(a.hidden) for block, count in a.blocks)
    needed, there = values * precision.weight_bytes / section.tensor_parallel, USABLE_RATIO * device.memory_bytes
    if needed > there:
        rule = f"the feed-forward layers of {a.name} need {format_bytes(needed)} on each {device.name}"
        raise InfeasibleError(rule, key="feed_forward.tensor_parallel", value=section.tensor_parallel)
    rate = section.link_bytes_per_s or min(own.device.link_bytes_per_s, device.link_bytes_per_s)
    return other, Link(bytes_per_s=rate, latency_s=section.link_latency_s)


def _attention_side(setting: Setting) -> Setting:
    """What the attention side's memory holds: the model without its feed-forward layers."""
    d = setting.deployment
    blocks = tuple((replace(block, feed_forward=NO_FEED_FORWARD), count) for block, count in d.architecture.blocks)
    return replace(setting, deployment=replace(d, architecture=replace(d.architecture, blocks=blocks)))


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
        commits = np.array([[*row, *[0] * (longest - len(row))] for row in section.commits], dtype=np.int64)
    elif section.passes is not None:
        commits = even_commits(size, section.passes)
    else:
        commits = chance_commits(size, section.commit_ratio or 0.0, np.random.default_rng([seed, size]))
    given = section.query_tokens
    each = (size if given is None else given,) if not isinstance(given, tuple) else given
    passes = commits.shape[1]
    queries = np.array([each[min(at, len(each) - 1)] for at in range(passes)], dtype=np.int64)
    return BlockOptions(block_tokens=size, commits=commits, query_tokens=queries, closing_passes=section.closing_passes)


def swap_block_s(setting: Setting | None, block_tokens: int) -> float:
    """Seconds to move one block between a device and its host.

    Raises:
        InputError: a profile, which does not know the link.
    """
    if setting is None:
        raise InputError("must be given beside a measured profile", key="scheduler.swap_block_s")
    d = setting.deployment
    held = kv_bytes(d.architecture, d.precision, batch=1, context=block_tokens, tensor_parallel=d.tensor_parallel)
    return float(held) / d.device.host_link_bytes_per_s


def kv_blocks(
    setting: Setting, engine: str, plan: ParallelPlan | None, block_tokens: int, context: int
) -> int:  # fmt: skip
    """Blocks of a replica's cache that fit beside weights, drafter and activations.

    Args:
        setting: target, device, drafter and engine.
        engine: whose share of the memory counts; one without a known policy plans as vLLM does.
        plan: how the target is spread; None: one tensor-parallel group.
        block_tokens: tokens of a block.
        context: tokens of a mean request.

    Raises:
        InfeasibleError: not one block.
    """
    d, drafter = setting.deployment, setting.drafter
    usual = policy(engine if engine in policy_names() else "vllm", setting.device)
    if plan is None:
        whole = kv_bytes(d.architecture, d.precision, batch=1, context=context, tensor_parallel=d.tensor_parallel)
        tokens, shared = cache_tokens(d, usual, context=context), d.tensor_parallel
    else:
        # of a request on one data copy, so many times as there are copies
        whole = parallel.kv_bytes(d.architecture, d.precision, plan, batch=1, context=context) / plan.data
        working = float(activation_bytes(d.architecture, d.precision, tokens=usual.batch_tokens, logit_rows=1))
        free = usual.memory_ratio * (d.device.memory_bytes - usual.unseen_bytes) - working / plan.tensor
        free -= parallel.weight_bytes(d.architecture, d.precision, plan) + (GROUP_BYTES if plan.devices > 1 else 0.0)
        tokens, shared = free / float(whole) * context, plan.tensor
    per_token = float(whole) / context
    held = drafter.resident_values * d.precision.weight_bytes / shared
    own = drafter.kv_values_per_token * d.precision.kv_bytes / shared
    blocks = int(np.floor((tokens - held / per_token) / (1.0 + own / per_token) / block_tokens))
    if blocks < 1:
        raise InfeasibleError(f"{d.architecture.name} leaves no room for a cache on {d.device.name}", key="kv_blocks")
    return blocks
