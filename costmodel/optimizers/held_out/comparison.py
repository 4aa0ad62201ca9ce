"""Does what we would run beat what was published, on text that neither was chosen on?

A recording's requests are halved again and again; every policy decides on one half and runs on the
other, both ways round. The published policy to beat is the one that does best over all halves, in
hindsight. Above all stand two oracles that know the text. Leaves out traffic: batches are steady.

Reference: Nadeau and Bengio 2003, Inference for the generalization error, section 3: the variance
of a mean over halves that share requests, which holds what was chosen on and what was run on.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from costmodel.answers.steps.setting import Setting
from costmodel.optimizers.drafters.sources import Source
from costmodel.optimizers.held_out.half import Costs, Half, HeldOutDraft
from costmodel.optimizers.held_out.policies import OURS, PUBLISHED, SCHEDULE, Policy
from costmodel.optimizers.held_out.trees import split_halves
from costmodel.passes.ops import Array
from hardware_profiles.errors import InfeasibleError, InputError
from traces.replay.oracle import request_oracle, step_oracle

SPLITS = 10
"""Times that requests are halved where nobody says otherwise."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """What a policy does on the requests that it did not see.

    Args:
        policy: which one.
        drafts: what it ran on every half, [halves]; two halves of a split follow one another.
        by_half: emitted tokens per step of every half, [halves].
        rates: tokens per second of the batch on every half, [halves].
    """

    policy: Policy
    drafts: tuple[HeldOutDraft, ...]
    by_half: Array
    rates: Array

    @property
    def tokens_per_step(self) -> float:
        """Over all halves, as many tokens of each."""
        return float(_harmonic(self.by_half))

    @cached_property
    def tokens_per_s(self) -> float:
        """Of the batch over all halves, as many tokens of each."""
        return float(_harmonic(self.rates))

    @property
    def interval(self) -> tuple[float, float]:
        """80 % interval of `tokens_per_s` over what requests there might have been."""
        half = half_width(self.rates)
        return self.tokens_per_s - half, self.tokens_per_s + half


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PolicyComparison:
    """Policies on one recording at one batch.

    Args:
        batch: requests.
        context: cached tokens per request.
        ours: what the search chose.
        schedule: what it would have chosen among chains and static trees, which a schedule by batch
            holds; None where the recording tells of another kind of draft alone.
        published: every other policy that applies, the fastest over all halves first.
        step_oracle: tokens per second if every step drafted what will be accepted, chains alone;
            every request's step costs what a batch of such steps costs. None where the recording
            tells of one draft length alone.
        request_oracle: if every request drafted chains of the length that serves it best.
    """

    batch: int
    context: int
    ours: Outcome
    schedule: Outcome | None
    published: Sequence[Outcome]
    step_oracle: float | None
    request_oracle: float | None

    @property
    def best(self) -> Outcome:
        """The published policy that does best over all halves, in hindsight."""
        return self.published[0]

    @property
    def gain_ratio(self) -> float:
        """Tokens per second of ours over the best published policy's, less 1."""
        return _gain(self.ours, self.best)[0]

    @property
    def gain_interval(self) -> tuple[float, float]:
        """80 % interval of the gain over what requests there might have been to choose on and to
        run on.
        """
        return _gain(self.ours, self.best)[1]

    def schedule_gain(self, policy: Outcome) -> tuple[float, tuple[float, float]] | None:
        """Tokens per second of one shape for the batch over those of a policy, less 1, with the 80
        % interval; None where there is no such shape.
        """
        if self.schedule is None:
            return None
        return _gain(self.schedule, policy)

    @property
    def half_gain_ratio(self) -> float:
        """Gain over whichever published policy does best on each half by itself, which no one
        policy reaches.
        """
        best = np.array([policy.rates for policy in self.published]).max(axis=0)
        return self.ours.tokens_per_s / float(_harmonic(best)) - 1.0


def _gain(one: Outcome, other: Outcome) -> tuple[float, tuple[float, float]]:
    """Tokens per second of one over those of another, less 1, with the 80 % interval."""
    gain = one.tokens_per_s / other.tokens_per_s - 1.0
    half = half_width(one.rates / other.rates)
    return gain, (gain - half, gain + half)


