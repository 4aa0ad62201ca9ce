"""What does every draft length of a page's drafter emit: at known rates, or replayed on its
recording?

Leaves out trees, and what a step costs.
"""

from app.dashboard.question import chain, drafters
from app.dashboard.state import State
from costmodel.laws.acceptance import Acceptance


def chains_of(state: State) -> tuple[str, list[Acceptance]]:
    """The method of the reader's drafter, and what it emits with K = 0 up to the state's draft
    tokens.

    Raises:
        InputError: a drafter without acceptance by token, or a recording of too low a level.
    """
    source = drafters(state)[0]
    lengths = range(state.draft_tokens + 1)
    return source.method, [
        chain(source, k, most=state.draft_tokens, seed=state.seed) for k in lengths
    ]
