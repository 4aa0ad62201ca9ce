"""Which ways of deciding what to draft have been published, and what does each run after seeing half of a recording?

A policy looks at the first half and names configurations: fixed ones where its authors or engines fixed numbers, chosen
ones where it has a rule of its own. Leaves out running them on the other half (`comparison`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from costmodel.answers.chains import step_seconds
from costmodel.answers.setting import Setting
from costmodel.laws.acceptance import Acceptance, Law, accepted_by, law_for
from costmodel.laws.drafting import dynamic_tree
from costmodel.laws.prompt_states import recorded_acceptance
from costmodel.method import Method, Shape, Stop
from costmodel.optimizers.candidates import CHAIN_LENGTHS, NGRAM_LENGTHS, TREE_DEPTH, TREE_SIZES
from costmodel.optimizers.dynamic_candidates import stopped_candidates
from costmodel.optimizers.recommend import candidates_of
from costmodel.optimizers.sources import Source
from costmodel.optimizers.state_candidates import SIZES, recorded_trees
from costmodel.optimizers.trees.greedy_tree import greedy_trees
from costmodel.optimizers.trees.priced_tree import TreePrice, fastest_tree
from costmodel.optimizers.trees.trace_tree import measured_vectors
from costmodel.optimizers.trees.tree_price import tree_price
from costmodel.passes.ops import Array
from hardware_profiles.errors import InfeasibleError, InputError
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.provenance import POLICY_KEY
from traces.kinds.state_trees import StateTrees
from traces.kinds.tree import Tree

_MOST_NODES = 128
STOPS = (
    Stop(rule="probability", at=0.3), Stop(rule="probability", at=0.6), Stop(rule="product", at=0.3),
    Stop(rule="product", at=0.6), Stop(rule="product", at=0.9), Stop(rule="ema"),
    Stop(rule="goodput", least_tokens=0),
)  # fmt: skip
"""Early stops that our own choice compares beside chains and trees."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """What a step drafts, as it can be run on any recording.

    Args:
        shape: K of a chain, a static tree, trees with prompt tokens, or the numbers of a dynamic tree.
        stop: when a draft ends early; None: it does not.
    """

    shape: int | Tree | StateTrees | Shape
    stop: Stop | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Half:
    """One half of a recording, and where it would be run.

    Args:
        source: the drafter, with this half as its recording.
        trace: this half.
        setting: target, device, drafter and engine.
        batch: requests.
        context: cached tokens per request.
        counts: bootstrap counts [draws, requests].
        seed: of splits inside the half.
        replayed: what was replayed of this half at any batch, by draft; filled as it is asked for.
        compared: what the search compared on it; filled as it is asked for.
    """

    source: Source
    trace: AcceptanceTrace
    setting: Setting
    batch: int
    context: int
    counts: Array
    seed: int
    replayed: dict[Draft, Acceptance] = field(default_factory=dict)
    compared: list[Acceptance] = field(default_factory=list)

    @property
    def method(self) -> Method:
        """The drafter's method."""
        return self.source.entry

    @property
    def law(self) -> Law:
        """How the method verifies drafts on this half."""
        rule = self.method.verify
        lengths = [k for k in self.lengths if k]
        return law_for(self.trace, rule.rule, lengths, at=rule.at)

    @property
    def lengths(self) -> list[int]:
        """Draft lengths that are compared."""
        if self.one_length is not None:
            return [self.one_length]
        most = self.trace.depth
        usual = NGRAM_LENGTHS if self.method.may_propose_nothing else CHAIN_LENGTHS
        return [k for k in usual if most is None or k <= most] or [most or 1]

    @property
    def one_length(self) -> int | None:
        """Draft tokens of the recorded steps, where no others can be inferred from them."""
        length = self.trace.provenance.extra.get(POLICY_KEY)
        return None if length is None else int(length)

    @property
    def drafts_trees(self) -> bool:
        """Whether static trees can be run and replayed."""
        able = self.method.drafts_trees or self.trace.expansions is not None
        able = able and len(self.setting.drafter.stages) <= 1 and self.one_length is None
        return self.trace.level >= 2 and able and self.law.by_matching

    def run(self, draft: Draft) -> Acceptance:
        """What a draft emits on this half.

        Raises:
            InputError: more than the recording tells.
        """
        if draft.stop is not None and draft.stop.rule == "goodput":
            return self._replayed(draft)  # which weighs the seconds of this batch
        if draft not in self.replayed:
            self.replayed[draft] = self._replayed(draft)
        return self.replayed[draft]

    def candidates(self) -> list[Acceptance]:
        """What the search compares on this half alone, whatever the batch: chains, trees and dynamic trees."""
        if not self.compared:
            source, generator = replace(self.source, trace=self.trace), np.random.default_rng(self.seed)
            lengths = None if self.one_length is None else [self.one_length]
            sizes = TREE_SIZES if self.drafts_trees else ()
            self.compared.extend(candidates_of(source, self.setting, lengths, sizes, None, generator))
        return self.compared

    def _replayed(self, draft: Draft) -> Acceptance:
        if isinstance(draft.shape, StateTrees):
            return recorded_acceptance(self.trace, draft.shape, self.counts, self.method.shape)
        if isinstance(draft.shape, Shape):
            return dynamic_tree(self.trace, draft.shape, self.counts, stop=draft.stop)
        if draft.stop is not None:
            assert isinstance(draft.shape, int)
            grid = {"batches": [self.batch], "contexts": [self.context]}
            most, law = [draft.shape], self.law
            return stopped_candidates(self.setting, self.trace, most, draft.stop, self.counts, law, **grid)[0]
        return accepted_by(self.trace, self.law, draft.shape, self.counts)

    def rate(self, accepted: Acceptance) -> float:
        """Tokens per second of the batch."""
        step_s = step_seconds(self.setting, [accepted], batch=self.batch, context=self.context)[0]
        return float(self.batch * accepted.tokens_per_step / step_s)


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """A way of deciding what to draft.

    Args:
        name: as in a table.
        source: who published it, or which engine runs so; empty for ours.
        drafts: what it runs, by the first half; empty where it does not apply to the drafter or the recording.
    """

    name: str
    source: str
    drafts: Callable[[Half], Sequence[Draft]]


