"""The likeliest draft tokens of a batch of chains, written for reading."""

import numpy as np


def likeliest_slots(survival, total):
    """Draft tokens per request where `total` go to the likeliest; of equals the earlier token, then
    the request."""
    rows = [np.asarray(row, dtype=float) for row in survival]
    slots = sorted(
        (-value, depth, r) for r, row in enumerate(rows) for depth, value in enumerate(row)
    )
    return [sum(r == request for _, _, r in slots[:total]) for request in range(len(rows))]
