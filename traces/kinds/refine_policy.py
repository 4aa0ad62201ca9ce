"""By which rule does a masked decoder decide what a pass commits, as data?

A policy is a commit rule with its thresholds, a block rule, a cache rule and a stop rule. Every
rule names its thresholds with their ranges and the defaults of the code that it was read from, and
what a recording must hold to play it. Leaves out what the rules compute
(`traces.replay.confidence.rules`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from hardware_profiles.errors import InputError, UnknownNameError

Cache = Literal["none", "prefix", "dual"]
Stop = Literal["full", "end_token"]
CACHES: tuple[Cache, ...] = ("none", "prefix", "dual")
STOPS: tuple[Stop, ...] = ("full", "end_token")
MOST_CANVAS_TOKENS = 4096
_MOST_DELIMITERS = 256


@dataclass(frozen=True, slots=True)
class Threshold:
    """One number of a rule.

    Attributes:
        default: of the code or paper that the rule was read from.
        lowest, highest: range, ends included.
        whole: whether it counts something.
    """

    default: float
    lowest: float
    highest: float
    whole: bool = False


@dataclass(frozen=True, slots=True)
class CommitRule:
    """What a rule takes.

    Attributes:
        at: its thresholds by name.
        needs: optional fields of a recording that it reads; the likeliest token and its probability
            are always there.
        by_count: it commits by number alone: how many passes it takes follows from block and
            canvas.
        exact: the text stays that of one token per pass.
        own_anchor: replayed from recordings of the same rule alone.
        remembers: it reads the earlier passes of a block, too.
        source: where it was read.
    """

    at: Mapping[str, Threshold]
    needs: tuple[str, ...] = ()
    by_count: bool = False
    exact: bool = False
    own_anchor: bool = False
    remembers: bool = False
    source: str = ""


def _share(default: float) -> Threshold:
    return Threshold(default, 0.0, 1.0)


def _count(default: int) -> Threshold:
    return Threshold(default, 1, MOST_CANVAS_TOKENS, whole=True)


COMMIT_RULES: Mapping[str, CommitRule] = {
    "static": CommitRule(
        {"tokens": _count(1)}, by_count=True, source="LLaDA, arXiv 2502.09992, sec. 2.4"
    ),
    "random": CommitRule(
        {"tokens": _count(1), "seed": Threshold(0, 0, 2**31 - 1, whole=True)},
        by_count=True,
        source="LLaDA, arXiv 2502.09992, sec. 2.4 (random remasking)",
    ),
    "doubling": CommitRule({"tokens": _count(1)}, by_count=True, source="ASS, arXiv 2509.23924"),
    "threshold": CommitRule(
        {"confidence": _share(0.9)}, source="Fast-dLLM, arXiv 2505.22618, sec. 3.3"
    ),
    "factor": CommitRule(
        {"factor": Threshold(1.0, 0.0, 64.0)}, source="Fast-dLLM, arXiv 2505.22618, sec. 3.3"
    ),
    "capped": CommitRule({"confidence": _share(0.8), "tokens": _count(4)}, source="CD4LM's script"),
    "neighbours": CommitRule(
        {"confidence": _share(0.9), "near_confidence": _share(0.75), "tokens": _count(4)},
        source="LocalLeap, arXiv 2510.07081",
    ),
    "running_mean": CommitRule(
        {"least": _share(0.6), "most": _share(0.9)}, source="BACD, block-averaged threshold"
    ),
    "entropy": CommitRule(
        {"entropy": Threshold(0.45, 0.0, 20.0)}, ("entropy",), source="dParallel's code"
    ),
    "in_order": CommitRule(
        {"entropy": Threshold(0.4, 0.0, 20.0), "per_token": Threshold(0.02, 0.0, 20.0)},
        ("entropy",),
        source="WeDLM, arXiv 2512.22737",
    ),
    "entropy_bound": CommitRule(
        {"bound": Threshold(0.1, 0.0, 1000.0)},
        ("entropy",),
        own_anchor=True,
        source="EB sampler, arXiv 2505.24857",
    ),
    "gap": CommitRule(
        {
            "early": Threshold(7.5, 0.0, 1000.0),
            "middle": Threshold(5.0, 0.0, 1000.0),
            "late": Threshold(2.5, 0.0, 1000.0),
            "answer_tokens": Threshold(0, 0, MOST_CANVAS_TOKENS, whole=True),
        },
        ("logit_gap",),
        source="Prophet, arXiv 2508.19982",
    ),
    "credit": CommitRule(
        {
            "confidence": _share(0.9),
            "weight": Threshold(0.7, 0.0, 8.0),
            "decay": _share(0.8),
            "power": _share(0.2),
        },
        remembers=True,
        source="CreditDecoding, arXiv 2510.06133, as dInfer's code has it",
    ),
    "history": CommitRule(
        {"confidence": _share(0.9), "passes": _count(4)},
        remembers=True,
        source=(
            "coherent contextual decoding, arXiv 2512.02044, abstract; passes and threshold are"
            " assumed"
        ),
    ),
    "phases": CommitRule(
        {
            "confidence": _share(0.9),
            "reach_confidence": _share(0.3),
            "passes": _count(6),
            "window": _count(2),
            "spread": Threshold(1.0, 0.0, float(MOST_CANVAS_TOKENS)),
        },
        remembers=True,
        source="SlowFast sampling, arXiv 2506.10848, and its code",
    ),
    "self_verified": CommitRule({"drafts": _count(4)}, exact=True, source="FreeDave's code"),
}
"""Rules by name; the names are those of `Refine.commit` of the catalogue wherever it has them."""

NEEDS_MORE: Mapping[str, str] = {
    "learned": (
        "the weights of its filter, and how sure the model is of tokens that are held already"
    ),
    "auxiliary": "what a second model holds likeliest behind every prefix",
    "fixed_point": "what the model guesses behind wrong guesses of its own",
    "window_rejection": "drawn tokens, and their probabilities in two passes",
}
"""What rules of the catalogue read that no confidence trace holds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RefinePolicy:
    """One way of decoding a masked canvas.

    Example:
        >>> RefinePolicy(commit="threshold", at={"confidence": 0.7}, block_tokens=32).name
        'threshold confidence=0.7 block=32'

    Attributes:
        commit: name of a rule; one token at least is committed by every pass.
        at: thresholds; those that are left out have the rule's defaults.
        block_tokens: tokens of a block; blocks are finished from left to right.
        cache: `none`: every pass computes prompt and canvas; `prefix`: after a block's first pass
            all from the block on; `dual`: after a block's first pass the block alone.
        stop: `full`: when nothing is masked; `end_token`: when all is committed up to an
            end-of-text token.
        delimiters: token ids at the surest of which a block ends early (AdaBlock, arXiv
            2509.26432); empty: never.
        delimiter_confidence: least probability of such a token.

    Raises:
        UnknownNameError: a rule or threshold that does not exist.
        InputError: a number out of range.
    """

    commit: str
    at: Mapping[str, float] = field(default_factory=dict)
    block_tokens: int = 32
    cache: Cache = "none"
    stop: Stop = "full"
    delimiters: tuple[int, ...] = ()
    delimiter_confidence: float = 0.3

    def __post_init__(self) -> None:
        if self.commit not in COMMIT_RULES:
            raise UnknownNameError("commit rule", str(self.commit), COMMIT_RULES)
        thresholds = self.rule.at
        for key in self.at:
            if key not in thresholds:
                raise UnknownNameError(f"threshold of {self.commit}", str(key), thresholds)
        at = {
            key: _checked(f"at.{key}", self.at.get(key, item.default), item)
            for key, item in thresholds.items()
        }
        object.__setattr__(self, "at", at)
        object.__setattr__(
            self, "block_tokens", _checked("block_tokens", self.block_tokens, _count(1))
        )
        _checked("delimiter_confidence", self.delimiter_confidence, _share(0.3))
        for key, value, allowed in (("cache", self.cache, CACHES), ("stop", self.stop, STOPS)):
            if value not in allowed:
                raise InputError(f"must be one of {', '.join(allowed)}", key=key, value=value)
        ids = tuple(self.delimiters)
        if len(ids) > _MOST_DELIMITERS or not all(
            type(token_id) is int and 0 <= token_id < 1 << 31 for token_id in ids
        ):
            raise InputError(
                f"must be at most {_MOST_DELIMITERS} token ids", key="delimiters", value=ids[:4]
            )
        object.__setattr__(self, "delimiters", ids)

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def rule(self) -> CommitRule:
        """What its commit rule takes."""
        return COMMIT_RULES[self.commit]

    @property
    def name(self) -> str:
        """The policy in words, with what differs from the usual."""
        parts = [
            self.commit,
            *(f"{key}={value:g}" for key, value in self.at.items()),
            f"block={self.block_tokens}",
        ]
        parts += [f"cache={self.cache}"] * (self.cache != "none") + ["to end of text"] * (
            self.stop != "full"
        )
        return " ".join(
            [*parts, *([f"ends at {len(self.delimiters)} delimiters"] if self.delimiters else [])]
        )

    def check_canvas(self, canvas_tokens: int) -> None:
        """Insist that blocks fill a canvas.

        Raises:
            InputError: a block that does not divide it.
        """
        if canvas_tokens % self.block_tokens:
            raise InputError(
                f"must divide the canvas of {canvas_tokens}",
                key="block_tokens",
                value=self.block_tokens,
            )

    def as_json(self) -> dict[str, Any]:
        """The policy as JSON values, which `policy_of` reads back."""
        return {
            "commit": self.commit,
            "at": dict(self.at),
            "block_tokens": self.block_tokens,
            "cache": self.cache,
            "stop": self.stop,
            "delimiters": list(self.delimiters),
            "delimiter_confidence": self.delimiter_confidence,
        }


