"""How large is a product on one device of a tensor-parallel group?"""

from costmodel.architectures.attention import Projection

# sharded along the inner dimension
_INPUT_SPLIT = (
    "output",
    "down",
    "shared_down",
    "expert_down",
    "state_output",
    "state_x",
    "cross_output",
)
_REPLICATED = ("router", "q_down", "kv_down", "index_q", "index_k", "index_weights")


def sharded(projection: Projection, tensor_parallel: int) -> tuple[float, float]:
    """Outputs and inputs of a projection on one device.

    Args:
        projection: its role, outputs and inputs.
        tensor_parallel: devices that share it.
    """
    role, outputs, inputs = projection
    n, k = float(outputs), float(inputs)
    if role in _REPLICATED:
        return n, k
    return (n, k / tensor_parallel) if role in _INPUT_SPLIT else (n / tensor_parallel, k)
