"""What does a simulated step draft: as a scenario says, else as the method's own entry does?

A chain, a static tree, or limits of a tree that every step picks anew, and when drafts end before
that. Leaves out how drafts are verified and share steps (`simulator.scenario.speculated`).
"""

from __future__ import annotations

from dataclasses import asdict, replace

from costmodel.draft_shape import DraftShape, read_shape, shape_of
from costmodel.laws.acceptance import Acceptance, law_for, several_chains
from costmodel.laws.drafting import tree_policy
from costmodel.method import Method, Shape, Stop
from hardware_profiles.errors import InputError
from simulator.loop.options import STOPS
from simulator.scenario.sections import SpeculationSection
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.state_trees import StateTrees
from traces.kinds.tree import Tree, read_tree
from traces.replay.dynamic import TreePolicy

Topology = int | Tree | StateTrees | TreePolicy


def drafted(
    section: SpeculationSection,
    method: Method,
    trace: AcceptanceTrace,
    own: Acceptance | None = None,
) -> tuple[Topology, Stop, str]:
    """What every step drafts, when a draft ends before that, and what has to be said about it.

    Args:
        section: as written.
        method: its entry, which says what is not written: the tree or the length, and the stop
            rule.
        trace: the recording that is walked along; a tree of the entry is kept within what it holds.
        own: what the recorded draft emits, where the recording tells of the method's own tree
            alone; None: it tells of others.

    Raises:
        InputError: neither the scenario nor the entry says what a step drafts, the recording does
            not hold it, or the stop rule is not one of such drafts.
    """
    if own is not None:
        return _recorded_alone(section, method, own), Stop(), ""
    shape, note = _shape(section, method, trace)
    stop = _stop(section, method, trace, chain=isinstance(shape, int))
    if isinstance(shape, Shape):
        return tree_policy(shape, stop), Stop(), note
    if isinstance(shape, Tree | StateTrees) and stop.rule != "length":
        raise InputError("static trees are drafted whole", key="speculation.stop", value=stop.rule)
    if isinstance(shape, int) and stop.rule not in STOPS:
        raise InputError(
            f"chains end by {', '.join(STOPS)}", key="speculation.stop", value=stop.rule
        )
    if isinstance(shape, int) and stop.most_tokens and not section.schedule:
        shape = min(shape, stop.most_tokens)
    return shape, stop, note


def _shape(
    section: SpeculationSection, method: Method, trace: AcceptanceTrace
) -> tuple[int | Tree | StateTrees | Shape, str]:
    if section.tree is not None:
        return (
            read_tree(section.tree)
            if isinstance(section.tree, str)
            else Tree.from_json(section.tree)
        ), ""
    if section.shape is not None:
        return _named(read_shape(section.shape), method, trace)
    if method.shape.kind == "state_trees" and trace.level >= 2:
        return _prompted(section.draft_tokens or method.shape.nodes, method, trace)
    if section.draft_tokens is not None:
        return section.draft_tokens, ""
    own = method.shape
    if own.kind == "dynamic_tree" and own.nodes:
        return _within(own, method, trace)
    if own.kind in ("chain", "window") and own.nodes:
        return own.nodes, ""
    rule = (
        f"exactly one of shape, draft_tokens and tree is needed: {method.slug} says no"
        " number of its own"
    )
    raise InputError(rule, key="speculation")


def _recorded_alone(section: SpeculationSection, method: Method, own: Acceptance) -> int | Tree:
    """The tree that a recording names, or as many draft tokens as its trees had, whose lengths are
    walked along.

    Raises:
        InputError: a scenario that says something else.
    """
    said = {"shape": section.shape, "draft_tokens": section.draft_tokens, "tree": section.tree}
    if section.shape == str(shape_of(own)):
        said["shape"] = None
    if isinstance(section.tree, dict) and Tree.from_json(section.tree) == own.tree:
        said["tree"] = None
    for key, value in said.items():
        if value is not None:
            rule = f"was not recorded: {method.slug} is known by its own tree alone"
            raise InputError(rule, key=f"speculation.{key}", value=value)
    return own.draft_tokens if own.tree is None else own.tree


