"""How is a matrix stored so that a vector passes through it fastest?

A decode pass on a CPU reads every weight for one vector. In single precision the product with rows
of inputs contiguous (stored [inputs, outputs]) reads memory up to 1.7 times as fast as with rows of
outputs contiguous, unless the matrix is wider than it is tall. Elsewhere matrices stay as files
have them. Leaves out quantised weights.
"""

from __future__ import annotations

import torch
from torch.nn import functional

from hardware_profiles.units import MIB

_LARGEST_COPY_BYTES = 512 * MIB
_FEW_ROWS = 4


class Projection:
    """Multiplies vectors by one matrix.

    Args:
        weight: [outputs, inputs].
        bias: [outputs], or None.

    Attributes:
        bytes: memory that one use reads.
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        by_input = _is_cpu_single(weight) and weight.shape[0] >= weight.shape[1]
        self._matrix = weight.t().contiguous() if by_input else weight.t()
        self._bias = bias
        self.bytes = weight.nbytes + (0 if bias is None else bias.nbytes)

    @property
    def weight(self) -> torch.Tensor:
        """The matrix as files have it, [outputs, inputs]; a view."""
        return self._matrix.t()

    def __call__(self, x: torch.Tensor, residual: torch.Tensor | None = None) -> torch.Tensor:
        """The products of [..., inputs], with `residual` [..., outputs] added in the same
        kernel.
        """
        rows = x.reshape(-1, x.shape[-1])
        if residual is not None:
            added = residual if self._bias is None else residual + self._bias
            product = torch.addmm(added.reshape(rows.shape[0], -1), rows, self._matrix)
        elif self._bias is not None:
            product = torch.addmm(self._bias, rows, self._matrix)
        else:
            product = torch.mm(rows, self._matrix)
        return product.view(*x.shape[:-1], product.shape[-1])


class FactoredQuery:
    """Queries of all heads through one shared low-rank product, beside keys and values
    (multi-matrix factorisation).

    Args:
        down: to the rank of the queries.
        norm: RMSNorm of what comes out.
        up: from the rank to all query heads.
        kv: keys and values of all their heads.
        norm_eps: added to the mean square.
    """

    def __init__(
        self, down: Projection, norm: torch.Tensor, up: Projection, kv: Projection, norm_eps: float
    ) -> None:
        self._down, self._norm, self._up, self._kv, self._eps = down, norm, up, kv, norm_eps
        self.bytes = down.bytes + norm.nbytes + up.bytes + kv.bytes

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Queries, keys and values [..., heads + 2 · kv_heads, each head_dim wide] in one row, as
        one matrix gives.
        """
        latent = functional.rms_norm(self._down(x), self._norm.shape, self._norm, self._eps)
        return torch.cat([self._up(latent), self._kv(x)], dim=-1)


class Head:
    """The output matrix, which may be the embedding itself.

    On a CPU in single precision a turned copy serves passes of one row, where it is not too large,
    and few rows are multiplied from the matrix's side: twice as fast as otherwise.

    Args:
        weight: [vocabulary, width].
    """

    def __init__(self, weight: torch.Tensor) -> None:
        self._weight, self._is_cpu_single = weight, _is_cpu_single(weight)
        copied = self._is_cpu_single and weight.nbytes <= _LARGEST_COPY_BYTES
        self._turned = weight.t().contiguous() if copied else None
        self.bytes = weight.nbytes

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Logits [..., vocabulary] of [..., width]."""
        rows = x.reshape(-1, x.shape[-1])
        shape = (*x.shape[:-1], self._weight.shape[0])
        if rows.shape[0] == 1 and self._turned is not None:
            return torch.mm(rows, self._turned).view(shape)
        if rows.shape[0] <= _FEW_ROWS and self._is_cpu_single:
            return torch.mm(self._weight, rows.t()).t().contiguous().view(shape)
        return functional.linear(x, self._weight)


def _is_cpu_single(weight: torch.Tensor) -> bool:
    return weight.device.type == "cpu" and weight.dtype == torch.float32
