"""What does one replica do at every batch and under every load: requests per second, time per token, first token?

A steady batch in which every request takes its prompt's time and its share of the decode steps. Prompts join decode
steps, whole or in chunks that a token budget leaves room for. Under a load, requests arrive independently of each other
and wait for a place, for the running iteration, for the one that the engine has composed already, and for what is
received with them. Leaves out how many replicas a load needs (`capacity`), percentiles, bursts and routing (see the
simulator).
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.answers.estimate import Setting, estimate, mixed_prefill_s, prefill_s
from costmodel.answers.workload import Limits, Load
from costmodel.laws.acceptance import Acceptance
from costmodel.passes.ops import Array, Number

_MOST_SHARE = 0.999  # of the time that prompts take, so that no sum over iterations is infinite


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Prompts:
    """What prompts take of a replica; arrays that broadcast with its batches.

    Args:
        mean_s: mean time that a prompt adds, all its chunks together.
        square: mean of its square, s^2.
        iterations: that it is spread over, on average, >= 1.
        filled: iterations whose room it fills, on average; below 1 where several prompts share one.
        alone_s: mean time of a prompt that nobody decodes beside.
    """

    mean_s: Array
    square: Array
    iterations: Array
    filled: Array
    alone_s: Array

    def slower(self, ratio: Array) -> "Prompts":
        """The same where everything takes `ratio` times as long."""
        return replace(self, mean_s=self.mean_s * ratio, square=self.square * ratio**2, alone_s=self.alone_s * ratio)


class Speeds(NamedTuple):
    """A busy replica: requests that it finishes per second, and mean times; arrays that broadcast."""

    requests_per_s: Array
    tpot_s: Array
    ttft_s: Array


class Loaded(NamedTuple):
    """A replica under a load: requests in flight on average, and mean times; arrays that broadcast."""

    in_flight: Array
    tpot_s: Array
    ttft_s: Array


@dataclass(frozen=True, kw_only=True, eq=False)
class Curve:
    """One replica at every batch; arrays whose last axis is the batch.

    A request that arrives at a replica sees the requests that are in flight on average (arrival theorem): a load under
    which it is one of b keeps b - 1 in flight. No time under a load is less than under a lighter one.

    Args:
        batch: float64[n], requests in flight, rising.
        step_s: of a decode step.
        prompts: what prompts take of it.
        requests_per_s: that a busy replica finishes.
        tpot_s: mean time per output token, with the prompts of others in between.
        copies: schedulers that share the batch.
        parallel_prompts: prompts that are processed at the same time.
        composed_iterations: iterations that are composed already when a request arrives, beside the one that runs.

    Reference: Lavenberg and Reiser 1980, "Stationary state probabilities at arrival instants for closed queueing
    networks"; Sakasegawa 1977, "An approximation formula Lq = a·rho^b/(1-rho)".
    """

    batch: Array
    step_s: Array
    prompts: Prompts
    requests_per_s: Array
    tpot_s: Array
    copies: int
    parallel_prompts: float
    composed_iterations: int

    @cached_property
    def load_per_s(self) -> Array:
        """Requests per second that arrive where each of them makes the batch as large as it is."""
        stay = self.batch / self.requests_per_s
        return np.maximum.accumulate((self.batch - self.copies) / stay, axis=-1)

    @cached_property
    def received_s(self) -> Array:
        """Mean time to first token under those loads where no request waits for a place."""
        here = (self.batch - self.copies) / self.parallel_prompts
        busy = -np.expm1(-here)  # somebody is there: the number in flight is taken to follow Poisson's law
        others = np.where(here > 0.0, here / np.where(here > 0.0, busy, 1.0), 1.0)
        step = _along(self.batch, self.step_s, others * self.parallel_prompts)
        p, with_it = self.prompts, (1.0 + others) * self.parallel_prompts
        mean, square, iterations, filled = (
            _along(self.batch, np.broadcast_to(values, self.requests_per_s.shape), with_it)
            for values in (p.mean_s, p.square, p.iterations, p.filled)
        )
        beside = replace(p, mean_s=mean, square=square, iterations=iterations, filled=filled)
        arrivals = self.load_per_s / self.parallel_prompts
        among = first_token_s(beside, step, arrivals=arrivals, composed=self.composed_iterations, residual_ratio=0.5)
        seconds = (1.0 - busy) * p.alone_s + busy * np.maximum(among, p.alone_s)
        return np.maximum.accumulate(np.broadcast_to(seconds, self.load_per_s.shape), axis=-1)

    @cached_property
    def _slowest_tpot_s(self) -> Array:
        return np.maximum.accumulate(self.tpot_s, axis=-1)

    @cached_property
    def _highest_per_s(self) -> Array:
        return np.maximum.accumulate(self.requests_per_s, axis=-1)

    def highest_per_s(self, places: Array) -> Array:
        """Requests per second that a replica finishes at most, serving so many at once."""
        return _along(self.batch, self._highest_per_s, places)

    def under(self, requests_per_s: Array, places: Array) -> Loaded:
        """What requests see that arrive at a rate; times to first token are infinite where they are too many.

        Args:
            requests_per_s: at one replica; its last axis is that of the places.
            places: requests that are served at once at most, within the batches of the curve.
        """
        highest = self.highest_per_s(places)
        alone = _along(self.batch, self.load_per_s, places)  # from here on requests wait for places most of the time
        at = _places(self.load_per_s, np.minimum(requests_per_s, alone))
        in_flight = np.where(
            requests_per_s < alone, _between(self.batch - self.copies, at), requests_per_s / highest * places
        )
        waits = np.minimum(in_flight / places, 1.0) ** (np.sqrt(2.0 * (places + 1.0)) - 1.0)
        spare = np.asarray(highest - requests_per_s)
        waiting = np.where(spare > 0.0, waits / np.where(spare > 0.0, spare, 1.0), np.inf)
        return Loaded(
            in_flight=np.minimum(in_flight, places), tpot_s=_between(self._slowest_tpot_s, at),
            ttft_s=_between(self.received_s, at) + waiting,
        )  # fmt: skip


def least_replicas(
    curve: Curve, requests_per_s: float, places: Array, slo: Limits, *, utilisation: float, most: int
) -> Array:
    """The fewest replicas each of which keeps the limits under its share of a load; infinite where no number does.

    Where so many keep them, more do too: no time is less under a heavier load.

    Args:
        curve: one replica.
        requests_per_s: of all replicas together.
        places: requests that a replica serves at once at most.
        slo: limits on means.
        utilisation: share of the requests that a busy replica finishes which one may be sent.
        most: replicas that there may be.
    """
    highest = curve.highest_per_s(places)

    def keeps(replicas: Array) -> Array:
        share = requests_per_s / replicas
        seen = curve.under(share, places)
        carried = share <= utilisation * highest * (1.0 + 1e-9)
        return np.asarray(slo.met(ttft_s=seen.ttft_s, tpot_s=seen.tpot_s) & carried)

    low, high = np.ones(highest.shape), np.full(highest.shape, float(most))
    able = keeps(high)
    while np.any(low < high):
        middle = np.floor((low + high) / 2.0)
        enough = keeps(middle)
        high, low = np.where(enough, middle, high), np.where(enough, low, np.minimum(middle + 1.0, high))
    return np.where(able, high, np.inf)


def replica_curve(
    setting: Setting, a: Acceptance, load: Load, *, largest: int, token_budget: int | None = None
) -> Curve:
    """One replica at every batch from 1 to `largest`, or at every multiple of its data copies.

    A request stays for its prompt's and its steps' time, stretched by the prompts of the others; by Little's law a
    batch of b finishes b requests in that time. Under a plan the data copies and the stages each process prompts of
    their own at the same time, and those of one copy and stage wait for each other.

    Args:
        setting: target, device, drafter and engine.
        a: the configuration.
        load: requests to serve; their lengths matter, not their rate.
        largest: largest batch, >= 1.
        token_budget: most query tokens of an iteration; None: prompts are never split.
    """
    copies = 1 if setting.plan is None else setting.plan.data
    budget, rows = np.inf if token_budget is None else float(token_budget), step_rows(a)
    most = float(most_sharing(load, rows, budget, load.output_tokens / a.tokens_per_step) * setting.parallel_prompts)
    b = np.arange(copies, max(min(largest, most), copies) + 1, copies, dtype=np.float64)
    step = np.asarray(estimate(setting, a, batch=b, context=load.decode_context).step_s)
    prompts = replica_prompts(setting, load, batch=b, rows=rows, drafts=a.draft_tokens > 0, token_budget=budget)
    speeds = replica_speeds(
        setting, b, step, prompts, output_tokens=load.output_tokens, tokens_per_step=a.tokens_per_step
    )
    return curve_of(setting, b, step, prompts, speeds)


def curve_of(setting: Setting, batch: Array, step_s: Array, prompts: Prompts, speeds: Speeds) -> Curve:
    """The curve of a replica whose speeds are known.

    Args:
        setting: target, device, drafter and engine.
        batch: float64[n], requests in flight, rising.
        step_s: of a decode step, by batch along the last axis.
        prompts: what prompts take.
        speeds: of a busy replica.
    """
    return Curve(
        batch=batch, step_s=step_s, prompts=prompts, requests_per_s=speeds.requests_per_s, tpot_s=speeds.tpot_s,
        copies=1 if setting.plan is None else setting.plan.data, parallel_prompts=setting.parallel_prompts,
        composed_iterations=composed_iterations(setting),
    )  # fmt: skip


def composed_iterations(setting: Setting) -> int:
    """Iterations that an engine has composed already, beside the one that runs, when a request arrives."""
    scheduler = setting.engine.scheduler
    return int(scheduler is not None and scheduler.overlaps)


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
    alone = [_alone_s(setting, length, drafts, room) for length in load.prompt_tokens]
    each = [np.where(sharing > 1.0, _beside_s(setting, length, sharing, rows, drafts, room), by_itself)
            for length, by_itself in zip(load.prompt_tokens, alone, strict=True)]  # fmt: skip
    seconds = np.maximum(np.stack(each), 0.0)
    lengths = np.array(load.prompt_tokens).reshape(-1, *(1 for _ in room.shape))
    return Prompts(
        mean_s=seconds.mean(axis=0), square=(seconds**2).mean(axis=0),
        iterations=np.maximum(np.ceil(lengths / room - 1e-9), 1.0).mean(axis=0), filled=(lengths / room).mean(axis=0),
        alone_s=np.stack(alone).mean(axis=0),
    )  # fmt: skip


def replica_speeds(
    setting: Setting, batch: Array, step_s: Array, prompts: Prompts, *, output_tokens: float, tokens_per_step: Number
) -> Speeds:
    """Rate and mean times of a busy replica with so many requests in flight, at most those of `most_sharing`.

    Whoever leaves is followed at once, so that nobody waits for a place or for a part of an iteration.

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
        prompts, step_s, arrivals=rate / setting.parallel_prompts, composed=composed_iterations(setting),
        residual_ratio=0.0,
    )  # fmt: skip
    ttft = np.where(sharing > 1.0, np.maximum(among, prompt), prompts.alone_s)
    return Speeds(rate, tpot, np.broadcast_to(ttft, np.shape(rate)))


