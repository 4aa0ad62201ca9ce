"""Which rules set the draft length of a batch while an engine serves, and by which numbers do
engines use them?

Rules as data, with the values that engines ship. Leaves out how a rule chooses
(`simulator.loop.decoders.lengths`) and which of them are compared
(`app.answers.simulations.length_policies`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from hardware_profiles.errors import InputError

PolicyRule = Literal[
    "schedule",
    "expected",
    "oracle",
    "goodput",
    "survival",
    "verified",
    "cost",
    "tiers",
    "gate",
    "bandit",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Tier:
    """Draft lengths of batches from a size on, between which the mean of accepted draft tokens
    decides.

    Args:
        first_batch: smallest batch of the tier, >= 1.
        lengths: draft lengths, rising; 0: nothing is drafted.
        down: added to the mean below which a shorter length is taken, half a token above that
            length (at 0) or below.
        up: added to the mean above which a longer one is, half a token below the length in use.
        pace: iterations between two looks, after `warm_up`.
        warm_up: iterations before the first one.

    Raises:
        InputError: no length, lengths that do not rise, or numbers out of range.
    """

    first_batch: int
    lengths: tuple[int, ...]
    down: float = 0.0
    up: float = 0.0
    pace: int = 5
    warm_up: int = 10

    def __post_init__(self) -> None:
        rising = all(a < b for a, b in zip((-1, *self.lengths), self.lengths, strict=False))
        if not self.lengths or not rising:
            raise InputError(
                "must be draft lengths >= 0 that rise", key="lengths", value=self.lengths
            )
        if self.first_batch < 1 or self.pace < 1 or self.warm_up < 0:
            rule = "first_batch and pace must be >= 1, warm_up >= 0"
            raise InputError(rule, key="tier", value=(self.first_batch, self.pace, self.warm_up))


@dataclass(frozen=True, kw_only=True, slots=True)
class LengthPolicy:
    """How the draft length of a batch follows what an engine sees.

    Args:
        rule: `schedule`: by the batch alone; `expected`: most tokens a second by the recording's
            own means, at the batch and contexts of the iteration; `oracle`: the same by what every
            request will accept; `goodput`: by one rate per token, seen lately; `survival`: by how
            often drafts were lately accepted up to each token; `verified`: everybody drafts whole,
            and the batch verifies the likeliest tokens as far as that pays; `cost`: the same by
            what the recording says of the drafter's probabilities, weighed by the tokens per second
            of the steps so far; `tiers`: by the mean of accepted tokens, see `Tier`; `gate`: the
            longest, and nothing from the iteration on with which too small a share of the draft
            tokens was accepted; `bandit`: by the seconds per token that each length brought at each
            batch size.
        lengths: draft lengths to choose from, rising; empty: all up to the longest.
        gains: `expected` only: tokens that a step of 0, 1, ... draft tokens emits.
        weight: of the latest iteration in what is remembered, in (0, 1].
        pace: iterations between two choices, >= 1; of `gate` those that it takes the mean of.
        least_share: of draft tokens accepted, below which `gate` ends drafting, 0 to 1.
        profiled_context_tokens: cached tokens of a request with which the engine timed its passes;
            None: it knows what the passes of the iteration take.
        tiers: of the rule of that name, by rising `first_batch`.
        change_s: seconds that a change of the draft length takes.
        rereads: what was generated without drafts is read by the drafter before it drafts again.

    Raises:
        InputError: an unknown rule, or values that do not go with it.

    Reference: vLLM's documentation, "Adaptive Verification" (`verified`, `survival`); SGLang's
    `adaptive_spec_params.py` (`tiers`) and `throughput_aware_controller.py` (`survival`);
    TensorRT-LLM's `speculation_gate.py` (`gate`); arXiv:2512.22420 (`bandit`).
    """

    rule: PolicyRule
    lengths: tuple[int, ...] = ()
    gains: tuple[float, ...] = ()
    weight: float = 0.2
    pace: int = 1
    least_share: float = 0.0
    profiled_context_tokens: float | None = None
    tiers: tuple[Tier, ...] = ()
    change_s: float = 0.0
    rereads: bool = True

    def __post_init__(self) -> None:
        if self.rule not in get_args(PolicyRule):
            raise InputError(
                f"must be one of {', '.join(get_args(PolicyRule))}", key="rule", value=self.rule
            )
        if not 0.0 < self.weight <= 1.0:
            raise InputError("must lie in (0, 1]", key="weight", value=self.weight)
        if self.pace < 1 or not 0.0 <= self.change_s < float("inf"):
            raise InputError(
                "pace must be >= 1 and change_s >= 0",
                key="policy",
                value=(self.pace, self.change_s),
            )
        if not 0.0 <= self.least_share <= 1.0:
            raise InputError("must lie in [0, 1]", key="least_share", value=self.least_share)
        if (self.rule == "tiers") != bool(self.tiers) or (self.rule == "expected") != bool(
            self.gains
        ):
            raise InputError(
                "tiers and gains belong to `tiers` and `expected`", key="rule", value=self.rule
            )
        firsts = [tier.first_batch for tier in self.tiers]
        if firsts != sorted(set(firsts)):
            raise InputError("tiers must begin at rising batches", key="tiers", value=firsts)


def sglang_tiers(draft_tokens: int) -> LengthPolicy:
    """SGLang's adaptive steps with the tiers that it ships, as far as drafts may be that long.

    Args:
        draft_tokens: longest draft K, >= 1.
    """
    shipped = ((1, (1, 3, 5, 7), -0.25), (8, (0, 1, 3), 0.0), (32, (0, 1), 0.0), (64, (0,), 0.0))
    tiers = tuple(
        Tier(first_batch=first, lengths=tuple(k for k in lengths if k <= draft_tokens), down=down)
        for first, lengths, down in shipped
    )
    return LengthPolicy(rule="tiers", tiers=tiers, weight=0.2)


def sglang_throughput() -> LengthPolicy:
    """SGLang's controller by throughput: a window of 20 batches, remembered as weights of the same
    mean age.
    """
    return LengthPolicy(rule="survival", weight=2.0 / 21.0, pace=10, profiled_context_tokens=1024.0)


def vllm_verification() -> LengthPolicy:
    """The adaptive verification of vLLM by the drafter's own confidence, with passes timed at 8,192
    cached tokens.
    """
    return LengthPolicy(rule="verified", profiled_context_tokens=8192.0)


def vllm_lengths(draft_tokens: int) -> LengthPolicy:
    """Its form for drafters that tell no confidence: one length of 0, 1, 3, 7, ... and the longest.

    Args:
        draft_tokens: longest draft K, >= 1.
    """
    buckets = {(1 << i) - 1 for i in range(draft_tokens.bit_length() + 1)}
    lengths = sorted({k for k in buckets if k <= draft_tokens} | {draft_tokens})
    return LengthPolicy(
        rule="survival", lengths=tuple(lengths), weight=0.1, profiled_context_tokens=8192.0
    )


def long_run_verification() -> LengthPolicy:
    """Ours: whole drafts, of which the batch verifies what pays beside the steps so far."""
    return LengthPolicy(rule="cost", weight=0.05)


def tensorrt_gate(least_share: float) -> LengthPolicy:
    """TensorRT-LLM's gate over 64 iterations; it ships neither number.

    Args:
        least_share: of draft tokens accepted, below which drafting ends.
    """
    return LengthPolicy(rule="gate", pace=64, least_share=least_share)


def nightjar() -> LengthPolicy:
    """Nightjar's bandit: one set of arms by batch size, and what restarting the drafter costs in
    the choice.
    """
    return LengthPolicy(rule="bandit")
