"""Which published figure suits a method and a target best, and how near is it?"""

import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from costmodel.acceptance_library.entry import PublishedAcceptance
from costmodel.acceptance_library.library import plain_name, published, target_slug
from costmodel.architectures.library import hub_id
from costmodel.architectures.name_parts import same_release

Kinship = Literal["own", "family", "borrowed"]
_RANKS = {"own": 0, "family": 1, "borrowed": 2}
# mixed chat prompts stand for traffic that nobody described better than for code or mathematics
# alone
_CHAT = ("mtbench", "sharegpt", "ultrachat", "specbench")


@dataclass(frozen=True, kw_only=True, slots=True)
class Match:
    """A published figure and how near it is to the requested target.

    Args:
        entry: the figure.
        kinship: `own` where it is of the very release that is served, `family` of another release
            or model of its family, else `borrowed`.
    """

    entry: PublishedAcceptance
    kinship: Kinship

    @property
    def label(self) -> str:
        """Where the acceptance comes from, in words."""
        of = "" if self.kinship == "own" else f" of {self.entry.published_target}"
        how = {
            "own": "published",
            "family": "borrowed within the family, published",
            "borrowed": "borrowed, published",
        }
        warm = self.entry.temperature
        at = "" if warm is None else f" at temperature {warm:g}"
        return (
            f"{how[self.kinship]}{of}: {self.entry.data_set}{at}, {self.entry.source},"
            f" {self.entry.place}"
        )


def best_match(
    method: str, target: str, *, data_set: str | None = None, temperature: float | None = None
) -> Match | None:
    """The published figure that suits a method on a target best; None where the method has none.

    The target's own come before those of its family, nearest in size first, those before any other.
    Among equals: chains, then chat prompts, then the temperature asked for, then the most draft
    lengths measured, then the drafter that is kept more often.

    Args:
        method: slug of a method.
        target: shipped model, one of its aliases, or a published name.
        data_set: only those on such prompts.
        temperature: preferred sampling temperature; None: 0.
    """
    preferred_temperature = 0.0 if temperature is None else temperature
    slug = target_slug(target)
    matches = [
        Match(entry=entry, kinship=figure_kinship(entry, target))
        for entry in published(method, data_set=data_set)
    ]

    def order(match: Match) -> tuple[object, ...]:
        entry = match.entry
        chat = next(
            (place for place, name in enumerate(_CHAT) if name in plain_name(entry.data_set)),
            len(_CHAT),
        )
        measured_lengths = len(set(entry.tokens_per_step) | set(range(1, len(entry.rates) + 1)))
        return (
            _RANKS[match.kinship],
            nearness(entry.target, slug),
            entry.shape != "chain",
            chat,
            entry.temperature != preferred_temperature,
            -measured_lengths,
            -entry.mean_tokens_per_step,
        )

    return min(matches, key=order, default=None)


def other_prompts(entry: PublishedAcceptance) -> list[PublishedAcceptance]:
    """What was published of chains of the same method on the same target for other prompts: one
    figure a data set, that of the same drafter where there is one.

    Example:
        >>> entry = best_match("eagle-3", "llama-3.3-70b").entry
        >>> sorted(other.data_set for other in other_prompts(entry))[:3]
        ['financeqa', 'gpqa', 'gsm8k']

    Args:
        entry: the figure that answers a question.
    """
    by_prompts: dict[str, list[PublishedAcceptance]] = {}
    for other in published(entry.method, entry.target):
        if other.shape == "chain" and other.counted == entry.counted:
            by_prompts.setdefault(_prompts(other), []).append(other)
    by_prompts.pop(_prompts(entry), None)

    def order(other: PublishedAcceptance) -> tuple[object, ...]:
        return (
            other.drafter != entry.drafter,
            other.temperature != entry.temperature,
            -other.draft_tokens,
            -other.mean_tokens_per_step,
        )

    return [min(others, key=order) for others in by_prompts.values()]


def _prompts(entry: PublishedAcceptance) -> str:
    """A data set without how many of its prompts were read."""
    return re.split(r"[,(]", plain_name(entry.data_set))[0]


def kinship(published_target: str, target: str) -> Kinship:
    """How near the target of a published figure is to another target.

    >>> kinship("llama-3.3-70b", "llama-3.1-70b"), kinship("kimi-k2", "llama-3.1-8b")
    ('family', 'borrowed')
    """
    if published_target == target:
        return "own"
    return "family" if _family(published_target) == _family(target) else "borrowed"


def figure_kinship(entry: PublishedAcceptance, target: str) -> Kinship:
    """The kinship of a figure to a target: that of its model, but for another release of it.

    Where no checkpoint of the target is known, none is served that could be another release.

    Args:
        entry: the figure.
        target: as for `best_match`.
    """
    slug, served = target_slug(target), hub_id(target)
    near = kinship(entry.target, slug)
    if near != "own" or served == slug or same_release(entry.published_target, served):
        return near
    return "family"


def nearness(recorded_target: str, target: str) -> tuple[int, float]:
    """What orders targets by how near they are to another one: its own, those of its family by
    size, the others.

    >>> nearness("vicuna-7b", "vicuna-13b") < nearness("vicuna-7b", "llama-3.1-8b")
    True
    """
    near = kinship(recorded_target, target)
    far = size_gap(recorded_target, target) if near == "family" else 0.0
    return _RANKS[near], far


def size_gap(one: str, other: str) -> float:
    """How many times larger one named model is than another, as a logarithm; 0 where a name tells
    no size.
    """
    sizes = [re.search(r"-(\d+(?:\.\d+)?)b(?:-|$)", name) for name in (one, other)]
    logarithms = [math.log(float(size[1])) for size in sizes if size]
    return abs(logarithms[0] - logarithms[1]) if len(logarithms) == len(sizes) else 0.0


@lru_cache(maxsize=1024)
def _family(name: str) -> str:
    """The name up to its size, without the second part of a version: `llama-3` of llama-3.1-8b."""
    words = re.split(r"-(?=\d+(?:\.\d+)?[bm](?:-|$))", name, maxsplit=1)[0]
    return re.sub(r"^((?:llama|kimi|deepseek|glm)-[a-z]?\d+)\.\d+", r"\1", words)