def _fixed(*drafts: Draft) -> Callable[[Half], Sequence[Draft]]:
    return lambda half: drafts


def _dynamic(shape: Shape, stop: Stop | None = None) -> Callable[[Half], Sequence[Draft]]:
    """A dynamic tree, cut to what was recorded of the drafter's trees."""

    def drafts(half: Half) -> Sequence[Draft]:
        trees = half.trace.expansions
        if trees is None or not trees.size:
            return ()
        cut = replace(
            shape, nodes=min(shape.nodes, trees.nodes), depth=min(shape.depth, trees.depth),
            width=min(shape.width, trees.width),
        )  # fmt: skip
        return (Draft(shape=cut, stop=stop),)

    return drafts


def _stopped(most: int, stop: Stop) -> Callable[[Half], Sequence[Draft]]:
    def drafts(half: Half) -> Sequence[Draft]:
        if half.one_length is not None or (half.trace.level < 3 and stop.rule in ("probability", "product")):
            return ()
        return (Draft(shape=min(most, half.trace.depth or most), stop=stop),)

    return drafts


def _medusa(half: Half) -> Sequence[Draft]:
    """The likeliest nodes, 63 of them whatever they cost."""
    if not half.drafts_trees:
        return ()
    vectors = _vectors(half, 64)
    for nodes in (64, 32, 16, 8):
        if (found := greedy_trees(vectors, [nodes])) is not None:
            return (Draft(shape=found[0][0]),)
    return ()


def _sequoia(half: Half) -> Sequence[Draft]:
    """Size and depth by a verify time per size and one draft time per level, whatever its width."""
    if not half.drafts_trees:
        return ()
    price = tree_price(half.setting, batch=half.batch, context=half.context, nodes=_MOST_NODES)
    level_s = price.draft_s([1])
    plain = TreePrice(plain_s=price.plain_s + level_s, verify_s=price.verify_s,
                      draft_s=lambda widths: level_s * (len(widths) + 1))  # fmt: skip
    return (Draft(shape=fastest_tree(np.stack(_vectors(half, _MOST_NODES)), plain, TREE_DEPTH + 1).tree),)


