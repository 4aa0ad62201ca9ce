"""What do low-rank adapters add to a pass, and to the memory?

Every product of attention and of dense feed-forward layers has two small ones beside it: its inputs
shrink to the rank of the request's adapter and expand to its outputs, to which they are added.
Adapters that several requests of a pass use are read once; their slots in memory are of the
highest rank, filled or not, as vLLM allocates them. Leaves out adapters of routed experts, which few
are trained on although vLLM holds slots for them, and of recurrent layers (`unpriced` says so), and
adapters that are fetched while requests wait.

Reference: Chen et al. 2023, "Punica" (arXiv:2310.18547), section 4; Sheng et al. 2023, "S-LoRA"
(arXiv:2311.03285), sections 5 and 6; vLLM's `lora_shrink` and `lora_expand` (v1/punica_wrapper).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from costmodel.adapter_limits import MOST_ADAPTERS, MOST_RANK
from costmodel.architectures.architecture import Architecture, Block
from costmodel.architectures.attention import Projection
from costmodel.passes.ops import Array, Number, Work
from costmodel.passes.sharding import sharded
from hardware_profiles.errors import InputError
from hardware_profiles.units import GIB

WEIGHT_BYTES = 2.0  # of an adapter, in 16 bits whatever the target's format is
# products that several modules of a checkpoint are packed into, each with an adapter of its own
_MODULES = {"qkv": 3, "kv": 2, "gate_up": 2, "shared_gate_up": 2, "expert_gate_up": 2}
_WITHOUT = ("router", "latent_down", "latent_up", "index_q", "index_k", "index_weights")
_OTHER_LAYERS = ("state_", "cross_")


@dataclass(frozen=True, kw_only=True, slots=True)
class Adapters:
    """Adapters that are served beside each other, of which every request uses one.

    Args:
        count: resident on the devices, equally popular; vLLM's `--max-loras`.
        rank: of their matrices, and of their slots; vLLM's `--max-lora-rank`.

    Raises:
        InputError: a number out of range.
    """

    count: int
    rank: int

    def __post_init__(self) -> None:
        for key, value, most in (
            ("max_loras", self.count, MOST_ADAPTERS),
            ("max_lora_rank", self.rank, MOST_RANK),
        ):
            if not 1 <= value <= most:
                raise InputError(f"must lie in 1..{most:,}", key=key, value=value)

    def in_use(self, requests: Number) -> Array:
        """Distinct adapters of so many requests, on average: L (1 - (1 - 1/L)^b).

        Example:
            >>> Adapters(count=4, rank=16).in_use(np.array([1.0, 2.0, 64.0])).round(2).tolist()
            [1.0, 1.75, 4.0]
        """
        b = np.asarray(requests, dtype=np.float64)
        return np.asarray(self.count * (1.0 - (1.0 - 1.0 / self.count) ** b))


class _Pair(NamedTuple):
    """The adapter beside a product: its role, modules, and sizes on one device."""

    role: str
    modules: int
    inputs: float
    outputs: float

    def weights(self, rank: int) -> float:
        """Values of both matrices."""
        return rank * (self.modules * self.inputs + self.outputs)


def adapter_bytes(architecture: Architecture, adapters: Adapters, tensor_parallel: int) -> float:
    """Bytes that the slots of all adapters take on one device.

    The half of a pair that is not split with its product lies on every device.

    Args:
        architecture: of the target.
        adapters: that are resident.
        tensor_parallel: devices that share the target.
    """
    values = sum(
        count * pair.weights(adapters.rank)
        for block, count in architecture.blocks
        for pair in _pairs(block, architecture.hidden, tensor_parallel)
    )
    return adapters.count * WEIGHT_BYTES * values


def unpriced(architecture: Architecture, adapters: Adapters | None, tensor_parallel: int) -> str:
    """What the price of adapters leaves out of a model; empty for nothing.

    Example:
        >>> from costmodel.architectures.library import load_model
        >>> unpriced(load_model("qwen3-30b-a3b"), Adapters(count=8, rank=16), 1)
        "adapters of routed experts have no price; vLLM's slots for them take about 12.4 GiB of each device"

    Args:
        architecture: of the target.
        adapters: that are resident; None: there are none.
        tensor_parallel: devices that share the target.
    """
    if adapters is None:
        return ""
    values = sum(
        count * block.feed_forward.experts * pair.weights(adapters.rank)
        for block, count in architecture.blocks
        for pair in _pairs_beside(
            block.feed_forward.expert_projections(architecture.hidden), tensor_parallel
        )
    )
    slots = adapters.count * WEIGHT_BYTES * values / GIB
    words = []
    if slots:
        words.append(
            "adapters of routed experts have no price; vLLM's slots for them take about"
            f" {slots:.3g} GiB of each device"
        )
    if architecture.is_recurrent:
        words.append("adapters of recurrent layers have no price")
    return "; ".join(words)


def adapter_work(
    block: Block,
    adapters: Adapters,
    *,
    hidden: int,
    tensor_parallel: int,
    requests: Array,
    rows: Array,
    activation_bytes: float,
) -> Iterator[tuple[str, Work]]:
    """The two small products beside each product of a layer, by its role.

    Args:
        block: the layer.
        adapters: of the requests.
        hidden: length of the residual vector.
        tensor_parallel: devices that share the layer.
        requests: of the pass.
        rows: their query tokens.
        activation_bytes: of one value between products.
    """
    read = WEIGHT_BYTES * adapters.in_use(requests)
    for pair in _pairs(block, hidden, tensor_parallel):
        inner = float(pair.modules * adapters.rank)
        moved = activation_bytes * rows
        yield (
            pair.role,
            Work(
                2.0 * rows * pair.inputs * inner,
                read * pair.inputs * inner + moved * (pair.inputs + inner),
                moved * inner,
            ),
        )
        yield (
            pair.role,
            Work(
                2.0 * rows * adapters.rank * pair.outputs,
                # what it adds to is read and written
                read * adapters.rank * pair.outputs + moved * (inner + 2.0 * pair.outputs),
                moved * pair.outputs,
            ),
        )


def _pairs(block: Block, hidden: int, tensor_parallel: int) -> Iterator[_Pair]:
    yield from _pairs_beside(block.projections(hidden), tensor_parallel)


def _pairs_beside(projections: Sequence[Projection], tensor_parallel: int) -> Iterator[_Pair]:
    for projection in projections:
        role = projection[0]
        if role in _WITHOUT or role.startswith(_OTHER_LAYERS):
            continue
        outputs, inputs = sharded(projection, tensor_parallel)
        yield _Pair(role, _MODULES.get(role, 1), inputs, outputs)
