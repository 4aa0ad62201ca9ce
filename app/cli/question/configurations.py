"""Which configurations do options name: chains or a tree, at acceptance from a recording, numbers,
or none?
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from costmodel.laws.acceptance import Acceptance
    from costmodel.optimizers.drafters.sources import Source
    from costmodel.passes.deployment import Fidelity
    from traces.kinds.acceptance import AcceptanceTrace
    from traces.kinds.tree import Tree


def fidelity_of(name: str) -> "Fidelity":
    """The fidelity that --fidelity names.

    Raises:
        InputError: another word.
    """
    from typing import get_args

    from costmodel.passes.deployment import Fidelity
    from hardware_profiles.errors import InputError

    known: dict[str, Fidelity] = {each: each for each in get_args(Fidelity)}
    if name not in known:
        raise InputError("must be measured, calibrated or datasheet", key="--fidelity", value=name)
    if name == "measured":
        from real_runs.campaigns.results import offer_measured_passes

        offer_measured_passes()
    return known[name]


def named_method(recorded: "AcceptanceTrace") -> str:
    """The slug of the method that a trace names; empty where it names none that is known."""
    from costmodel.answers.settings import method_of
    from hardware_profiles.errors import InputError

    try:
        return method_of(recorded.provenance.method)
    except InputError:
        return ""


def replayed(
    recorded: "AcceptanceTrace",
    method: str,
    lengths: list[int],
    tree: "Path | Tree | None",
    seed: int,
) -> "list[Acceptance]":
    """Chains of the lengths, or the tree in a file, replayed on a recording; their bootstrap draws
    are paired.

    Args:
        recorded: the trace.
        method: slug; its entry says how drafts are verified.
        lengths: K of the chains.
        tree: a tree instead, or its file.
        seed: of the bootstrap.

    Raises:
        InputError: a tree file that is none, or a recording of too low a level for it.
    """
    import numpy as np

    from costmodel.laws.acceptance import accepted_by, law_for
    from costmodel.method_library import load_method
    from traces.kinds.naming import naming
    from traces.kinds.tree import read_tree
    from traces.replay.statistics import request_draws

    draws = request_draws(recorded.prompt_kinds, generator=np.random.default_rng(seed))
    verify = load_method(method).verify
    shapes: list[int | Tree] = [*lengths]
    if tree is not None:
        shapes = [read_tree(tree) if isinstance(tree, Path) else tree]
    with naming(str(tree) if isinstance(tree, Path) else None):
        law = law_for(recorded, verify.rule, shapes, at=verify.at)
        return [accepted_by(recorded, law, shape, draws) for shape in shapes]


def compared(
    source: "Source", lengths: list[int], tree: "Path | Tree | None", seed: int
) -> "list[Acceptance]":
    """Chains of the lengths, or a tree, at what is known of a drafter's acceptance.

    Args:
        source: where it is known from.
        lengths: K of the chains; empty: the length or shape that stated tokens per step belong to,
            beside plain decoding.
        tree: instead of chains, or its file.
        seed: of the bootstrap.

    Raises:
        InputError: more than the recording or the numbers tell.
    """
    from costmodel.laws.acceptance import stated_tree
    from costmodel.laws.claims import rate_claim, tokens_claim
    from costmodel.method_library import load_method
    from hardware_profiles.errors import InputError
    from traces.kinds.tree import read_tree

    if load_method(source.method).shape.kind == "state_trees" and tree is None and _by_rank(source):
        return prompted(source, lengths, seed)
    if source.positions is not None:
        return replayed(source.positions, source.method, lengths, tree, seed)
    method, rates = source.entry, source.rates
    emitted = source.own_tokens_per_step if rates is None else rates.tokens_per_step
    if tree is not None:
        shape = read_tree(tree) if isinstance(tree, Path) else tree
        share = 1.0 if rates is None else rates.proposal_ratio
        if emitted is not None:
            return [tokens_claim(method, emitted, shape, match_rate=share)]
        assert rates is not None
        return [stated_tree(rates, shape)]
    if rates is None:
        assert emitted is not None
        if any(lengths):
            rule = (
                f"{emitted:g} tokens per step are those of the method's own shape; name their"
                " length"
            )
            raise InputError(f"{rule}: length={emitted:g}@K", key="--draft-tokens", value=lengths)
        return plain() if lengths else [*plain(), tokens_claim(method, emitted)]
    if not lengths:
        lengths = [0, rates.measured or 0]
    return [rate_claim(method, rates, k) for k in lengths]


def prompted(source: "Source", sizes: list[int], seed: int) -> "list[Acceptance]":
    """Trees whose candidates carry prompt tokens, of the sizes, at what is known of a drafter's
    acceptance.

    Args:
        source: where it is known from.
        sizes: candidates and prompt tokens behind them; 0 is plain decoding.
        seed: of the bootstrap.

    Raises:
        InputError: a size out of range.
    """
    import numpy as np

    from costmodel.optimizers.candidates.state_candidates import state_candidates
    from traces.replay.statistics import request_draws

    if source.positions is None:
        return state_candidates(source, sizes)
    kinds = source.positions.prompt_kinds
    draws = request_draws(kinds, generator=np.random.default_rng(seed))
    return state_candidates(source, sizes, draws)


def _by_rank(source: "Source") -> bool:
    """Whether anything is known of more than lengths: rates, or ranks of a recording."""
    return source.rates is not None if source.positions is None else source.positions.level >= 2


def plain() -> "list[Acceptance]":
    """Plain decoding, which needs nothing to be known of acceptance."""
    from costmodel.laws.acceptance import geometric

    return [geometric(0.0, 0)]


def unknown(lengths: list[int], tree: Path | None, match_rate: float = 1.0) -> "list[Acceptance]":
    """Chains of the lengths, or a tree, whose acceptance is asked for: nothing is taken to be
    accepted.

    Args:
        lengths: K of the chains.
        tree: file of a tree instead.
        match_rate: share of steps with a proposal.
    """
    from costmodel.laws.acceptance import DepthRates, geometric, stated_tree
    from traces.kinds.tree import read_tree

    if tree is None:
        return [geometric(0.0, k, match_rate=match_rate) for k in lengths]
    return [stated_tree(DepthRates(by_depth=(0.0,), proposal_ratio=match_rate), read_tree(tree))]
