"""How fast is a pipeline of stages?

Latency of one batch, the interval at which batches leave, and the idle share when a prompt is cut
into micro-batches. Leaves out schedules that interleave several chunks of layers per device.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from costmodel.passes.ops import Array, Number


class PipelineTime(NamedTuple):
    """Seconds of a pipeline: `latency_s` of one batch, `interval_s` between batches when it is
    full.
    """

    latency_s: Array
    interval_s: Array


def pipeline_time(stage_s: Sequence[Number], transfer_s: Number = 0.0) -> PipelineTime:
    """Time of one batch through all stages, and of the slowest of them.

    Args:
        stage_s: seconds of each stage for one batch; arrays broadcast.
        transfer_s: seconds from one stage to the next; overlaps with the work on other batches.
    """
    stages = np.stack(np.broadcast_arrays(*(np.asarray(s, dtype=np.float64) for s in stage_s)))
    hop = np.asarray(transfer_s, dtype=np.float64)
    latency = stages.sum(axis=0) + (len(stage_s) - 1) * hop
    slowest = stages.max(axis=0)
    return PipelineTime(latency, np.maximum(slowest, hop) if len(stage_s) > 1 else slowest)


def round_time(time: PipelineTime, micro_batches: Number) -> Array:
    """Seconds in which each of `micro_batches` batches in flight advances by one token.

    A batch cannot start its next token before its last one is out, and the slowest stage serves all
    of them: max(latency, micro-batches · interval).

    Args:
        time: of a batch.
        micro_batches: in flight, >= 1.
    """
    return np.maximum(time.latency_s, np.asarray(micro_batches, dtype=np.float64) * time.interval_s)


def prompt_time(time: PipelineTime, micro_batches: Number) -> Array:
    """Seconds until the last of `micro_batches` pieces of a prompt is through: latency + (m - 1) ·
    interval.

    Args:
        time: of a piece.
        micro_batches: pieces m, >= 1.
    """
    return np.asarray(
        time.latency_s + (np.asarray(micro_batches, dtype=np.float64) - 1.0) * time.interval_s
    )
