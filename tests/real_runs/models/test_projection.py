"""However a matrix is stored, the product is the same."""

import pytest
import torch
from torch.nn import functional

from real_runs.models.projection import Head, Projection


@pytest.mark.parametrize("rows", [1, 2, 4, 5, 9])
@pytest.mark.parametrize(("outputs", "inputs"), [(48, 16), (16, 48), (16, 16)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_products_equal_linear(rows, outputs, inputs, dtype):
    generator = torch.Generator().manual_seed(rows)
    weight, x, bias, residual = (
        torch.randn(shape, generator=generator).to(dtype)
        for shape in ((outputs, inputs), (1, rows, inputs), (outputs,), (1, rows, outputs))
    )
    tolerance = (
        {"atol": 0.3, "rtol": 0.05} if dtype == torch.bfloat16 else {"atol": 1e-4, "rtol": 1e-4}
    )
    for given_bias in (None, bias):
        projection = Projection(weight, given_bias)
        expected = functional.linear(x, weight, given_bias)
        torch.testing.assert_close(projection(x), expected, **tolerance)
        torch.testing.assert_close(projection(x, residual), expected + residual, **tolerance)
        assert torch.equal(projection.weight, weight)
    torch.testing.assert_close(Head(weight)(x), functional.linear(x, weight), **tolerance)
    assert Head(weight)(x).is_contiguous()


def test_residuals_are_not_written_over():
    residual = torch.ones(1, 1, 8)
    Projection(torch.ones(8, 8))(torch.ones(1, 1, 8), residual)
    assert torch.equal(residual, torch.ones(1, 1, 8))


def test_bytes_are_those_of_the_file():
    assert Projection(torch.zeros(6, 4), torch.zeros(6)).bytes == 4 * 30
    assert Head(torch.zeros(6, 4)).bytes == 96
