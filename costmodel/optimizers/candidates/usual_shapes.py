"""Which shapes of drafts are compared where a question leaves them open?

Chains up to a drafter's usual lengths, trees of several sizes where a recording holds ranks, and a
fixed list of dynamic trees, so that nothing is fitted to the recording and all requests measure
them. Of numbers only shapes are taken that they tell of. Leaves out what shapes emit
(`asked_shapes`).
"""

from collections.abc import Sequence
from dataclasses import replace

from costmodel.draft_shape import OFF, OWN, DraftShape, chain, dynamic
from costmodel.laws.acceptance import law_for
from costmodel.method import Method, Shape, Stop
from costmodel.method_library import load_method
from costmodel.optimizers.candidates.state_candidates import SIZES
from costmodel.optimizers.drafters.sources import Source
from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace

CHAIN_LENGTHS = (1, 2, 3, 4, 5, 6, 7, 8)
NGRAM_LENGTHS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16)
TREE_SIZES = (4, 8, 16, 32, 64)
SEVERAL_CHAINS = (2, 3, 4)
BLOCK_BUDGETS = (8, 16, 32, 64, 128)
"""Nodes of trees of a drafter whose levels are known after one pass, up to its own."""
_LIKELIEST = Shape(kind="dynamic_tree")
_DYNAMIC: tuple[tuple[Shape, Stop | None], ...] = (
    (_LIKELIEST, None),
    *(
        (replace(_LIKELIEST, least_probability=least), None) for least in (0.02, 0.1)
    ),  # DySpec's threshold
    *((_LIKELIEST, Stop(rule="gain", at=gain)) for gain in (0.1, 0.4)),  # OPT-Tree's
    *(
        (replace(_LIKELIEST, depth=depth, width=4, beam=4), None) for depth in (2, 4)
    ),  # EAGLE-2's levels and beam
)


def usual_lengths(method: Method) -> Sequence[int]:
    """The lengths of a method's chains that are compared."""
    return NGRAM_LENGTHS if method.may_propose_nothing else CHAIN_LENGTHS


def usual_shapes(
    source: Source,
    *,
    draft_tokens: Sequence[int] | None = None,
    tree_sizes: Sequence[int] = TREE_SIZES,
    stop: Stop | None = None,
) -> list[DraftShape]:
    """The shapes of a drafter that are compared: no speculation first.

    Args:
        source: the drafter.
        draft_tokens: chain lengths, or sizes of trees that carry prompt tokens, where 0 alone
            leaves no draft at all; None: the usual ones, of numbers that hold up to some length no
            longer ones. A drafter whose own tree alone was recorded has no others.
        tree_sizes: draft tokens of trees; empty for none.
        stop: a rule by which drafts may end early; compared beside those that it does not end.

    Raises:
        InputError: a drafter that cannot be compared with others so.
    """
    if draft_tokens is not None and not any(draft_tokens):
        return [OFF]
    if source.own_draft is not None:
        return [OFF, OWN]
    draft_tokens = None if draft_tokens is None else [k for k in draft_tokens if k]
    method, trace = load_method(source.method), source.positions
    lengths = draft_tokens or usual_lengths(method)
    if trace is None and stop is not None:
        rule = "needs a recording with positions: stated numbers do not tell when a draft ends"
        raise InputError(rule, key="stop", value=f"{stop.rule} of {source.method}")
    known = source.rates is not None if trace is None else trace.level >= 2
    if method.shape.kind == "state_trees" and known:
        sizes = draft_tokens or SIZES
        # a candidate and its prompt token are two; a tree of one is refused where it is alone
        sizes = [size for size in sizes if size > 1] or sizes
        return [OFF, *(DraftShape(kind="prompted", nodes=size) for size in sizes)]
    if trace is None:
        return [OFF, *_stated(source, lengths, every=draft_tokens is not None)]
    if trace.depth is not None:
        lengths = [k for k in lengths if k <= trace.depth] or [trace.depth]
    return [OFF, *_recorded(source, trace, lengths, tree_sizes), *_stopped(lengths, stop)]


def _stated(source: Source, lengths: Sequence[int], *, every: bool) -> list[DraftShape]:
    """Chains of which numbers tell, at least the longest known, and trees where a block drafter
    grows them; or the method's own shape.
    """
    method = load_method(source.method)
    if method.has_own_pace:
        rule = (
            "verifies no drafts, and is not compared with methods that do; `rooftree predict`"
            " answers for it"
        )
        raise InputError(rule, key="method", value=method.slug)
    if source.rates is None:
        stated = source.own_tokens_per_step
        assert stated is not None
        if method.shape.kind == "static_tree":
            rule = (
                f"are those of {method.slug}'s own tree, whose nodes they do not tell, and engines"
                " load nodes; ask `predict` about that tree, or say at which draft length:"
                f" {method.slug}:length={stated:g}@K"
            )
            raise InputError(rule, key="tokens_per_step", value=stated)
        return [OWN]
    measured = source.rates.measured
    if measured is not None and not every:
        lengths = [k for k in lengths if k <= measured] or [measured]
    own = method.shape
    grows = method.drafts_blocks and own.kind == "dynamic_tree" and not every
    budgets = [nodes for nodes in BLOCK_BUDGETS if nodes < own.nodes] if grows else []
    return [
        *(chain(k) for k in lengths),
        *(dynamic(replace(own, nodes=nodes, cost_ratio=0.0, free_nodes=0)) for nodes in budgets),
        *([OWN] if grows else []),
    ]


def _recorded(
    source: Source, trace: AcceptanceTrace, lengths: Sequence[int], sizes: Sequence[int]
) -> list[DraftShape]:
    """Chains, several of them where the law judges them together, and trees."""
    method = load_method(source.method)
    law = law_for(trace, method.verify.rule, lengths, at=method.verify.at)
    shapes = [chain(k) for k in lengths]
    if law.judges_several_chains:
        shapes += [
            DraftShape(kind="chains", nodes=k, paths=paths)
            for paths in SEVERAL_CHAINS
            for k in lengths
        ]
    trees = trace.level >= 2 and trace.requests >= 2 and law.judges_trees
    if trees and (method.drafts_trees or trace.expansions is not None):
        shapes += [
            DraftShape(kind="tree", nodes=size, built_from=kind)
            for kind in (("vector",) if law.draws_siblings else ("trace", "vector"))
            for size in sizes
        ]
    expanded = trace.expansions
    if expanded is None or not expanded.size:
        return shapes
    return shapes + [
        dynamic(replace(shape, nodes=nodes), stop)
        for nodes in sizes
        for shape, stop in _DYNAMIC
        if nodes <= expanded.nodes
        and shape.depth <= expanded.depth
        and shape.width <= expanded.width
    ]


def _stopped(lengths: Sequence[int], stop: Stop | None) -> list[DraftShape]:
    """Chains that a rule ends; a controller of goodput picks the shorter ones itself."""
    if stop is None:
        return []
    return [chain(k, stop) for k in ([max(lengths)] if stop.rule == "goodput" else lengths)]