def first_token_s(prompts: Prompts, step_s: Array, *, arrivals: Array, composed: int, residual_ratio: float) -> Array:
    """Mean time to first token among requests that decode, once there is a place.

    An iteration takes a decode step and the prompts of all who arrived while another one ran. A request waits for what
    is left of the running iteration, for those that are composed already, and then runs in iterations of its own,
    beside the prompts that arrived with it. Where prompts together are more than the iterations' room, they queue.

    Args:
        prompts: what prompts take beside decoding requests.
        step_s: of a decode step.
        arrivals: requests per second whose prompts wait for each other.
        composed: iterations that are composed already.
        residual_ratio: 0.5 where requests arrive at any time, 0 where they arrive when an iteration ends.

    Reference: iterations as gated service, whose mean square follows from that of the prompts (Takagi 1986, "Analysis
    of Polling Systems"); Pollaczek-Khinchine for M/G/1 where room is short.
    """
    share = np.minimum(arrivals * prompts.mean_s, _MOST_SHARE)
    iteration = step_s / (1.0 - share)
    seen = iteration + arrivals * prompts.square / (1.0 - share**2)  # mean square over mean: as an arrival sees it
    lasting = prompts.mean_s + prompts.filled * step_s  # a prompt, in iterations without room for more
    full = np.minimum(arrivals * lasting, _MOST_SHARE)
    longer = (lasting / np.maximum(prompts.mean_s, 1e-12)) ** 2 - 1.0
    queue = arrivals * prompts.square * longer / (2.0 * (1.0 - full))
    own = prompts.mean_s + prompts.iterations * step_s
    return np.asarray(residual_ratio * seen + composed * iteration + share * seen + queue + own)


