"""Which draft lengths of a page's drafter are compared, and what do they emit?

Those of `optimize`, so that pages that draw many points take the same length as the page that
answers one. Leaves out trees.
"""

from functools import lru_cache

from app.dashboard.device_numbers import DEVICE_NUMBERS
from app.dashboard.question import DRAFTED, PLAIN, deployment, drafters, own_drafter_fields
from app.dashboard.state import State, with_values
from costmodel.configuration import DecodingConfiguration
from costmodel.optimizers.allowed import Contender
from costmodel.optimizers.recommend import compare

COMPARED = (
    "model",
    "device",
    *DEVICE_NUMBERS,
    "engine",
    "dtype",
    "kv_dtype",
    "draft_dtype",
    "tp",
    *DRAFTED,
    "seed",
)


def chains_of(state: State) -> Contender:
    """The reader's drafter where the state asks, with no drafting and every length.

    Raises:
        InputError: a drafter that cannot be, or options that exclude each other.
    """
    question = with_values(State(), {name: getattr(state, name) for name in COMPARED})
    return _chains(question) if state.upload else _cached(question)


def _chains(state: State) -> Contender:
    plain = DecodingConfiguration(
        method=PLAIN,
        draft_model=state.draft or None,
        deployment=deployment(state),
        **own_drafter_fields(state),
    )
    (contender,) = compare(plain, drafters(state)[:1], tree_sizes=(), seed=state.seed).contenders
    return contender


_cached = lru_cache(maxsize=64)(_chains)
