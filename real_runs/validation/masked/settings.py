"""Which ways of decoding a masked canvas are run beside their predictions, and on which are costs
fitted?

Rules by thresholds by blocks without a cache, and by caches at the block that anchors were recorded
with. Thresholds that costs are fitted on are never scored. Leaves out prompts and batches
(`validate`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from real_runs.recording.masked import BLOCK_TOKENS
from traces.kinds.refine_policy import Cache, RefinePolicy

Rule = tuple[str, dict[str, float]]
_STATIC: Rule = ("static", {})
_RULES: tuple[Rule, ...] = (
    *(("threshold", {"confidence": value}) for value in (0.95, 0.9, 0.8, 0.7, 0.5)),
    *(("factor", {"factor": value}) for value in (1.0, 0.5)),
    *(("entropy", {"entropy": value}) for value in (0.2, 0.45)),
    *(
        ("neighbours", {"confidence": sure, "near_confidence": near})
        for sure, near in ((0.9, 0.75), (0.8, 0.6))
    ),
    ("entropy_bound", {"bound": 0.1}),
)
_CACHED_RULES: tuple[Rule, ...] = tuple(_RULES[at] for at in (0, 1, 3, 4, 5, 8, 9))
_BLOCKS = (8, 16, 64)
_BLOCK_RULES: tuple[Rule, ...] = (_RULES[1], _RULES[3])
_DRAFTS = (2, 4)
_FITTED: tuple[Rule, ...] = (
    ("threshold", {"confidence": 0.85}),
    ("factor", {"factor": 0.75}),
    ("entropy", {"entropy": 0.3}),
    ("neighbours", {"confidence": 0.85, "near_confidence": 0.7}),
    ("entropy_bound", {"bound": 0.2}),
)
_FITTED_DRAFTS = 3


@dataclass(frozen=True, slots=True)
class CanvasSetting:
    """One way to decode a canvas, as points of a validation know it.

    Attributes:
        policy: commit rule with its thresholds, block and cache.
    """

    policy: RefinePolicy

    @property
    def name(self) -> str:
        """Unique, readable, the same in every run."""
        return self.policy.name

    @property
    def drafter(self) -> str:
        """The commit rule; "" for one token a pass without a cache."""
        return (
            ""
            if self.policy.commit == "static" and self.policy.cache == "none"
            else self.policy.commit
        )

    @property
    def topology(self) -> str:
        """The cache; off where there is none."""
        return "off" if self.policy.cache == "none" else self.policy.cache

    @property
    def draft_tokens(self) -> int:
        """Tokens of a block."""
        return self.policy.block_tokens


def scored_settings(batch: int, named: Sequence[RefinePolicy] = ()) -> list[CanvasSetting]:
    """What is run beside its prediction.

    Args:
        batch: canvases that are decoded together; drafts are confirmed for one alone.
        named: further policies.
    """
    settings = [_setting(rule) for rule in (_STATIC, *_RULES)]
    settings += [_setting(rule, block=block) for block in _BLOCKS for rule in _BLOCK_RULES]
    settings += [
        _setting(rule, cache=cache)
        for cache in ("prefix", "dual")
        for rule in (_STATIC, *_CACHED_RULES)
    ]
    settings += [
        _setting(("self_verified", {"drafts": drafts})) for drafts in _DRAFTS if batch == 1
    ]
    settings += [
        CanvasSetting(policy) for policy in named if batch == 1 or policy.commit != "self_verified"
    ]
    return list(dict.fromkeys(settings))


def fitted_settings(batch: int, *, rules: bool) -> list[CanvasSetting]:
    """What costs are fitted on: all kinds of passes, and what every rule takes beside them.

    Args:
        batch: canvases that are decoded together.
        rules: whether rules are timed, too; they are where the batch is scored.
    """
    settings = [_setting(_STATIC, cache=cache) for cache in ("none", "prefix", "dual")]
    settings += [_setting(rule) for rule in _FITTED if rules]
    settings += (
        [_setting(("self_verified", {"drafts": _FITTED_DRAFTS}))] if rules and batch == 1 else []
    )
    return settings


def _setting(rule: Rule, *, block: int = BLOCK_TOKENS, cache: Cache = "none") -> CanvasSetting:
    return CanvasSetting(RefinePolicy(commit=rule[0], at=rule[1], block_tokens=block, cache=cache))
