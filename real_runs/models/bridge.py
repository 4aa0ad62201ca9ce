"""What carries a hidden state from an early exit to where the last layer would have left it?

A linear map that drafters read through and decoding loops apply. Leaves out how it is fitted
(`real_runs.drafters.bridge_fit`).

Reference: Yom Din et al., Jump to Conclusions, arXiv 2303.09435, eq. 3.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

_Placed = dict[tuple[torch.device, torch.dtype], tuple[torch.Tensor, torch.Tensor]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Bridge:
    """Linear map from the hidden state after `exit_layer` layers to the one before the final norm.

    Attributes:
        exit_layer: layers run before the exit, 1..layers-1.
        weight: float32 [width, width]; rows are outputs.
        bias: float32 [width].
        fit_tokens: tokens it was fitted on.
    """

    exit_layer: int
    weight: torch.Tensor
    bias: torch.Tensor
    fit_tokens: int = 0
    _placed: _Placed = field(
        default_factory=dict, repr=False, compare=False
    )  # copied once to where states are

    def __call__(self, hidden: torch.Tensor) -> torch.Tensor:
        """Map hidden states [..., width]; they are divided by their root mean square first."""
        where = hidden.device, hidden.dtype
        if where not in self._placed:
            self._placed[where] = self.weight.to(hidden), self.bias.to(hidden)
        return torch.nn.functional.linear(unit_rms(hidden), *self._placed[where])


def unit_rms(hidden: torch.Tensor) -> torch.Tensor:
    """Hidden states [..., width] scaled to a root mean square of 1 over their width."""
    return hidden * torch.rsqrt(hidden.square().mean(dim=-1, keepdim=True) + 1e-12)