def _named(
    shape: DraftShape, method: Method, trace: AcceptanceTrace
) -> tuple[Tree | StateTrees | Shape, str]:
    """A shape that a scenario names, other than a chain or a tree's file."""
    if shape.kind == "chains":
        return several_chains(shape.paths, shape.nodes), ""
    if shape.kind == "dynamic" and shape.limits is not None:
        return shape.limits, ""
    if shape.kind == "prompted":
        if method.shape.kind != "state_trees":
            rule = f"{method.slug} has no prompt tokens"
            raise InputError(rule, key="speculation.shape", value=str(shape))
        return _prompted(shape.nodes, method, trace)
    # plain scenarios need no optimiser
    from costmodel.optimizers.candidates.tree_candidates import TREE_DEPTH, built_trees

    trace.require(2, "building trees")
    levels = TREE_DEPTH if trace.depth is None else min(TREE_DEPTH, trace.depth)
    law = law_for(trace, method.verify.rule, [1], at=method.verify.at)
    trees = built_trees(trace, [shape.nodes], law, levels=levels)
    if shape.built_from not in trees:
        rule = f"sampled drafts have no ranks on a recording; tree:{shape.nodes}:vector is built"
        raise InputError(rule, key="speculation.shape", value=str(shape))
    return trees[shape.built_from][0], ""


def _prompted(size: int, method: Method, trace: AcceptanceTrace) -> tuple[StateTrees, str]:
    """The best trees with prompt tokens of the stated or the entry's own size, for the ranks of the
    recording.
    """
    # plain scenarios need no optimiser
    from costmodel.optimizers.candidates.state_candidates import recorded_trees

    best = recorded_trees(trace, method, size)
    words = ", ".join(
        f"{tree.draft_tokens} of {rows}" for tree, rows in zip(best.trees, best.rows, strict=True)
    )
    return (
        best,
        (
            "candidates among the query tokens of a step, by prompt tokens of the step before:"
            f" {words}"
        ),
    )


def _within(shape: Shape, method: Method, trace: AcceptanceTrace) -> tuple[Shape, str]:
    """The tree of an entry, no larger than the trees that a recording holds."""
    recorded = trace.expansions
    if recorded is None:
        rule = (
            f"{method.slug} picks a tree in every step, which needs a recording with the drafter's"
            " trees (`rooftree record --expansions`); state a shape, draft_tokens or tree otherwise"
        )
        raise InputError(rule, file=trace.file, key="speculation.shape")
    limits = {
        name: min(getattr(shape, name), getattr(recorded, name))
        for name in ("nodes", "depth", "width")
    }
    limited = replace(shape, **limits)
    cut = [
        f"{name} {getattr(shape, name)}"
        for name in limits
        if getattr(shape, name) > getattr(limited, name)
    ]
    own = ", ".join(
        f"{name} {value:g}" for name, value in asdict(limited).items() if name != "kind" and value
    )
    note = f"every step picks a tree of {own}"
    return (
        limited,
        (
            f"{note}: the recording holds less than {' and '.join(cut)} of {method.slug}"
            if cut
            else note
        ),
    )


def _stop(
    section: SpeculationSection, method: Method, trace: AcceptanceTrace, *, chain: bool
) -> Stop:
    """When drafts end: as written, otherwise as the method's entry says where the recording holds
    what it needs.
    """
    if section.stop is not None:
        return Stop(**section.stop.model_dump())
    own = method.stop
    if section.method is None or (own.rule not in STOPS if chain else own.rule != "gain"):
        return Stop()
    return own if own.rule in ("length", "ema", "goodput", "gain") or trace.level >= 3 else Stop()
