"""What is one half of a recording worth under a draft, and what would steps of that draft cost?

Whatever does not depend on the half (seconds of trees and of chains) is computed once for all
halves. Leaves out who chooses the draft (`policies`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import numpy as np

from costmodel.answers.chains import step_seconds
from costmodel.answers.steps.setting import Setting
from costmodel.answers.verify_widths import verify_seconds
from costmodel.laws.acceptance import (
    Acceptance,
    Law,
    accepted_by,
    accepted_shares,
    geometric,
    law_for,
)
from costmodel.laws.controllers import cost_chain, ema_chain, goodput_chain
from costmodel.laws.drafting import dynamic_tree, stopped_chain
from costmodel.laws.prompt_states import recorded_acceptance
from costmodel.method import WEIGHING, Method, Shape, Stop
from costmodel.optimizers.candidates.asked_shapes import shape_acceptances
from costmodel.optimizers.candidates.usual_shapes import (
    CHAIN_LENGTHS,
    NGRAM_LENGTHS,
    TREE_SIZES,
    usual_shapes,
)
from costmodel.optimizers.drafters.sources import Source
from costmodel.optimizers.trees.priced_tree import TreePrice
from costmodel.optimizers.trees.tree_price import tree_price
from costmodel.passes.ops import Array
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.provenance import POLICY_KEY
from traces.kinds.state_trees import StateTrees
from traces.kinds.tree import Tree
from traces.replay.calibration import Calibration, calibrated

MOST_NODES = 128
"""Nodes of the largest tree that is priced, root included."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldOutDraft:
    """What a step drafts, as it can be run on any recording.

    Args:
        shape: K of a chain, a static tree, trees with prompt tokens, or the numbers of a dynamic
            tree.
        stop: when a draft ends early; None: it does not.
        calibration: of the drafter's probabilities, by which `cost` weighs; None: it takes them as
            they are.
    """

    shape: int | Tree | StateTrees | Shape
    stop: Stop | None = None
    calibration: Calibration | None = None

    @property
    def weighs_seconds(self) -> bool:
        """Whether what is drafted depends on the batch, as the seconds of its steps are weighed."""
        return self.stop is not None and self.stop.rule in WEIGHING


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Where drafts would be run, and what was computed of it so far.

    Args:
        setting: target, device, drafter and engine.
        batches: requests that decode together, [batches].
        context: cached tokens per request.
    """

    setting: Setting
    batches: Array
    context: int
    _prices: dict[int, TreePrice] = field(default_factory=dict)
    _chains: dict[int, Array] = field(default_factory=dict)
    _widths: dict[tuple[int, int], Array] = field(default_factory=dict)

    def price(self, place: int) -> TreePrice:
        """Seconds of trees at a batch, those of its draft passes remembered."""
        if place not in self._prices:
            batch = int(self.batches[place])
            price = tree_price(self.setting, batch=batch, context=self.context, nodes=MOST_NODES)
            cached = lru_cache(maxsize=None)(price.draft_s)
            self._prices[place] = replace(price, draft_s=lambda widths: cached(tuple(widths)))
        return self._prices[place]

    def chain_seconds(self, most: int) -> Array:
        """Seconds of steps of chains of 0, 1, .. `most` tokens, [most + 1, batches]."""
        if most not in self._chains:
            self._chains[most] = self.seconds(
                [geometric(0.0, length) for length in range(most + 1)]
            )
        return self._chains[most]

    def width_seconds(self, most: int, place: int) -> Array:
        """Seconds of steps that draft `most` tokens and verify 0, 1, .. of the batch's together."""
        if (most, place) not in self._widths:
            batch = int(self.batches[place])
            seconds = verify_seconds(self.setting, most, batch=batch, context=float(self.context))
            self._widths[most, place] = seconds
        return self._widths[most, place]

    def seconds(self, accepted: Sequence[Acceptance]) -> Array:
        """Seconds of steps, [drafts, batches]."""
        return step_seconds(self.setting, accepted, batch=self.batches, context=self.context)


