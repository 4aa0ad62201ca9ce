"""Which configurations do options name: chains or a tree, at acceptance from a recording, numbers,
or none?
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args

import numpy as np

from costmodel.answers.settings import method_of
from costmodel.draft_shape import OFF, OWN, DraftShape, chain, given_tree, read_shapes, tree_of
from costmodel.laws.acceptance import (
    Acceptance,
    DepthRates,
    Law,
    geometric,
    law_for,
    several_chains,
    stated_tree,
)
from costmodel.method import Stop
from costmodel.method_library import load_method
from costmodel.optimizers.candidates.asked_shapes import shape_acceptances
from costmodel.optimizers.drafters.sources import Source
from costmodel.passes.deployment import Fidelity
from hardware_profiles.errors import InputError
from real_runs.campaigns.results import offer_measured_passes
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.tree import Tree, read_tree


def fidelity_of(name: str) -> Fidelity:
    """The fidelity that --fidelity names.

    Raises:
        InputError: another word.
    """
    fidelities: dict[str, Fidelity] = {fidelity: fidelity for fidelity in get_args(Fidelity)}
    if name not in fidelities:
        raise InputError("must be measured, calibrated or datasheet", key="--fidelity", value=name)
    if name == "measured":
        offer_measured_passes()
    return fidelities[name]


def named_method(recorded: AcceptanceTrace) -> str:
    """The slug of the method that a trace names; empty where it names none that is known."""
    try:
        return method_of(recorded.provenance.method)
    except InputError:
        return ""


def law_of(recorded: AcceptanceTrace, method: str, lengths: Sequence[int]) -> Law:
    """The law by which a method verifies chains on a recording.

    Args:
        recorded: what is replayed.
        method: slug.
        lengths: draft tokens of the chains.
    """
    verify = load_method(method).verify
    return law_for(recorded, verify.rule, lengths, at=verify.at)


def shapes_for(
    source: Source | None,
    lengths: Sequence[int],
    tree: Path | Tree | None = None,
    stop: Stop | None = None,
) -> list[DraftShape]:
    """The shapes that --draft-tokens, --tree and --stop name of a drafter.

    Args:
        source: what is known of the drafter; None: nothing.
        lengths: K of chains, or sizes of trees that carry prompt tokens; empty: the length or shape
            that stated tokens per step belong to, beside plain decoding.
        tree: instead of chains, or its file.
        stop: when chains end early; None: they do not.

    Raises:
        InputError: a static tree with a rule that ends it.
    """
    if tree is not None:
        if stop is not None:
            raise InputError("static trees are drafted whole; leave out --tree", key="--stop")
        return [tree_of(tree) if isinstance(tree, Path) else given_tree(tree)]
    if source is None:
        return [chain(k, stop) for k in lengths]
    if stop is None and _carries_prompt_tokens(source):
        return [DraftShape(kind="prompted", nodes=size) if size else OFF for size in lengths]
    if not lengths:
        return [OFF, OWN if source.rates is None else chain(source.rates.measured or 0)]
    return [chain(k, stop) for k in lengths]


def named_shapes(text: str | None, others: Mapping[str, object]) -> list[DraftShape] | None:
    """The only shapes that are compared; None where --shape leaves them open.

    Args:
        text: of --shape.
        others: what says the same in other words, by option; empty or None where it is not stated.

    Raises:
        InputError: a text that is no list of shapes, or another option that names shapes.
    """
    if text is None:
        return None
    if beside := [option for option, value in others.items() if value]:
        raise InputError(f"--shape says it all; leave out {beside[0]}", key="--shape", value=text)
    return read_shapes(text, key="--shape")


def compared(
    source: Source,
    lengths: Sequence[int],
    tree: Path | None,
    seed: int,
    shapes: list[DraftShape] | None = None,
) -> list[Acceptance]:
    """The shapes that options name, at what is known of a drafter's acceptance.

    Args:
        source: where it is known from.
        lengths: as in `shapes_for`.
        tree: as in `shapes_for`.
        seed: of the bootstrap.
        shapes: of --shape, in place of both; None: it is not given.

    Raises:
        InputError: more than the recording or the numbers tell.
    """
    named = shapes_for(source, lengths, tree) if shapes is None else shapes
    return shape_acceptances(source, named, generator=np.random.default_rng(seed))


def _carries_prompt_tokens(source: Source) -> bool:
    """Whether lengths are sizes of trees with prompt tokens: by rates, or ranks of a recording."""
    if load_method(source.method).shape.kind != "state_trees":
        return False
    return source.rates is not None if source.positions is None else source.positions.level >= 2


def plain() -> list[Acceptance]:
    """Plain decoding, which needs nothing to be known of acceptance."""
    return [geometric(0.0, 0)]


def unknown(shapes: list[DraftShape], match_rate: float = 1.0) -> list[Acceptance]:
    """Shapes whose acceptance is asked for: nothing is taken to be accepted.

    Args:
        shapes: chains and static trees.
        match_rate: share of steps with a proposal.

    Raises:
        InputError: a shape that follows from what is known of acceptance, as a dynamic tree does.
    """
    rates = DepthRates(by_depth=(0.0,), proposal_ratio=match_rate)
    acceptances = []
    for shape in shapes:
        if shape.kind in ("off", "chain") and shape.stop is None:
            acceptances.append(geometric(0.0, shape.nodes, match_rate=match_rate))
        elif shape.kind == "chains":
            acceptances.append(stated_tree(rates, several_chains(shape.paths, shape.nodes)))
        elif shape.file is not None:
            acceptances.append(stated_tree(rates, read_tree(shape.file)))
        else:
            rule = (
                "follows from what is accepted; say it by one of --trace, --acceptance,"
                " --tokens-per-step and --drafter"
            )
            raise InputError(rule, key="--shape", value=str(shape))
    return acceptances
