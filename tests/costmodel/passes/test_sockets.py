"""Whole sockets are bound by their memory, and two cores by themselves."""

import pytest

from costmodel.architectures.library import load_model
from costmodel.passes.forward import Deployment, pass_cost
from costmodel.passes.precision import Precision
from hardware_profiles.loader import load_device


@pytest.mark.parametrize("device", ["core-i9-13900k", "epyc-9654", "xeon-8480"])
def test_a_socket_reads_weights_at_what_is_published(device):
    """0.74 of the nominal rate on EPYC 9175F, 0.80 and 0.85 on Ryzen (llama.cpp, issues 11744 and
    4716)."""
    where = load_device(device)
    d = Deployment(architecture=load_model("llama-3.1-8b"), device=where, precision=Precision())
    seconds = float(pass_cost(d, batch=1, query_tokens=1, context=128).total_s)
    read = 2.0 * (d.architecture.parameters - d.architecture.embedding_parameters)
    assert 0.70 < read / seconds / where.bandwidth_bytes_per_s < 0.87


def test_two_cores_keep_what_was_timed_on_them():
    assert load_device("cpu-generic").constants.gemm.bandwidth_efficiency == 0.2