@dataclass(frozen=True, kw_only=True)
class Half:
    """One half of a recording.

    Args:
        source: the drafter.
        trace: this half.
        costs: of its steps.
        seed: of splits inside the half.
    """

    source: Source
    trace: AcceptanceTrace
    costs: Costs
    seed: int = 0
    _replayed: dict[tuple[HeldOutDraft, int], Acceptance] = field(default_factory=dict)
    _rates: dict[tuple[HeldOutDraft, int], Array] = field(default_factory=dict)

    @property
    def method(self) -> Method:
        """The drafter's method."""
        return self.source.entry

    @cached_property
    def law(self) -> Law:
        """How the method verifies drafts on this half."""
        rule = self.method.verify
        return law_for(self.trace, rule.rule, [k for k in self.lengths if k], at=rule.at)

    @cached_property
    def calibration(self) -> Calibration:
        """What this half says of the drafter's probabilities.

        Raises:
            InputError: a recording without them.
        """
        return calibrated(self.trace, accepted_shares(self.trace, self.law))

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
        able = able and len(self.costs.setting.drafter.stages) <= 1 and self.one_length is None
        return self.trace.level >= 2 and able and self.law.by_matching

    @cached_property
    def searched(self) -> list[tuple[HeldOutDraft, Array]]:
        """What `optimize` compares on this half alone, and its tokens per second, [batches].

        Trees of recorded paths are scored on requests that did not choose them, so that none wins
        by what only this half holds.
        """
        source = replace(self.source, trace=self.trace)
        lengths = None if self.one_length is None else [self.one_length]
        sizes = TREE_SIZES if self.drafts_trees else ()
        candidates = shape_acceptances(
            source,
            usual_shapes(source, draft_tokens=lengths, tree_sizes=sizes),
            generator=np.random.default_rng(self.seed),
        )
        rates = (
            self.costs.batches
            * np.array([[candidate.tokens_per_step] for candidate in candidates])
            / self.costs.seconds(candidates)
        )
        drafts = [
            HeldOutDraft(
                shape=candidate.tree or candidate.shape or candidate.draft_tokens,
                stop=candidate.stop,
            )
            for candidate in candidates
        ]
        for draft, accepted, rate in zip(drafts, candidates, rates, strict=True):
            if (
                accepted.tree is None
            ):  # a tree's score is that of others, which this half's parts chose
                self._replayed[draft, 0], self._rates[draft, 0] = accepted, rate
        return list(zip(drafts, rates, strict=True))

    def run(self, draft: HeldOutDraft, place: int) -> Acceptance:
        """What a draft emits on this half, at the batch of that place.

        Raises:
            InputError: more than the recording tells.
        """
        key = draft, place if draft.weighs_seconds else 0
        if key not in self._replayed:
            self._replayed[key] = self._replay(draft, place)
        return self._replayed[key]

    def rate(self, draft: HeldOutDraft, place: int) -> float:
        """Tokens per second of the batch of that place.

        Raises:
            InputError: as `run`.
        """
        accepted = self.run(draft, place)
        key = draft, place if draft.weighs_seconds else 0
        if key not in self._rates:
            seconds = self.costs.seconds([accepted])[0]
            self._rates[key] = self.costs.batches * accepted.tokens_per_step / seconds
        return float(self._rates[key][place])

    def _replay(self, draft: HeldOutDraft, place: int) -> Acceptance:
        stop = draft.stop
        if isinstance(draft.shape, StateTrees):
            return recorded_acceptance(self.trace, draft.shape, None, self.method.shape)
        if isinstance(draft.shape, Shape):
            return dynamic_tree(self.trace, draft.shape, None, stop=stop)
        if stop is None:
            return accepted_by(self.trace, self.law, draft.shape, None)
        assert isinstance(draft.shape, int)
        if draft.weighs_seconds:
            return self._weighed(draft.shape, stop, place, draft.calibration)
        if stop.rule == "ema":
            return ema_chain(self.trace, draft.shape, stop, None)
        return stopped_chain(self.trace, draft.shape, stop, None, self.law)

    def _weighed(
        self, most: int, stop: Stop, place: int, calibration: Calibration | None
    ) -> Acceptance:
        """Chains of at most so many tokens whose rule weighs the seconds of steps."""
        batch = int(self.costs.batches[place])
        if stop.rule == "goodput":
            seconds = self.costs.chain_seconds(most)[:, place]
            return goodput_chain(self.trace, most, stop, None, seconds=seconds, batch=batch)
        return cost_chain(
            self.trace,
            most,
            stop,
            None,
            seconds=self.costs.width_seconds(most, place),
            batch=batch,
            calibration=calibration,
            law=self.law,
        )
