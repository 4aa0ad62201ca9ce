"""Which ways of deciding what to draft have been published, and what does each run after seeing
half of a recording?

A policy looks at the one half and names configurations: fixed ones where its authors or engines
fixed numbers, chosen ones where it has a rule of its own. Leaves out running them on the other half
(`comparison`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from costmodel.method import Shape, Stop
from costmodel.optimizers.candidates.state_candidates import SIZES, recorded_trees
from costmodel.optimizers.candidates.tree_candidates import TREE_DEPTH
from costmodel.optimizers.held_out.half import MOST_NODES, Half, HeldOutDraft
from costmodel.optimizers.trees.greedy_tree import greedy_trees
from costmodel.optimizers.trees.priced_tree import TreePrice, fastest_tree
from costmodel.optimizers.trees.trace_tree import measured_vectors
from costmodel.passes.ops import Array
from hardware_profiles.errors import InfeasibleError, InputError

STOPS = (
    Stop(rule="probability", at=0.3),
    Stop(rule="probability", at=0.6),
    Stop(rule="product", at=0.3),
    Stop(rule="product", at=0.6),
    Stop(rule="product", at=0.9),
    Stop(rule="ema"),
    Stop(rule="goodput", least_tokens=0),
)
"""Early stops that our own choice compares beside chains and trees."""
_LONG_RUN = 0.05
"""Weight of the latest step where verification is weighed by the tokens per second of many."""

Decides = Callable[[Half, int], Sequence[HeldOutDraft]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """A way of deciding what to draft.

    Args:
        name: as in a table.
        source: who published it, or which engine runs so; empty for ours.
        drafts: what it runs, by the half that it sees and the place of the batch; empty where it
            does not apply to the drafter or the recording.
    """

    name: str
    source: str
    drafts: Decides


def _fixed(*drafts: HeldOutDraft) -> Decides:
    return lambda half, place: drafts


def _dynamic(shape: Shape, stop: Stop | None = None) -> Decides:
    """A dynamic tree, cut to what was recorded of the drafter's trees."""

    def drafts(half: Half, place: int) -> Sequence[HeldOutDraft]:
        trees = half.trace.expansions
        if trees is None or not trees.size:
            return ()
        cut = replace(
            shape,
            nodes=min(shape.nodes, trees.nodes),
            depth=min(shape.depth, trees.depth),
            width=min(shape.width, trees.width),
        )
        return (HeldOutDraft(shape=cut, stop=stop),)

    return drafts


def _stopped(most: int, stop: Stop) -> Decides:
    def drafts(half: Half, place: int) -> Sequence[HeldOutDraft]:
        if half.one_length is not None or (
            half.trace.level < 3 and stop.rule in ("probability", "product")
        ):
            return ()
        return (HeldOutDraft(shape=min(most, half.trace.depth or most), stop=stop),)

    return drafts


def _widths(*lengths: int, at: float = 0.0, calibrates: bool = False) -> Decides:
    """Drafts of these lengths, verified as far as that pays; calibrated by the half that is
    seen.
    """

    def drafts(half: Half, place: int) -> Sequence[HeldOutDraft]:
        if half.one_length is not None or half.trace.level < 3:
            return ()
        longest = half.trace.depth or max(lengths)
        calibration = half.calibration if calibrates else None
        stop = Stop(rule="cost", at=at)
        return [
            HeldOutDraft(shape=k, stop=stop, calibration=calibration)
            for k in dict.fromkeys(min(k, longest) for k in lengths)
        ]

    return drafts


def _medusa(half: Half, place: int) -> Sequence[HeldOutDraft]:
    """The likeliest nodes, 63 of them whatever they cost."""
    if not half.drafts_trees:
        return ()
    vectors = _vectors(half, 64)
    for nodes in (64, 32, 16, 8):
        if (trees := greedy_trees(vectors, [nodes])) is not None:
            return (HeldOutDraft(shape=trees[0][0]),)
    return ()


def _sequoia(half: Half, place: int) -> Sequence[HeldOutDraft]:
    """Size and depth by a verify time per size and one draft time per level, whatever its width."""
    if not half.drafts_trees:
        return ()
    price = half.costs.price(place)
    level_s = price.draft_s([1])
    plain = TreePrice(
        plain_s=price.plain_s + level_s,
        verify_s=price.verify_s,
        draft_s=lambda widths: level_s * (len(widths) + 1),
    )
    return (
        HeldOutDraft(
            shape=fastest_tree(np.stack(_vectors(half, MOST_NODES)), plain, TREE_DEPTH + 1).tree
        ),
    )


def _vectors(half: Half, width: int) -> list[Array]:
    levels = TREE_DEPTH if half.trace.depth is None else min(TREE_DEPTH, half.trace.depth)
    vectors = np.atleast_2d(np.array(measured_vectors(half.trace, levels, width)))
    return [vectors[0]] * levels if len(vectors) == 1 else list(vectors)


