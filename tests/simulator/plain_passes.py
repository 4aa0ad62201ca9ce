"""Passes of a batch, token by token, as `split_simple` and `split_equal` of llama.cpp make them."""


def simple_passes(batch, most):
    """The tokens of a batch, by slot, in pieces of so many."""
    return [batch[at : at + most] for at in range(0, len(batch), most)]


def equal_passes(batch, most):
    """Equally many tokens of slots with consecutive numbers, in the order in which the batch first
    has them."""
    left, passes = list(batch), []
    while left:
        members = []
        for slot in left:
            if (
                slot not in members
                and (not members or slot == members[-1] + 1)
                and len(members) < most
            ):
                members.append(slot)
        taken = []
        while all(left.count(slot) for slot in members):
            for slot in members:
                left.remove(slot)
                taken.append(slot)
            if len(taken) + len(members) > most:
                break
        passes.append(taken)
    return passes
