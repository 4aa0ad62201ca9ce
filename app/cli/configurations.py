"""Which configurations do options name: chains or a tree, from a recording, a stated rate, or none?"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from costmodel.acceptance import Acceptance
    from costmodel.deployment import Fidelity
    from traces.schema import AcceptanceTrace


def fidelity_of(name: str) -> "Fidelity":
    """The fidelity that --fidelity names.

    Raises:
        InputError: another word.
    """
    from typing import get_args

    from costmodel.deployment import Fidelity
    from hardware_profiles.errors import InputError

    known: dict[str, Fidelity] = {each: each for each in get_args(Fidelity)}
    if name not in known:
        raise InputError("must be measured, calibrated or datasheet", key="--fidelity", value=name)
    return known[name]


def recorded_method(recorded: "AcceptanceTrace | None") -> str:
    """The method that a trace names, else chains from a draft model."""
    from costmodel.scenario import method_of

    named = recorded.provenance.method if recorded is not None else ""
    return method_of(named) if named else "speculative-decoding"


def replayed(recorded: "AcceptanceTrace", lengths: list[int], tree: Path | None, seed: int) -> "list[Acceptance]":
    """Chains of the lengths, or the tree in a file, replayed on a recording; their bootstrap draws are paired.

    Raises:
        InputError: a tree file that is none, or a recording of too low a level for it.
    """
    import numpy as np

    from costmodel.acceptance import from_replay
    from traces.naming import naming
    from traces.replay import replay_chain, replay_tree
    from traces.statistics import resample_counts
    from traces.tree import read_tree

    counts = resample_counts(recorded.prompt_kinds, generator=np.random.default_rng(seed)).astype(np.float64)
    if tree is not None:
        shape = read_tree(tree)
        with naming(str(tree)):
            return [from_replay(replay_tree(recorded, shape), counts, tree=shape)]
    return [from_replay(replay_chain(recorded, k), counts) for k in lengths]


def stated(rate: float, lengths: list[int], tree: Path | None, match_rate: float | None) -> "list[Acceptance]":
    """Chains of the lengths, or the tree in a file, at a constant acceptance rate of one token.

    Raises:
        InputError: a tree file that is none.
    """
    from costmodel.acceptance import Acceptance, geometric
    from costmodel.breakeven import RateLaw
    from traces.tree import read_tree

    if tree is None:
        return [geometric(rate, k, match_rate=1.0 if match_rate is None else match_rate) for k in lengths]
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
