"""Which configurations do options name: chains or a tree, from a recording, a stated rate, or none?"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from costmodel.configuration import DecodingConfiguration
    from costmodel.laws.acceptance import Acceptance
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


def recorded_method(recorded: "AcceptanceTrace | None") -> str:
    """The method that a trace names, else chains from a draft model."""
    from costmodel.answers.settings import method_of

    named = recorded.provenance.method if recorded is not None else ""
    return method_of(named) if named else "speculative-decoding"


def named_method(recorded: "AcceptanceTrace") -> str:
    """The slug of the method that a trace names; empty where it names none that is known."""
    from costmodel.answers.settings import method_of
    from hardware_profiles.errors import InputError

    try:
        return method_of(recorded.provenance.method)
    except InputError:
        return ""


def replayed(
    recorded: "AcceptanceTrace", method: str, lengths: list[int], tree: "Path | Tree | None", seed: int
) -> "list[Acceptance]":
    """Chains of the lengths, or the tree in a file, replayed on a recording; their bootstrap draws are paired.

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
    from traces.replay.statistics import resample_counts

    counts = resample_counts(recorded.prompt_kinds, generator=np.random.default_rng(seed)).astype(np.float64)
    verify = load_method(method).verify
    shapes: list[int | Tree] = [*lengths]
    if tree is not None:
        shapes = [read_tree(tree) if isinstance(tree, Path) else tree]
    with naming(str(tree) if isinstance(tree, Path) else None):
        law = law_for(recorded, verify.rule, shapes, at=verify.at)
        return [accepted_by(recorded, law, shape, counts) for shape in shapes]


def claimed(
    chosen: "DecodingConfiguration", tokens_per_step: float, lengths: list[int], tree: "Tree | None"
) -> "list[Acceptance]":
    """Chains, a tree, or the method's own shape, at a stated number of tokens per step.

    Args:
        chosen: method, and share of steps with a proposal.
        tokens_per_step: emitted tokens per step, the bonus token counted.
        lengths: K of chains, 0 for plain decoding; empty for the method's own shape beside plain decoding.
        tree: instead of chains.

    Raises:
        InputError: fewer tokens than 1, more than a shape can emit, or no shape.
    """
    from costmodel.laws.acceptance import geometric
    from costmodel.laws.claims import tokens_claim
    from costmodel.method_library import load_method

    entry, share = load_method(chosen.method), 1.0 if chosen.match_rate is None else chosen.match_rate
    if tree is not None:
        return [tokens_claim(entry, tokens_per_step, tree, match_rate=share)]
    if not lengths:
        return [geometric(0.0, 0), tokens_claim(entry, tokens_per_step, match_rate=share)]
    return [tokens_claim(entry, tokens_per_step, k, match_rate=share) if k else geometric(0.0, 0) for k in lengths]


def stated(
    rate: float, lengths: list[int], tree: Path | None, match_rate: float | None, *, method: str = ""
) -> "list[Acceptance]":
    """Chains of the lengths, or the tree in a file, at a constant acceptance rate of one token.

    Args:
        rate: of one token, if those before it were accepted.
        lengths: K of the chains.
        tree: file of a tree instead.
        match_rate: share of steps with a proposal.
        method: slug whose entry says how drafts share steps and budgets; empty: every chain by itself.

    Raises:
        InputError: a tree file that is none.
    """
    from costmodel.answers.breakeven import RateLaw
    from costmodel.laws.acceptance import Acceptance, geometric
    from traces.kinds.tree import read_tree

    share = 1.0 if match_rate is None else match_rate
    if tree is None and method:
        from costmodel.laws.claims import rate_claim
        from costmodel.method_library import load_method

        return [rate_claim(load_method(method), rate, k, match_rate=share) for k in lengths]
    if tree is None:
        return [geometric(rate, k, match_rate=share) for k in lengths]
    shape = read_tree(tree)
    blank = Acceptance(
        draft_tokens=shape.draft_tokens, tokens_per_step=1.0, proposed_tokens=float(shape.draft_tokens), tree=shape
    )
    emitted = float(RateLaw(blank)(rate))
    return [
        Acceptance(
            draft_tokens=shape.draft_tokens, tokens_per_step=emitted, proposed_tokens=blank.proposed_tokens, tree=shape
        )
    ]
