"""How far may a predicted time be off, in the regime that it lies in?

Looks up the intervals of a device profile by the shares of launches and arithmetic. Leaves out how they were found.
"""

import numpy as np

from costmodel.kernels.timing import Shares
from costmodel.ops import Array, Mask
from hardware_profiles.residuals import Regime, Residuals


def holds(regime: Regime, where: Shares) -> Mask:
    """Where shares of launches and of arithmetic lie in a regime."""
    found = np.ones(np.broadcast_shapes(np.shape(where.launch), np.shape(where.compute)), dtype=bool)
    for share, (low, high) in ((where.launch, regime.launch), (where.compute, regime.compute)):
        found &= (share >= low) & ((share < high) | (high == 1.0))
    return found


def log_bounds(residuals: Residuals, operation: str, where: Shares) -> tuple[Array, Array]:
    """Ends of the 80 % interval of log(measured / predicted).

    Args:
        residuals: of a profile.
        operation: one of those in the table; outside its regimes its half width holds.
        where: shares of launches and arithmetic.

    Raises:
        KeyError: an operation that the table lacks.
    """
    half = float(np.log1p(residuals[operation]))
    shape = np.broadcast_shapes(np.shape(where.launch), np.shape(where.compute))
    low, high = np.full(shape, -half), np.full(shape, half)
    for regime in residuals.regimes.get(operation, ()):
        inside = holds(regime, where)
        low[inside], high[inside] = np.log1p(regime.low_ratio), np.log1p(regime.high_ratio)
    return low, high
