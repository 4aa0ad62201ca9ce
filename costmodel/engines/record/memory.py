"""How much of a device's memory does an engine give to its cache?

One formula for all engines, whose terms an engine's record states. Against the caches that running
engines report it is off by 2 % where the record has a published source; records without one say
ASSUMED. Leaves out what a request takes of the cache (`costmodel.passes.memory`).
"""

from dataclasses import dataclass

import numpy as np

from costmodel.passes.ops import Array, Number
from hardware_profiles.errors import InputError
from hardware_profiles.units import GIB, MIB

# An H100 of 81,559 MiB has 79.22 GiB for CUDA (vLLM pull request 12126); on an H200 of 143,771 MiB
# a process finds 139.3 GiB free before it joins the others of its group (SGLang pull request 11716:
# 137.29 GB left, 2.01 GB for those).
DRIVER_BYTES = 81_559 * MIB - 79.22 * GIB
PROCESS_BYTES = 143_771 * MIB - 139.3 * GIB
GROUP_BYTES = (
    139.3 - 137.29
) * GIB  # of buffers, by each device of a group: of eight in that log, ASSUMED of fewer
# ASSUMED: what is left to the cache of a device that is smaller than the reserved bytes
_LEAST_RATIO = 0.1


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """How an engine divides the memory of one device.

    Args:
        ratio: share for the engine (`of_free` False) or for the cache alone (True), in (0, 1].
        of_free: the share is of what weights and activations leave, not of the whole memory.
        reserved_bytes: reserved for everything but weights and cache before the share is taken; as
            a share of the memory.
        activations_inside: activations count against the share; False leaves them to the rest.
        unseen_bytes: memory that the engine does not count on when it takes its share: what the
            driver keeps and, where the share is of what is found free, the context of a process.
        group_bytes: buffers of each device for the others of its group.
        block_tokens: tokens of a block of the cache; 1 has no half-filled blocks.
        pass_tokens: tokens of the largest pass that buffers are set up for; None: an iteration of
            the scheduler.
        stated_bytes: what the engine itself said that its cache takes of each device, whatever else
            lies there; None: it follows from the rest.
        source: where the numbers come from; ASSUMED where none was at hand.

    Raises:
        InputError: a ratio outside its range, or negative bytes.
    """

    ratio: float = 1.0
    of_free: bool = False
    reserved_bytes: float = 0.0
    activations_inside: bool = True
    unseen_bytes: float = 0.0
    group_bytes: float = GROUP_BYTES
    block_tokens: int = 1
    pass_tokens: int | None = None
    stated_bytes: float | None = None
    source: str

    def __post_init__(self) -> None:
        if not 0.0 < self.ratio <= 1.0:
            raise InputError("must lie in (0, 1]", key="ratio", value=self.ratio)
        for key in ("reserved_bytes", "unseen_bytes", "group_bytes", "pass_tokens", "stated_bytes"):
            value = getattr(self, key)
            if value is not None and not value >= 0.0:
                raise InputError("must not be negative", key=key, value=value)
        if self.block_tokens < 1:
            raise InputError("must be at least 1", key="block_tokens", value=self.block_tokens)

    def ratio_of(self, memory_bytes: float) -> float:
        """The share that holds on a device of `memory_bytes`."""
        return max(self.ratio - self.reserved_bytes / memory_bytes, _LEAST_RATIO)

    def cache_bytes(
        self,
        memory_bytes: float,
        *,
        weights_bytes: Number,
        activations_bytes: Number,
        devices: int = 1,
    ) -> Array:
        """Bytes that the cache takes of one device of a group; below 0 where not even the rest
        fits.

        Args:
            memory_bytes: of that device.
            weights_bytes: on that device, the drafter's included.
            activations_bytes: of the largest pass, on that device.
            devices: of the group; several keep buffers for each other.
        """
        if self.stated_bytes is not None:
            return np.full(
                np.broadcast_shapes(np.shape(weights_bytes), np.shape(activations_bytes)),
                self.stated_bytes,
            )
        visible_bytes, ratio = memory_bytes - self.unseen_bytes, self.ratio_of(memory_bytes)
        taken = weights_bytes + (self.group_bytes if devices > 1 else 0.0)
        taken = taken + activations_bytes if self.activations_inside else taken
        return np.asarray(
            ratio * (visible_bytes - taken) if self.of_free else ratio * visible_bytes - taken
        )

    @property
    def activations_ratio(self) -> float:
        """Bytes by which the cache shrinks for each byte of activations."""
        if self.stated_bytes is not None or not self.activations_inside:
            return 0.0
        return self.ratio if self.of_free else 1.0
