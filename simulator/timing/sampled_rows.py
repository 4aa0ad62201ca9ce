"""At which rows are passes timed that a table of many rows is made of?

Kernels work in tiles of at most 128 rows, so that times bend at the ends of blocks of rows and hardly
within one. Leaves out what is timed.
"""

import numpy as np

from simulator.loop.state import Real

# (rows up to which, rows of a block): padding to the smallest tile of 16 rows is under .8 % of a
# pass from 2,048 rows on, and to one of 64 from 4,096 on
_BLOCKS = ((2048, 1), (4096, 16))
_LARGEST_BLOCK = 64


def sampled_rows(most: int) -> Real:
    """Rows from 1 to the most, in order: every one, then the first and the last of a block.

    Args:
        most: rows of the largest pass, >= 1.

    >>> sampled_rows(4)
    array([1., 2., 3., 4.])
    >>> int(sampled_rows(16384).size)
    2688
    """
    ends, begun = [], 0
    for until, block in (*_BLOCKS, (most, _LARGEST_BLOCK)):
        ends.append(np.arange(begun, min(until, most), block))
        begun = until
    last = np.concatenate([*ends, [most]])
    return np.unique(np.concatenate([last, last[:-1] + 1]))[1:].astype(np.float64)


def at_every_row(rows: Real, seconds: Real) -> Real:
    """Seconds at every row up to the last, from those at some.

    Args:
        rows: that were timed, from `sampled_rows`, [rows].
        seconds: their times, [rows], or one number that holds for all.
    """
    every = np.arange(1.0, rows[-1] + 1.0)
    return np.interp(every, rows, np.broadcast_to(seconds, rows.shape))