def unloaded_first_token_s(
    setting: Setting, *, prompt_tokens: Number, batch: Array, step_s: Array, drafts: bool
) -> Array:
    """Time to first token of a prompt that joins a batch which decodes, and to which nobody else comes.

    Args:
        setting: target, device, drafter and engine.
        prompt_tokens: length of the prompt; broadcasts with the rest.
        batch: requests in flight, the prompt's own among them.
        step_s: of their decode step.
        drafts: the drafter processes prompts too.
    """
    alone = np.asarray(prefill_s(setting, prompt_tokens=prompt_tokens, drafts=drafts))
    waits = np.where(batch > 1.0, (1.0 + composed_iterations(setting)) * step_s, 0.0)
    return np.asarray(alone + waits)


def _alone_s(setting: Setting, length: float, drafts: bool, room: Array) -> Array:
    """Seconds of one prompt that nobody decodes beside."""
    chunks = np.maximum(length / room, 1.0)
    alone = prefill_s(setting, prompt_tokens=length, drafts=drafts)
    return np.asarray(np.maximum(alone + (chunks - 1.0) * setting.plain_overhead.step_s, 0.0))


def _beside_s(setting: Setting, length: float, b: Array, rows: Number, drafts: bool, room: Array) -> Array:
    """Seconds that one prompt adds to the steps of the others."""
    beside = np.maximum(b - 1.0, 1.0) * rows
    return mixed_prefill_s(setting, prompt_tokens=length, decode_rows=beside, drafts=drafts, chunk_tokens=room)


