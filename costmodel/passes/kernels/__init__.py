"""How long does each operation take on a device?

Two fidelities. `datasheet`: the larger of the two roofs, nothing else. `calibrated`: launch times,
achieved fractions, tiles and waves, with the constants of the device profile. Leaves out operands
that are still in the cache when an operation starts.
"""

from costmodel.passes.kernels.attention import (
    ROW_TILE,
    latent_attention,
    prefill_attention,
    split_attention,
    unsplit_attention,
)
from costmodel.passes.kernels.communication import allreduce
from costmodel.passes.kernels.matrix import (
    elementwise,
    engine_experts,
    experts,
    gemm,
    gemm_efficiency,
    sampler,
    stored_width,
)
from costmodel.passes.kernels.recurrent import state_update
from costmodel.passes.kernels.timing import Timing, roofline

__all__ = [
    "ROW_TILE",
    "Timing",
    "allreduce",
    "elementwise",
    "engine_experts",
    "experts",
    "gemm",
    "gemm_efficiency",
    "latent_attention",
    "prefill_attention",
    "roofline",
    "sampler",
    "split_attention",
    "state_update",
    "stored_width",
    "unsplit_attention",
]
