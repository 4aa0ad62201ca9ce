"""How long is the host of an engine busy with an iteration, and what of that can no overlap hide?

A pass with prompt tokens that no captured graph holds is launched operation by operation, and every
prompt that joins has a state to be set up. Where the host prepares an iteration while the device
runs the one before, `Overhead` is hidden and the device still idles for a moment. Leaves out for
how long the device waits (`simulator.loop.tables`).
"""

import math
from dataclasses import dataclass

from costmodel.architectures.architecture import Architecture
from hardware_profiles.errors import InputError

# Operations that an engine launches in a layer of attention and MLP, counted in the models of vLLM
# 0.12, SGLang 0.5 and TensorRT-LLM 1.0: two norms, four products, rotation, cache write, attention,
# activation, two reductions.
_DENSE_OPERATIONS = 12
# more of them where a router picks experts (its product, choice, sort, two grouped products,
# weighted sum), and where attention is latent (three products and two norms more, and the parts of
# keys and queries put together)
_EXPERT_OPERATIONS = 6
_LATENT_OPERATIONS = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class ColdBurst:
    """What the first requests wait longer, in the mean, that reach a server at once whose kernels no
    batch has run yet.

    Args:
        devices: beginnings of the names of devices; empty for all.
        first_s: seconds for up to two users.
        doubling_s: more of them for every doubling of the users beyond two.
        source: where the numbers come from.
    """

    devices: tuple[str, ...] = ()
    first_s: float = 0.0
    doubling_s: float = 0.0
    source: str

    def seconds(self, users: int) -> float:
        """Seconds where so many requests arrive at once.

        >>> ColdBurst(first_s=1.0, doubling_s=0.5, source="an example").seconds(8)
        2.0
        """
        return self.first_s + self.doubling_s * math.log2(max(users, 2) / 2)


@dataclass(frozen=True, kw_only=True, slots=True)
class Host:
    """Time of an engine's host.

    Args:
        layer_ratio: host time to launch a layer outside a graph over that of the device's profile,
            which is vLLM's.
        pass_s: host seconds to launch what a pass outside a graph runs beside its layers:
            embedding, masks, head.
        prompt_s: host seconds for every prompt that joins an iteration.
        idle_s: seconds for which the device idles after every iteration although host and device
            overlap.
        idle_request_s: the same for each request that the iteration served.
        cold: what a first burst waits for cold kernels; the first entry that holds for a device
            counts, and without one nothing was seen.
        source: where the numbers come from.

    Raises:
        InputError: a number below 0.
    """

    layer_ratio: float = 1.0
    pass_s: float = 0.0
    prompt_s: float = 0.0
    idle_s: float = 0.0
    idle_request_s: float = 0.0
    cold: tuple[ColdBurst, ...] = ()
    source: str = "constants.host of the device's profile"

    def __post_init__(self) -> None:
        for key in ("layer_ratio", "pass_s", "prompt_s", "idle_s", "idle_request_s"):
            if not getattr(self, key) >= 0.0:
                raise InputError("must be >= 0", key=key, value=getattr(self, key))

    def cold_s(self, device: str, users: int) -> float:
        """Mean seconds that each request of a first burst waits for cold kernels.

        Args:
            device: name of the device.
            users: requests of the burst.
        """
        for burst in self.cold:
            if not burst.devices or device.startswith(burst.devices):
                return burst.seconds(users)
        return 0.0

    def eager_s(self, architecture: Architecture, layer_s: float) -> float:
        """Host seconds to launch all layers of a model one operation after another.

        Args:
            architecture: whose layers.
            layer_s: of the device's profile, for a layer of plain attention and MLP.
        """
        operations = sum(
            count
            * (
                _DENSE_OPERATIONS
                + _EXPERT_OPERATIONS * block.feed_forward.is_moe
                + _LATENT_OPERATIONS * (block.attention.is_mla)
            )
            for block, count in architecture.blocks
        )
        return self.layer_ratio * layer_s * operations / _DENSE_OPERATIONS


USUAL_HOST = Host()
