"""Does what we would run beat what was published, on text that neither was chosen on?

Every policy decides on one half of a recording's requests and runs on the other, both ways round; the published one
that does best there, in hindsight, is the one to beat. Above all stand two oracles that know the text. Leaves out
traffic: batches are steady.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from costmodel.answers.chains import step_seconds
from costmodel.answers.setting import Setting
from costmodel.answers.uncertainty import DRAWS, interval
from costmodel.laws.acceptance import geometric
from costmodel.optimizers.held_out.policies import OURS, PUBLISHED, Draft, Half, Policy
from costmodel.optimizers.held_out.trees import split_halves
from costmodel.optimizers.sources import Source
from costmodel.passes.ops import Array
from hardware_profiles.errors import InfeasibleError, InputError
from traces.replay.oracle import request_oracle, step_oracle
from traces.replay.statistics import resample_counts


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Outcome:
    """What a policy does on the requests that it did not see.

    Args:
        policy: which one.
        drafts: what it ran on the second and on the first half.
        tokens_per_step: over both halves, as many tokens of each.
        tokens_per_s: of the batch, over both halves.
        samples: draws of `tokens_per_s` over the requests, paired between policies.
    """

    policy: Policy
    drafts: tuple[Draft, Draft]
    tokens_per_step: float
    tokens_per_s: float
    samples: Array


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Comparison:
    """Policies on one recording at one batch.

    Args:
        batch: requests.
        context: cached tokens per request.
        ours: what the search chose.
        published: every other policy that applies, the fastest first.
        step_oracle: tokens per second if every step drafted what will be accepted, chains alone; every request's step
            costs what a batch of such steps costs. None where the recording tells of one draft length alone.
        request_oracle: if every request drafted chains of the length that serves it best.
    """

    batch: int
    context: int
    ours: Outcome
    published: Sequence[Outcome]
    step_oracle: float | None
    request_oracle: float | None

    @property
    def best(self) -> Outcome:
        """The published policy that does best here, in hindsight."""
        return self.published[0]

    @property
    def gain_ratio(self) -> float:
        """Tokens per second of ours over the best published policy's, less 1."""
        return self.ours.tokens_per_s / self.best.tokens_per_s - 1.0

    @property
    def gain_interval(self) -> tuple[float, float]:
        """80 % interval of the gain over the recorded requests."""
        low, high = interval(self.ours.samples / self.best.samples - 1.0)
        return float(low), float(high)


def compare_policies(
    source: Source, setting: Setting, *, batches: Sequence[int], context: int, seed: int = 0
) -> list[Comparison]:
    """Every policy on the halves of a recording, at every batch.

    Args:
        source: a drafter with a recording of positions, two requests or more.
        setting: target, device, drafter and engine.
        batches: requests that decode together.
        context: cached tokens per request.
        seed: of the split and the bootstrap.

    Raises:
        InputError: a source without positions, or too few requests.
    """
    trace = source.positions
    if trace is None:
        raise InputError("policies need a recording with positions", key="trace", value=source.reference)
    generator = np.random.default_rng(seed)
    parts = split_halves(trace, generator)
    counts = [
        resample_counts(part.prompt_kinds, generator=generator, resamples=DRAWS).astype(np.float64) for part in parts
    ]
    first = [
        Half(source=source, trace=part, setting=setting, batch=1, context=context, counts=each, seed=seed)
        for part, each in zip(parts, counts, strict=True)
    ]
    found = []
    for batch in batches:
        halves = [replace(half, batch=batch) for half in first]  # what was replayed serves every batch
        ours = _outcome(OURS, halves)
        published = [outcome for policy in PUBLISHED if (outcome := _outcome(policy, halves)) is not None]
        assert ours is not None
        bounds = _oracles(halves)
        published.sort(key=lambda outcome: -outcome.tokens_per_s)
        found.append(
            Comparison(batch=batch, context=context, ours=ours, published=published, step_oracle=bounds[0],
                       request_oracle=bounds[1])
        )  # fmt: skip
    return found


def _outcome(policy: Policy, halves: Sequence[Half]) -> Outcome | None:
    """What a policy does on each half after seeing the other; None where it does not apply."""
    drafts, emitted, rates, samples = [], [], [], []
    for seen, other in (halves, halves[::-1]):
        try:
            chosen = policy.drafts(seen)
            if not chosen:
                return None
            accepted = other.run(chosen[0])
            rates.append(other.rate(accepted))
        except (InputError, InfeasibleError):
            if policy is OURS:
                raise
            return None  # what it runs is beyond the recording or the drafter
        drafts.append(chosen[0])
        emitted.append(accepted.tokens_per_step)
        samples.append(rates[-1] * accepted.samples / accepted.tokens_per_step)
    return Outcome(
        policy=policy, drafts=(drafts[0], drafts[1]), tokens_per_step=float(_harmonic(emitted)),
        tokens_per_s=float(_harmonic(rates)), samples=np.asarray(_harmonic(samples)),
    )  # fmt: skip


def _harmonic(values: Sequence[Array] | Sequence[float]) -> Array:
    """The mean rate over as many tokens of each."""
    return np.asarray(2.0 / (1.0 / np.asarray(values[0]) + 1.0 / np.asarray(values[1])))[()]


def _oracles(halves: Sequence[Half]) -> tuple[float | None, float | None]:
    """Tokens per second of a batch whose steps, or requests, draft what is best for them."""
    if halves[0].one_length is not None:
        return None, None
    bounds = []
    for oracle in (step_oracle, request_oracle):
        rates = []
        for half in halves:
            lengths = range((max(half.lengths) if half.law.by_matching else 0) + 1)
            chains = [geometric(0.0, length) for length in lengths]
            seconds = step_seconds(half.setting, chains, batch=half.batch, context=half.context)
            rates.append(half.batch * oracle(half.trace, seconds).tokens_per_cost)
        bounds.append(float(_harmonic(rates)))
    return bounds[0], bounds[1]
