"""How many tokens does a step bring where the entry itself says so: masked blocks, spans, samples,
routed steps?

Read from `Method.refine` and `Method.advance`, unless the question states a number. Leaves out
drafts that are verified token by token (`claims`).
"""

from costmodel.laws.acceptance.per_step import Acceptance
from costmodel.laws.refining import refined
from costmodel.method import Method
from hardware_profiles.errors import InputError


def own_pace(method: Method, tokens_per_step: float | None = None) -> Acceptance:
    """What a step of a method brings that sets its own pace.

    Args:
        method: an entry that refines blocks or advances in another way of its own.
        tokens_per_step: mean number of tokens; None: the entry's.

    Raises:
        InputError: a method that drafts or decodes plainly, or fewer tokens than 1.

    >>> from costmodel.method_library import load_method
    >>> own_pace(load_method("sdar")).tokens_per_step
    1.6
    """
    if method.refine is not None:
        return refined(method, tokens_per_step)
    if method.advance is None:
        raise InputError("states no tokens per step of its own", key="method", value=method.slug)
    tokens = method.advance.tokens_per_step if tokens_per_step is None else tokens_per_step
    if not 1.0 <= tokens < float("inf"):
        raise InputError("must be finite and >= 1", key="tokens_per_step", value=tokens)
    drafted = tokens if method.advance.writes_first else 1.0
    return Acceptance(
        draft_tokens=max(round(drafted), 1), tokens_per_step=tokens, proposed_tokens=drafted
    )
