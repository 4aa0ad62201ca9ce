"""Which of several designs that reach the same is preferred?

Under a rate that several designs serve whole, all of them reach the same tokens/s. What their users
see then decides: the lower time per output token, then the lower time to first token, then what
costs or fills less. Leaves out what counts as the same (`app.answers.optimize.confirmed`).
"""

import numpy as np

from costmodel.passes.ops import Array, Mask

NOTICED = 1.01  # times the least, up to which a user notices no difference
SAME = 1.0 - 1e-9  # times the highest value, from which on values are the same


def preferred(equal: Mask, *orders: Array) -> tuple[int, ...]:
    """The place of the design that is preferred among equals.

    Args:
        equal: which designs are equal; at least one.
        orders: what should be little, the weightiest first: arrays of that shape without negative
            numbers. Those within `NOTICED` of the least are told apart by the next order. NaN
            counts as 0.

    Example:
        >>> tpot_s, ttft_s = np.array([0.02, 0.01, 0.01005]), np.array([0.1, 0.3, 0.2])
        >>> preferred(np.ones(3, dtype=np.bool_), tpot_s, ttft_s)
        (2,)
    """
    left = equal.copy()
    for order in orders:
        known = np.nan_to_num(order, nan=0.0, posinf=np.inf)
        left &= known <= NOTICED * known[left].min()
    return tuple(int(at) for at in np.unravel_index(int(np.argmax(left)), left.shape))
