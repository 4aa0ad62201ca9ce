"""What can an engine's own configuration express, release by release?

Every way of drafting has a name there and, for each thing that a configuration may ask of it, the
releases that have it or the reason why none does. Leaves out how the engine spells it
(`app.exporters`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from costmodel.engines.record.releases import Gate
from hardware_profiles.errors import InputError

_UNREAD = "must be one of the releases that were read"
Capability = Gate | str  # the releases that have it, or why the engine does not


@dataclass(frozen=True, kw_only=True, slots=True)
class Drafting:
    """A way of drafting, as one engine has it.

    Args:
        name: what the engine calls it; empty where no name is needed.
        releases: releases that have it.
        static_tree: a tree that is the same at every step.
        dynamic_tree: a tree that is chosen at every step, from the probabilities of its drafter.
        schedule: a draft length for every range of batch sizes.
        stop: an end of the draft where its probability falls below a threshold.
        unlikely_tokens: of such drafts, 1: the token below the threshold is verified, 0: it is
            dropped; None: not looked up.
        synthetic: acceptance that is drawn at stated rates or at a stated mean, to time a what-if.
        verifies: how much of a draft is verified as what it costs says, or why not.
        adapts: a draft length that follows the tokens accepted lately.
        variants: other implementations of the same drafting under names of their own, and the
            releases that have them.
    """

    name: str
    releases: Gate
    static_tree: Capability
    dynamic_tree: Capability
    schedule: Capability
    stop: Capability
    synthetic: Capability
    verifies: Capability = "verifies drafts whole"
    adapts: Capability = "sets no draft length by what was accepted lately"
    unlikely_tokens: int | None = None
    variants: Mapping[str, Gate] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """What a configuration of an engine can express.

    Args:
        releases: those whose sources were read, oldest first.
        default: the release that is written for unless another is named.
        numbered: releases are version numbers, so that two that were read speak for one in between.
        drafting: ways of drafting by rooftree's names of them.
        without: methods that are missing although one might look for them, and why.
        parallel: whether one model may be spread over several devices or nodes, or why not:
            `tensor`, `pipeline`, `expert`, `data`, `context` and `nodes`. What is left out was not
            looked up.
        several_requests: whether several requests may be drafted for together, or why not.
        source: what was read.

    Raises:
        InputError: a default, or an end of a gate, that is none of the releases.
    """

    releases: tuple[str, ...]
    default: str
    numbered: bool = True
    drafting: Mapping[str, Drafting]
    without: Mapping[str, str]
    parallel: Mapping[str, Capability]
    several_requests: Capability
    source: str

    def __post_init__(self) -> None:
        if self.default not in self.releases:
            raise InputError(_UNREAD, key="default", value=self.default)
        for name, capability in self._capabilities():
            if isinstance(capability, Gate):
                for release in (capability.first, capability.last):
                    if release is not None and release not in self.releases:
                        raise InputError(_UNREAD, key=name, value=release)

    def _capabilities(self) -> Iterator[tuple[str, Capability]]:
        yield "several_requests", self.several_requests
        for kind, capability in self.parallel.items():
            yield f"parallel.{kind}", capability
        for way, drafting in self.drafting.items():
            for name in (
                "releases",
                "static_tree",
                "dynamic_tree",
                "schedule",
                "stop",
                "synthetic",
                "verifies",
                "adapts",
            ):
                yield f"drafting.{way}.{name}", getattr(drafting, name)
            for variant, gate in drafting.variants.items():
                yield f"drafting.{way}.variants.{variant}", gate

    def admits(self, capability: Capability, release: str) -> bool:
        """Whether a release that was read has something."""
        if isinstance(capability, str):
            return False
        if self.numbered:
            return capability.admits(release)
        last = (
            len(self.releases) - 1
            if capability.last is None
            else self.releases.index(capability.last)
        )
        return self.releases.index(capability.first) <= self.releases.index(release) <= last
