"""What does a layer do to a token by itself?

Feed-forward layers: gated or plain, and mixtures of experts. Routed tokens visit their experts one
hit expert at a time, or sorted by expert in one grouped product where torch has one: that form has
static shapes and asks the device nothing, so it can be captured in a graph. Leaves out load
balancing and capacity limits.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional

from real_runs.models.projection import Projection


def activated(projected: torch.Tensor, gated: bool) -> torch.Tensor:
    """SiLU of the first half times the second, [..., 2 · width] to [..., width]; without a gate
    GELU of [..., width].
    """
    if not gated:
        return functional.gelu(projected, approximate="tanh")
    gate, up = projected.chunk(2, dim=-1)
    return functional.silu(gate).mul_(up)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Dense:
    """One feed-forward layer that every token passes.

    Attributes:
        first: gate and up, or up alone.
        down: back to the model's width.
        gated: whether `first` holds a gate.
    """

    first: Projection
    down: Projection
    gated: bool = True

    def __call__(self, x: torch.Tensor, residual: torch.Tensor | None = None) -> torch.Tensor:
        """The layer for [B, T, width], with `residual` added."""
        return self.down(activated(self.first(x), self.gated), residual)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Experts:
    """A router, its experts, and those that every token visits.

    Attributes:
        router: to one logit per expert.
        first: [experts, 2 · inner width, width]: gate and up.
        down: [experts, width, inner width].
        first_bias: [experts, 2 · inner width], or None.
        down_bias: [experts, width], or None.
        shared: the layer that every token visits, or None.
        per_token: experts that a token visits.
    """

    router: Projection
    first: torch.Tensor
    down: torch.Tensor
    first_bias: torch.Tensor | None
    down_bias: torch.Tensor | None
    shared: Dense | None
    per_token: int

    def __call__(self, x: torch.Tensor, residual: torch.Tensor | None = None) -> torch.Tensor:
        """The layer for [B, T, width], with `residual` added.

        Each token's experts are weighted by the softmax of their logits among themselves.
        """
        rows = x.reshape(-1, x.shape[-1])
        logits, chosen = self.router(rows).float().topk(self.per_token, dim=-1)
        shares = torch.softmax(logits, dim=-1).to(x.dtype)
        output = (self.grouped if groups_products(x) else self.one_by_one)(
            rows, chosen, shares
        ).view(x.shape)
        if self.shared is not None:
            output = self.shared(x, output)
        return output if residual is None else output + residual

    def one_by_one(
        self, rows: torch.Tensor, chosen: torch.Tensor, shares: torch.Tensor
    ) -> torch.Tensor:
        """Every hit expert in turn, over its own tokens; the host must know which were hit.

        Args:
            rows: [N, width].
            chosen: experts of every row [N, per token].
            shares: their weights.
        """
        output = torch.zeros_like(rows)
        for expert in sorted(set(chosen.flatten().tolist())):
            row, place = (chosen == expert).nonzero(as_tuple=True)
            bias = None if self.first_bias is None else self.first_bias[expert]
            inner = activated(functional.linear(rows[row], self.first[expert], bias), True)
            bias = None if self.down_bias is None else self.down_bias[expert]
            product = functional.linear(inner, self.down[expert], bias)
            output.index_add_(0, row, product * shares[row, place][:, None])
        return output

    def grouped(
        self, rows: torch.Tensor, chosen: torch.Tensor, shares: torch.Tensor
    ) -> torch.Tensor:
        """All visits sorted by expert in two grouped products; arguments as `one_by_one`."""
        visits = chosen.flatten()
        order = visits.argsort(stable=True)
        counts = torch.zeros(self.first.shape[0], dtype=torch.int64, device=rows.device)
        ends = counts.scatter_add_(0, visits, torch.ones_like(visits)).cumsum(0).to(torch.int32)
        inner = torch._grouped_mm(
            rows[order // self.per_token], self.first.transpose(1, 2), offs=ends
        )
        if self.first_bias is not None:
            inner = inner + self.first_bias[visits[order]]
        product = torch._grouped_mm(activated(inner, True), self.down.transpose(1, 2), offs=ends)
        if self.down_bias is not None:
            product = product + self.down_bias[visits[order]]
        unsorted = torch.empty_like(product)
        unsorted[order] = product * shares.flatten()[order][:, None]
        return unsorted.view(rows.shape[0], self.per_token, -1).sum(dim=1)


def groups_products(x: torch.Tensor) -> bool:
    """Whether torch multiplies groups of rows in one kernel there: bf16 from Hopper and MI300 on.

    On older cards its stand-in reads the groups' ends on the host, which waits in every layer and
    cannot be captured.
    """
    if x.device.type != "cuda" or x.dtype != torch.bfloat16 or not hasattr(torch, "_grouped_mm"):
        return False
    return torch.cuda.get_device_capability(x.device) >= (9, 0)