def _vectors(half: Half, width: int) -> list[Array]:
    levels = TREE_DEPTH if half.trace.depth is None else min(TREE_DEPTH, half.trace.depth)
    vectors = np.atleast_2d(np.array(measured_vectors(half.trace, levels, width)))
    return [vectors[0]] * levels if len(vectors) == 1 else list(vectors)


def _ours(half: Half) -> Sequence[Draft]:
    """What the search finds fastest on this half: chains, trees, dynamic trees and early stops.

    Trees of recorded paths are scored on requests that did not choose them, so that none wins by what only this half
    holds.
    """
    if half.method.shape.kind == "state_trees" and half.trace.level >= 2:
        drafts = [Draft(shape=0), *(Draft(shape=recorded_trees(half.trace, half.method, size)) for size in SIZES)]
        return (max(drafts, key=lambda draft: half.rate(half.run(draft))),)
    rated = [
        (half.rate(each), Draft(shape=each.tree or each.shape or each.draft_tokens, stop=each.stop))
        for each in half.candidates()
    ]
    stops = [stop for stop in STOPS if half.trace.level >= 3 or stop.rule in ("ema", "goodput")]
    stops = stops if half.one_length is None else []
    for draft in (Draft(shape=length, stop=stop) for stop in stops for length in half.lengths if length > 1):
        try:
            rated.append((half.rate(half.run(draft)), draft))
        except (InputError, InfeasibleError):
            continue
    if half.drafts_trees:
        tree = _priced(half)
        rated.append((half.rate(half.run(tree)), tree))
    return (max(rated, key=lambda pair: pair[0])[1],)


def _priced(half: Half) -> Draft:
    """The fastest tree of the half's vectors, which are too few numbers to fit more than the drafter."""
    price = tree_price(half.setting, batch=half.batch, context=half.context, nodes=_MOST_NODES)
    return Draft(shape=fastest_tree(np.stack(_vectors(half, _MOST_NODES)), price, TREE_DEPTH + 1).tree)


_LIKELIEST = Shape(kind="dynamic_tree", nodes=60, depth=7, width=10, beam=10)

OURS = Policy(name="rooftree", source="", drafts=_ours)
PUBLISHED: tuple[Policy, ...] = (
    Policy(name="no speculation", source="", drafts=_fixed(Draft(shape=0))),
    Policy(name="K=3", source="vLLM's and SGLang's examples", drafts=_fixed(Draft(shape=3))),
    Policy(name="K=5", source="vLLM's and SGLang's examples", drafts=_fixed(Draft(shape=5))),
    Policy(name="Medusa, 63 nodes", source="arXiv:2401.10774", drafts=_medusa),
    Policy(name="Sequoia", source="arXiv:2402.12374", drafts=_sequoia),
    Policy(name="EAGLE-2, 60 nodes", source="arXiv:2406.16858", drafts=_dynamic(_LIKELIEST)),
    Policy(
        name="SGLang, topk 4, 7 draft tokens", source="SGLang's defaults",
        drafts=_dynamic(Shape(kind="dynamic_tree", nodes=7, depth=5, width=4, beam=4)),
    ),
    Policy(name="OPT-Tree, 60 nodes", source="arXiv:2406.17276",
           drafts=_dynamic(replace(_LIKELIEST, depth=10, beam=0), Stop(rule="gain", at=0.5))),
    Policy(name="DySpec, 64 nodes", source="arXiv:2410.11744",
           drafts=_dynamic(replace(_LIKELIEST, nodes=64, depth=64, width=64, beam=0))),
    Policy(name="Kangaroo, 0.6", source="arXiv:2404.18911", drafts=_stopped(6, Stop(rule="probability", at=0.6))),
    Policy(name="Transformers, 0.4", source="Transformers' defaults",
           drafts=_stopped(8, Stop(rule="probability", at=0.4))),
    Policy(name="SpecDec++, 0.3", source="arXiv:2405.19715",
           drafts=_stopped(8, Stop(rule="product", at=0.3, least_tokens=2))),
    Policy(name="moving average", source="SGLang's adaptive steps", drafts=_stopped(7, Stop(rule="ema"))),
    Policy(name="SmartSpec", source="arXiv:2406.14066",
           drafts=_stopped(7, Stop(rule="goodput", least_tokens=0))),
)  # fmt: skip
"""Policies of papers and engines, with the numbers that they come with; plain decoding always competes."""
