"""What has been decided, before any engine's spelling of it?

A `DecodingChoice` is one model, one way to decode and, where the batch size decides, a schedule of draft
lengths.
It counts as this project does: K draft tokens per request and step, the root never included; the exporters
convert. How the choice was made is carried along as provenance and not checked here.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from app.exporters.tree_paths import Path, is_chain, rank_paths
from hardware_profiles.errors import InputError, UnknownNameError

METHODS = ("plain", "draft_model", "ngram", "medusa", "eagle3", "mtp", "sequoia", "early_exit")
TOPOLOGIES = ("off", "chain", "tree")
_NEED_A_DRAFT_MODEL = frozenset({"draft_model", "medusa", "eagle3", "sequoia"})


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodingChoice:
    """A decoding configuration in rooftree's own units.

    Args:
        model: target, as a hub id or a path.
        context: tokens of context the choice was made for, at least 1.
        method: one of `METHODS`.
        draft_model: drafter or draft heads, as a hub id or a path; optional for mtp.
        draft_tokens: K, or the draft nodes of a tree; with a schedule, the largest K in it.
        topology: "off", "chain" or "tree"; "off" whenever nothing is drafted.
        tree: `{"parents", "ranks", "root_included": true}`; only with topology "tree".
        schedule: inclusive batch ranges and their K, `((1, 16, 5), (17, 64, 3))`: the first starts at 1, they
            ascend and do not overlap. A gap, and every batch past the end, keeps the K of the range before
            it.
        ngram_min: shortest n-gram that is looked up, in tokens.
        ngram_max: longest n-gram that is looked up, in tokens.
        acceptance_by_depth: unconditional probability that the first 1..K draft tokens are all accepted,
        measured
            at draft length K; for synthetic exports.
        tensor_parallel: devices that share one copy of the target.
        max_batch: largest number of requests decoded at once, None to leave it to the engine.
        confidence_threshold: stop drafting below this draft probability; None or 0 drafts exactly K.
        exit_layers: layers of the target that draft, for early_exit.
        provenance: where the numbers come from (device, trace, tokens_per_step, ...); becomes comments.

    Raises:
        InputError: the parts contradict each other or lie outside their range.
    """

    model: str
    context: int
    method: str = "plain"
    draft_model: str | None = None
    draft_tokens: int = 0
    topology: str = "off"
    tree: Mapping[str, object] | None = None
    schedule: tuple[tuple[int, int, int], ...] = ()
    ngram_min: int = 1
    ngram_max: int = 3
    acceptance_by_depth: tuple[float, ...] | None = None
    tensor_parallel: int = 1
    max_batch: int | None = None
    confidence_threshold: float | None = None
    exit_layers: int | None = None
    provenance: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "schedule", tuple(map(_as_tuple, self.schedule)))
        _check_names(self)
        _check_numbers(self)
        _check_topology(self)
        _check_schedule(self)
        _check_acceptance(self)

    @property
    def speculates(self) -> bool:
        """Whether any draft token is ever proposed."""
        return self.draft_tokens > 0

    @property
    def tree_paths(self) -> tuple[Path, ...] | None:
        """Rank paths of the draft nodes; None for a chain, also where a tree was given that is one."""
        if self.tree is None:
            return None
        paths = rank_paths(self.tree)
        return None if is_chain(paths) else paths

    @property
    def steps(self) -> tuple[tuple[int, int], ...]:
        """The schedule as (first batch size, K) pairs, gaps closed and equal neighbours joined."""
        steps: list[tuple[int, int]] = []
        for low, _, draft_tokens in self.schedule:
            if not steps or steps[-1][1] != draft_tokens:
                steps.append((low, draft_tokens))
        return tuple(steps)

    @property
    def varies(self) -> bool:
        """Whether K depends on the batch size."""
        return len(self.steps) > 1

    @property
    def largest_batch(self) -> int | None:
        """`max_batch`, else the end of the schedule, else None."""
        if self.max_batch is not None:
            return self.max_batch
        return self.schedule[-1][1] if self.schedule else None

    def draft_tokens_at(self, batch: int) -> int:
        """K at a batch size of at least 1."""
        held = [draft_tokens for low, draft_tokens in self.steps if low <= batch]
        return held[-1] if held else self.draft_tokens


def _as_tuple(entry: object) -> object:
    return tuple(entry) if isinstance(entry, list) else entry


def _check_names(choice: DecodingChoice) -> None:
    if choice.method not in METHODS:
        raise UnknownNameError("method", choice.method, METHODS, key="method")
    if choice.topology not in TOPOLOGIES:
        raise UnknownNameError("topology", choice.topology, TOPOLOGIES, key="topology")
    for key, name in (("model", choice.model), ("draft_model", choice.draft_model)):
        if name is not None and (not name or name.startswith("-") or not name.isprintable()):
            raise InputError("must be printable, not empty and not begin with a dash", key=key, value=name or "''")
    if choice.speculates and choice.method in _NEED_A_DRAFT_MODEL and choice.draft_model is None:
        raise InputError(f"{choice.method} needs a draft model", key="draft_model")
    if choice.speculates and choice.method == "early_exit" and choice.exit_layers is None:
        raise InputError("early_exit needs the number of layers that draft", key="exit_layers")


def _check_numbers(choice: DecodingChoice) -> None:
    least = {
        "context": 1, "draft_tokens": 0, "ngram_min": 1, "ngram_max": 1,
        "tensor_parallel": 1, "max_batch": 1, "exit_layers": 1,
    }  # fmt: skip
    for key, smallest in least.items():
        value = getattr(choice, key)
        if value is None and key in {"max_batch", "exit_layers"}:
            continue
        if type(value) is not int or value < smallest:
            raise InputError(f"must be a whole number of at least {smallest}", key=key, value=value)
    if choice.ngram_min > choice.ngram_max:
        raise InputError(f"must not exceed ngram_max = {choice.ngram_max}", key="ngram_min", value=choice.ngram_min)
    if choice.confidence_threshold is not None and not 0.0 <= choice.confidence_threshold <= 1.0:
        raise InputError("must lie in [0, 1]", key="confidence_threshold", value=choice.confidence_threshold)


def _check_topology(choice: DecodingChoice) -> None:
    if choice.method == "plain" and choice.speculates:
        raise InputError("plain decoding drafts nothing", key="draft_tokens", value=choice.draft_tokens)
    if choice.speculates == (choice.topology == "off"):
        raise InputError(
            f"topology is off exactly where nothing is drafted, and draft_tokens is {choice.draft_tokens}",
            key="topology",
            value=choice.topology,
        )
    if (choice.tree is not None) != (choice.topology == "tree"):
        raise InputError("a tree belongs to topology tree, and to no other", key="tree", value=choice.tree)
    if choice.tree is not None and len(rank_paths(choice.tree)) != choice.draft_tokens:
        raise InputError(
            f"must equal the tree's draft nodes, {len(rank_paths(choice.tree))}",
            key="draft_tokens",
            value=choice.draft_tokens,
        )


def _check_schedule(choice: DecodingChoice) -> None:
    if not choice.schedule:
        return
    for entry in choice.schedule:
        numbers: object = entry
        if not isinstance(numbers, tuple) or [type(number) for number in numbers] != [int, int, int]:
            raise InputError("each entry is (first batch, last batch, K)", key="schedule", value=entry)
        if not 1 <= entry[0] <= entry[1] or entry[2] < 0:
            raise InputError("ranges ascend from at least 1, K is at least 0", key="schedule", value=entry)
    if choice.schedule[0][0] != 1:
        raise InputError("the first range must start at batch 1", key="schedule", value=choice.schedule[0])
    for before, after in pairwise(choice.schedule):
        if after[0] <= before[1]:
            raise InputError("ranges must ascend and not overlap", key="schedule", value=(before, after))
    if choice.tree is not None:
        raise InputError("a schedule belongs to a chain", key="schedule", value=choice.schedule)
    largest = max(draft_tokens for _, _, draft_tokens in choice.schedule)
    if largest != choice.draft_tokens:
        raise InputError(
            f"must equal the largest K of the schedule, {largest}",
            key="draft_tokens",
            value=choice.draft_tokens,
        )


def _check_acceptance(choice: DecodingChoice) -> None:
    rates = choice.acceptance_by_depth
    if rates is None:
        return
    in_range = all(math.isfinite(rate) and 0.0 <= rate <= 1.0 for rate in rates)
    if not in_range or any(after > before for before, after in pairwise(rates)):
        raise InputError(
            "unconditional rates lie in [0, 1] and never rise with depth",
            key="acceptance_by_depth",
            value=rates,
        )
