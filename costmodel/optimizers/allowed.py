"""Which configurations compete, and how is the one that is picked run?

Leaves out what they cost and where they are allowed (`costmodel.optimizers.pricing`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from costmodel.answers.estimate import Setting
from costmodel.configuration import DecodingConfiguration
from costmodel.laws.acceptance import Acceptance
from costmodel.method import Stop


@dataclass(frozen=True, kw_only=True, slots=True)
class Contender:
    """A method in a setting, with the configurations of it to compare.

    Args:
        configuration: deployment, method and drafter by name; what is drafted in a step comes from
            the candidates.
        setting: target, device, drafter and engine.
        candidates: what was measured of each shape; the first is no speculation.
        source: index of the drafter that they are candidates of.
        contexts: at which their acceptance is known; None: it is taken to hold at any.
    """

    configuration: DecodingConfiguration
    setting: Setting
    candidates: Sequence[Acceptance]
    source: int = 0
    contexts: tuple[int, ...] | None = None

    @property
    def method(self) -> str:
        """Slug of the method."""
        return self.configuration.method

    @property
    def refines(self) -> bool:
        """Whether its candidates refine masked blocks."""
        refine = self.setting.drafter.method.refine
        return refine is not None and any(a.draft_tokens for a in self.candidates)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pick:
    """A candidate that may be run.

    Args:
        configuration: what to run; `batch` and `context` say where.
        contender: method and setting that it is one of.
        acceptance: what it emits per step.
    """

    configuration: DecodingConfiguration
    contender: Contender
    acceptance: Acceptance

    @property
    def batch(self) -> int:
        """Requests that it was chosen for."""
        return self.configuration.batch or 1

    @property
    def context(self) -> int:
        """Cached tokens per request that it was chosen for."""
        return self.configuration.context or 0

    @property
    def topology(self) -> str:
        """`off`, `chain`, `tree` (static) or `dynamic_tree`."""
        return self.configuration.topology


def agrees(a: Acceptance, floor: float | None) -> bool:
    """Whether a candidate agrees as much as a floor with one token a pass; an unknown share does
    not.

    Args:
        a: the candidate.
        floor: least share, 0 to 1; None: anything agrees.
    """
    return floor is None or (a.agreement is not None and a.agreement >= floor)


def drafting(configuration: DecodingConfiguration, a: Acceptance) -> DecodingConfiguration:
    """A configuration that drafts, or commits masked blocks, in a candidate's way."""
    if a.played is not None:
        return replace(configuration, refine=a.played.policy, tokens_per_step=a.tokens_per_step)
    return replace(
        configuration,
        draft_tokens=a.draft_tokens,
        shape=a.tree or a.shape,
        stop=a.stop or Stop(),
    )
