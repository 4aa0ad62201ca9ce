"""Kernels that engines do not share: reductions, and the norms of queries and keys."""

import numpy as np
import pytest

from costmodel import kernels
from costmodel.forward import Deployment
from costmodel.model_library import load_model
from costmodel.precision import Precision
from costmodel.serving.iteration import tabulate
from costmodel.serving.libraries import with_reductions
from costmodel.serving.policies import policy
from hardware_profiles.loader import load_device

H100 = load_device("h100-sxm")


def deployment(model, devices=1):
    return Deployment(architecture=load_model(model), device=H100, precision=Precision(), tensor_parallel=devices)


@pytest.mark.parametrize("size", [1e3, 1e5, 1e7])
def test_reductions_are_those_of_the_library(size):
    theirs = with_reductions(deployment("qwen3-32b", 4), "trtllm").device
    assert kernels.allreduce(theirs, size, 4).seconds == kernels.allreduce(H100, size, 4, backend="trtllm").seconds
    assert with_reductions(deployment("qwen3-32b", 4), "vllm").device is H100


def test_engines_state_whose_reductions_they_run():
    assert {name: policy(name, H100).reductions for name in ("vllm", "sglang", "tensorrt-llm")} == {
        "vllm": "vllm", "sglang": "vllm", "tensorrt-llm": "trtllm"
    }  # fmt: skip


def test_norms_of_queries_and_keys_are_launched_once_per_layer_and_pass():
    shape = {"rows": 8, "requests": 2, "context": 512}
    for model, layers in (("qwen3-32b", 64), ("llama-3.1-8b", 0)):
        plain, normed = (tabulate(deployment(model), **shape, head_norm_kernels=n) for n in (0, 2))
        more = normed.row_seconds.sum(axis=0) - plain.row_seconds.sum(axis=0)
        np.testing.assert_allclose(more[1:], 2 * layers * H100.constants.elementwise_kernel_s, rtol=1e-9, atol=1e-15)
        assert more[0] == 0.0, "nothing costs nothing"
