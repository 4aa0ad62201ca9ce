"""How do the requests of a row draft whose run speculated?

A row names a method, such as `mtp`; the length of its drafts is what the launch sets, else the
method's own, and their acceptance what was published of the method on that model. Leaves out
acceptance that a table itself states.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from costmodel.acceptance_library import best_match
from costmodel.answers.estimate import Setting
from costmodel.laws.acceptance import DepthRates, drawn_recording
from costmodel.method import Method
from costmodel.method_library import load_method
from hardware_profiles.errors import InputError
from simulator.loop.options import SpeculationOptions
from simulator.timing.cost_timer import CostModelDraft


@dataclass(frozen=True, kw_only=True, slots=True)
class Drafting:
    """Chains of drafts behind every request.

    Args:
        slug: of the method.
        rates: share of steps in which draft 1, 2, .. was accepted, one for each draft token.
    """

    slug: str
    rates: tuple[float, ...]

    @property
    def method(self) -> Method:
        """The method that drafts."""
        return load_method(self.slug)

    def options(self, setting: Setting) -> SpeculationOptions:
        """What the scheduler needs to know; no step's acceptance depends on another's.

        Args:
            setting: target, drafter and device, which time the draft passes.
        """
        drafts = len(self.rates)
        trace = drawn_recording(
            DepthRates(by_depth=self.rates, measured=drafts),
            drafts,
            generator=np.random.default_rng(0),
        )
        return SpeculationOptions(topology=drafts, trace=trace, draft=CostModelDraft(setting))


def published_drafting(name: str, *, model: str, draft_tokens: int | None) -> Drafting:
    """The drafting that a row's word for it means.

    Args:
        name: of a method.
        model: that verifies.
        draft_tokens: K; None: the method's own.

    Raises:
        UnknownNameError: no such method.
        InputError: nothing was published of the method on the model.

    >>> published_drafting("mtp", model="deepseek-v3", draft_tokens=None).rates
    (0.85,)
    """
    method = load_method(name)
    match = best_match(method.slug, model)
    if match is None or match.kinship != "own" or match.entry.shape != "chain":
        rule = f"the row does not say how many drafts were accepted, nor was it read for {model}"
        raise InputError(rule, key="speculation", value=name)
    rates = match.entry.depth_rates(draft_tokens or max(method.shape.nodes, 1))
    return Drafting(slug=method.slug, rates=tuple(map(float, rates)))