def half_width(values: Array) -> float:
    """Half of the 80 % interval of a mean over halves of the same requests.

    Halves overlap, so their mean does not settle as that of independent draws would: its variance
    is (1 / halves + tested / seen) times theirs, and as many requests are tested as seen.

    Example:
        >>> round(half_width(np.array([1.0, 1.2, 0.9, 1.1])), 3)
        0.236

    Args:
        values: one per half, [halves], two or more.
    """
    from scipy.special import stdtrit  # type: ignore[import-untyped]

    quantile = float(stdtrit(values.size - 1, 0.9))
    return quantile * float(np.sqrt((1.0 / values.size + 1.0) * values.var(ddof=1)))


def compare_policies(
    source: Source,
    setting: Setting,
    *,
    batches: Sequence[int],
    context: int,
    splits: int = SPLITS,
    seed: int = 0,
    progress: Callable[[str, int, int], None] = lambda name, done, total: None,
) -> list[PolicyComparison]:
    """Every policy on halves of a recording, at every batch.

    Args:
        source: a drafter with a recording of positions, two requests or more.
        setting: target, device, drafter and engine.
        batches: requests that decode together.
        context: cached tokens per request.
        splits: times that the requests are halved, >= 1.
        seed: of the splits.
        progress: called with the batch at work, and how many of how many are done.

    Raises:
        InputError: a source without positions, too few requests, or no split.
    """
    trace = source.positions
    if trace is None:
        raise InputError(
            "policies need a recording with positions", key="trace", value=source.reference
        )
    if splits < 1:
        raise InputError("must be a whole number >= 1", key="splits", value=splits)
    generator = np.random.default_rng(seed)
    costs = Costs(setting=setting, batches=np.array(batches, dtype=np.float64), context=context)
    halves = [
        Half(source=source, trace=part, costs=costs, seed=seed)
        for _ in range(splits)
        for part in split_halves(trace, generator)
    ]
    comparisons, done = [], 0
    for place, batch in enumerate(batches):
        outcomes = {}
        for policy in (OURS, SCHEDULE, *PUBLISHED):
            progress("policies at each batch", done, len(batches) * (2 + len(PUBLISHED)))
            outcomes[policy] = _outcome(policy, halves, place)
            done += 1
        ours, schedule = outcomes[OURS], outcomes[SCHEDULE]
        assert ours is not None
        published = [o for policy in PUBLISHED if (o := outcomes[policy]) is not None]
        published.sort(key=lambda outcome: -outcome.tokens_per_s)
        bounds = _oracles(halves[:2], place)
        comparisons.append(
            PolicyComparison(
                batch=batch,
                context=context,
                ours=ours,
                schedule=schedule,
                published=published,
                step_oracle=bounds[0],
                request_oracle=bounds[1],
            )
        )
    return comparisons


def _outcome(policy: Policy, halves: Sequence[Half], place: int) -> Outcome | None:
    """What a policy does on each half after seeing the other of its split; None where it does not
    apply.
    """
    drafts, emitted, rates = [], [], []
    for index, other in enumerate(halves):
        try:
            chosen = policy.drafts(halves[index ^ 1], place)
            if not chosen:
                return None
            emitted.append(other.run(chosen[0], place).tokens_per_step)
            rates.append(other.rate(chosen[0], place))
        except (InputError, InfeasibleError):
            if policy is OURS:
                raise
            return None  # what it runs is beyond the recording or the drafter
        drafts.append(chosen[0])
    return Outcome(
        policy=policy, drafts=tuple(drafts), by_half=np.array(emitted), rates=np.array(rates)
    )


def _harmonic(values: Array) -> Array:
    """The mean rate over as many tokens of each."""
    return np.asarray(1.0 / (1.0 / values).mean(axis=-1))


def _oracles(halves: Sequence[Half], place: int) -> tuple[float | None, float | None]:
    """Tokens per second of a batch whose steps, or requests, draft what is best for them; of one
    split's halves.
    """
    if halves[0].one_length is not None:
        return None, None
    bounds = []
    for oracle in (step_oracle, request_oracle):
        rates = []
        for half in halves:
            seconds = half.costs.chain_seconds(max(half.lengths) if half.law.by_matching else 0)[
                :, place
            ]
            rates.append(half.costs.batches[place] * oracle(half.trace, seconds).tokens_per_cost)
        bounds.append(float(_harmonic(np.array(rates))))
    return bounds[0], bounds[1]
