"""Which draft lengths of a page's drafter are compared, what do they emit, and which is recommended?

Those of `optimize`, so that pages that draw many points take the same length as the page that
answers one. Leaves out trees.
"""

from functools import lru_cache

from app.answers.optimize.recommended import Recommended
from app.dashboard.asking import Asked
from app.dashboard.device_numbers import DEVICE_NUMBERS
from app.dashboard.question import (
    DRAFTED,
    PLAIN,
    deployment,
    drafter_asked,
    drafters,
    own_drafter_fields,
    where_asked,
)
from app.dashboard.state import State, with_values
from app.questions.optimize import OptimizeQuestion
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
LENGTH = (*COMPARED, "batch", "context", "slo_tpot", "slo_ttft")


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


def asked_chains(state: State, trace: str = "") -> Asked:
    """What `optimize` is asked of a state: one drafter, and no trees.

    Args:
        state: of any page.
        trace: recording whose drafter it is; empty: the first drafter of the state.
    """
    return Asked(
        verb=OptimizeQuestion,
        values={
            **where_asked(state),
            **({"trace": (trace,)} if trace else drafter_asked(state)),
            "batch": str(state.batch),
            "context": str(state.context),
            "tree_nodes": "0",
            "slo_tpot": state.slo_tpot,
            "slo_ttft": state.slo_ttft,
            "seed": state.seed,
        },
    )


def with_length(state: State, trace: str = "") -> State:
    """The state with the draft length that `optimize` recommends at its batch and context, where it
    names none of its own; 0 stands for no drafting from here on.

    Args:
        state: of any page.
        trace: recording whose drafter drafts; empty: the first drafter of the state.

    Raises:
        InputError: a drafter that cannot be, or options that exclude each other.
    """
    if state.draft_tokens:
        return state
    question = with_values(State(), {name: getattr(state, name) for name in LENGTH})
    length = (_length if state.upload else _cached_length)(question, trace)
    return with_values(state, {"draft_tokens": length})


def length_words(state: State, resolved: State) -> str:
    """K, and whether it is the recommended one.

    Args:
        state: as it was asked.
        resolved: by `with_length`.
    """
    length = str(resolved.draft_tokens) if resolved.draft_tokens else "off"
    return length if state.draft_tokens else f"{length}, as recommended"


def _length(state: State, trace: str) -> int:
    """The draft tokens that are recommended within the limits, or without them where nothing keeps
    them; none where not even that fits.
    """
    asked = asked_chains(state, trace)
    for question in (asked, asked.changed(slo_tpot=None, slo_ttft=None)):
        answer = question.answer()
        if isinstance(answer, Recommended):
            return answer.choices[0].draft_tokens
    return 0


_cached_length = lru_cache(maxsize=256)(_length)
