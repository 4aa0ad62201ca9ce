"""How fast do requests decode that share a prefix: rows of Hydragen, and of its baselines that do
not share it?

The paper's own stack decodes in captured graphs (hydragen/llama.py, GraphedHydragenLlamaModel) with
collectives of PyTorch, and its element-wise operations are PyTorch's, one kernel each. It was
measured without attention too; that floor, where a row of the same source states it, is an input of
the others. Leaves out prompts.
"""

import numpy as np

from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.passes import kernels
from costmodel.passes.forward import Deployment, PassCost, pass_cost
from costmodel.passes.prefixes import shared_prefix_cost
from costmodel.published.answer import Prediction, in_unit
from costmodel.published.deployed import batch_of, device_of, dtype_of
from costmodel.published.reading.amounts import token_count
from costmodel.published.reading.names import model_of
from costmodel.published.reading.table import PublishedRow
from hardware_profiles.errors import InputError

# of a layer, counted in hydragen/llama.py and Transformers' modeling_llama.py: a norm in 32 bits
# reads and writes 32 bytes a value in eight kernels, an addition of the residual 6, the activation
# and its product 10, the rotation 22; beyond the fused kernels of `passes.ops.elementwise`
_MORE_KERNELS = 30
_NORM_BYTES, _RESIDUAL_BYTES, _GATE_BYTES, _ROTATED_BYTES = 32.0, 6.0, 10.0, 22.0
_ATTENTION = ("attention", "prefix", "combine")
_FLOOR = "attention removed"
_LONGEST = 16_256  # `16K` of arXiv:2402.05099, appendix C.1


def answers(row: PublishedRow) -> bool:
    """Whether a row asks for decoding behind a shared prefix, behind copies of it, or without
    attention.
    """
    return "2402.05099" in row.source and row.unit == "ktok/s"


def predict(row: PublishedRow, beside: tuple[PublishedRow, ...]) -> Prediction:
    """Thousands of tokens per second of a row.

    Args:
        row: for which `answers` holds.
        beside: rows of the same source, the floor among them.

    Raises:
        InputError: a model, batch or length that the row does not state.

    Reference: Juravsky et al., "Hydragen" (arXiv:2402.05099), sections 3 and 4.
    """
    if "vllm" in row.system.casefold():
        raise InputError(
            "ran vLLM of early 2024, before the releases whose kernels and host are known here"
            " (0.8 on)",
            key="system",
            value=row.system,
        )
    batch = batch_of(row)
    d, remark = _deployment(row)
    if _FLOOR in row.prompt:
        cost = pass_cost(d, batch=float(batch), query_tokens=1.0, context=0.0)
        seconds = _by_pytorch(d, cost, batch) - float(cost.seconds["attention"])
        return Prediction(
            row=row, predicted=in_unit(row.unit, 1.0, seconds, batch), remarks=(remark,)
        )
    prefix, own = token_count(row.prompt), (token_count(row.output) or 128) / 2.0
    if prefix is None:
        raise InputError("states no prefix", key="prompt_len", value=row.prompt)
    prefix = min(prefix, _LONGEST)
    shares = "shared" in row.prompt
    if shares:
        cost = shared_prefix_cost(
            d, batch=float(batch), query_tokens=1.0, prefix=float(prefix), unique=own
        )
    else:
        cost = pass_cost(d, batch=float(batch), query_tokens=1.0, context=prefix + own)
    attention_s = sum(float(cost.seconds[name]) for name in _ATTENTION if name in cost.seconds)
    floor = _floor_s(row, beside)
    if floor is None:
        seconds, assumption = _by_pytorch(d, cost, batch), ""
    else:
        seconds, assumption = (
            floor + attention_s,
            "without attention as measured in the same source",
        )
    return Prediction(
        row=row,
        predicted=in_unit(row.unit, 1.0, seconds, batch),
        remarks=tuple(filter(None, (remark, assumption))),
    )


def _floor_s(row: PublishedRow, beside: tuple[PublishedRow, ...]) -> float | None:
    """Seconds of the same step without attention, as a row of the same source states it."""
    for other in beside:
        if (
            _FLOOR in other.prompt
            and (other.target, other.batch) == (row.target, row.batch)
            and other.value
        ):
            return int(row.batch) / (1e3 * other.value)
    return None


def _by_pytorch(d: Deployment, cost: PassCost, batch: int) -> float:
    """Seconds of a pass whose all-reduces and element-wise kernels are PyTorch's."""
    model, c = d.architecture, d.device.constants
    block, layers = model.blocks[0][0], model.layers
    shared = (
        block.feed_forward.width * (_GATE_BYTES - 6.0)
        + block.attention.query_width * 2.0 * _ROTATED_BYTES
    )
    whole = model.hidden * (2.0 * _NORM_BYTES + 2.0 * _RESIDUAL_BYTES - 16.0)
    moved = batch * (whole + shared / d.tensor_parallel)
    rate = d.device.bandwidth_bytes_per_s * c.elementwise.bandwidth_efficiency
    return _with_nccl(d, cost, batch) + layers * (
        _MORE_KERNELS * c.elementwise.kernel_s + moved / rate
    )


def _with_nccl(d: Deployment, cost: PassCost, batch: int) -> float:
    """Seconds of a pass whose all-reduces are PyTorch's."""
    message = batch * d.architecture.hidden * d.precision.residual_bytes
    allreduce_s = kernels.allreduce(
        d.device, np.asarray(message), d.tensor_parallel, backend="nccl"
    ).seconds
    return (
        float(cost.total_s)
        - float(cost.seconds["allreduce"])
        + 2.0 * d.architecture.layers * float(allreduce_s)
    )


def _deployment(row: PublishedRow) -> tuple[Deployment, str]:
    model, (device, count, remark) = model_of(row.target), device_of(row)
    names = DeploymentNames(
        model=model.name, device=device, engine="none", dtype=dtype_of(row), tensor_parallel=count
    )
    setting = build_setting(DecodingConfiguration(deployment=names))
    return setting.deployment, "; ".join(filter(None, (model.remark, remark)))