def policy_of(values: object) -> RefinePolicy:
    """A policy out of JSON values, trusting nothing.

    Raises:
        InputError: no object, unknown keys, or values of the wrong type or range.
    """
    if not isinstance(values, dict):
        raise InputError("must be an object", key="policy", value=values)
    names = set(RefinePolicy.__dataclass_fields__)
    for key in values:
        if key not in names:
            raise UnknownNameError("key of a policy", str(key), names)
    at, ids = values.get("at", {}), values.get("delimiters", [])
    if (
        not isinstance(values.get("commit"), str)
        or not isinstance(at, dict)
        or not isinstance(ids, list)
    ):
        raise InputError(
            "must have a commit rule, an object `at` and a list of delimiters",
            key="policy",
            value=values,
        )
    return RefinePolicy(**{**values, "delimiters": tuple(ids)})


def _checked(key: str, value: object, allowed: Threshold) -> float:
    if type(value) not in (int, float) or not allowed.lowest <= value <= allowed.highest:  # type: ignore[operator]
        raise InputError(
            f"must lie in [{allowed.lowest:g}, {allowed.highest:g}]", key=key, value=value
        )
    assert isinstance(value, int | float)
    if allowed.whole and value != int(value):
        raise InputError("must be a whole number", key=key, value=value)
    return int(value) if allowed.whole else float(value)
