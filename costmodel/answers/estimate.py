"""How fast does a configuration decode, against no speculation at the same batch, context and
devices?

The front door of the cost model: a `Setting` (target, device, drafter, engine) and an `Acceptance`
give step time, tokens per second, speedup and their intervals. Leaves out choosing
(`optimizers.search`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from costmodel.answers.steps.planned_step import (
    planned_footprint,
    planned_pass_seconds,
    planned_step_cost,
)
from costmodel.answers.steps.refine_step import refine_footprint
from costmodel.answers.steps.setting import Setting, group_step_cost
from costmodel.answers.steps.step import StepCost
from costmodel.answers.uncertainty import DRAWS, StepDraws, draw_steps, interval_holding, paired
from costmodel.drafters.formats import drafter_bytes, drafter_kv_bytes_per_token
from costmodel.drafters.pass_costs import prompt_draft_s
from costmodel.laws.acceptance import Acceptance, geometric
from costmodel.passes.adapters import adapter_bytes
from costmodel.passes.forward import Logits, pass_cost
from costmodel.passes.memory import Footprint, footprint, kv_bytes, layer_weight_bytes
from costmodel.passes.ops import Array, Number

__all__ = ["Setting"]  # which most callers find here, beside what answers it


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Estimate:
    """Point estimates of one configuration over a grid; arrays have the broadcast shape of batch
    and context.

    Args:
        acceptance: what the configuration emits.
        step: cost of its step.
        plain: cost of a plain step at the same points.
        step_s: seconds of a step.
        tokens_per_s: of the whole batch.
        speedup: against plain decoding at the same points.
    """

    acceptance: Acceptance
    step: StepCost
    plain: StepCost
    step_s: Array
    tokens_per_s: Array
    speedup: Array


def step_cost(
    setting: Setting, acceptance: Acceptance, *, batch: Number, context: Number
) -> StepCost:
    """Cost of the steps of a configuration; a chain of no tokens is plain decoding.

    Args:
        setting: target, device, drafter, engine, and the plan that the target is spread by.
        acceptance: the configuration.
        batch: requests of the whole plan; broadcasts with `context`.
        context: cached tokens per request.
    """
    if setting.plan is None:
        return group_step_cost(setting, acceptance, batch=batch, context=context)
    return planned_step_cost(setting, acceptance, setting.plan, batch=batch, context=context)


def estimate(
    setting: Setting,
    acceptance: Acceptance,
    *,
    batch: Number,
    context: Number,
    plain: StepCost | None = None,
) -> Estimate:
    """Tokens per second and speedup of one configuration over a grid.

    Example:
        >>> from costmodel.answers.settings import build_setting
        >>> from costmodel.configuration import DecodingConfiguration, DeploymentNames
        >>> from costmodel.laws.acceptance import geometric
        >>> names = DeploymentNames(model="llama-3.1-8b", device="h100-sxm", engine="none")
        >>> setting = build_setting(DecodingConfiguration(method="eagle-3", deployment=names))
        >>> three_tokens = geometric(0.7, draft_tokens=3)
        >>> estimate(setting, three_tokens, batch=np.array([1, 64]), context=1024).speedup.round(2).tolist()
        [2.17, 1.95]

    Args:
        setting: target, device, drafter and engine.
        acceptance: what the configuration emits per step.
        batch: requests, > 0; broadcasts with `context`.
        context: cached tokens per request, >= 0.
        plain: cost of a plain step at the same points, where it is known already.

    Raises:
        InputError: a non-positive or non-finite batch or context.
    """
    compared = setting.against or replace(setting, keeps_drafter=False)
    plain = plain or step_cost(compared, geometric(0.0, 0), batch=batch, context=context)
    step = step_cost(setting, acceptance, batch=batch, context=context)
    shape = np.broadcast_shapes(np.shape(batch), np.shape(context))
    step_s = np.broadcast_to(step.total_s, shape)
    plain_s = np.broadcast_to(plain.total_s, shape)
    rate = np.asarray(batch, dtype=np.float64) * acceptance.tokens_per_step / step_s
    return Estimate(
        acceptance=acceptance,
        step=step,
        plain=plain,
        step_s=step_s,
        tokens_per_s=rate,
        speedup=acceptance.tokens_per_step * plain_s / step_s,
    )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Intervals:
    """80 % intervals (lower, upper) of an estimate, arrays over its points."""

    step_s: tuple[Array, Array]
    tokens_per_step: tuple[Array, Array]
    tokens_per_s: tuple[Array, Array]
    speedup: tuple[Array, Array]


def intervals(
    setting: Setting,
    result: Estimate,
    *,
    batch: Number,
    generator: np.random.Generator,
    draws: int = DRAWS,
    alike: bool = False,
) -> Intervals:
    """Intervals of an estimate: bootstrap draws of acceptance paired with drawn errors of the cost
    model.

    Args:
        setting: as in `estimate`.
        result: the estimate.
        batch: as in `estimate`.
        generator: source of randomness.
        draws: number of draws.
        alike: every point takes the draws that it would take alone.
    """
    drawn = draw_steps(
        result.plain,
        result.step,
        setting.device.constants.residual_ratio,
        setting.overhead,
        generator=generator,
        draws=draws,
        alike=alike,
    )
    if (
        result.acceptance.draft_tokens == 0
    ):  # one and the same step: nothing to be unsure of in the ratio
        drawn = StepDraws(plain_s=drawn.plain_s, step_s=drawn.plain_s)
    recorded = result.acceptance.samples
    tokens = (
        paired(recorded, draws, generator)
        if recorded.size
        else np.full(draws, result.acceptance.tokens_per_step)
    )
    shape = result.step_s.shape
    b = np.broadcast_to(np.asarray(batch, dtype=np.float64), shape).reshape(1, -1)

    def holding(point: Array, samples: Array) -> tuple[Array, Array]:
        return interval_holding(point, samples.reshape(draws, *shape))

    return Intervals(
        step_s=holding(result.step_s, drawn.step_s),
        tokens_per_step=interval_holding(result.acceptance.tokens_per_step, tokens),
        tokens_per_s=holding(result.tokens_per_s, b * tokens[:, None] / drawn.step_s),
        speedup=holding(result.speedup, tokens[:, None] * drawn.plain_s / drawn.step_s),
    )


def prefill_s(
    setting: Setting, *, prompt_tokens: Number, batch: Number = 1.0, drafts: bool = True
) -> Array:
    """Seconds to process prompts of `prompt_tokens` tokens, the drafter's cache included.

    Args:
        setting: target, device, drafter and engine.
        prompt_tokens: tokens per prompt, > 0.
        batch: prompts processed together.
        drafts: the drafter processes the prompt too (where it keeps a cache of its own).
    """
    prompt = np.asarray(prompt_tokens, dtype=np.float64)
    cost = sum(
        _pass_seconds(setting, batch, prompt, logits="last", prefill=True).values(),
        start=np.zeros(()),
    )
    if drafts:
        cost = cost + prompt_draft_s(
            setting.deployment, setting.drafter, batch=batch, prompt_tokens=prompt
        )
    return np.asarray(cost + setting.plain_overhead.step_s)


def chunked_prefill_s(
    setting: Setting, *, prompt_tokens: float, chunk_tokens: Number, drafts: bool = True
) -> Array:
    """Seconds to process one prompt that nobody decodes beside, in passes of at most `chunk_tokens`
    tokens.

    Every pass reads the weights anew, and the cache that the passes before it wrote.

    Args:
        setting: target, device, drafter and engine.
        prompt_tokens: tokens of the prompt, > 0.
        chunk_tokens: most tokens of a pass, >= 1; infinite: the prompt stays whole, as encoders'
            prompts always do.
        drafts: the drafter processes the prompt too (where it keeps a cache of its own).
    """
    whole = prefill_s(setting, prompt_tokens=prompt_tokens, drafts=drafts)
    chunk = np.minimum(np.asarray(chunk_tokens, dtype=np.float64), prompt_tokens)
    full = np.floor(prompt_tokens / chunk + 1e-9)
    is_whole = (full == 1.0) & (prompt_tokens - full * chunk <= 0.5)
    if setting.target.encoder is not None or np.all(is_whole):
        return np.broadcast_to(whole, chunk.shape)

    def pass_s(tokens: Array, context: Array) -> Array:
        seconds = _pass_seconds(setting, 1.0, tokens, context=context, logits="last", prefill=True)
        return sum(seconds.values(), start=np.zeros(())) + setting.plain_overhead.step_s

    rest = prompt_tokens - full * chunk
    passes = full * pass_s(chunk, (full - 1.0) * chunk / 2.0)
    passes = passes + np.where(rest > 0.5, pass_s(np.maximum(rest, 1.0), full * chunk), 0.0)
    if drafts:
        passes = passes + prompt_draft_s(
            setting.deployment, setting.drafter, batch=1.0, prompt_tokens=prompt_tokens
        )
    return np.asarray(np.where(is_whole, whole, passes))


def mixed_prefill_s(
    setting: Setting,
    *,
    prompt_tokens: float,
    decode_rows: Number,
    drafts: bool = True,
    chunk_tokens: Number = np.inf,
) -> Array:
    """Seconds that a prompt adds to steps in which other requests decode: chunked prefill with
    mixed batches.

    A step reads the weights anyway; a chunk adds its rows to every matrix product, and its own
    attention, which reads the chunks before it. Of an encoder-decoder, whose prompts stay whole,
    the encoder's pass comes on top. The decoder's first token joins the step where the encoder
    reads text; where it reads audio (Whisper), the prompt is the decoder's own and is billed with
    the encoder's pass.

    Args:
        setting: target, device, drafter and engine.
        prompt_tokens: tokens of the prompt.
        decode_rows: query tokens of the requests that decode in the same step, > 0.
        drafts: the drafter processes the prompt too (where it keeps a cache of its own), in a pass
            of its own.
        chunk_tokens: most of its tokens that one step takes, >= 1; broadcasts with the rows.

    Reference: Agrawal et al. 2023, "SARATHI" (arXiv:2308.16369), section 4.2.
    """
    rows, target = np.asarray(decode_rows, dtype=np.float64), setting.target
    encodes = target.encoder is not None  # whose rows share no product with a decoder's
    chunk: Number = (
        prompt_tokens
        if encodes or np.all(chunk_tokens >= prompt_tokens)
        else np.minimum(chunk_tokens, prompt_tokens)
    )
    joining = float(not target.source_positions) if encodes else chunk
    together, alone = (_row_seconds(setting, rows + extra) for extra in (joining, 0.0))
    if target.cross_decoder is not None:  # whose layers only the last token of a chunk runs
        layers = replace(setting.deployment, architecture=target.cross_decoder)
        few = replace(setting, deployment=layers)
        together = together - _row_seconds(few, rows + chunk) + _row_seconds(few, rows + 1.0)
    own = _pass_seconds(
        setting,
        1.0,
        chunk,
        context=(prompt_tokens - chunk) / 2.0,
        prefill=True,
        logits="none" if encodes else "last",
    )
    added = (
        together
        - alone
        + sum(own[name] for name in (own if encodes else _ATTENTION) if name in own)
    )
    added = added * (prompt_tokens / chunk)
    if drafts:
        added = added + prompt_draft_s(
            setting.deployment, setting.drafter, batch=1.0, prompt_tokens=prompt_tokens
        )
    return np.asarray(added)


_ATTENTION = ("attention", "mla", "state")


def _row_seconds(setting: Setting, rows: Array) -> Array:
    """Seconds of the operations whose cost depends on the rows of a pass alone."""
    seconds = _pass_seconds(setting, rows, 1.0, logits="none")
    return np.asarray(sum(value for name, value in seconds.items() if name not in _ATTENTION))


def _pass_seconds(
    setting: Setting,
    batch: Number,
    query_tokens: Number,
    *,
    logits: Logits,
    context: Number = 0.0,
    prefill: bool = False,
) -> Mapping[str, Array]:
    """Seconds by operation of a pass; `batch` is that of every data copy of a plan."""
    shape = {"batch": batch, "query_tokens": query_tokens, "context": context}
    if setting.plan is not None:
        return planned_pass_seconds(setting, setting.plan, **shape, logits=logits, prefill=prefill)
    return pass_cost(setting.deployment, **shape, logits=logits, prefill=prefill).seconds


def throughput_speedup(
    setting: Setting,
    acceptance: Acceptance,
    *,
    batch: Number,
    prompt_tokens: float,
    output_tokens: float,
) -> Array:
    """Speedup of whole requests, prompt processing included, with `batch` of them in flight at any
    time.

    Alone, a request's prompt takes a pass of its own; beside others it joins one of their decode
    steps. Decode steps are shared by the batch; context is taken at the middle of the output.

    Args:
        setting: target, device, drafter and engine.
        acceptance: what the configuration emits per step.
        batch: requests in flight.
        prompt_tokens: mean prompt length, > 0.
        output_tokens: mean output length, > 0.
    """
    context = prompt_tokens + output_tokens / 2.0
    setting = reading(setting, prompt_tokens)
    result = estimate(setting, acceptance, batch=batch, context=context)
    b = np.asarray(batch, dtype=np.float64)
    sharing = b / setting.parallel_prompts  # requests whose prompts wait for each other

    def prompt_s(rows_per_request: float, drafts: bool) -> Array:
        alone = prefill_s(setting, prompt_tokens=prompt_tokens, drafts=drafts)
        beside = np.maximum(sharing - 1.0, 1.0) * rows_per_request
        mixed = mixed_prefill_s(
            setting, prompt_tokens=prompt_tokens, decode_rows=beside, drafts=drafts
        )
        return np.asarray(np.where(sharing > 1.0, mixed, alone))

    verified = 1.0 + acceptance.proposal_ratio * acceptance.proposed_tokens
    plain = prompt_s(1.0, drafts=False) + output_tokens * result.plain.total_s / sharing
    steps = output_tokens / acceptance.tokens_per_step
    fast = (
        prompt_s(verified, drafts=acceptance.draft_tokens > 0)
        + steps * result.step.total_s / sharing
    )
    return np.asarray(plain / fast)


def reading(setting: Setting, prompt_tokens: float) -> Setting:
    """The setting where an encoder is known to read prompts of so many tokens, so that its decoder
    wrote the rest.

    Args:
        setting: target, device, drafter and engine; unchanged without an encoder.
        prompt_tokens: mean prompt length, >= 0.
    """
    if setting.target.encoder is None:
        return setting
    return replace(
        setting, deployment=replace(setting.deployment, source_tokens=round(prompt_tokens))
    )


def footprint_of(
    setting: Setting,
    acceptance: Acceptance,
    *,
    batch: Number,
    context: Number,
    block_tokens: int | None = None,
) -> Footprint:
    """Bytes on each device that a configuration needs.

    Args:
        setting: target, device, drafter and engine.
        acceptance: the configuration; without draft tokens the drafter takes nothing.
        batch: requests; broadcasts with `context`.
        context: cached tokens per request.
        block_tokens: of a block of the cache; None: the engine's.
    """
    if setting.plan is not None:
        return planned_footprint(
            setting,
            acceptance,
            setting.plan,
            batch=batch,
            context=context,
            block_tokens=block_tokens,
        )
    d, drafter = setting.deployment, setting.drafter
    used = setting.holds_drafter(acceptance)
    share = d.tensor_parallel
    shared = np.minimum(d.shared_prefix_tokens, context)  # held once for all requests
    block = block_tokens or setting.engine.memory.block_tokens
    if drafter.method.refine is not None and used:
        own = refine_footprint(
            d, drafter.method, batch=batch, context=context - shared, page_tokens=block
        )
    else:
        own = footprint(
            setting.target,
            d.precision,
            batch=batch,
            context=context - shared,
            tensor_parallel=share,
            query_tokens=1 + acceptance.draft_tokens,
            drafter_bytes=drafter_bytes(d, drafter, share) if used else 0.0,
            drafter_kv_bytes_per_token=(
                drafter_kv_bytes_per_token(d, drafter, share) if used else 0.0
            ),
            rollback=d.rollback,
            page_tokens=block,
        )
    held_once = kv_bytes(
        setting.target,
        d.precision,
        batch=1,
        context=shared,
        tensor_parallel=share,
        page_tokens=block,
    )
    on_host = d.host_weights_ratio * layer_weight_bytes(setting.target, d.precision, share)
    weights = own.weights_bytes - on_host
    if d.adapters is not None:
        weights = weights + adapter_bytes(setting.target, d.adapters, share)
    return replace(own, weights_bytes=weights, cache_bytes=own.cache_bytes + held_once)


def needed_bytes(
    setting: Setting, acceptance: Acceptance, *, batch: Number, context: Number
) -> Array:
    """All bytes on each device that a configuration needs; see `footprint_of`."""
    return footprint_of(setting, acceptance, batch=batch, context=context).total_bytes
