"""What does one replica do at every batch: requests per second, time per token, time to first token?

A steady batch in which every request takes its prompt's time and its share of the decode steps. Prompts join decode
steps, whole or in chunks that a token budget leaves room for. Leaves out how many replicas a load needs (`capacity`),
percentiles, bursts and routing (see the simulator).
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from costmodel.answers.estimate import Setting, estimate, mixed_prefill_s, prefill_s
from costmodel.answers.workload import Load
from costmodel.laws.acceptance import Acceptance
from costmodel.passes.ops import Array, Number


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Prompts:
    """What prompts take of a replica; arrays that broadcast with its batches.

    Args:
        mean_s: mean time that a prompt adds, all its chunks together.
        square: mean of its square, s^2.
        iterations: that it is spread over, on average, >= 1.
    """

    mean_s: Array
    square: Array
    iterations: Array

    def slower(self, ratio: Array) -> "Prompts":
        """The same where everything takes `ratio` times as long."""
        return replace(self, mean_s=self.mean_s * ratio, square=self.square * ratio**2)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Curve:
    """One replica at every batch from 1 up; arrays over batches.

    Args:
        batch: requests in flight.
        step_s: of a decode step.
        prompts: what prompts take of it.
        requests_per_s: that a busy replica finishes.
        tpot_s: mean time per output token, with the prompts of others in between.
        ttft_s: mean time to first token at the planned utilisation, waiting included.
    """

    batch: Array
    step_s: Array
    prompts: Prompts
    requests_per_s: Array
    tpot_s: Array
    ttft_s: Array


class Speeds(NamedTuple):
    """A busy replica: requests that it finishes per second, and mean times; arrays that broadcast."""

    requests_per_s: Array
    tpot_s: Array
    ttft_s: Array


def replica_curve(
    setting: Setting,
    a: Acceptance,
    load: Load,
    *,
    largest: int,
    utilisation: float,
    token_budget: int | None = None,
) -> Curve:
    """One replica at every batch from 1 to `largest`, or at every multiple of its data copies.

    A request stays for its prompt's and its steps' time, stretched by the prompts of the others; by Little's law a
    batch of b finishes b requests in that time. It waits for one of b places (Sakasegawa's approximation of M/M/b),
    for the prompts before its own (M/G/1), and for half a step. Under a plan the data copies and the stages each
    process prompts of their own at the same time, and those of one copy and stage wait for each other.

    Args:
        setting: target, device, drafter and engine.
        a: the configuration.
        load: requests to serve; their lengths matter, not their rate.
        largest: largest batch, >= 1.
        utilisation: share of the highest rate at which requests arrive, for the waiting time.
        token_budget: most query tokens of an iteration; None: prompts are never split.

    Reference: Sakasegawa 1977, "An approximation formula Lq = a·rho^b/(1-rho)"; Pollaczek-Khinchine for M/G/1.
    """
    copies = 1 if setting.plan is None else setting.plan.data
    budget, rows = np.inf if token_budget is None else float(token_budget), step_rows(a)
    most = float(most_sharing(load, rows, budget, load.output_tokens / a.tokens_per_step) * setting.parallel_prompts)
    b = np.arange(copies, max(min(largest, most), copies) + 1, copies, dtype=np.float64)
    step = np.asarray(estimate(setting, a, batch=b, context=load.decode_context).step_s)
    prompts = replica_prompts(setting, load, batch=b, rows=rows, drafts=a.draft_tokens > 0, token_budget=budget)
    speeds = replica_speeds(
        setting, b, step, prompts, output_tokens=load.output_tokens, tokens_per_step=a.tokens_per_step,
        utilisation=utilisation,
    )  # fmt: skip
    return Curve(
        batch=b, step_s=step, prompts=prompts, requests_per_s=speeds.requests_per_s, tpot_s=speeds.tpot_s,
        ttft_s=speeds.ttft_s,
    )  # fmt: skip


def step_rows(a: Acceptance) -> float:
    """Query tokens of one decoding request's step, on average."""
    return 1.0 + a.proposal_ratio * a.proposed_tokens


def most_sharing(load: Load, rows: Number, token_budget: Number, steps: Number) -> Array:
    """Requests of one scheduler that can decode while as many prompts pass as they finish.

    Iterations have room for no more prompts beside the decode rows: further requests would only wait for theirs.

    Args:
        load: whose prompts.
        rows: query tokens of one decoding request's step.
        token_budget: most query tokens of an iteration; infinite: there is always room.
        steps: that a request makes until its end.
    """
    return np.asarray(token_budget / (rows + load.mean_prompt_tokens / np.asarray(steps)), dtype=np.float64)


def replica_prompts(
    setting: Setting, load: Load, *, batch: Array, rows: Number, drafts: bool, token_budget: Number = np.inf
) -> Prompts:
    """What prompts take of a replica beside decoding requests.

    Alone, a prompt takes passes of its own; beside others its chunks join their decode steps. A chunk is what the
    budget leaves beside the decode rows, or the whole prompt where that is less. A chunk reads the cache of those
    before it, half of the prompt on average.

    Args:
        setting: target, device, drafter and engine.
        load: whose prompts.
        batch: requests in flight.
        rows: query tokens of one decoding request's step; broadcasts with the batch, like the budget.
        drafts: the drafter processes prompts too.
        token_budget: most query tokens of an iteration; infinite: prompts are never split.
    """
    sharing = batch / setting.parallel_prompts  # requests whose prompts wait for each other
    left = np.asarray(token_budget - np.maximum(sharing - 1.0, 0.0) * rows, dtype=np.float64)
    room = np.maximum(left, 1.0)
    each = [_prompt_s(setting, length, sharing, rows, drafts, room) for length in load.prompt_tokens]
    seconds = np.maximum(np.stack(each), 0.0)
    lengths = np.array(load.prompt_tokens).reshape(-1, *(1 for _ in room.shape))
    return Prompts(
        mean_s=seconds.mean(axis=0), square=(seconds**2).mean(axis=0),
        iterations=np.maximum(lengths / room, 1.0).mean(axis=0),
    )  # fmt: skip


def replica_speeds(
    setting: Setting,
    batch: Array,
    step_s: Array,
    prompts: Prompts,
    *,
    output_tokens: float,
    tokens_per_step: Number,
    utilisation: float | None,
) -> Speeds:
    """Rate and mean times of a replica with so many requests in flight, at most those of `most_sharing`.

    Args:
        setting: how many prompts are processed at the same time.
        batch: requests in flight.
        step_s: of a decode step; broadcasts with the batch and what else there is.
        prompts: what prompts take.
        output_tokens: mean output length.
        tokens_per_step: that a step emits per request.
        utilisation: share of the highest rate at which requests arrive; None: whoever leaves is followed at once, so
            that nobody waits for a place.
    """
    sharing = batch / setting.parallel_prompts
    prompt, steps = prompts.mean_s, output_tokens / tokens_per_step
    decode = steps * step_s
    stay = sharing * prompt + decode
    rate = batch / stay
    tpot = (np.maximum(sharing - 1.0, 0.0) * prompt + decode) / output_tokens
    if utilisation is None:
        own = prompt + np.where(batch > 1.0, (0.5 + prompts.iterations) * step_s, 0.0)
        return Speeds(rate, tpot, np.maximum(own, stay - output_tokens * tpot))
    arrivals = utilisation * rate / setting.parallel_prompts
    ttft = waiting_s(batch, utilisation, arrivals=arrivals, step=step_s, prompts=prompts, stay=stay)
    return Speeds(rate, tpot, ttft)


def waiting_s(
    places: Array, utilisation: float, *, arrivals: Array, step: Array, prompts: Prompts, stay: Array
) -> Array:
    """Mean time to first token: for a place, for earlier prompts, for the running step, and the prompt itself.

    Args:
        places: requests that are served together.
        utilisation: share of the places that are taken, above 0 and below 1.
        arrivals: requests per second whose prompts wait for each other.
        step: seconds of a decode step.
        prompts: what prompts take.
        stay: seconds that a request takes one of the places.
    """
    full = utilisation ** (np.sqrt(2.0 * (places + 1.0)) - 1.0) / (places * (1.0 - utilisation)) * stay
    before = arrivals * prompts.square / (2.0 * np.maximum(1.0 - arrivals * prompts.mean_s, 1.0 - utilisation))
    # half a step to wait, and the decode rows of its own iterations
    beside = np.where(places > 1.0, (0.5 + prompts.iterations) * step, 0.0)
    return np.asarray(full + before + prompts.mean_s + beside)


def _prompt_s(setting: Setting, length: float, b: Array, rows: Number, drafts: bool, room: Array) -> Array:
    """Seconds that one prompt adds to a replica: alone at batch 1, else mixed into steps of the others."""
    chunks = np.maximum(length / room, 1.0)
    alone = prefill_s(setting, prompt_tokens=length, drafts=drafts)
    alone = alone + (chunks - 1.0) * setting.plain_overhead.step_s
    beside = np.maximum(b - 1.0, 1.0) * rows
    mixed = mixed_prefill_s(setting, prompt_tokens=length, decode_rows=beside, drafts=drafts, chunk_tokens=room)
    return np.asarray(np.where(b > 1.0, mixed, alone))
