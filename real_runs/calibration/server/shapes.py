"""Which steps and prompts is a server asked for, so that its constants follow?

Every step is one pass of `requests` slots with the same number of query tokens each: drafts are
copied from a prompt that repeats one sentence, and synthetic acceptance of 0 keeps one token a
step, so that passes of 2 to 17 query tokens are seen whole. What an accepted token costs beside,
sampled and sent, is the difference to a run that accepts all. Slots whose drafts differ in length
are not asked for: llama.cpp cuts such a batch into one pass per length (`split_equal` of a cache
that is not unified, llama-batch.cpp), which costs what those passes cost. Leaves out how requests
are sent (`client`) and when to stop (`measure`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hardware_profiles.errors import InputError

SENTENCE = (
    " The quick brown fox jumps over a lazy dog while seven old wizards pack my box with five dozen"
    " jugs before dawn."
)
STOP = "over"  # ends an answer after five steps; a limit of tokens would shorten the last drafts
DECODED = 24  # most tokens of an answer beside those of its last draft
# tokens of a prompt that a server computes in one pass: llama.cpp's default `--ubatch-size`
CHUNK = 512
FRESH = (256, 512)  # prompts without anything cached

# validation keeps away from these contexts; drafts in an order of which every beginning spreads
# over the range
CONTEXTS = (128, 700, 1900)
DRAFTS = (0, 4, 16, 1, 8, 2, 12, 3, 6)
EVERY_DRAFT = (
    *DRAFTS,
    5,
    7,
    10,
    14,
    9,
    11,
    13,
    15,
)  # products of few rows are uneven in their number
REQUESTS = (1, 2, 4)
_MIDDLING = 8
ACCEPTED_STEPS = 8  # of a run whose drafts are all accepted


@dataclass(frozen=True, kw_only=True, slots=True)
class RoundPlan:
    """What is asked for in a round.

    Attributes:
        contexts: cached tokens, ascending.
        drafts: draft tokens per step, 0 first; each is a start of the server.
        requests: slots that decode at a time, ascending.
        rounds: most rounds.

    Raises:
        InputError: an empty list, or a number out of range.
    """

    contexts: tuple[int, ...] = CONTEXTS
    drafts: tuple[int, ...] = DRAFTS
    requests: tuple[int, ...] = REQUESTS
    rounds: int = 6

    def __post_init__(self) -> None:
        for key, least, most in (
            ("contexts", 32, 1 << 20),
            ("drafts", 0, 64),
            ("requests", 1, 512),
        ):
            values = getattr(self, key)
            if not values or not all(least <= size <= most for size in values):
                raise InputError(
                    f"must hold numbers from {least} to {most}", key=key, value=list(values)
                )
        if self.drafts[0] != 0:
            raise InputError(
                "must begin with 0: prompts are computed there",
                key="drafts",
                value=list(self.drafts),
            )

    @property
    def visits(self) -> list[tuple[int, bool]]:
        """Starts of a server in a round: draft tokens, and whether they are accepted."""
        runs = [(drafts, False) for drafts in self.drafts]
        if max(self.drafts):  # of a middling draft: long enough to show, short enough to repeat
            middling = min(filter(None, self.drafts), key=lambda drafts: abs(drafts - _MIDDLING))
            runs.insert(runs.index((middling, False)) + 1, (middling, True))
        return runs

    @classmethod
    def within(cls, budget_s: float) -> RoundPlan:
        """The plan of which a budget allows a round or more on one core of a server CPU with a
        model of 135M weights.

        Args:
            budget_s: wall time.
        """
        if budget_s < 120.0:
            return cls(contexts=(96, 384), drafts=(0, 8, 2), requests=(1, 2))
        if budget_s < 300.0:
            return cls(contexts=CONTEXTS[:2], drafts=DRAFTS[:5])
        return cls() if budget_s < 1200.0 else cls(drafts=EVERY_DRAFT, requests=(1, 2, 3, 4))

    def aligned(self, period: int) -> RoundPlan:
        """The plan with contexts of whole sentences, behind which a draft is always found.

        Args:
            period: tokens of the sentence.
        """
        whole = sorted({max(3, round(context / period)) * period for context in self.contexts})
        return replace(self, contexts=tuple(whole))


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedSample:
    """One time that was seen.

    Attributes:
        part: "causal": a step of requests that decode; "prompt": a prompt until its first token;
            "intake": the same of a prompt of which all but the last token was cached; "accepted": a
            step whose drafts were all accepted.
        requests: that decode together.
        query_tokens: of each in the pass.
        context: cached tokens of each before it.
        seconds: of the step, or until the first token.
    """

    part: str
    requests: int
    query_tokens: int
    context: int
    seconds: float


def repeated(sentence: Sequence[int], length: int, shift: int = 0) -> tuple[int, ...]:
    """A prompt of `length` tokens that repeats a sentence, from its token `shift` on."""
    start = shift % len(sentence)
    turned = (*sentence[start:], *sentence[:start])
    return (turned * (length // len(turned) + 1))[:length]


def prompt_lengths(contexts: Sequence[int]) -> list[int]:
    """Lengths at which a growing prompt is asked for: every context, at most `CHUNK` tokens from
    one to the next.

    >>> prompt_lengths([125, 700, 1900])
    [62, 125, 637, 700, 1212, 1724, 1900]
    """
    lengths = [contexts[0] // 2]
    for context in contexts:
        lengths += range(lengths[-1] + CHUNK, context, CHUNK)
        lengths.append(context)
    return lengths