def _along(batch: Array, values: Array, wanted: Array | float) -> Array:
    """Values at other batches, [..., wanted], linear between those of the curve."""
    at = np.clip(np.searchsorted(batch, wanted), 1, max(batch.size - 1, 1)).astype(np.int64)
    return _between(values, (at, _share(batch[at - 1], batch[np.minimum(at, batch.size - 1)], np.asarray(wanted))))


def _places(rising: Array, wanted: Array) -> tuple[NDArray[np.int64], Array]:
    """Between which entries of the last axis values lie, and how far, both of the shape of `wanted`."""
    last = rising.shape[-1] - 1
    at = np.clip((rising[..., None, :] < wanted[..., :, None]).sum(axis=-1), min(1, last), last)
    rising = np.broadcast_to(rising, (*at.shape[:-1], last + 1))
    high, low = (np.take_along_axis(rising, np.maximum(place, 0), axis=-1) for place in (at, at - 1))
    return at, _share(low, high, wanted)


def _share(low: Array, high: Array, wanted: Array) -> Array:
    gap = high - low
    return np.clip((wanted - low) / np.where(gap > 0.0, gap, 1.0), 0.0, 1.0)


def _between(values: Array, at: tuple[NDArray[np.int64], Array]) -> Array:
    """Values at such places of the last axis."""
    places, share = at
    if values.shape[-1] == 1:
        return np.broadcast_to(values, np.broadcast_shapes(values.shape, places.shape)).copy()
    shape = np.broadcast_shapes(values.shape[:-1], places.shape[:-1])
    values = np.broadcast_to(values, (*shape, values.shape[-1]))
    places = np.broadcast_to(places, (*shape, places.shape[-1]))
    low, high = (np.take_along_axis(values, place, axis=-1) for place in (places - 1, places))
    return np.asarray(low + (high - low) * share)
