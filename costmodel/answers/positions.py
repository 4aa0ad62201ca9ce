"""Does a model know as many positions as a context asks for?

Learned positions end where their table does. Computed ones can be stretched, so that a longer
context has a time but perhaps no sense. Leaves out what stretching does to the text.
"""

import math

from costmodel.architectures.architecture import Architecture
from hardware_profiles.errors import InputError


def require_positions(target: Architecture, context: float, key: str = "context") -> None:
    """Refuse a context beyond the positions that a model has learned.

    Args:
        target: the model.
        context: tokens of a request, the longest that is cached.
        key: option or field that the context comes from.

    Raises:
        InputError: the model's positions are learned, and end before.
    """
    if target.learned_positions and not _is_known(target, context):
        rule = (
            f"must be at most the {target.max_context:,} positions that {target.called} has learned"
        )
        raise InputError(rule, key=key, value=math.ceil(context))


def _is_known(target: Architecture, context: float) -> bool:
    """Whether a model was published for a context, or reads it by other means than positions."""
    return context <= target.max_context or target.is_recurrent or target.encoder is not None


def context_remark(target: Architecture, context: int) -> str:
    """What to say of a context beyond the longest that a model was published for; empty within it.

    Args:
        target: the model. Where layers keep a state, or an encoder reads the context, nothing is
            said.
        context: cached tokens per request.

    Raises:
        InputError: the model's positions are learned, and end before.
    """
    if _is_known(target, context):
        return ""
    require_positions(target, context)
    return (
        f"context {context:,} is beyond the {target.max_context:,} tokens that {target.called} was"
        " published for: its positions must be stretched, and the text may suffer"
    )
