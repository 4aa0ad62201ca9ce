"""What does one replica do at every batch: requests per second, time per token, time to first
token?

A steady batch in which every request takes its prompt's time and its share of the decode steps.
Prompts join decode steps, whole or in chunks that a token budget leaves room for. Leaves out what
requests see under a load (`loads`), how many replicas one needs (`capacity`), percentiles, bursts
and routing (see the simulator).
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from costmodel.answers.estimate import Setting, chunked_prefill_s, estimate, mixed_prefill_s
from costmodel.answers.first_token import Prompts, composed_iterations, first_token_s
from costmodel.answers.loads import Curve
from costmodel.answers.steps.refine_step import pass_rows
from costmodel.answers.workload import Load
from costmodel.laws.acceptance import Acceptance
from costmodel.laws.refining import reads_prompts, refine_of
from costmodel.passes.ops import Array, Number


class ReplicaSpeeds(NamedTuple):
    """A busy replica: requests that it finishes per second, and mean times; arrays that
    broadcast.
    """

    requests_per_s: Array
    tpot_s: Array
    ttft_s: Array


def replica_curve(
    setting: Setting, a: Acceptance, load: Load, *, largest: int, token_budget: int | None = None
) -> Curve:
    """One replica at every batch from 1 to `largest`, or at every multiple of its data copies.

    A request stays for its prompt's and its steps' time, stretched by the prompts of the others; by
    Little's law a batch of b finishes b requests in that time. Under a plan the data copies and the
    stages each process prompts of their own at the same time, and those of one copy and stage wait
    for each other.

    Args:
        setting: target, device, drafter and engine.
        a: the configuration.
        load: requests to serve; their lengths matter, not their rate.
        largest: largest batch, >= 1.
        token_budget: most query tokens of an iteration; None: prompts are never split.
    """
    copies = 1 if setting.plan is None else setting.plan.data
    budget = np.inf if token_budget is None else float(token_budget)
    context = own_load(setting, a, load).decode_context
    rows = step_rows(setting, a, context)
    most = float(
        most_sharing(load, rows, budget, load.output_tokens / a.tokens_per_step)
        * setting.parallel_prompts
    )
    b = np.arange(copies, max(min(largest, most), copies) + 1, copies, dtype=np.float64)
    step = np.asarray(estimate(setting, a, batch=b, context=context).step_s)
    prompts, speeds = busy_replica(
        setting,
        a,
        load,
        batch=b,
        step_s=step,
        rows=rows,
        tokens_per_step=a.tokens_per_step,
        token_budget=budget,
    )
    return curve_of(setting, b, step, prompts, speeds)


def curve_of(
    setting: Setting, batch: Array, step_s: Array, prompts: Prompts, speeds: ReplicaSpeeds
) -> Curve:
    """The curve of a replica whose speeds are known.

    Args:
        setting: target, device, drafter and engine.
        batch: float64[n], requests in flight, rising.
        step_s: of a decode step, by batch along the last axis.
        prompts: what prompts take.
        speeds: of a busy replica.
    """
    return Curve(
        batch=batch,
        step_s=step_s,
        prompts=prompts,
        requests_per_s=speeds.requests_per_s,
        tpot_s=speeds.tpot_s,
        copies=1 if setting.plan is None else setting.plan.data,
        parallel_prompts=setting.parallel_prompts,
        composed_iterations=composed_iterations(setting),
    )


def busy_replica(
    setting: Setting,
    a: Acceptance,
    load: Load,
    *,
    batch: Array,
    step_s: Array,
    rows: Number,
    tokens_per_step: Number,
    token_budget: Number = np.inf,
    slower: Number = 1.0,
) -> tuple[Prompts, ReplicaSpeeds]:
    """What prompts take of a replica that is kept busy, and what it does then.

    Args:
        setting: target, device, drafter and engine.
        a: the configuration, or one of several that decode alike.
        load: whose prompts and outputs.
        batch: requests in flight, along the last axis.
        step_s: of a decode step; broadcasts with the batch and the rest.
        rows: query tokens of one decoding request's step.
        tokens_per_step: that a step emits per request.
        token_budget: most query tokens of an iteration; infinite: prompts are never split.
        slower: ratio by which all passes take longer.
    """
    steps_s = step_s * np.asarray(slower)
    prompts = replica_prompts(
        setting,
        load,
        batch=batch,
        rows=rows,
        drafts=a.draft_tokens > 0,
        token_budget=token_budget,
    ).slower(np.asarray(slower))
    output, computed = load.output_tokens, computed_tokens(setting, a, load.output_tokens)
    behind = 1.0
    if _refines(setting, a):  # whose first token comes with the last pass over the first block
        block = float(setting.drafter.method.shape.nodes)
        passes = block / np.asarray(tokens_per_step)
        prompts = replace(
            prompts,
            iterations=prompts.iterations + passes,
            alone_s=prompts.alone_s + passes * steps_s[..., :1],
        )
        behind = max(1.0 - block / computed, 1.0 / computed)
    speeds = replica_speeds(
        setting,
        batch,
        steps_s,
        prompts,
        output_tokens=output,
        tokens_per_step=tokens_per_step * (output / computed),
    )
    return prompts, speeds._replace(tpot_s=speeds.tpot_s * behind)


def own_load(setting: Setting, a: Acceptance, load: Load) -> Load:
    """The load as the steps of a configuration meet it: before masked blocks, what is cached of a
    request ends where its canvas begins, and on average half of that is decoded.

    Args:
        setting: target, device, drafter and engine.
        a: the configuration.
        load: requests to serve.
    """
    if not _refines(setting, a):
        return load
    canvas = float(refine_of(setting.drafter.method).canvas_tokens)
    behind = min(canvas, load.output_tokens) / 2.0
    return replace(
        load,
        decode_context=load.decode_context - behind,
        longest_context=load.longest_context - behind,
    )


def computed_tokens(setting: Setting, a: Acceptance, output_tokens: float) -> float:
    """Tokens that are computed for an output: masked blocks are finished, so that half a block is
    beyond the end on average.

    Args:
        setting: target, device, drafter and engine.
        a: the configuration.
        output_tokens: mean output length.
    """
    beyond = (setting.drafter.method.shape.nodes - 1) / 2.0 if _refines(setting, a) else 0.0
    return output_tokens + beyond


def _refines(setting: Setting, a: Acceptance) -> bool:
    return setting.drafter.method.refine is not None and a.draft_tokens > 0


def step_rows(setting: Setting, a: Acceptance, context: float) -> float:
    """Query tokens of one decoding request's step, or of a pass over masked blocks, on average.

    Args:
        setting: whose method decodes.
        a: the configuration.
        context: cached tokens, or those before the canvas.
    """
    if _refines(setting, a):
        method = setting.drafter.method
        return pass_rows(method, tokens_per_step=a.tokens_per_step, context=context)
    return 1.0 + a.proposal_ratio * a.proposed_tokens


def most_sharing(load: Load, rows: Number, token_budget: Number, steps: Number) -> Array:
    """Requests of one scheduler that can decode while as many prompts pass as they finish.

    Iterations have room for no more prompts beside the decode rows: further requests would only
    wait for theirs.

    Args:
        load: whose prompts.
        rows: query tokens of one decoding request's step.
        token_budget: most query tokens of an iteration; infinite: there is always room.
        steps: that a request makes until its end.
    """
    return np.asarray(
        token_budget / (rows + load.mean_prompt_tokens / np.asarray(steps)), dtype=np.float64
    )


def replica_prompts(
    setting: Setting,
    load: Load,
    *,
    batch: Array,
    rows: Number,
    drafts: bool,
    token_budget: Number = np.inf,
) -> Prompts:
    """What prompts take of a replica beside decoding requests.

    Alone, a prompt takes passes of its own; beside others its chunks join their decode steps. A
    chunk is what the budget leaves beside the decode rows, or the whole prompt where that is less.
    A chunk reads the cache of those before it, half of the prompt on average. A prompt that every
    masked block's first pass computes anew takes nothing beside these passes.

    Args:
        setting: target, device, drafter and engine.
        load: whose prompts.
        batch: requests in flight.
        rows: query tokens of one decoding request's step; broadcasts with the batch, like the
            budget.
        drafts: the drafter processes prompts too.
        token_budget: most query tokens of an iteration; infinite: prompts are never split.
    """
    if drafts and not reads_prompts(setting.drafter.method):
        none = np.zeros(np.broadcast_shapes(*map(np.shape, (batch, rows, token_budget))))
        return Prompts(mean_s=none, square=none, iterations=none, filled=none, alone_s=none)
    sharing = batch / setting.parallel_prompts  # requests whose prompts wait for each other
    left = np.asarray(token_budget - np.maximum(sharing - 1.0, 0.0) * rows, dtype=np.float64)
    room = np.maximum(left, 1.0)
    alone = [_alone_s(setting, length, drafts, room) for length in load.prompt_tokens]
    prompt_s = [
        np.where(sharing > 1.0, _beside_s(setting, length, sharing, rows, drafts, room), by_itself)
        for length, by_itself in zip(load.prompt_tokens, alone, strict=True)
    ]
    seconds = np.maximum(np.stack(prompt_s), 0.0)
    lengths = np.array(load.prompt_tokens).reshape(-1, *(1 for _ in room.shape))
    return Prompts(
        mean_s=seconds.mean(axis=0),
        square=(seconds**2).mean(axis=0),
        iterations=np.maximum(np.ceil(lengths / room - 1e-9), 1.0).mean(axis=0),
        filled=(lengths / room).mean(axis=0),
        alone_s=np.stack(alone).mean(axis=0),
    )


def replica_speeds(
    setting: Setting,
    batch: Array,
    step_s: Array,
    prompts: Prompts,
    *,
    output_tokens: float,
    tokens_per_step: Number,
) -> ReplicaSpeeds:
    """Rate and mean times of a busy replica with so many requests in flight, at most those of
    `most_sharing`.

    Whoever leaves is followed at once, so that nobody waits for a place or for a part of an
    iteration.

    Args:
        setting: how many prompts are processed at the same time.
        batch: requests in flight.
        step_s: of a decode step; broadcasts with the batch and what else there is.
        prompts: what prompts take.
        output_tokens: mean output length.
        tokens_per_step: that a step emits per request.
    """
    sharing = batch / setting.parallel_prompts
    prompt, steps = prompts.mean_s, output_tokens / tokens_per_step
    decode = steps * step_s
    stay = sharing * prompt + decode
    rate = batch / stay
    tpot = (np.maximum(sharing - 1.0, 0.0) * prompt + decode) / output_tokens
    among = first_token_s(
        prompts,
        step_s,
        arrivals=rate / setting.parallel_prompts,
        composed=composed_iterations(setting),
        residual_ratio=0.0,
    )
    ttft = np.where(sharing > 1.0, np.maximum(among, prompt), prompts.alone_s)
    return ReplicaSpeeds(rate, tpot, np.broadcast_to(ttft, np.shape(rate)))


def _alone_s(setting: Setting, length: float, drafts: bool, room: Array) -> Array:
    """Seconds of one prompt that nobody decodes beside."""
    scheduler = setting.engine.scheduler
    pass_tokens = (
        scheduler.pass_tokens if scheduler is not None and scheduler.pass_tokens else np.inf
    )
    return chunked_prefill_s(
        setting, prompt_tokens=length, chunk_tokens=np.minimum(room, pass_tokens), drafts=drafts
    )


def _beside_s(
    setting: Setting, length: float, b: Array, rows: Number, drafts: bool, room: Array
) -> Array:
    """Seconds that one prompt adds to the steps of the others."""
    beside = np.maximum(b - 1.0, 1.0) * rows
    return mixed_prefill_s(
        setting, prompt_tokens=length, decode_rows=beside, drafts=drafts, chunk_tokens=room
    )
