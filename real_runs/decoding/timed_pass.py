"""How long did one pass of a model take, and of what shape was it?

One record for autoregressive passes and for forwards over masked blocks. Leaves out who times them.
"""

from __future__ import annotations

from typing import NamedTuple


class TimedPass(NamedTuple):
    """One pass after the prefill; logs hold it as a list of four numbers.

    Attributes:
        requests: rows; of masked blocks, canvases or states of one.
        query_tokens: tokens computed of every row.
        context: cached tokens of the longest row.
        wall_s: seconds.
    """

    requests: int
    query_tokens: int
    context: int
    wall_s: float
