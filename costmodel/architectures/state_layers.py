"""What does a recurrent layer hold: state-space models, gated delta nets, gated memory units?

Such a layer keeps a state of fixed size per request instead of keys and values per token. Weights,
matrix products and state values follow from its widths. Leaves out what an update costs
(`state_update`) and the attention layers beside it (`architecture`).
"""

from dataclasses import dataclass
from typing import Literal

from costmodel.architectures.attention import Projection

StateKind = Literal["mamba", "mamba2", "delta", "memory"]

STATE_BYTES = 4.0  # recurrent states are kept in 32 bits by the published implementations


@dataclass(frozen=True, kw_only=True, slots=True)
class StateLayer:
    """One recurrent layer.

    Attributes:
        kind: `mamba` (selective scan with a state row per channel), `mamba2` (one decay per head),
            `delta` (gated delta rule: decay, erase, write) or `memory` (gates the read-out of
            another layer; no state).
        inner: Channels of the layer's values, all heads together.
        heads: Heads that share a decay; with `mamba` and `memory`, the channels.
        state_size: State values per channel: N of a state-space model, the key length of a delta
            rule.
        groups: Heads of the keys and queries (B and C of a state-space model).
        kernel: Taps of the causal convolution before the update; 0: none.
        rank: `mamba`: rank of the step-size projection.
        conv_bias: The convolution has a bias.
        bias: Input and output projections have biases.
        inner_norms: Learned scales inside the layer, values.
    """

    kind: StateKind
    inner: int
    heads: int
    state_size: int = 0
    groups: int = 1
    kernel: int = 0
    rank: int = 0
    conv_bias: bool = False
    bias: bool = False
    inner_norms: int = 0

    @property
    def key_width(self) -> int:
        """Length of all keys (B) together, and of all queries (C)."""
        return self.groups * self.state_size

    @property
    def conv_width(self) -> int:
        """Channels that pass the convolution."""
        if not self.kernel:
            return 0
        return self.inner if self.kind == "mamba" else self.inner + 2 * self.key_width

    @property
    def state_values(self) -> int:
        """Values of one request's recurrent state."""
        return self.inner * self.state_size

    @property
    def conv_values(self) -> int:
        """Values of one request's convolution window, which the next token needs."""
        return self.conv_width * max(self.kernel - 1, 0)

    @property
    def input_values(self) -> int:
        """Values per token from which its state update can be replayed: value, key, query, decay
        and step size.
        """
        return 0 if self.kind == "memory" else self.inner + 2 * self.key_width + 2 * self.heads

    def state_bytes(self, activation_bytes: float) -> float:
        """Bytes of one request's state, convolution window included."""
        return self.state_values * STATE_BYTES + self.conv_values * activation_bytes

    def projections(self, hidden: int) -> tuple[Projection, ...]:
        """GEMMs that one token runs around the update.

        Args:
            hidden: Length of the residual vector.

        Returns:
            (name, n_out, k_in) per GEMM.
        """
        output = ("state_output", hidden, self.inner)
        if self.kind == "memory":
            return ("state_input", self.inner, hidden), output
        if self.kind == "mamba":
            parameters = ("state_x", self.rank + 2 * self.state_size, self.inner)
            return (
                ("state_input", 2 * self.inner, hidden),
                parameters,
                ("state_dt", self.inner, self.rank),
                output,
            )
        if self.kind == "mamba2":
            return ("state_input", 2 * self.inner + 2 * self.key_width + self.heads, hidden), output
        width = 2 * self.inner + 2 * self.key_width
        return ("state_input", width, hidden), ("state_gates", 2 * self.heads, hidden), output

    def parameters(self, hidden: int) -> int:
        """Weights of the layer: projections, convolution, decays, skips, step-size biases and inner
        norms.
        """
        shapes = self.projections(hidden)
        weights = sum(n_out * k_in for _, n_out, k_in in shapes)
        biases = (
            sum(n for name, n, _ in shapes if name in ("state_input", "state_output"))
            if self.bias
            else 0
        )
        convolution = self.conv_width * (self.kernel + self.conv_bias)
        scalars = {
            "mamba": self.state_values
            + 2 * self.inner,  # decay per state value; skip and step-size bias per channel
            "mamba2": 3 * self.heads,
            "delta": 2 * self.heads,
            "memory": 0,
        }[self.kind]
        return weights + biases + convolution + scalars + self.inner_norms
