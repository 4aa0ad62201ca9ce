"""How much longer does a pass over a block take than one over a token, at the roofs that a row
states?

Rows of step-time ratios with peaks and bandwidth in words (Set Block Decoding). Leaves out kernels:
bare roofs.
"""

import re

from costmodel.architectures.architecture import Block, FeedForward
from costmodel.architectures.attention import Attention
from costmodel.passes import kernels, ops
from hardware_profiles.errors import InputError
from hardware_profiles.loader import load_device
from hardware_profiles.profile import Device
from hardware_profiles.stated_names import stated_device
from real_runs.published_numbers.answer import Prediction
from real_runs.published_numbers.deployed import batch_of
from real_runs.published_numbers.reading.amounts import token_count
from real_runs.published_numbers.reading.table import PublishedRow

_PEAK = re.compile(r"fp8 (\d+(?:\.\d+)?)T")
_ATTENTION = re.compile(r"attention (\d+(?:\.\d+)?)T")
_BANDWIDTH = re.compile(r"(\d+(?:\.\d+)?)\*1024\^4 B/s")
# arXiv:2509.04185, appendix A.2: its listing makes the feed-forward layer 4096 * 16384 wide, not 4
# * 4096 as its text says; the table follows the listing
_HIDDEN, _HEADS, _KV_HEADS = 4096, 32, 8
_LAYER = Block(
    attention=Attention(heads=_HEADS, kv_heads=_KV_HEADS, head_dim=128),
    feed_forward=FeedForward(width=4096 * 16_384, gated=False),
    norms=2,
)
_BLOCK = re.compile(r"block\s*=\s*(\d+)")


def answers(row: PublishedRow) -> bool:
    """Whether a row asks for a ratio of step times."""
    return row.unit == "x step time"


def predict(row: PublishedRow, beside: tuple[PublishedRow, ...]) -> Prediction:
    """The ratio that a row asks for.

    Args:
        row: for which `answers` holds.
        beside: rows of the same source.

    Raises:
        InputError: peaks, bandwidth, block or model that the row does not state.

    Reference: Gat et al., "Set Block Decoding" (arXiv:2509.04185), appendix A.2.
    """
    peak, attention = _PEAK.search(row.hardware), _ATTENTION.search(row.hardware)
    bandwidth, block = _BANDWIDTH.search(row.hardware), _BLOCK.search(row.shape)
    context = token_count(row.prompt)
    if not (peak and attention and bandwidth and block) or context is None:
        raise InputError(
            "states no peaks, bandwidth, block or context", key="hardware", value=row.hardware
        )
    overrides = [
        f"device.peak_flops_per_s.fp8={float(peak[1]) * 1e12}",
        f"device.peak_flops_per_s.bf16={float(attention[1]) * 1e12}",
        f"device.bandwidth_bytes_per_s={float(bandwidth[1]) * 1024**4}",
    ]
    device = load_device(stated_device(row.hardware.replace("roofline", "")).profile, overrides)
    batch, tokens = batch_of(row), int(block[1])
    longer, one = (_layer_s(device, batch, rows, context) for rows in (tokens, 1))
    return Prediction(
        row=row,
        predicted=longer / one,
        remarks=("one layer at one byte a value, as the source lists it",),
        computed=True,
    )


def _layer_s(device: Device, batch: int, tokens: int, context: int) -> float:
    """Seconds of the products and the attention of one layer at the bare roofs."""
    work = [
        (
            ops.gemm(
                float(batch * tokens), outputs, inputs, weight_bytes=1.0, activation_bytes=1.0
            ),
            "fp8",
        )
        for _, outputs, inputs in _LAYER.projections(_HIDDEN)
    ]
    attention = ops.attention(
        float(batch),
        float(tokens),
        float(context),
        heads=_HEADS,
        kv_heads=_KV_HEADS,
        head_dim=128,
        window=None,
        kv_bytes=1.0,
        activation_bytes=1.0,
    )
    parts = [*work, (attention, "bf16")]
    return float(sum(float(kernels.roofline(device, work, dtype).seconds) for work, dtype in parts))
