"""What runs where, and how: the setting of a pass.

A model, one device of its group, number formats, transforms and the few switches that move the cost
of a pass. Leaves out the drafter and the engine's overhead (`estimate.Setting`).
"""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from costmodel.architectures.architecture import Architecture
from costmodel.passes.adapters import Adapters, unpriced
from costmodel.passes.expert_kernels import ExpertKernel
from costmodel.passes.kernels.communication import Reductions
from costmodel.passes.ops import Array
from costmodel.passes.precision import Precision
from costmodel.passes.state_update import Rollback
from costmodel.transforms.declared import (
    ContextTransform,
    LayerSchedule,
    SparseAttention,
    SparseFeedForward,
)
from hardware_profiles.errors import InputError
from hardware_profiles.profile import Device

Fidelity = Literal["datasheet", "calibrated", "measured"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Deployment:
    """A model on a device, and how it runs there.

    Args:
        architecture: the model.
        device: one device of the group.
        precision: number formats.
        tensor_parallel: devices N that share every layer; must divide the query heads.
        fidelity: `datasheet` (bare roofs), `calibrated` (the profile's constants) or `measured`
            (the same, corrected by whole passes that were timed on the device; see `measured`).
        split_verify: the attention kernel can split a request's cache among processors when it has
            several query tokens; False bills the whole context to one unit.
        graphs: passes are captured in graphs, so that the host costs nothing per layer.
        host_layer_s: seconds in which the host launches one layer where passes are not captured;
            the device waits for it, so that a pass takes the longer of both.
        host_pass_s: the same for what a pass runs beside its layers.
        host_waits: the host waits for the device in every layer that it launches, so that a pass
            takes as long as both one after the other.
        head_norm_kernels: launches per layer to normalise queries and keys, where the model does; 0
            where that is part of the rotation.
        norms_in_reductions: the all-reduce also adds the residual and normalises, so that no kernel
            of its own does.
        reductions: whose all-reduce kernels run, and up to how many devices.
        one_shot_rows: rows up to which the all-reduce exchanges whole messages at once, whatever
            would be faster.
        merges_experts: shared experts run in the kernels of the routed ones.
        product_walk_s: seconds in which products of quantised inputs go through a block of 128
            inputs, in kernels that do not split them among processors; 0: they do.
        expert_kernel: of routed experts over many tokens; None: the profile's constants hold.
        padded_experts: multiples to which the kernel pads the width of the model and that of an
            expert on one device.
        quantised_inputs: inputs of quantised products that arrive quantised, so that no kernel of
            their own does it: `mixer`, `output`, `feed_forward`, `down`, `experts` and other roles
            of products.
        expert_correlation: of the experts that one request's tokens of a pass choose, 0 to 1.
        rollback: what recurrent layers keep to undo rejected tokens: a state per token, or inputs
            to replay.
        shared_prefix_tokens: cached tokens at the beginning of every request that are the same for
            all and read once.
        source_tokens: cached tokens of every request that the encoder of an encoder-decoder read;
            its decoder wrote the others. None: all of them, which take as much room and traffic. 0:
            nothing was read or is attended to.
        host_weights_ratio: share of the layers' weights that stays in the host's memory and is
            fetched in every pass.
        host_cache_ratio: the same of every request's cache.
        adapters: low-rank adapters of the requests; None: there is none.
        sparse_attention: which cached tokens are attended to; None: all. Set by `transform.apply`,
            like the rest.
        text: how much of a text enters the cache; None: all.
        sparse_feed_forward: which part of feed-forward layers tokens use; None: all.
        schedule: which layers tokens run; None: all.

    Raises:
        InputError: a tensor-parallel degree that does not divide the heads, a correlation outside
            [0, 1], a prefix or streamed weights of an encoder-decoder.
    """

    architecture: Architecture
    device: Device
    precision: Precision
    tensor_parallel: int = 1
    fidelity: Fidelity = "calibrated"
    split_verify: bool = True
    graphs: bool = True
    host_layer_s: float = 0.0
    host_pass_s: float = 0.0
    host_waits: bool = False
    head_norm_kernels: int = 1
    norms_in_reductions: bool = False
    reductions: Reductions = field(default_factory=Reductions)
    one_shot_rows: int = 0
    merges_experts: bool = False
    product_walk_s: float = 0.0
    expert_kernel: ExpertKernel | None = None
    padded_experts: tuple[int, int] = (1, 1)
    quantised_inputs: frozenset[str] = frozenset()
    expert_correlation: float = 0.0
    rollback: Rollback = "copies"
    shared_prefix_tokens: int = 0
    source_tokens: int | None = None
    host_weights_ratio: float = 0.0
    host_cache_ratio: float = 0.0
    adapters: Adapters | None = None
    sparse_attention: SparseAttention | None = None
    text: ContextTransform | None = None
    sparse_feed_forward: SparseFeedForward | None = None
    schedule: LayerSchedule | None = None

    def __post_init__(self) -> None:
        n = self.tensor_parallel
        encoder = self.architecture.encoder
        blocks = [
            block for block, _ in (*self.architecture.blocks, *(encoder.blocks if encoder else ()))
        ]
        shared = [block.attention.heads for block in blocks] + [
            block.state.heads for block in blocks if block.state
        ]
        if n < 1 or any(heads % n for heads in shared):
            raise InputError(
                f"must be >= 1 and divide the heads of {self.architecture.called}",
                key="tp",
                value=n,
            )
        for name in ("expert_correlation", "host_weights_ratio", "host_cache_ratio"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise InputError("must lie in [0, 1]", key=name, value=getattr(self, name))
        if self.shared_prefix_tokens < 0:
            raise InputError(
                "must be >= 0", key="shared_prefix_tokens", value=self.shared_prefix_tokens
            )
        on_host = self.host_weights_ratio or self.host_cache_ratio
        self._check_encoder()
        if self.fidelity == "measured" and (self.shared_prefix_tokens or on_host or self.adapters):
            rule = (
                "passes with shared prefixes, adapters, weights or caches on the host are not"
                " measured; use calibrated"
            )
            raise InputError(rule, key="fidelity", value=self.fidelity)

    @property
    def unpriced_adapters(self) -> str:
        """What the price of adapters leaves out, in words; empty for nothing."""
        return unpriced(self.architecture, self.adapters, self.tensor_parallel)

    @property
    def scales_by_block(self) -> bool:
        """Whether a block of 8-bit weights has a scale, as in DeepSeek's models; else a channel or a
        tensor has one.
        """
        return "fp8-block" in (self.architecture.dtype, self.precision.weights)

    def _check_encoder(self) -> None:
        if self.source_tokens is not None and self.source_tokens < 0:
            raise InputError("must be >= 0", key="source_tokens", value=self.source_tokens)
        if self.architecture.encoder is None:
            return
        if self.shared_prefix_tokens:
            rule = "an encoder reads both ways, so that requests share nothing that it read"
            raise InputError(rule, key="shared_prefix_tokens", value=self.shared_prefix_tokens)
        for name in ("host_weights_ratio", "host_cache_ratio"):
            if getattr(self, name):
                rule = (
                    "weights and caches are streamed to models of one stack of layers, and this one"
                    " has an encoder"
                )
                raise InputError(rule, key=name, value=getattr(self, name))

    def contexts(self, context: Array) -> tuple[Array, Array]:
        """Cached tokens that a decoder wrote, and vectors of its encoder's output, of an
        encoder-decoder's requests.

        Args:
            context: cached tokens per request; an input of fixed length is none of them.
        """
        fixed = self.architecture.source_positions
        if fixed:
            return context, np.full_like(context, float(fixed))
        source = (
            context
            if self.source_tokens is None
            else np.minimum(context, float(self.source_tokens))
        )
        return context - source, source
