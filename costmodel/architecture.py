"""What is a model made of? Layers, widths and weights, and every count that follows from them.

An architecture holds shapes only. Costs (FLOPs, bytes, seconds) are derived elsewhere, and so is the choice
of a precision: counts here are of values, not bytes. Left out: the order of the layers, activation functions,
position encodings and vision or audio towers, none of which moves the time of a decoding pass.

A GEMM is written (name, n_out, k_in): n_out × k_in weights that one token's vector is multiplied by.
"""

from dataclasses import dataclass, replace

Projection = tuple[str, int, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Attention:
    """One attention layer: grouped-query attention, or latent attention (MLA) where kv_lora_rank > 0.

    Attributes:
        heads: Query heads.
        kv_heads: Key/value heads; divides `heads`. 1 with MLA, whose heads share one latent vector.
        head_dim: Length of a query head (with MLA: nope_dim + rope_dim).
        window: Positions that a query sees, itself included; None: all of them.
        bias: Query, key and value projections have biases (with MLA: the down-projections).
        output_bias: The output projection has a bias.
        qk_norm: Queries and keys are normalised per head.
        sinks: Every head has one learned sink logit.
        kv_lora_rank: MLA: length of the latent vector that stands for keys and values.
        q_lora_rank: MLA: rank of the query projection; 0: not factored.
        rope_dim: MLA: rotated part of a key, shared by all heads and stored beside the latent vector.
        nope_dim: MLA: unrotated part of a head's query.
        value_dim: MLA: length of a head's value.
    """

    heads: int
    kv_heads: int
    head_dim: int
    window: int | None = None
    bias: bool = False
    output_bias: bool = False
    qk_norm: bool = False
    sinks: bool = False
    kv_lora_rank: int = 0
    q_lora_rank: int = 0
    rope_dim: int = 0
    nope_dim: int = 0
    value_dim: int = 0

    @property
    def is_mla(self) -> bool:
        """Whether keys and values are stored as one latent vector per token."""
        return self.kv_lora_rank > 0

    @property
    def query_width(self) -> int:
        """Length of all query heads together."""
        return self.heads * (self.nope_dim + self.rope_dim if self.is_mla else self.head_dim)

    @property
    def kv_width(self) -> int:
        """Length of all key heads together; with MLA the latent vector and the rotated key part."""
        return self.kv_lora_rank + self.rope_dim if self.is_mla else self.kv_heads * self.head_dim

    @property
    def output_width(self) -> int:
        """Length of the vector that enters the output projection."""
        return self.heads * (self.value_dim if self.is_mla else self.head_dim)

    @property
    def kv_values_per_token(self) -> int:
        """Values stored in the KV cache per token by this layer, windows not considered."""
        return self.kv_width if self.is_mla else 2 * self.kv_width

    def projections(self, hidden: int) -> tuple[Projection, ...]:
        """GEMMs that one token runs around the attention itself.

        With MLA, `kv_up` stands for both halves of the key/value up-projection: absorbed into the query and
        the output, they cost a token the multiplications and weight reads of one matrix of this shape.

        Args:
            hidden: Length of the residual vector.

        Returns:
            (name, n_out, k_in) per GEMM; their products sum to the layer's projection weights.

        Reference:
            DeepSeek-AI, "DeepSeek-V2" (arXiv:2405.04434), §2.1, eqs. 9–19.
        """
        output = ("output", hidden, self.output_width)
        if not self.is_mla:
            return ("qkv", self.query_width + 2 * self.kv_width, hidden), output
        rank = self.q_lora_rank
        query: tuple[Projection, ...] = (("q", self.query_width, hidden),)
        if rank:
            query = ("q_down", rank, hidden), ("q_up", self.query_width, rank)
        up_width = self.heads * (self.nope_dim + self.value_dim)
        return (*query, ("kv_down", self.kv_width, hidden), ("kv_up", up_width, self.kv_lora_rank), output)

    def parameters(self, hidden: int) -> int:
        """Weights of the layer: projections, biases, head norms and sinks."""
        biases = 0
        if self.bias:
            biases = self.q_lora_rank + self.kv_width if self.is_mla else self.query_width + 2 * self.kv_width
        norms = 2 * self.head_dim if self.qk_norm else 0
        norms += self.q_lora_rank + self.kv_lora_rank
        extra = hidden * self.output_bias + self.heads * self.sinks
        return _weights(self.projections(hidden)) + biases + norms + extra


@dataclass(frozen=True, kw_only=True, slots=True)
class FeedForward:
    """One feed-forward layer, dense or a mixture of experts (MoE).

    Attributes:
        width: Inner width; with experts, the inner width of one expert.
        gated: Three matrices (gate, up, down) instead of two (up, down).
        bias: Matrices, and the router, have biases.
        experts: Routed experts; 0: a dense layer.
        experts_per_token: Routed experts that each token visits.
        shared_width: Inner width of the experts that every token visits, all together; 0: none.
    """

    width: int
    gated: bool = True
    bias: bool = False
    experts: int = 0
    experts_per_token: int = 0
    shared_width: int = 0

    @property
    def is_moe(self) -> bool:
        """Whether tokens are routed to experts."""
        return self.experts > 0

    def projections(self, hidden: int) -> tuple[Projection, ...]:
        """GEMMs that every token runs: the dense layer, or the router and the shared experts.

        Args:
            hidden: Length of the residual vector.

        Returns:
            (name, n_out, k_in) per GEMM.
        """
        if not self.is_moe:
            return self._matrices(hidden, self.width, "")
        shared = self._matrices(hidden, self.shared_width, "shared_") if self.shared_width else ()
        return (("router", self.experts, hidden), *shared)

    def expert_projections(self, hidden: int) -> tuple[Projection, ...]:
        """GEMMs of one routed expert; empty for a dense layer."""
        return self._matrices(hidden, self.width, "expert_") if self.is_moe else ()

    def expert_parameters(self, hidden: int) -> int:
        """Weights of one routed expert; 0 for a dense layer."""
        return _weights_and_biases(self.expert_projections(hidden), self.bias)

    def parameters(self, hidden: int) -> int:
        """Weights of the layer, all experts and the router included."""
        always = _weights_and_biases(self.projections(hidden), self.bias)
        return always + self.experts * self.expert_parameters(hidden)

    def active_parameters(self, hidden: int) -> int:
        """Weights that one token meets: all but the experts it is not routed to."""
        unused = self.experts - self.experts_per_token
        return self.parameters(hidden) - unused * self.expert_parameters(hidden)

    def _matrices(self, hidden: int, width: int, prefix: str) -> tuple[Projection, ...]:
        first = (f"{prefix}gate_up", 2 * width, hidden) if self.gated else (f"{prefix}up", width, hidden)
        return first, (f"{prefix}down", hidden, width)


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """One layer of a transformer: attention, feed-forward and the norms around them.

    Attributes:
        attention: The attention layer.
        feed_forward: The feed-forward layer.
        norms: Norms over the residual vector in this layer.
        norm_bias: The norms have a bias beside the scale (LayerNorm).
    """

    attention: Attention
    feed_forward: FeedForward
    norms: int
    norm_bias: bool = False

    def parameters(self, hidden: int) -> int:
        """Weights of the layer for residual vectors of length `hidden`."""
        norms = self.norms * hidden * (2 if self.norm_bias else 1)
        return self.attention.parameters(hidden) + self.feed_forward.parameters(hidden) + norms

    def active_parameters(self, hidden: int) -> int:
        """Weights that one token meets."""
        feed_forward = self.feed_forward
        idle = feed_forward.parameters(hidden) - feed_forward.active_parameters(hidden)
        return self.parameters(hidden) - idle


@dataclass(frozen=True, kw_only=True, slots=True)
class Architecture:
    """A decoder: its blocks, embedding and output head.

    Attributes:
        name: What the model is called in answers and messages.
        hidden: Length of the residual vector.
        vocab: Rows of the embedding and of the output head, padding rows included.
        tied: The output head is the embedding matrix.
        blocks: Distinct layers, each with how many of it there are; the order of the layers is not kept.
        max_context: Longest context the model was published for, in tokens.
        final_norm: Learned vectors of length `hidden` after the last layer: 1 RMSNorm, 2 LayerNorm, 0 none.
        learned_positions: Rows of a learned position embedding; 0: positions are computed.
        dtype: Number format of the stored matrices, as a device names it ("bf16", "fp8", …).
        model_type: Family the file stated ("llama", "qwen3_moe", …).
        mtp_layers: Multi-token-prediction layers shipped beside the model; not counted in any total here.
        source: "shipped", or the path that the architecture was read from.

    Example:
        >>> attention = Attention(heads=4, kv_heads=2, head_dim=8)
        >>> block = Block(attention=attention, feed_forward=FeedForward(width=64), norms=2)
        >>> tiny = Architecture(
        ...     name="tiny", hidden=32, vocab=100, tied=True, blocks=((block, 3),), max_context=128
        ... )
        >>> tiny.layers, tiny.kv_values_per_token, tiny.parameters
        (3, 96, 31072)
    """

    name: str
    hidden: int
    vocab: int
    tied: bool
    blocks: tuple[tuple[Block, int], ...]
    max_context: int
    final_norm: int = 1
    learned_positions: int = 0
    dtype: str = "bf16"
    model_type: str = ""
    mtp_layers: int = 0
    source: str = ""

    @property
    def layers(self) -> int:
        """Number of layers."""
        return sum(count for _, count in self.blocks)

    @property
    def embedding_parameters(self) -> int:
        """Values of the input embedding, learned positions included."""
        return (self.vocab + self.learned_positions) * self.hidden

    @property
    def head_parameters(self) -> int:
        """Values of the output head; when tied they are the embedding's own."""
        return self.vocab * self.hidden

    @property
    def parameters(self) -> int:
        """All weights, each counted once."""
        layers = sum(count * block.parameters(self.hidden) for block, count in self.blocks)
        return self._all_but_layers + layers

    @property
    def active_parameters(self) -> int:
        """Weights less the experts that a token is not routed to; embedding and head count."""
        visited = sum(count * block.active_parameters(self.hidden) for block, count in self.blocks)
        return self._all_but_layers + visited

    @property
    def kv_values_per_token(self) -> int:
        """Values stored in the KV cache per token over all layers, windows not considered."""
        return sum(count * block.attention.kv_values_per_token for block, count in self.blocks)

    @property
    def weight_values(self) -> int:
        """Values that a decode pass reads when its tokens visit all experts.

        Everything but the input embedding, of which only the tokens' rows are read; the head is read whole,
        even where it is the embedding's own matrix.
        """
        return self.parameters - self.embedding_parameters + (self.head_parameters if self.tied else 0)

    @property
    def is_moe(self) -> bool:
        """Whether any layer routes its tokens to experts."""
        return any(block.feed_forward.is_moe for block, _ in self.blocks)

    def with_layers(self, layers: int) -> "Architecture":
        """The same model with `layers` layers, all of its most frequent block.

        Args:
            layers: Number of layers, at least 0.

        Returns:
            A new architecture; blocks other than the most frequent one are dropped.
        """
        block, _ = max(self.blocks, key=lambda pair: pair[1])
        return replace(self, blocks=((block, layers),))

    @property
    def _all_but_layers(self) -> int:
        head = 0 if self.tied else self.head_parameters
        return self.embedding_parameters + head + self.final_norm * self.hidden


def _weights(projections: tuple[Projection, ...]) -> int:
    return sum(n_out * k_in for _, n_out, k_in in projections)


def _weights_and_biases(projections: tuple[Projection, ...], bias: bool) -> int:
    return _weights(projections) + (sum(n_out for _, n_out, _ in projections) if bias else 0)
