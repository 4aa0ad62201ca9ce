"""How fast are routed experts over many tokens in the kernels that engines run?

A device's profile holds one set of constants of expert layers, fitted to up to 1,024 tokens. Prompts
have thousands, and there kernels differ by more than devices do: gpt-oss-120b over 8,192 tokens on a
B200 takes 3.0 to 11.2 ms by the release of vLLM. Leaves out which engine runs which kernel
(`costmodel.engines`), and few tokens, which wait for weights whatever the kernel.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from costmodel.passes.precision import Precision, bytes_per_value
from hardware_profiles.profile import Device

ExpertKernelName = Literal[
    "marlin",
    "triton",
    "triton-mxfp4",
    "cutlass",
    "deepgemm",
    "trtllm",
    "trtllm-low-latency",
    "aiter-one-stage",
]
HOPPER = ("h100", "h200", "h20", "h800", "gh200")
BLACKWELL = ("b200", "b300", "gb200", "gb300")
CDNA3 = ("mi300x", "mi325x")
_GENERATIONS: Mapping[str, tuple[str, ...]] = {
    "hopper": HOPPER,
    "blackwell": BLACKWELL,
    "cdna3": CDNA3,
}
_WIDTHS = (2, 4, 8, 16, 32)
FEW_TOKENS = 256.0  # up to which a profile's own constants hold
MANY_TOKENS = 1024.0  # from which on a kernel's do; linear in log tokens between


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpertKernel:
    """A kernel of routed experts over many tokens.

    Args:
        compute_efficiency: share of the peak of the format that it computes in.
        tile_rows: rows of its tiles; those of an expert are padded to half a tile on average.
        row_passes: how often the rows of all chosen experts (tokens times experts per token) are
            read or written in 16 bits: sorted, quantised, stored between products and summed.
        few_ratio: time of few tokens, in that of the profile's constants.
    """

    compute_efficiency: float
    tile_rows: float
    row_passes: float
    few_ratio: float = 1.0


# Fitted to the aiconfigurator performance database (github.com/ai-dynamo/aiconfigurator@095f58a,
# Apache-2.0), H100 SXM and B200 SXM, 1,024 to 65,536 tokens of tensor-parallel experts under its
# skewed load (power law 1.2), by generation, kernel and formats of weights and arithmetic: median
# errors 2 to 6 %, but 19 % of TensorRT-LLM's CUTLASS kernels with NVFP4, whose releases differ.
# Few tokens on Blackwell: medians of the same tables at 16 and 128 tokens, balanced, on one expert
# group; kernels of one name stay within 5 to 20 % of them. On Hopper the profile is within 4 %.
_KERNELS: Mapping[tuple[str, ExpertKernelName, str], ExpertKernel] = {
    ("hopper", "marlin", "4/16"): ExpertKernel(
        compute_efficiency=0.30, tile_rows=64.0, row_passes=6.3
    ),
    ("hopper", "triton", "8/8"): ExpertKernel(
        compute_efficiency=0.35, tile_rows=16.0, row_passes=4.7
    ),
    ("hopper", "cutlass", "8/8"): ExpertKernel(
        compute_efficiency=0.58, tile_rows=128.0, row_passes=16.8
    ),
    ("hopper", "triton-mxfp4", "4/16"): ExpertKernel(
        compute_efficiency=0.63, tile_rows=128.0, row_passes=4.1
    ),
    ("hopper", "trtllm", "4/16"): ExpertKernel(
        compute_efficiency=0.44, tile_rows=64.0, row_passes=5.9
    ),
    ("blackwell", "marlin", "4/16"): ExpertKernel(
        compute_efficiency=0.15, tile_rows=64.0, row_passes=13.4, few_ratio=1.28
    ),
    ("blackwell", "triton", "8/8"): ExpertKernel(
        compute_efficiency=0.25, tile_rows=32.0, row_passes=10.2, few_ratio=1.5
    ),
    ("blackwell", "deepgemm", "8/8"): ExpertKernel(
        compute_efficiency=1.0, tile_rows=16.0, row_passes=14.5, few_ratio=1.45
    ),
    ("blackwell", "trtllm", "8/8"): ExpertKernel(
        compute_efficiency=0.24, tile_rows=32.0, row_passes=4.7, few_ratio=1.05
    ),
    ("blackwell", "trtllm", "4/16"): ExpertKernel(
        compute_efficiency=0.32, tile_rows=16.0, row_passes=11.0, few_ratio=1.2
    ),
    ("blackwell", "trtllm", "4/8"): ExpertKernel(
        compute_efficiency=0.88, tile_rows=128.0, row_passes=4.0
    ),
    ("blackwell", "trtllm", "4/4"): ExpertKernel(
        compute_efficiency=0.57, tile_rows=32.0, row_passes=3.6, few_ratio=0.89
    ),
    ("blackwell", "trtllm-low-latency", "4/4"): ExpertKernel(
        compute_efficiency=0.90, tile_rows=16.0, row_passes=3.0, few_ratio=0.58
    ),
    ("blackwell", "cutlass", "4/4"): ExpertKernel(
        compute_efficiency=0.80, tile_rows=128.0, row_passes=14.2, few_ratio=1.95
    ),
    # Not of these tables: AITER's kernel of both products at once, which it takes where no
    # configuration is tuned: 372 TFLOP/s, 484 us over 2048 tokens and experts of 7168 by 2048, in
    # blocks of 32 rows (ROCm/aiter issue 1248, 2025-10). What it moves was not stated
    ("cdna3", "aiter-one-stage", "8/8"): ExpertKernel(
        compute_efficiency=0.142, tile_rows=32.0, row_passes=0.0
    ),
}


def expert_format(precision: Precision) -> str:
    """Bits of the experts' weights, scales left out, and of their arithmetic, such as `4/16`.

    Args:
        precision: of the experts (`Precision.of`).

    >>> expert_format(Precision(weights="fp8", activations="fp8"))
    '8/8'
    """
    stored = 8.0 * bytes_per_value(precision.weights)
    weight_bits = next(bits for bits in _WIDTHS if stored < bits + bits / 4.0)
    return f"{weight_bits}/{8.0 * precision.activation_bytes:.0f}"


def expert_kernel(device: Device, name: ExpertKernelName, form: str) -> ExpertKernel | None:
    """The kernel on a device; None where it was not measured, so that the profile's constants hold.

    Args:
        device: profile.
        name: of the kernel.
        form: formats of weights and arithmetic, as `expert_format` writes them.
    """
    generation = next(
        (name for name, begins in _GENERATIONS.items() if device.name.startswith(begins)), ""
    )
    return _KERNELS.get((generation, name, form))
