"""What does a drafter emit in shapes of its drafts?

The one place where a shape meets what is known of a drafter, so that a shape that `recommend` found
has the same numbers when it is asked about alone. Leaves out which shapes are tried where none is
named (`usual_shapes`).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import cycle, product

import numpy as np

from costmodel.answers.estimate import Setting
from costmodel.draft_shape import DraftShape, chain, dynamic, shape_of
from costmodel.laws.acceptance import (
    Acceptance,
    Law,
    accepted_by,
    geometric,
    law_for,
    several_chains,
    stated_tree,
)
from costmodel.laws.claims import rate_claim, tokens_claim
from costmodel.laws.drafting import dynamic_tree
from costmodel.laws.outcomes import outcome_chain
from costmodel.laws.own_draft import own_draft
from costmodel.method import WEIGHING
from costmodel.method_library import load_method
from costmodel.optimizers.candidates.block_trees import block_tree
from costmodel.optimizers.candidates.paying_trees import calibrated_limits
from costmodel.optimizers.candidates.state_candidates import state_candidates
from costmodel.optimizers.candidates.stopped_candidates import stopped_candidates
from costmodel.optimizers.candidates.tree_candidates import tree_candidates
from costmodel.optimizers.drafters.sources import Source
from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.naming import naming
from traces.kinds.tree import Tree, read_tree
from traces.replay.bootstrap import RequestDraws
from traces.replay.statistics import request_draws

DRAWS = 1000

Weighed = tuple[Setting | None, Sequence[int], Sequence[int]]
"""Whose seconds a stop rule weighs, and the batches and contexts it is asked at."""
Progress = Callable[[str], None]


def shape_acceptances(
    source: Source,
    shapes: Sequence[DraftShape],
    *,
    generator: np.random.Generator,
    weighed: Weighed = (None, (), ()),
    law: Law | None = None,
    progress: Progress | None = None,
) -> list[Acceptance]:
    """Acceptance of every shape on what is known of a drafter, in the order of the shapes.

    Bootstrap draws are paired, and trees are measured on requests that did not choose them. A chain
    whose stop rule weighs seconds has one acceptance per batch and context, and so has the own tree
    of a method that weighs its nodes by the roofline of its device.

    Args:
        source: what is known of the drafter.
        shapes: at least one.
        generator: of the bootstrap and the split of the requests.
        weighed: for chains whose stop rule weighs seconds, and trees of as many nodes as pay.
        law: by which drafts are verified; None: that of the method.
        progress: called with a line of text per tree that is built.

    Raises:
        InputError: a shape for which the source holds no acceptance.
    """
    if (recorded := source.own_draft) is not None:
        return _own_drafts(source, recorded, shapes, generator)
    weighing = [(own, at) for shape in shapes for own, at in _weighing(source, shape, weighed)]
    shapes = [shape for shape, _ in weighing]
    if source.positions is None:
        return [replace(_stated(source, shape), holds_at=at) for shape, at in weighing]
    trace = source.positions
    draws = request_draws(trace.prompt_kinds, generator=generator, draws=DRAWS)
    chains = [shape.nodes for shape in shapes if shape.kind in ("off", "chain")]
    built = [shape.nodes for shape in shapes if shape.is_built]
    verify = load_method(source.method).verify
    of_chains = law or law_for(trace, verify.rule, chains, at=verify.at)
    trees: dict[tuple[str, int], Acceptance] = {}
    if built:
        nodes = list(dict.fromkeys(built))
        made = tree_candidates(trace, nodes, draws, generator, of_chains, progress=progress)
        trees = {(a.tree_source, size): a for a, size in zip(made, cycle(nodes), strict=False)}
    sizes = [shape.nodes for shape in shapes if shape.kind == "prompted"]
    prompted = iter(state_candidates(source, sizes, draws) if sizes else ())
    emitted: list[Acceptance] = []
    for shape, at in weighing:
        if shape.is_built:
            emitted.append(_built(trees, shape))
        elif shape.kind == "prompted":
            emitted.append(next(prompted))
        elif shape.kind == "chain" and shape.stop is not None:
            setting, batches, contexts = weighed
            if shape.stop.rule in WEIGHING and setting is None:
                rule = "weighs seconds, which `predict` and `optimize` know"
                raise InputError(rule, key="stop", value=shape.stop.rule)
            emitted += stopped_candidates(
                setting,
                trace,
                [shape.nodes],
                shape.stop,
                draws,
                of_chains,
                batches=batches,
                contexts=contexts,
            )
        else:
            replayed = _replayed(source, trace, shape, draws, law or of_chains, law)
            emitted.append(replace(replayed, holds_at=at))
    return emitted


def _own_drafts(
    source: Source,
    recorded: AcceptanceTrace,
    shapes: Sequence[DraftShape],
    generator: np.random.Generator,
) -> list[Acceptance]:
    """The recorded draft, and plain decoding: such a recording tells of nothing else.

    Raises:
        InputError: another shape.
    """
    draws = None
    if recorded.requests:
        draws = request_draws(recorded.prompt_kinds, generator=generator, draws=DRAWS)
    own = own_draft(source.entry, recorded, draws)
    emitted = []
    for shape in shapes:
        if shape.drafts and not _is_own(shape, own):
            rule = (
                f"was not recorded: {source.called} is known by its own tree of"
                f" {own.draft_tokens} draft tokens alone ({shape_of(own)})"
            )
            raise InputError(rule, key="shape", value=str(shape))
        emitted.append(own if shape.drafts else geometric(0.0, 0))
    return emitted


def _is_own(shape: DraftShape, own: Acceptance) -> bool:
    """Whether a shape is the recorded draft, in any of its spellings."""
    if shape.kind == "tree" and not shape.is_built:
        return _tree(shape) == own.tree
    return shape.kind == "own" or str(shape) == str(shape_of(own))


def _entry_shape(source: Source, shape: DraftShape) -> DraftShape:
    """A shape with the numbers of the method's entry in the place of `own`.

    Raises:
        InputError: an entry that says no number.
    """
    if shape.kind != "own" or (source.positions is None and source.rates is None):
        return shape  # stated tokens per step of the method's own shape need no numbers of it
    own = load_method(source.method).shape
    if own.nodes and own.kind == "dynamic_tree":
        return dynamic(own, shape.stop)
    if own.nodes and own.kind == "state_trees":
        return DraftShape(kind="prompted", nodes=own.nodes, stop=shape.stop)
    if own.nodes and own.kind in ("chain", "window"):
        return chain(own.nodes, shape.stop)
    rule = f"{source.method} has no default number of draft tokens; name a shape, such as chain:5"
    raise InputError(rule, key="shape", value=str(shape))


def _weighing(
    source: Source, shape: DraftShape, weighed: Weighed
) -> list[tuple[DraftShape, tuple[int, int] | None]]:
    """A shape with the numbers of the method's entry, and where it holds: everywhere, but for an own
    tree whose nodes are weighed by what they cost at a batch and a context.
    """
    entry, (setting, batches, contexts) = _entry_shape(source, shape), weighed
    limits = entry.limits
    if shape.kind != "own" or limits is None or not limits.cost_ratio or setting is None:
        return [(entry, None)]
    return [
        (
            replace(
                entry,
                limits=calibrated_limits(setting, limits, batch=batch, context=context),
            ),
            (batch, context),
        )
        for batch, context in product(batches, contexts)
    ]


def _built(trees: dict[tuple[str, int], Acceptance], shape: DraftShape) -> Acceptance:
    """The tree of a size, of what it was built from."""
    tree = trees.get((shape.built_from, shape.nodes))
    if tree is None:
        rule = (
            "sampled drafts have no ranks on a recording: their trees are built from the vector,"
            f" tree:{shape.nodes}:vector"
        )
        raise InputError(rule, key="shape", value=str(shape))
    return tree


def _replayed(
    source: Source,
    trace: AcceptanceTrace,
    shape: DraftShape,
    draws: RequestDraws,
    of_chains: Law,
    law_of_tree: Law | None,
) -> Acceptance:
    """One shape replayed on a recording."""
    if shape.kind == "chain" and source.entry.batch.fan_out:
        return outcome_chain(trace, shape.nodes, source.entry.batch, draws, of_chains)
    if shape.kind in ("off", "chain"):
        return accepted_by(trace, of_chains, shape.nodes, draws)
    if shape.kind == "dynamic":
        assert shape.limits is not None
        return dynamic_tree(trace, shape.limits, draws, stop=shape.stop)
    tree = _tree(shape)
    verify = load_method(source.method).verify
    with naming(None if shape.file is None else str(shape.file)):
        law = law_of_tree or law_for(trace, verify.rule, [tree], at=verify.at)
        replayed = accepted_by(trace, law, tree, draws)
    return replace(replayed, tree_source=_named(shape))


def _stated(source: Source, shape: DraftShape) -> Acceptance:
    """One shape at acceptance that is known as numbers."""
    method, rates = source.entry, source.rates
    stated = source.own_tokens_per_step if rates is None else rates.tokens_per_step
    if not shape.drafts:
        return geometric(0.0, 0) if rates is None else rate_claim(method, rates, 0)
    if shape.stop is not None:
        rule = "needs a --trace: acceptance stated as numbers does not tell when a draft ends"
        raise InputError(rule, key="shape", value=str(shape))
    if shape.kind == "prompted":
        return state_candidates(source, [shape.nodes])[0]
    if shape.kind == "own":
        assert stated is not None
        return tokens_claim(method, stated)
    if shape.kind == "chains" or (shape.is_built):
        rule = (
            "needs a recording with ranks; acceptance stated as numbers covers chains, and trees"
            " from files"
        )
        raise InputError(rule, key="shape", value=str(shape))
    if shape.kind == "tree":
        share = 1.0 if rates is None else rates.proposal_ratio
        tree = _tree(shape)
        if stated is None:
            assert rates is not None
            acceptance = stated_tree(rates, tree)
        else:
            acceptance = tokens_claim(method, stated, tree, match_rate=share)
        return replace(acceptance, tree_source=_named(shape))
    if shape.kind == "dynamic":
        return _stated_dynamic(source, shape, stated)
    if rates is None:
        rule = (
            f"{stated:g} tokens per step are those of the method's own shape; name their length:"
            f" length={stated:g}@K"
        )
        raise InputError(rule, key="draft_tokens", value=shape.nodes)
    return rate_claim(method, rates, shape.nodes)


def _stated_dynamic(source: Source, shape: DraftShape, stated: float | None) -> Acceptance:
    """A tree that is chosen anew at every step, at stated tokens per step or rates of chains."""
    assert shape.limits is not None
    if stated is not None:
        return tokens_claim(source.entry, stated, shape.limits)
    assert source.rates is not None
    return block_tree(source.entry, source.rates, shape.limits)


def _named(shape: DraftShape) -> str:
    """The file of a tree; empty for one that has none."""
    return "" if shape.file is None else str(shape.file)


def _tree(shape: DraftShape) -> Tree:
    if shape.tree is not None:
        return shape.tree
    if shape.kind == "chains":
        return several_chains(shape.paths, shape.nodes)
    assert shape.file is not None
    return read_tree(shape.file)
