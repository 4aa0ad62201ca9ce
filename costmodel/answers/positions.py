"""Does a model know as many positions as a context asks for?

Learned positions end where their table does. Computed ones can be stretched, so that a longer context has a time but
perhaps no sense. Leaves out what stretching does to the text.
"""

from costmodel.architectures.architecture import Architecture
from hardware_profiles.errors import InputError


def context_remark(target: Architecture, context: int) -> str:
    """What to say of a context beyond the longest that a model was published for; empty within it.

    Args:
        target: the model. Where layers keep a state, or an encoder reads the context, nothing is said.
        context: cached tokens per request.

    Raises:
        InputError: the model's positions are learned, and end before.
    """
    if context <= target.max_context or target.is_recurrent or target.encoder is not None:
        return ""
    if target.learned_positions:
        known = f"must be at most the {target.max_context:,} positions that {target.name} has learned"
        raise InputError(known, key="--context", value=context)
    return (f"context {context:,} is beyond the {target.max_context:,} tokens that {target.name} was published for: "
            "its positions must be stretched, and the text may suffer")  # fmt: skip