def _ours(half: Half, place: int) -> Sequence[HeldOutDraft]:
    """The fastest on this half of what `optimize` compares, early stops, and whatever a published
    policy would run.
    """
    if half.method.shape.kind == "state_trees" and half.trace.level >= 2:
        drafts = [
            HeldOutDraft(shape=0),
            *(HeldOutDraft(shape=recorded_trees(half.trace, half.method, size)) for size in SIZES),
        ]
        return (max(drafts, key=lambda draft: half.rate(draft, place)),)
    rated = [(float(rates[place]), draft) for draft, rates in half.searched]
    most = max(half.lengths)
    others = [draft for stop in STOPS for draft in _stopped(most, stop)(half, place)]
    for at in (0.0, _LONG_RUN):
        others += _widths(2, 4, most, at=at, calibrates=True)(half, place)
    if half.drafts_trees:
        others.append(_priced(half, place))
    others += [draft for policy in PUBLISHED for draft in policy.drafts(half, place)]
    for draft in dict.fromkeys(others):
        try:
            rated.append((half.rate(draft, place), draft))
        except (InputError, InfeasibleError):
            continue
    return (max(rated, key=lambda pair: pair[0])[1],)


def _schedule(half: Half, place: int) -> Sequence[HeldOutDraft]:
    """The fastest chain or static tree on this half: what a schedule by batch holds."""
    rated = [
        (float(rates[place]), draft)
        for draft, rates in half.searched
        if draft.stop is None and not isinstance(draft.shape, Shape)
    ]
    if half.drafts_trees:
        priced = _priced(half, place)
        rated.append((half.rate(priced, place), priced))
    return (max(rated, key=lambda pair: pair[0])[1],) if rated else ()


def _priced(half: Half, place: int) -> HeldOutDraft:
    """The fastest tree of the half's vectors, which are too few numbers to fit more than the
    drafter.
    """
    vectors = np.stack(_vectors(half, MOST_NODES))
    return HeldOutDraft(shape=fastest_tree(vectors, half.costs.price(place), TREE_DEPTH + 1).tree)


_LIKELIEST = Shape(kind="dynamic_tree", nodes=60, depth=7, width=10, beam=10)

OURS = Policy(name="rooftree", source="", drafts=_ours)
SCHEDULE = Policy(name="rooftree, one shape a batch", source="", drafts=_schedule)
PUBLISHED: tuple[Policy, ...] = (
    Policy(name="no speculation", source="", drafts=_fixed(HeldOutDraft(shape=0))),
    Policy(name="K=3", source="vLLM's and SGLang's examples", drafts=_fixed(HeldOutDraft(shape=3))),
    Policy(name="K=5", source="vLLM's and SGLang's examples", drafts=_fixed(HeldOutDraft(shape=5))),
    Policy(name="Medusa, 63 nodes", source="arXiv:2401.10774", drafts=_medusa),
    Policy(name="Sequoia", source="arXiv:2402.12374", drafts=_sequoia),
    Policy(name="EAGLE-2, 60 nodes", source="arXiv:2406.16858", drafts=_dynamic(_LIKELIEST)),
    Policy(
        name="SGLang, topk 4, 7 draft tokens",
        source="SGLang's defaults",
        drafts=_dynamic(Shape(kind="dynamic_tree", nodes=7, depth=5, width=4, beam=4)),
    ),
    Policy(
        name="OPT-Tree, 60 nodes",
        source="arXiv:2406.17276",
        drafts=_dynamic(replace(_LIKELIEST, depth=10, beam=0), Stop(rule="gain", at=0.5)),
    ),
    Policy(
        name="DySpec, 64 nodes",
        source="arXiv:2410.11744",
        drafts=_dynamic(replace(_LIKELIEST, nodes=64, depth=64, width=64, beam=0)),
    ),
    Policy(
        name="Kangaroo, 0.6",
        source="arXiv:2404.18911",
        drafts=_stopped(6, Stop(rule="probability", at=0.6, unlikely_tokens=1)),
    ),
    Policy(
        name="Transformers, 0.4",
        source="Transformers' defaults",
        drafts=_stopped(8, Stop(rule="probability", at=0.4, unlikely_tokens=1)),
    ),
    Policy(
        name="SpecDec++, 0.3",
        source="arXiv:2405.19715",
        drafts=_stopped(8, Stop(rule="product", at=0.3, least_tokens=2)),
    ),
    Policy(
        name="moving average",
        source="SGLang's adaptive steps",
        drafts=_stopped(7, Stop(rule="ema")),
    ),
    Policy(
        name="SmartSpec",
        source="arXiv:2406.14066",
        drafts=_stopped(7, Stop(rule="goodput", least_tokens=0)),
    ),
    Policy(
        name="DSpark's verification, K=7",
        source="arXiv:2607.05147; vLLM's adaptive verification",
        drafts=_widths(7),
    ),
    Policy(
        name="DSpark's verification, calibrated",
        source="SGLang's confidence calibration",
        drafts=_widths(7, calibrates=True),
    ),
)
"""Policies of papers and engines, with the numbers that they come with; plain decoding always
competes."""
