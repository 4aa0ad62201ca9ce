"""Which token do these logits give?

Greedy, or sampled by inverting the distribution function at a number drawn beforehand for that
output position. The draw belongs to the position, not to the pass: plain and speculative decoding
of one request therefore sample the same text. Leaves out top-k and top-p.
"""

from __future__ import annotations

import hashlib

import torch

from hardware_profiles.errors import InputError


class Sampler:
    """Turns logits into tokens for one request.

    Args:
        temperature: 0 for greedy, else > 0.
        seed: of the whole run.
        request: the request's id; the draws depend on (seed, request) alone, not on what ran
            before.
        positions: output positions to draw for.

    Raises:
        InputError: a negative temperature.
    """

    def __init__(self, *, temperature: float, seed: int, request: str, positions: int) -> None:
        if not 0 <= temperature < float("inf"):
            raise InputError("must be >= 0", key="temperature", value=temperature)
        self.temperature = temperature
        digest = hashlib.sha256(f"{seed}/{request}".encode()).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)
        self._draws = torch.rand(positions, generator=generator, dtype=torch.float64)

    def tokens(self, logits: torch.Tensor, first: int) -> list[int]:
        """Tokens for consecutive output positions.

        Args:
            logits: [T, vocabulary], row t for output position `first` + t. Rows after the last
                position are greedy.
            first: output position of row 0.
        """
        if self.temperature == 0:
            return [int(token) for token in logits.argmax(dim=-1)]
        rows = []
        for row, distribution in enumerate(
            torch.softmax(logits.double().cpu() / self.temperature, dim=-1)
        ):
            if first + row >= self._draws.numel():
                rows.append(int(distribution.argmax()))
                continue
            cumulated = distribution.cumsum(0)
            place = torch.searchsorted(
                cumulated, self._draws[first + row] * cumulated[-1], right=True
            )
            rows.append(min(int(place), distribution.numel() - 1))
        return rows
