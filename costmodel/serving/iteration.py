"""What does one iteration of an engine cost, for any mix of decoding requests and prompt chunks?

Decoding rows and prompt rows share every matrix product; attention is billed by part. All of it is tabulated from
`forward.pass_cost`, so that a replay of many iterations only looks numbers up. Where products run in 8 bits or fewer,
what stands between them (attention, norms, reductions, the output head) stays in 16. Leaves out the engine's overhead.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from costmodel.forward import Deployment, PassCost, pass_cost
from costmodel.ops import Array
from costmodel.precision import Precision
from costmodel.serving.narrow import with_narrow_products

CONTEXT_STEP = 256  # tokens between two columns of the decode-attention table
PROMPT_STEP = 64  # tokens between two entries of the prompt-attention table
_ATTENTION = ("attention", "mla", "state")  # what depends on requests and contexts, not on rows alone
_PRODUCTS = ("gemm", "moe")
_HEAD = ("head", "sampler")
_SIXTEEN_BITS = 2.0


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class IterationTables:
    """Seconds by what an iteration holds.

    Args:
        row_operations: names of the operations that depend on the rows of a pass alone.
        row_seconds: [operation, rows], rows 0..R.
        head_operations: names of what runs on sampled rows.
        head_seconds: [operation, sampled rows], 0..B.
        decode_attention_s: [requests 0..B, context in steps of `CONTEXT_STEP`].
        prompt_attention_s: attention of a prompt's first x tokens, x in steps of `PROMPT_STEP`, launches left out:
            a chunk costs the difference of two entries.
        prompt_launch_s: launches of the attention over an iteration's chunks.
        attention_operation: the residual that attention shares: `attention` or `mla`.
    """

    row_operations: tuple[str, ...]
    row_seconds: Array
    head_operations: tuple[str, ...]
    head_seconds: Array
    decode_attention_s: Array
    prompt_attention_s: Array
    prompt_launch_s: float
    attention_operation: str

    def covers(self, *, rows: int, requests: int, context: int) -> bool:
        """Whether iterations of this size can be looked up."""
        reach = min(
            (self.decode_attention_s.shape[1] - 1) * CONTEXT_STEP, (self.prompt_attention_s.shape[0] - 1) * PROMPT_STEP
        )
        return bool(
            rows < self.row_seconds.shape[1] and requests < self.decode_attention_s.shape[0] and context <= reach
        )


def tabulate(
    deployment: Deployment, *, rows: int, requests: int, context: int, head_norm_kernels: int = 0
) -> IterationTables:
    """The tables of a deployment.

    Entries do not depend on how large the tables are, so that one table may serve many workloads.

    Args:
        deployment: model, device and how they run.
        rows: most query tokens of an iteration, >= 1.
        requests: most requests that decode together, >= 1.
        context: most tokens of one request, >= 1.
        head_norm_kernels: that an engine launches per layer to normalise queries and keys, where the model does.
    """
    wide, narrow = _between_products(deployment), with_narrow_products(deployment)
    each = np.arange(1.0, rows + 1.0)
    products, others = (pass_cost(d, batch=each, query_tokens=1.0, context=0.0, logits="none") for d in (narrow, wide))
    seconds = {name: (products if name in _PRODUCTS else others).seconds[name] for name in others.seconds}
    seconds["elementwise"] = seconds["elementwise"] + _head_norms_s(deployment, head_norm_kernels)
    row_operations, row_seconds = _stacked({k: v for k, v in seconds.items() if k not in _ATTENTION}, rows)
    sampled = pass_cost(wide, batch=np.arange(1.0, requests + 1.0), query_tokens=1.0, context=0.0)
    head_operations, head_seconds = _stacked({k: v for k, v in sampled.seconds.items() if k in _HEAD}, requests)
    grid = np.arange(0.0, context + CONTEXT_STEP + 1.0, CONTEXT_STEP)
    batches = np.arange(1.0, requests + 1.0)[:, None]
    decode = pass_cost(wide, batch=batches, query_tokens=1.0, context=grid[None, :], logits="none")
    attention = np.zeros((requests + 1, grid.size))
    attention[1:] = _attention_s(decode)
    prefix = np.arange(0.0, context + PROMPT_STEP + 1.0, PROMPT_STEP)
    prefix[0] = 1.0
    prompt = np.atleast_1d(
        _attention_s(pass_cost(wide, batch=1.0, query_tokens=prefix, context=0.0, logits="none", prefill=True))
    )
    return IterationTables(
        row_operations=row_operations,
        row_seconds=row_seconds,
        head_operations=head_operations,
        head_seconds=head_seconds,
        decode_attention_s=attention,
        prompt_attention_s=np.maximum.accumulate(prompt - prompt[0]),
        prompt_launch_s=float(prompt[0]),
        attention_operation="mla" if "mla" in decode.seconds else "attention",
    )


def _head_norms_s(deployment: Deployment, kernels: int) -> float:
    """Launches of the norms of queries and keys in a pass; their bytes are a hundredth of a layer's."""
    layers = sum(count for block, count in deployment.architecture.blocks if block.attention.qk_norm)
    return layers * kernels * deployment.device.constants.elementwise_kernel_s


def _between_products(deployment: Deployment) -> Deployment:
    """The deployment with everything but the cache in 16 bits or wider."""
    p = deployment.precision
    if p.activation_bytes >= _SIXTEEN_BITS and p.weight_bytes >= _SIXTEEN_BITS:
        return deployment
    return replace(deployment, precision=Precision(kv=p.kv))


def _stacked(seconds: Mapping[str, Array], most: int) -> tuple[tuple[str, ...], Array]:
    """Seconds of operations over 0..most rows, [operation, rows]; nothing costs nothing."""
    table = np.zeros((len(seconds), most + 1))
    for index, value in enumerate(seconds.values()):
        table[index, 1:] = value
    return tuple(seconds), table


def _attention_s(cost: PassCost) -> Array:
    return np.asarray(sum(cost.seconds[name] for name in _ATTENTION if name in cost.seconds))
