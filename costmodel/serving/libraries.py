"""Whose all-reduce kernels does an engine run?

TensorRT-LLM has its own, with constants of their own in the device profile; vLLM's, which SGLang's descend from, are
what a deployment takes by itself. Leaves out every other kernel, which engines share or which were fitted to one.
"""

from dataclasses import replace

from costmodel.forward import Deployment
from costmodel.kernels.communication import Backend

_TAILS = ("launch_s", "hop_s", "two_shot_s", "one_shot_efficiency", "two_shot_efficiency")


def with_reductions(deployment: Deployment, backend: Backend) -> Deployment:
    """The deployment with the all-reduce constants of a library.

    Args:
        deployment: model, device and how they run.
        backend: "trtllm" takes TensorRT-LLM's; others leave vLLM's.
    """
    if backend != "trtllm":
        return deployment
    constants = deployment.device.constants
    theirs = {f"allreduce_{tail}": getattr(constants, f"trtllm_{tail}") for tail in _TAILS}
    return replace(deployment, device=replace(deployment.device, constants=replace(constants, **theirs)))
